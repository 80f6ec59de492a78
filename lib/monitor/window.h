/*
 * window: observations of one node over the last seconds, in bounded memory.
 *
 * Up to WINDOW_ROOM observations are kept one by one.  When there is no more room, those older than
 * the long window are dropped, and the others are summed on a grid: its step is 1/128 of the short
 * window inside that window, and 1/128 of the long one before it.  So a mean over a few hundred
 * observations is exact; with more, the edge of its window is off by 1/128 of the window at most.
 */
#ifndef PACELINE_MONITOR_WINDOW_H
#define PACELINE_MONITOR_WINDOW_H

#include "base/error.h"
#include "base/pool.h"

#include <stddef.h>
#include <stdint.h>

#define WINDOW_ROOM 512
#define WINDOW_GRID 128

struct window_entry {
	double at;      /* of the last observation in it */
	double seconds; /* sums over its observations */
	double samples;
	uint64_t count;
};

/* Entries are in chunks: none is copied when there are more, and windows that grow at the same time
 * grow side by side in memory. */
#define WINDOW_CHUNK 64

struct window {
	struct pool *pool; /* of chunks */
	size_t count, room;
	struct window_entry *chunk[WINDOW_ROOM / WINDOW_CHUNK]; /* in order of at */
};

struct window_sum {
	uint64_t count;
	double seconds, samples;
};

#define WINDOW_POOL {.bytes = WINDOW_CHUNK * sizeof(struct window_entry)} /* an empty one */

/* pool: a WINDOW_POOL that outlives w; any number of windows may share it. */
void window_init(struct window *w, struct pool *pool);
/* Gives back what it holds; w is empty afterwards and can be used again. */
void window_clear(struct window *w);

/* An observation is one batch, or the sum of several. Observations may come out of order. now only
 * says what is old. All times in seconds. -1: ERROR_OS, and w is unchanged. */
int window_add(struct window *w, double at, const struct window_sum *what, double now,
	       double window_short, double window_long, struct error *err);

/* An observation will soon be added: fetches where it will stand, and the one before it, into the
 * cache. */
void window_fetch(const struct window *w);

/* The sum over observations with at > from. */
struct window_sum window_since(const struct window *w, double from);

#endif
