/*
 * accum: batch sizes with gradient accumulation, AntDT Eq. 4.
 *
 * A device of type i runs C_i steps of B_i samples before it synchronises; a step lasts
 * fixed_i + B_i/v_i seconds.  accum_solve() finds whole numbers with
 *
 *     min max_i C_i*(fixed_i + B_i/v_i),   sum_i n_i*C_i*B_i = B,
 *     min_i <= B_i <= max_i,   cmin_i <= C_i <= cmax_i
 *
 * exactly: no rounding of a relaxed solution, no limit that is given up on.  Of all optima it takes
 * the one with the fewest steps, sum of n_i*C_i; of those, row by row in the order given, the one
 * with the smaller C_i, then with the larger B_i.  So there is one answer to a question.
 *
 * Times that differ by less than 2^-49 of their size count as equal, as in batch.h.
 */
#ifndef PACELINE_SOLVE_ACCUM_H
#define PACELINE_SOLVE_ACCUM_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct accum_type {
	double speed;        /* samples per second: finite, > 0 */
	double fixed;        /* launch cost, seconds a step: finite, >= 0 */
	uint64_t min, max;   /* samples a step, min <= max <= BATCH_SIZE_MAX */
	uint64_t cmin, cmax; /* steps, 1 <= cmin <= cmax <= ACCUM_STEPS_MAX */
	uint64_t count;      /* 1..BATCH_COUNT_MAX devices of this type */
	uint64_t size;       /* out: samples a step */
	uint64_t accum;      /* out: steps */
};

#define ACCUM_STEPS_MAX (1u << 16)

/* Sum of count*accum*size is `global` (at most BATCH_SIZE_MAX) afterwards. What can't be met is
 * ERROR_DATA naming the bound; then sizes are unspecified. */
int accum_solve(struct accum_type *t, size_t n, uint64_t global, struct error *err);
/* Every sum of count*accum*size is a multiple of this. */
uint64_t accum_unit(const struct accum_type *t, size_t n);
/* Seconds of a device of this type: accum*(fixed + size/speed). */
double accum_time(const struct accum_type *t);

#endif
