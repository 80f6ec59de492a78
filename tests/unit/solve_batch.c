/*
 * solve_batch: share against an independent solver. The oracle knows nothing of thresholds or
 * greedy choices: it goes through every split of the batch by dynamic programming over vectors of
 * exact times (whole numbers, all over one denominator) and keeps the lexicographically smallest.
 */
#include "base/random.h"
#include "solve/batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORKERS_MAX 5
#define BATCH_MAX 24
#define SPEEDS 8
#define COMMON 840 /* multiple of every speed below and of 10 */

/* Times over COMMON: size/speed is size*COMMON/speed; fixed is in tenths, which doubles don't hold
 * exactly, so equal times are often unequal doubles. */
struct exact {
	int speed, fixed_tenths;
	int min, max;
};

struct vector {
	int n;               /* -1: no split does it */
	long t[WORKERS_MAX]; /* sorted, largest first */
};

static uint64_t random_state = 1;

static unsigned draw(unsigned below)
{
	return (unsigned)(random_next(&random_state) % below);
}

static long exact_time(const struct exact *e, uint64_t size)
{
	return (long)e->fixed_tenths * (COMMON / 10) + (long)size * (COMMON / e->speed);
}

static int compare(const struct vector *a, const struct vector *b)
{
	for (int i = 0; i < a->n; i++)
		if (a->t[i] != b->t[i])
			return a->t[i] < b->t[i] ? -1 : 1;
	return 0;
}

static struct vector with(struct vector v, long t)
{
	int i = v.n++;
	for (; i > 0 && v.t[i - 1] < t; i--)
		v.t[i] = v.t[i - 1];
	v.t[i] = t;
	return v;
}

/* Optimal substructure holds for sorted vectors: adding the same time to two vectors of the same
 * length keeps their order. */
static struct vector oracle(const struct exact *e, int n, int global)
{
	struct vector best[BATCH_MAX + 1], next[BATCH_MAX + 1];
	for (int b = 0; b <= global; b++)
		best[b].n = b == 0 ? 0 : -1;
	for (int i = 0; i < n; i++) {
		for (int b = 0; b <= global; b++) {
			next[b].n = -1;
			for (int x = e[i].min; x <= e[i].max && x <= b; x++) {
				if (best[b - x].n < 0)
					continue;
				struct vector v = with(best[b - x], exact_time(&e[i], (uint64_t)x));
				if (next[b].n < 0 || compare(&v, &next[b]) < 0)
					next[b] = v;
			}
		}
		memcpy(best, next, sizeof best);
	}
	return best[global];
}

static void make_instance(struct exact *e, int n, int global)
{
	static const int speeds[SPEEDS] = {1, 2, 3, 4, 5, 7, 10, 14};
	int like = (int)draw(3); /* 0: many equal workers, so many ties */
	for (int i = 0; i < n; i++) {
		e[i].speed = speeds[draw(like == 0 ? 2 : SPEEDS)];
		e[i].fixed_tenths = draw(2) ? (int)draw(20) : 0;
		e[i].min = (int)draw(4);
		e[i].max = draw(3) ? global : e[i].min + (int)draw(6);
	}
}

/* Rows that are alike may be one row with a count: the same workers, told otherwise. */
static int make_rows(const struct exact *e, int n, struct batch_worker *w)
{
	int rows = 0;
	for (int i = 0; i < n; i++) {
		if (i > 0 && memcmp(&e[i], &e[i - 1], sizeof *e) == 0) {
			w[rows - 1].count++;
			continue;
		}
		w[rows++] = (struct batch_worker){.speed = e[i].speed,
						  .fixed = e[i].fixed_tenths / 10.0,
						  .min = (uint64_t)e[i].min,
						  .max = (uint64_t)e[i].max,
						  .count = 1};
	}
	return rows;
}

static struct vector times_of(const struct batch_worker *w, int rows, const struct exact *e,
			      uint64_t *total)
{
	struct vector v = {.n = 0};
	const struct exact *next = e;
	*total = 0;
	for (int i = 0; i < rows; i++) {
		assert_true(w[i].larger < w[i].count);
		for (uint64_t c = 0; c < w[i].count; c++, next++) {
			uint64_t size = w[i].size + (c < w[i].larger);
			assert_in_range(size, w[i].min, w[i].max);
			*total += size;
			v = with(v, exact_time(next, size));
		}
	}
	return v;
}

