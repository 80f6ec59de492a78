/*
 * command: another program as a child of an agent: in a process group of its own, so that all that
 * it started can be killed with it; and it dies when we die.
 *
 * Nothing here waits.
 */
#ifndef PACELINE_AGENT_COMMAND_H
#define PACELINE_AGENT_COMMAND_H

#include "base/error.h"
#include "proc/end.h"

#include <stddef.h>
#include <sys/types.h>

/* Descriptors of a command that talks, as PACELINE_IN and PACELINE_OUT say. */
enum { COMMAND_IN = 3, COMMAND_OUT = 4 };

struct command_options {
	char *const *argv; /* NULL-terminated; the program is looked for on PATH */
	const char *id;     /* PACELINE_ID */
	const char *resume; /* PACELINE_RESUME; NULL: without it */
	const char *const *env; /* NAME=VALUE, added to ours */
	size_t env_count;
	int input;  /* its stdin; -1: /dev/null. Stays the caller's. */
	int output; /* its stdout; -1: ours. Stays the caller's. */
	int talks;  /* two more pipes, named in PACELINE_IN and PACELINE_OUT */
};

/* All zero but for the descriptors, which are -1: nothing runs. */
struct command {
	pid_t pid;    /* 0: none */
	int pid_fd;   /* readable when it has ended */
	int to, from; /* PACELINE_IN and PACELINE_OUT, non-blocking; -1: none */
	int ended;
	struct node_end end; /* then */
};

/* If the program can't be run, the child says so on stderr and ends with 78 (71: no memory). */
int command_start(struct command *c, const struct command_options *options, struct error *err);
/* 1: it has ended, and c->end says how; what it left in its group was killed. */
int command_ended(struct command *c);
/* Sends a signal to its group, while it runs. */
void command_kill(struct command *c, int signal);
/* Kills what runs, and closes all. */
void command_close(struct command *c);

/* Checks for "NAME=VALUE" with a valid name of a variable. -1: ERROR_USAGE. */
int command_env_check(const char *setting, struct error *err);

#endif
