/*
 * servers: the worker's conversation with all parts of ps-server(8): the lead (part 0) and the
 * others.  Parameters come and gradients go through memory shared with each server, one mapping for
 * the life of a connection; a batch that does not fit there goes inline.
 *
 * With one server the model reads and writes the shared pages themselves; with several, ranges of
 * the dense vector are put together and taken apart by copying.  For one thread.
 */
#ifndef PACELINE_WORK_SERVERS_H
#define PACELINE_WORK_SERVERS_H

#include "base/error.h"
#include "record/record.h"
#include "work/batch.h"
#include "work/shards.h"

struct servers;

#define SERVERS_MAX 1024

struct servers_options {
	const char *const *paths; /* in the order of the parts; the lead first */
	uint32_t count;
	const char *worker;
	uint64_t dense_count;     /* floats, in all parts */
	uint32_t width;           /* floats in a row */
	uint64_t key_count;       /* rows there can be */
	double wait_seconds;      /* servers that are not there are waited for this long */
	double answer_seconds;    /* longest wait for an answer, barrier included */
	const volatile int *stop; /* set by a signal: waits for others end with WORK_STOP */
	void (*action)(const struct record *r, void *owner);
	void *owner;
};

int servers_new(struct servers **out, const struct servers_options *options, struct error *err);
void servers_free(struct servers *s); /* NULL is fine */
/* Which of them has what; as long as s. */
const struct map *servers_map(const struct servers *s);

/* Connects to those that are not connected. A server of another model (its number of parameters or
 * its part is not what the options say) is ERROR_CONFIG. *low and *high: the incarnations met.
 * WORK_OK, WORK_STOP or -1: ERROR_UNAVAILABLE after wait_seconds. */
int servers_connect(struct servers *s, uint64_t *low, uint64_t *high, struct error *err);
/* Drops what is in flight. */
void servers_disconnect(struct servers *s);
int servers_connected(const struct servers *s);

/* Who we are, in what follows. */
void servers_identify(struct servers *s, uint64_t generation, uint64_t incarnation);

/* All of these: WORK_OK, WORK_FENCED, WORK_RESET (then everything is disconnected), or -1. A server
 * that goes is waited for, and asked again when it comes back with the same incarnation: it was
 * handed over to another process. With another one: WORK_RESET. */

/* Held back until the worker can enter; *iteration is where it does. WORK_STOP too. speed: foretold
 * of the next batch, samples a second; most: samples that fit a step; 0: not known. */
int servers_join(struct servers *s, uint64_t size, double speed, uint64_t most, uint64_t *iteration,
		 struct error *err);
/* With nothing to wait for: nobody waits for us from now on. brief: a lead that went is not waited
 * for. */
int servers_leave(struct servers *s, int brief, struct error *err);
/* Held back until the job is finished. WORK_STOP too. */
int servers_end(struct servers *s, struct error *err);

/* Parameters of a batch, valid until the next pull; gradients for it, zeroed. */
struct servers_values {
	const float *dense, *rows;
	float *dense_gradient, *row_gradient;
	double waited; /* seconds in which a server held the pull back, to get to its iteration */
};
int servers_pull(struct servers *s, uint64_t iteration, const struct batch *b,
		 struct servers_values *values, struct error *err);

struct servers_push {
	uint64_t sequence, iteration;
	uint64_t size;     /* samples of a whole batch: this one may be shorter, at the end */
	double loss;       /* sum over the samples */
	double time;       /* seconds of this batch, without waiting */
	double speed, mem; /* see struct agent_view */
};
/* Stages at the others, then tells the lead. */
int servers_push(struct servers *s, const struct servers_push *push, const struct batch *b,
		 struct error *err);
/* Waits until the unit is closed. *iteration: where the next batch belongs; *dropped: this one came
 * too late. Actions are given to options.action before it returns. */
int servers_pushed(struct servers *s, uint64_t *iteration, int *dropped, struct error *err);
/* Whether -1 came of a push that a server refused for its values. */
int servers_diverged(const struct servers *s);

#endif
