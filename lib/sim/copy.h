/*
 * copy: a real job as a cluster that sim.h reads: what its job file says, and, from its log, what
 * its steps cost and how fast its workers were when.
 *
 * From a log.  The time of training is cut into windows.  In each, a worker's speed is the samples
 * that it computed over the seconds of its batches without their push.  Of a batch's communication
 * half is the pull and half the push.  A commit costs what the worker that waits least waits for a
 * batch, without the time of the servers (account/cost.h: the barrier).  A start costs the mean time
 * of a worker that started again until it was ready (if none did: of the first that was ready); the
 * others follow one another, `stagger` apart.  A checkpoint costs its mean stall.
 */
#ifndef PACELINE_SIM_COPY_H
#define PACELINE_SIM_COPY_H

#include "account/account.h"
#include "base/error.h"
#include "job/job.h"
#include "record/record.h"

#include <stdint.h>

/* The `job` record; samples: rows of DATA. */
void copy_job(struct record_out *o, const struct job *job, uint64_t samples, uint64_t hosts);

/* Each record of the cluster, with its newline; -1 ends it. */
typedef int copy_put_fn(const char *line, size_t len, void *arg, struct error *err);

struct copy_cost {
	double pull, push, commit, apply, start, stagger, save; /* seconds */
};

/* NAN: the log does not tell. */
void copy_costs(const struct account *a, struct copy_cost *out);
/* `cost`, then `node` with its speed from each window on. -1: out of memory, or what put said. */
int copy_log(const struct account *a, copy_put_fn *put, void *arg, struct error *err);

#endif
