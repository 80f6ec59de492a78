/*
 * brain: finds while a job trains how many workers and servers it should have, and of which size
 * (DLRover).  Every few seconds a round (what all nodes use) goes to a filter: res-plan(1), or an
 * executable in its place.  Its answer is carried out: another number of nodes (scale.h), other
 * cores for them, or a node started again on another host.
 *
 * A round is measured over a time in which the same processes were up and nothing changed.  If
 * something changes, the round is thrown away.  Each round and its answer are in the log
 * (brain-asked ... brain-done), so that `trainctl solve --log` can ask again.  When a brain fails,
 * the round is skipped and the failure is said once, as for a solution (decide.h).
 *
 * The filter keeps nothing: rounds are kept here (plan/rounds.h), and it gets all of them each
 * time.  After a crash the next supervisor reads them back from the log.
 */
#ifndef PACELINE_RUN_BRAIN_H
#define PACELINE_RUN_BRAIN_H

#include "job/brain_filter.h"
#include "plan/measure.h"
#include "plan/rounds.h"
#include "plan/want.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct child;
struct record;
struct supervisor;
struct sup_node;

struct sup_brain {
	struct brain_limits limits;
	struct rounds rounds;
	/* the round that is being measured */
	struct measure measure;
	double since;    /* clock_mono(): it began; 0: no round is measured */
	uint64_t nodes;  /* which_nodes() when it began */
	/* asking */
	struct child *filter;
	int under_way;
	uint64_t failed;           /* in a row */
	char fails[1024];          /* why the last round failed */
	/* changing */
	struct plan_role_size size[PLAN_ROLES]; /* cores and memory that nodes are to have */
	int changing;
	unsigned resizing; /* a bit for each role whose nodes get another size; this is done after
			      the numbers have changed, so that new nodes are there before */
	int only_shares;         /* the change under way only shares out the servers' parameters */
	char reason[128];        /* of the change under way */
	double began;            /* clock_mono(): the change under way */
	double before;           /* samples a second before it */
	uint64_t samples;        /* trained when it began */
	struct want_past past;   /* in all starts of the job together */
	int limit_told;          /* people know that BRAIN limit is reached */
	char node_told[256];     /* the last message about a node that was not changed */
	char last[256];          /* for people; "": none yet */
	double last_at;          /* clock_mono() */
};

/* Call before the roster is filled: reads from the log what an earlier supervisor knew. */
int sup_brain_init(struct supervisor *s, struct error *err);
/* For the roster: a node that does not run gets the size of its role. */
void sup_brain_size(struct sup_node *n);
/* Call where the log begins: writes the sizes of nodes into it. */
void sup_brain_log_sizes(struct supervisor *s);
/* Writes the sizes that nodes are still to get, and takes such a line: see in_force.h. */
void sup_brain_print(const struct supervisor *s, FILE *out);
int sup_brain_restore(struct supervisor *s, const struct record *r, struct error *err);
/* Call when there is a new snapshot. */
void sup_brain(struct supervisor *s);
/* Call in PHASE_RUNNING: goes on with the change under way, and ends it when it is done. */
void sup_brain_step(struct supervisor *s);
/* Call when the log goes on in a new file: writes what is known into it, for a replay. */
void sup_brain_log_known(struct supervisor *s);
/* Call when the job is done: adds a record of it to the history. */
void sup_brain_finished(struct supervisor *s);
void sup_brain_free(struct supervisor *s);

#endif