static void share_is_the_optimum(void **state)
{
	(void)state;
	int feasible = 0, infeasible = 0, grouped = 0;
	for (int round = 0; round < 20000; round++) {
		struct exact e[WORKERS_MAX];
		struct batch_worker w[WORKERS_MAX];
		struct error err;
		int n = 1 + (int)draw(WORKERS_MAX), global = 1 + (int)draw(BATCH_MAX);
		make_instance(e, n, global);
		for (int i = 1; i < n; i++)
			if (draw(4) == 0)
				e[i] = e[i - 1];
		int rows = make_rows(e, n, w);
		grouped += rows < n;
		struct vector want = oracle(e, n, global);
		if (batch_share(w, (size_t)rows, (uint64_t)global, &err) != 0) {
			assert_int_equal(err.code, ERROR_DATA);
			assert_int_equal(want.n, -1);
			infeasible++;
			continue;
		}
		uint64_t total;
		struct vector got = times_of(w, rows, e, &total);
		assert_int_equal(total, global);
		assert_int_equal(want.n, n);
		assert_int_equal(compare(&got, &want), 0);
		feasible++;
	}
	/* The instances must not all be of one sort. */
	assert_true(feasible > 10000 && infeasible > 1000 && grouped > 5000);
}

static void share_breaks_ties_in_input_order(void **state)
{
	(void)state;
	struct batch_worker w[3];
	for (int i = 0; i < 3; i++)
		w[i] = (struct batch_worker){.speed = 7, .min = 1, .max = 100, .count = 1};
	assert_int_equal(batch_share(w, 3, 11, NULL), 0);
	assert_int_equal(w[0].size, 4);
	assert_int_equal(w[1].size, 4);
	assert_int_equal(w[2].size, 3);
}

/* Sizes far from each other, times that swallow whole ranges of sizes, sums beyond 64 bits: what a
 * step-by-step search would not survive. */
static void share_survives_extremes(void **state)
{
	(void)state;
	struct error err;
	struct batch_worker w[2] = {
		{.speed = 1e18, .fixed = 1e9, .min = 0, .max = BATCH_SIZE_MAX, .count = 1},
		{.speed = 1e-9, .fixed = 0, .min = 1, .max = BATCH_SIZE_MAX, .count = 1}};
	assert_int_equal(batch_share(w, 2, BATCH_SIZE_MAX, &err), 0);
	assert_int_equal(w[0].size + w[1].size, BATCH_SIZE_MAX);
	assert_int_equal(w[1].size, 1);
	struct batch_worker many[2] = {
		{.speed = 1, .min = 0, .max = BATCH_SIZE_MAX, .count = BATCH_COUNT_MAX},
		{.speed = 2, .min = 1, .max = BATCH_SIZE_MAX, .count = BATCH_COUNT_MAX}};
	uint64_t global = 3ull * BATCH_COUNT_MAX + 5;
	assert_int_equal(batch_share(many, 2, global, &err), 0);
	assert_int_equal(many[0].size * many[0].count + many[0].larger +
				 many[1].size * many[1].count + many[1].larger,
			 global);
	assert_int_equal(many[0].size, 1);
	assert_int_equal(many[0].larger, 0);
	assert_int_equal(many[1].size, 2); /* the third sample of a fast one ends at 1.5 s */
	assert_int_equal(many[1].larger, 5);
	many[1].min = BATCH_SIZE_MAX;
	assert_int_equal(batch_share(many, 2, global, &err), -1);
	assert_non_null(strstr(err.text, "sum of min"));
}

static void even_gives_the_rest_to_the_first(void **state)
{
	(void)state;
	size_t broken;
	struct error err;
	struct batch_worker w[3];
	for (int i = 0; i < 3; i++)
		w[i] = (struct batch_worker){.speed = i + 1, .min = 1, .max = 100, .count = 1};
	w[1].count = 3;
	assert_int_equal(batch_even(w, 3, 13, &broken, &err), 0); /* 2.6 each: 3 3 3 2 2 */
	assert_int_equal(w[0].size, 3);
	assert_int_equal(w[1].size, 2);
	assert_int_equal(w[1].larger, 2);
	assert_int_equal(w[2].size, 2);
	assert_int_equal(w[2].larger, 0);
	w[1].max = 2;
	assert_int_equal(batch_even(w, 3, 13, &broken, &err), -1);
	assert_int_equal(broken, 1);
	assert_non_null(strstr(err.text, "above max 2"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share_is_the_optimum),
		cmocka_unit_test(share_breaks_ties_in_input_order),
		cmocka_unit_test(share_survives_extremes),
		cmocka_unit_test(even_gives_the_rest_to_the_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
