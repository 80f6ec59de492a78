/*
 * rounds: what a brain is asked with: the rounds of usage so far, the newest at the end, so that a
 * filter that keeps nothing between two questions (res-plan(1)) learns from all of them each time.
 *
 * Kept are the last ROUNDS_EACH of a configuration (how many workers and servers, of how many cores)
 * and the last ROUNDS_CONFIGURATIONS configurations.  The same rounds in the same order leave the
 * same text, so that a log can be replayed.
 */
#ifndef PACELINE_PLAN_ROUNDS_H
#define PACELINE_PLAN_ROUNDS_H

#include "plan/usage.h"

#define ROUNDS_EACH 8
#define ROUNDS_CONFIGURATIONS 12

struct rounds_one;

struct rounds { /* all zeros at first */
	struct rounds_one *one;
	size_t count, room;
	struct usage usage; /* of the one being looked at */
};

/* One round as text: a `job` record and its `node` records, no empty line. Copied. -1: ERROR_DATA,
 * it is none; ERROR_OS. */
int rounds_add(struct rounds *r, const char *text, size_t len, struct error *err);
/* All of them, with an empty line between two; to be freed. NULL: out of memory. */
char *rounds_text(const struct rounds *r, size_t *len);
/* The i-th, from the oldest; NULL: there are no more. */
const char *rounds_at(const struct rounds *r, size_t i, size_t *len);
void rounds_clear(struct rounds *r);

#endif
