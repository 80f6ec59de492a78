/*
 * measure: what the nodes of a job did and used over some seconds, and the round that a brain is asked
 * with about it (rounds.h): from two snapshots of the monitor and those between.
 *
 * A step is the time that a worker needs for the job's BATCH, whatever its own batches are, so that
 * configurations compare.
 */
#ifndef PACELINE_PLAN_MEASURE_H
#define PACELINE_PLAN_MEASURE_H

#include "plan/usage.h"
#include "solve/snapshot.h"

#include <stddef.h>
#include <stdint.h>

struct measure_node {
	enum plan_role role;
	char id[OPTION_ID_MAX];
	/* The caller sets these before each call. */
	double cores;
	uint64_t memory; /* its limit in bytes; 0: none */
	const struct snapshot_node *now;
	/* As it was when measuring began. */
	double batches, time, compute, comm, wait, samples, last;
	double cpu;   /* the sum of the samples since then, */
	size_t seen;  /* and their number */
	double throttled; /* the sum of those samples' */
	double bytes; /* the most that it used in one; 0: not known */
};

struct measure { /* all zeros at first; freed by measure_free() */
	struct measure_node *node; /* workers, then servers */
	size_t count, room;
};

/* How long a round takes at least, where changes are so far apart. */
double measure_seconds(double every);
/* A node from now on; an earlier measure ends by count = 0. -1: no memory. */
int measure_add(struct measure *m, enum plan_role role, const char *id, const struct snapshot_node *now);
/* Whether the monitor was started anew, and counts from 0 again. */
int measure_counts_anew(const struct measure *m);
/* Adds what each node uses now. */
void measure_sample(struct measure *m);
/* Whether each node has done enough to be judged. */
int measure_is_enough(const struct measure *m);
/* Steps a second, of all workers. */
double measure_rate(const struct measure *m, uint64_t batch);

struct measure_job {
	uint64_t batch;
	const char *sync;
	uint64_t samples, done;  /* of all epochs */
	double at, changed;      /* seconds since 1970; changed NAN: never */
	int may_rebalance;
};
/* The round, without an empty line; to be freed. NULL: no memory. */
char *measure_text(const struct measure *m, const struct measure_job *job, size_t *len);

void measure_free(struct measure *m);

#endif
