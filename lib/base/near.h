/*
 * near: which known word a mistyped word was meant to be, for the hints in errors.
 */
#ifndef PACELINE_BASE_NEAR_H
#define PACELINE_BASE_NEAR_H

#include "base/error.h"

#include <stddef.h>

#define NEAR_WORD_MAX 64 /* longer words are near to none */

/* How many letters must be changed, added or taken away, or neighbours swapped, to make a of b
 * (optimal string alignment). Capitals count as small letters. SIZE_MAX: too long. */
size_t near_distance(const char *a, const char *b);

/* The nearest known word seen so far: starts as {0}. */
struct near {
	const char *word; /* NULL: none */
	size_t distance;
};

/* Takes word if it is nearer to given than the nearest so far. */
void near_look(struct near *near, const char *given, const char *word);
/* Whether the word is near enough to be what was meant: less than half of its letters differ. */
int near_enough(const struct near *near, const char *given);
/* -1, ERROR_USAGE: "unknown command 'rn'; the nearest is run". */
int near_unknown(const struct near *near, const char *given, struct error *err);

#endif
