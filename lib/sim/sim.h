/*
 * sim: a job on a simulated cluster, as discrete events: what a real one would do, without waiting
 * for it.  trainsim(1) is the program.
 *
 * Decided is by the job's own code: the queue of rows (shard/queue.h), the lead (lead/gate.h), the
 * monitor (monitor/monitor.h), the solutions (solve/solution.h), sizes at every barrier
 * (solve/balance.h), patterns of stragglers (straggle/schedule.h).  Simulated is what these wait
 * for: how long a batch takes, a message, a commit, a start.
 *
 * A batch.  A worker has `rows` seconds to wait when it has too few rows and asks for more; then it
 * pulls (`pull`), computes (`batch` + `sample` for each sample; at least what its drag says, which
 * the time of the pull is part of, as for a real worker; plus the drag's delay) and pushes (`push`).
 * The lead commits `commit` seconds after that unit was closed; servers are busy for `apply` seconds
 * and their drag's delay for each unit, one after the other, and a pull waits for them.
 *
 * The same input gives the same records, byte for byte: there is no clock and no other source of
 * chance than the seed.  Time is in seconds from the job's start.
 */
#ifndef PACELINE_SIM_SIM_H
#define PACELINE_SIM_SIM_H

#include "base/error.h"
#include "record/record.h"

#include <signal.h>
#include <stdint.h>

struct sim;

/* Records come as a job's log has them; `line` has its newline. -1 ends the simulation. */
typedef int sim_put_fn(const char *line, size_t len, void *arg, struct error *err);

struct sim_options {
	uint64_t seed;   /* of the patterns */
	double until;    /* seconds; INFINITY: to the end, or for 1e9 s */
	const char *solution; /* in place of the job's; NULL: that one */
	int is_brief;    /* only the summary is put */
	const volatile sig_atomic_t *stop; /* set by a signal handler: it stops; may be NULL */
	sim_put_fn *put;
	void *arg;
};

int sim_new(struct sim **out, const struct sim_options *options, struct error *err);
void sim_free(struct sim *s); /* NULL is fine */

/* A record of the cluster, as paceline-cluster(5) has them. A bad one is ERROR_DATA without a place. Returns 1 if the type is unknown. */
int sim_add(struct sim *s, const struct record *r, struct error *err);

/* What became of it. */
struct sim_result {
	int is_done;       /* 0: `until` came first, nothing can happen any more, or it failed */
	int has_failed;    /* a node ended too often in a row */
	double jct;        /* from the first row handed out to the last one done */
	double time;       /* from the start to the end */
	uint64_t samples, iterations, restarts;
};
/* Simulates it; once. -1: ERROR_DATA: the cluster makes no sense; or what `put` said. */
int sim_run(struct sim *s, struct sim_result *result, struct error *err);

#endif
