/*
 * batch: how a global batch is cut into the batches of workers.
 *
 * A worker's time for a batch of `size` samples is fixed + size/speed seconds.  Times that differ
 * by less than 2^-49 of their size (2e-15) count as equal: doubles can't tell them apart.
 *
 * share: AntDT Eq. 3 with start-up cost and bounds (min z, z >= fixed_i + B_i/v_i, sum B_i = B,
 * B_i whole), solved to the optimum, and beyond it: of all optima the one whose times, sorted from
 * the largest down, are the smallest lexicographically.  even: the same for each.
 *
 * A row may stand for `count` workers of one kind.  They are `count` workers like any others; for
 * either method their sizes differ by one at most, so `size` and `larger` say all: `larger` of them
 * have size+1, the others size.
 */
#ifndef PACELINE_SOLVE_BATCH_H
#define PACELINE_SOLVE_BATCH_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Up to here a size is exact in a double. It bounds the global batch and each size. */
#define BATCH_SIZE_MAX (1ull << 53)
#define BATCH_COUNT_MAX (1ull << 32)

struct batch_worker {
	double speed;      /* samples per second: finite, > 0 */
	double fixed;      /* seconds per batch: finite, >= 0 */
	uint64_t min, max; /* samples, min <= max <= BATCH_SIZE_MAX */
	uint64_t count;    /* 1..BATCH_COUNT_MAX workers of this kind */
	uint64_t size;     /* out */
	uint64_t larger;   /* out: how many of `count` have size+1; less than count */
};

/* The lower bound, or the upper one if that is less: a device can't be given more than it holds. */
static inline uint64_t batch_least(uint64_t least, uint64_t max)
{
	return least < max ? least : max;
}

/* Sum of count*(size) + larger is `global` afterwards. What can't be met is ERROR_DATA naming the
 * bound; then sizes are unspecified. O(n log n) time at most, 32 bytes a row. */
int batch_share(struct batch_worker *w, size_t n, uint64_t global, struct error *err);
/* global/workers for each, one more for the first ones. Bounds are not obeyed but checked:
 * ERROR_DATA; *broken (may be NULL) is the row at fault, or n. */
int batch_even(struct batch_worker *w, size_t n, uint64_t global, size_t *broken,
	       struct error *err);

/* Sizes when there are other workers than before: they sum to `global`, if that is least for each, and
 * are in proportion to weight, samples on which somebody had decided; NAN: nobody had: the mean. */
void batch_scaled(const double *weight, size_t n, uint64_t global, uint64_t least, uint64_t *size);

/* Seconds of the slowest worker of the row. A worker with size 0 has time `fixed`, like any. */
double batch_time(const struct batch_worker *w);

/* sum + count*size, stuck at the largest number instead of wrapping round. */
static inline uint64_t batch_add(uint64_t sum, uint64_t count, uint64_t size)
{
	uint64_t product;
	if (__builtin_mul_overflow(count, size, &product) ||
	    __builtin_add_overflow(sum, product, &sum))
		return UINT64_MAX;
	return sum;
}

#endif
