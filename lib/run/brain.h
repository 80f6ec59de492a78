/*
 * brain: how many workers and servers a job has, and of which size, is found while it trains
 * (DLRover): every few seconds a round of what all nodes use goes to a filter, res-plan(1) or an
 * executable in its place, and what it answers is carried out: another number of nodes (scale.h),
 * other cores for them, a node started again somewhere else.
 *
 * A round is measured over a time in which the same processes were up and nothing changed; what
 * comes in between is thrown away.  Each round and its answer are in the log (brain-asked ...
 * brain-done), so that `trainctl solve --log` can ask again.  As a solution's (decide.h), a brain's failure
 * skips a round and is said once.
 *
 * Rounds are kept (plan/rounds.h) and all of them given each time: the filter keeps nothing.  They
 * are read back from the log by a supervisor that comes after a crash.
 */
#ifndef PACELINE_RUN_BRAIN_H
#define PACELINE_RUN_BRAIN_H

#include "plan/answer.h"
#include "plan/rounds.h"
#include "run/brain_filter.h"

#include <stddef.h>
#include <stdint.h>

struct child;
struct record;
struct supervisor;
struct sup_node;
struct brain_node; /* what a node had done as the round began, and what was seen of it since */

struct sup_brain {
	struct brain_limits limits;
	struct rounds rounds;
	/* the round that is being measured */
	struct brain_node *node;
	size_t count, room;
	double since;    /* clock_mono(): it began; 0: none is */
	uint64_t nodes;  /* which processes it is of */
	/* asking */
	struct child *filter;
	int under_way;
	uint64_t asked, skipped;   /* rounds of this supervisor */
	uint64_t failed;           /* in a row */
	char fails[1024];          /* why the last of them did */
	/* changing */
	struct plan_role_size size[PLAN_ROLES]; /* cores and memory that nodes of a role are to have */
	int changing;
	unsigned resizing;       /* roles, a bit each, whose nodes get the size planned once their
				    numbers are: nobody goes before those who come are there */
	int only_shares;         /* the change under way is that servers share out their parameters */
	char reason[128];        /* of it */
	double began;            /* clock_mono(): the change under way */
	double before;           /* samples a second before it */
	uint64_t samples;        /* trained by then */
	uint64_t changes;        /* made, all starts of the job together */
	double changed;          /* clock_epoch(): the last of them; NAN: none yet */
	double cost_sum;         /* seconds of training that they cost */
	uint64_t costs;          /* so many are known */
	int limit_told;
	char node_told[256];     /* why a node was not changed, as said last */
	char last[256];          /* for people; "": none yet */
	double last_at;          /* clock_mono() */
};

/* Before the roster is filled: what is known from the log. */
int sup_brain_init(struct supervisor *s, struct error *err);
/* For the roster: a node that does not run gets the size of its role. */
void sup_brain_size(struct sup_node *n);
/* Where the log begins. */
void sup_brain_log_sizes(struct supervisor *s);
/* There is a new snapshot. */
void sup_brain(struct supervisor *s);
/* In PHASE_RUNNING: whether a change is done. */
void sup_brain_step(struct supervisor *s);
/* The log goes on in a new file: it says what is known, for a replay. */
void sup_brain_log_known(struct supervisor *s);
/* The job is done: a record of it into the history. */
void sup_brain_finished(struct supervisor *s);
void sup_brain_free(struct supervisor *s);

#endif
