/*
 * agent: the life of a node that trains with another program, its trainer (AntDT V: the Agent).  It
 * takes rows from shardd(8), gives them to its trainer batch by batch, and tells the lead what the
 * trainer has in its model.  Only the lead commits.  Words and life: agent(1).
 *
 * The trainer has the parameters.  So once it was given a batch there is no way back: when a worker
 * would start over (it was refused, or the lead forgot it), an agent ends, and its trainer with it.
 * With a replica that sums the gradients it starts over, too: what is not committed is in no
 * trainer's parameters, and one that has missed an iteration gets the state of another.
 *
 * One thread, which waits in poll(2) for its trainer, the lead, shardd, and signals.
 */
#ifndef PACELINE_AGENT_AGENT_H
#define PACELINE_AGENT_AGENT_H

#include "agent/command.h"
#include "agent/rows_text.h"
#include "agent/saved_files.h"
#include "base/error.h"
#include "meter/meter.h"
#include "proc/end.h"
#include "work/speed.h"

#include <stddef.h>
#include <stdint.h>

#define AGENT_BATCH 512   /* rows, the default */
#define AGENT_AHEAD 4     /* batches */
#define AGENT_GRACE 10.0  /* seconds */

/* Of an agent, or of a filter (filter.h). All strings are borrowed. */
struct agent_options {
	/* id: of this node. Its log also gets `applied` records. */
	struct meter_options meter;
	const char *shards;  /* socket of shardd */
	const char *lead;    /* of the lead; filters have none, and nothing to resume */
	const char *replica; /* of the replica of this host, which sums; NULL: trainers do so */
	const char *spare;   /* of trainctl, which has a place for it one day; NULL: it has one */
	const char *resume;  /* directory of the checkpoint to go on from; NULL: from nothing */
	struct saved_memory memory; /* where what is saved is kept in memory, too */
	struct command_options command; /* without resume, talks */
	struct rows_text *rows; /* rows for its standard input; NULL: none; the caller's */
	uint64_t batch; /* rows; adjust-bs changes it */
	uint64_t ahead; /* batches taken from shardd before their time */
	const struct speed_options *speed; /* NULL: the trainer's speed is not predicted */
	uint64_t profile; /* rows: its device is measured by batches of so many or more; 0: not */
	const char *device_file; /* where that is kept; NULL: nowhere */
	uint64_t rank, world; /* rank I of N; world 0: not said, nobody waits for others to come */
	const char *output;     /* filter_each: a directory for what the commands print; NULL: ours */
	uint64_t jobs;          /* filter_each: commands at a time, 1 or more */
	double timeout_seconds; /* filter_each: a command that runs longer has failed; 0: no limit */
	double grace_seconds; /* after a stop: for the batch or the commands; then for their end */
	double wait_seconds;      /* a daemon that is not there is waited for this long */
	double answer_seconds;    /* longest wait for an answer, barrier included */
	/* Set by a signal handler, which then makes `wake` readable. 2: a filter ends at once. */
	const volatile int *stop;
	int wake;
	/* Set by a signal handler, as `stop`: the trainer is to be looked at closely. NULL: never. */
	volatile int *look;
};

struct agent;

int agent_new(struct agent **out, const struct agent_options *options, struct error *err);
void agent_free(struct agent *a); /* NULL is fine; a trainer that still runs is killed */

/* Runs until the trainer has ended. 0: the job is finished, or *stop. -1 with *end not seen:
 * ERROR_DATA with the line if the trainer breaks the rules; else as trainer_run(). -1 with *end
 * seen: the trainer ended by itself, not with 0; the caller must end in the same way. Rows that
 * were held have been given back as far as possible. */
int agent_run(struct agent *a, struct node_end *end, struct error *err);

#endif
