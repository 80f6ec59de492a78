/*
 * shards: pieces of the data that this worker shall train, from shardd(8): hello, get, bye.  A lost
 * connection is opened again and the generation resumed, as long as it is in force.  For one
 * thread.
 */
#ifndef PACELINE_WORK_SHARDS_H
#define PACELINE_WORK_SHARDS_H

#include "base/error.h"
#include "work/generation.h"

#include <stdint.h>

struct shards;

/* of: with the fields that an owner sets. */
int shards_new(struct shards **out, const struct generation *of, struct error *err);
void shards_free(struct shards *s); /* NULL is fine */

/* A new generation; connects when needed. WORK_OK, WORK_STOP or -1: ERROR_UNAVAILABLE after
 * wait_seconds without shardd. */
int shards_hello(struct shards *s, struct error *err);

const struct generation *shards_generation(const struct shards *s);

/* Asks for a piece of at most max rows, without waiting for the answer; a request still open is not
 * repeated. wait_seconds > 0: shardd may hold the answer back that long. WORK_OK, WORK_FENCED,
 * WORK_STOP or -1. */
int shards_ask(struct shards *s, uint64_t max, double wait_seconds, struct error *err);
/* Whether an answer is still to come. */
int shards_asked(const struct shards *s);
/* For poll(2): readable when there may be something for shards_take(); -1: not connected. */
int shards_fd(const struct shards *s);
/* The answer: WORK_OK with *p, WORK_WAIT, WORK_END, WORK_FENCED, WORK_STOP, or -1. With block == 0
 * and nothing there yet: WORK_STOP, and nothing is lost. */
int shards_take(struct shards *s, int block, struct piece *p, struct error *err);

/* Ends the generation, which gives back what it holds. Best effort: otherwise it comes back when
 * the generation is replaced. */
void shards_bye(struct shards *s);

#endif
