/*
 * copy: a real job as a cluster that sim.h reads: what its job file says, and, from its log, what
 * its steps cost and how fast its nodes were when.
 *
 * From a log.  Only training counts: what lies between two runs, goes back to a checkpoint or stands still is
 * left out.  Of a job with more than COPY_BATCHES batches only the end is copied, about so many.  The time is cut
 * into windows of equal length.  In each, a worker's speed is the samples that it computed over the seconds of its
 * batches without their communication (where nodes are paced by DRAG, without their push: a pace has the pull in it);
 * in a window without a batch it is that of the window before.  Where all workers have measured their devices, it is
 * the speed with which a device of such a launch and saturation takes so long.  Else what a batch of a worker takes,
 * however small it is, is known if its sizes have changed: of two models the one that better says how much longer its
 * batches were after each change, always the same seconds a batch, or always the same seconds a sample.
 * Of a batch's communication half is the pull and half the push.  Applying costs what the median server takes; a
 * slower one is delayed by the rest.  A commit costs what the worker that waits least waits for a batch, without the
 * slowest server (account/cost.h: the barrier), where no server was handed over and no checkpoint begun.  What of it is
 * for the rows of other workers is told by how much the times of batches change because of rows.  A start
 * costs the mean time from a worker's end until the next one is ready (if none ended: from the beginning until the first was ready);
 * at the beginning workers follow one another, `stagger` apart.  A checkpoint costs its mean stall, or what the worker
 * that waits least waits longer in windows in which one is written than in those before and behind, if that is more.
 * Nodes end, are restarted by a decision, leave, and are more or fewer, when they were in the job.
 */
#ifndef PACELINE_SIM_COPY_H
#define PACELINE_SIM_COPY_H

#include "account/account.h"
#include "base/error.h"
#include "job/job.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

#define COPY_BATCHES 1e6 /* of all workers: at most so many are simulated, about */

struct copy_cost {
	double pull, push, commit, apply, start, stagger, save, start_server, hand_over,
		pending; /* seconds; NAN: not known */
};

enum copy_what {
	COPY_KILL,    /* an end that nobody meant */
	COPY_RESTART, /* somebody decided on it */
	COPY_LEAVE    /* it did not come back */
};

struct copy_event {
	double at;
	enum copy_what what;
	int is_server;
	size_t node;
};

/* So many nodes from then on. */
struct copy_scale {
	double at;
	uint64_t workers, servers;
};

/* All times from when workers were first started, in seconds of training. */
struct copy {
	size_t workers, servers; /* most that it had at once */
	size_t first_workers, first_servers; /* at the beginning */
	size_t windows;
	double length;  /* of a window */
	double seconds; /* of training, to the last batch that the log has */
	double left_out; /* seconds of training before that */
	uint64_t samples; /* trained by then */
	double *speed;  /* of each worker in each window: the worker's are together; samples a second */
	double *rows;   /* the same: seconds that it waited for rows, a sample */
	double *fixed;  /* the same: seconds of each batch, however small it is, without communication */
	char *is_fixed; /* of each worker: `fixed` is known */
	int is_paced;   /* a batch's pull is in its samples' time */
	double even;    /* samples of a batch if all are alike */
	double *delay;  /* of each server, seconds for a batch */
	struct account_device *device; /* of each worker; NULL: not all have measured theirs */
	struct copy_event *event;
	size_t events, event_room;
	struct copy_scale *scale;
	size_t scales, scale_room;
	struct copy_cost cost;
	double commit_rows; /* of cost.commit: seconds for other workers' rows */
	/* In windows in which a checkpoint is written (saving) batches take so many times as long. */
	double slower, written; /* written: seconds until a checkpoint is, behind cost.save */
	char *saving;
};

/* The `job` record; samples: rows of DATA. */
void copy_job(struct record_out *o, const struct job *job, uint64_t samples, uint64_t hosts);

/* ERROR_NEGATIVE: the log has no batches of workers w0, w1, ...  ERROR_UNAVAILABLE: it has nodes that this job
 * can't have had. */
int copy_of(struct copy *out, const struct account *a, const struct job *job, struct error *err);
void copy_free(struct copy *c);
/* What an even batch takes a worker in a window, besides communication. */
double copy_even(const struct copy *c, size_t worker, size_t window);
/* The number of worker w3; -1: it is none, or has another name. */
long copy_worker_of(const struct account_node *n);

/* The job with the workers and servers of the copy's beginning, and with what was decided, nothing anew. */
void copy_first(const struct copy *c, struct job *job);

/* All records, each with its newline; -1 ends it.  job: see copy_first(). */
typedef int copy_put_fn(const char *line, size_t len, void *arg, struct error *err);
int copy_put(const struct copy *c, const struct job *job, uint64_t samples, uint64_t hosts, copy_put_fn *put,
	     void *arg, struct error *err);

#endif
