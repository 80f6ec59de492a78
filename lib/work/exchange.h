/*
 * exchange: how a worker gets parameters and gives its gradients away.  The trainer knows only
 * this.  Parameter servers are one kind (servers.h); with AllReduce a replica on the worker's own
 * host is another one (replica.h).
 *
 * In this order: connect, identify, join; then for each batch pull, push, wait; leave when there is
 * nothing to do; end when there is nothing left.  For one thread.
 *
 * Gradients are computed in the exchange's own memory, so that sending them needs no copy.  push()
 * sends all of them.  A kind that can use the first gradients while the backward pass still
 * computes the others is told, between pull() and push(), which are final.
 *
 * With a delay of one iteration (replica.h) the next batch is pulled, and computed, between push()
 * and wait().  Nobody may wait for a batch that takes too long: heed() and computed() tell that it
 * is late.  Then it is pulled, and computed, anew.
 */
#ifndef PACELINE_WORK_EXCHANGE_H
#define PACELINE_WORK_EXCHANGE_H

#include "base/error.h"
#include "param/map.h"
#include "work/batch.h"
#include "work/result.h"

/* Parameters of a batch, and room for its gradients, zeroed. Valid until the next pull(). */
struct exchange_values {
	const float *dense, *rows;
	float *dense_gradient, *row_gradient;
	double waited; /* seconds of the pull that were a wait for others */
};

/* What a worker says when it joins; 0: not known. */
struct exchange_member {
	uint64_t size; /* samples of a batch */
	double speed;  /* predicted for the next batch, samples a second */
	uint64_t most; /* samples that fit a step */
};

struct exchange_push {
	uint64_t sequence, iteration;
	uint64_t size;     /* samples of a whole batch: the last one may be shorter */
	double loss;       /* sum over the samples */
	int no_loss;       /* the loss is not known */
	double time;       /* seconds of this batch, without waiting */
	double speed, mem; /* predicted for the next batch; memory in use, 0..1. 0: not known */
	uint64_t most;     /* samples that fit a step; 0: not known */
	double waited;     /* out: seconds of the push that were a wait for others */
};

struct exchange;

/* The functions that return int (except `connected`) return WORK_OK; or WORK_FENCED, WORK_RESET,
 * WORK_STOP, after which the worker starts over or ends; or -1. */
struct exchange_kind {
	void (*free)(struct exchange *x);
	/* Where keys and dense parameters are; lives as long as x. Keys of a batch are grouped by
	 * it. */
	const struct map *(*map)(const struct exchange *x);

	/* Connects to all that are not connected. *low and *high: the incarnations met.
	 * ERROR_CONFIG: a server has another model. ERROR_UNAVAILABLE: one was not there in
	 * time. */
	int (*connect)(struct exchange *x, uint64_t *low, uint64_t *high, struct error *err);
	/* Drops what is in flight. */
	void (*disconnect)(struct exchange *x);
	int (*connected)(const struct exchange *x);
	/* Sets who we are, in all that follows. */
	void (*identify)(struct exchange *x, uint64_t generation, uint64_t incarnation);

	/* Waits until the worker can enter; *iteration is where it does. */
	int (*join)(struct exchange *x, const struct exchange_member *member, uint64_t *iteration,
		    struct error *err);
	/* From now on nobody waits for us. brief: do not wait for a lead that went. idle: nothing is
	 * handed out to us, who would train so many samples in an iteration; 0: we leave for another
	 * reason. */
	int (*leave)(struct exchange *x, int brief, uint64_t idle, struct error *err);
	/* Waits until the job is finished. */
	int (*end)(struct exchange *x, struct error *err);

	int (*pull)(struct exchange *x, uint64_t iteration, const struct batch *b,
		    struct exchange_values *values, struct error *err);
	/* These floats of the dense gradient will not change any more before the push of this
	 * sequence and iteration; they come from its end to its beginning. NULL: of no use. */
	void (*final)(struct exchange *x, uint64_t sequence, uint64_t iteration, size_t begin,
		      size_t count);
	/* WORK_DIVERGED, too. next: the batch that follows, unless wait() brings a change; its
	 * parameters may be asked for before wait(). NULL: not known. */
	int (*push)(struct exchange *x, struct exchange_push *push, const struct batch *b,
		    const struct batch *next, struct error *err);
	/* While a batch is computed: waits for so many seconds, or until something is known of it;
	 * see `late`. WORK_DIVERGED, too, of the push before. NULL: no batch is late. */
	int (*heed)(struct exchange *x, double seconds, struct error *err);
	/* The batch is computed; waits until the push before it is in the parameters, and says
	 * whether it is late: then *iteration is where it belongs. The same results. */
	int (*computed)(struct exchange *x, uint64_t *iteration, struct error *err);
	/* Waits until the push is in the parameters, or came too late. WORK_DIVERGED, too.
	 * *iteration: where the next batch belongs. Hands actions on before it returns. */
	int (*wait)(struct exchange *x, uint64_t *iteration, struct error *err);
};

struct exchange {
	const struct exchange_kind *kind;
	int dropped; /* the push that wait() was for came too late; only a replica tells */
	int is_watched; /* batches may be late: heed() is worth it */
	int late;       /* the batch that was pulled last is */
};

#endif
