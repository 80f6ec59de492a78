/*
 * copy: a real job as a cluster that sim.h reads: what its job file says, and, from its log, what
 * its steps cost and how fast its nodes were when.
 *
 * From a log.  The time of training is cut into windows of equal length.  In each, a worker's speed
 * is the samples that it computed over the seconds of its batches without their push; in a window
 * without a batch it is that of the window before.  Of a batch's communication half is the pull and
 * half the push.  Applying costs what the median server takes; a slower one is delayed by the rest.
 * A commit costs what the worker that waits least waits for a batch, without the slowest server
 * (account/cost.h: the barrier).  A start costs the mean time of a worker that started again until
 * it was ready (if none did: of the first that was ready); at the beginning workers follow one
 * another, `stagger` apart.  A checkpoint costs its mean stall.
 */
#ifndef PACELINE_SIM_COPY_H
#define PACELINE_SIM_COPY_H

#include "account/account.h"
#include "base/error.h"
#include "job/job.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

struct copy_cost {
	double pull, push, commit, apply, start, stagger, save; /* seconds; NAN: not known */
};

struct copy_kill {
	size_t worker;
	double at;
};

/* All times from when workers were first started. */
struct copy {
	size_t workers, servers, windows;
	double length;  /* of a window */
	double seconds; /* of training, to the last batch that the log has */
	uint64_t samples; /* trained by then */
	double *speed;  /* of each worker in each window: the worker's are together; samples a second */
	double *rows;   /* the same: seconds that it waited for rows, a sample */
	double *delay;  /* of each server, seconds for a batch */
	struct copy_kill *kill; /* ends that nobody meant */
	size_t kills, kill_room;
	struct copy_cost cost;
};

/* The `job` record; samples: rows of DATA. */
void copy_job(struct record_out *o, const struct job *job, uint64_t samples, uint64_t hosts);

/* ERROR_NEGATIVE: the log has no batches of workers w0, w1, ... */
int copy_of(struct copy *out, const struct account *a, struct error *err);
void copy_free(struct copy *c);

/* All records but the job, each with its newline; -1 ends it. */
typedef int copy_put_fn(const char *line, size_t len, void *arg, struct error *err);
int copy_put(const struct copy *c, copy_put_fn *put, void *arg, struct error *err);

#endif
