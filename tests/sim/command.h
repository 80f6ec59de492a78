/*
 * command: an agent (lib/agent) on the simulated machine, and the command that it runs: a trainer_main() of the world, which
 * speaks the words of agent(1).
 */
#ifndef PACELINE_TESTS_SIM_COMMAND_H
#define PACELINE_TESTS_SIM_COMMAND_H

#include "agent/agent.h"
#include "record/record.h"

#include <stddef.h>
#include <sys/types.h>

#define COMMANDS_MAX 8 /* agents are w0, w1, ... */

/* The world has it. argv: a name, the agent's number, then NAME=VALUE each. */
int trainer_main(int argc, char **argv);
void command_begin(void);     /* a run begins: nobody runs */
pid_t command_pid(int agent); /* of the trainer that it started last; 0: none */

/* An agent until it ends; its command runs once for each shard, or trains; *stopped: it was told to end. Returns its exit
 * status. */
int command_agent(struct agent_options *o, int is_each, int *stopped);

/* ---- for a trainer ---- */

struct words {
	char text[4096], line[4096];
	size_t len;
	struct record record;
	struct error err;
};

/* The next line is in w->record. 0: nobody answers any more. */
int words_hear(struct words *w);
int words_say(const char *line);

#endif
