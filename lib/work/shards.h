/*
 * shards: pieces of the data that this worker shall train, from shardd(8): hello, get, bye.  A
 * connection that goes is opened again and the generation resumed, as long as it is in force.  For
 * one thread.
 */
#ifndef PACELINE_WORK_SHARDS_H
#define PACELINE_WORK_SHARDS_H

#include "base/error.h"
#include "work/generation.h"

#include <stdint.h>

struct shards;

struct shards_options {
	const char *path, *worker;
	double wait_seconds;   /* a daemon that is not there is waited for this long */
	double answer_seconds; /* longest wait for an answer */
	const volatile int *stop; /* set by a signal: waits end with WORK_STOP */
	/* A piece that shardd says is in our hand, after a connection was resumed. */
	int (*held)(const struct piece *p, void *owner, struct error *err);
	void *owner;
};

int shards_new(struct shards **out, const struct shards_options *options, struct error *err);
void shards_free(struct shards *s); /* NULL is fine */

/* A new generation; connects when needed. WORK_OK, WORK_STOP or -1: ERROR_UNAVAILABLE after
 * wait_seconds without shardd. */
int shards_hello(struct shards *s, struct error *err);

/* As the last hello said. */
uint64_t shards_generation(const struct shards *s);
uint64_t shards_incarnation(const struct shards *s);
uint64_t shards_samples(const struct shards *s);
/* Whether we have a partition; then its first row, and how many are in our own data. */
int shards_partition(const struct shards *s, uint64_t *begin, uint64_t *samples);

/* Asks for a piece of at most max rows, without waiting for the answer; a request still open is not
 * repeated. wait_seconds > 0: shardd may hold the answer back that long. WORK_OK, WORK_FENCED,
 * WORK_STOP or -1. */
int shards_ask(struct shards *s, uint64_t max, double wait_seconds, struct error *err);
/* Whether an answer is owed. */
int shards_asked(const struct shards *s);
/* For poll(2): readable when there may be something for shards_take(); -1: not connected. */
int shards_fd(const struct shards *s);
/* The answer: WORK_OK with *p, WORK_WAIT, WORK_END, WORK_FENCED, WORK_STOP, or -1. With block == 0
 * and nothing there yet: WORK_STOP, and nothing is lost. */
int shards_take(struct shards *s, int block, struct piece *p, struct error *err);

/* Ends the generation, which gives back what it holds. Best effort: otherwise it comes back when the
 * generation is replaced. */
void shards_bye(struct shards *s);

#endif
