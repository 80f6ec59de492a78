/*
 * solve_accum: Eq. 4 against an independent solver.  The oracle knows nothing of times to search
 * for, reachable sums or tables: it goes through every size and every number of steps of every row
 * and compares whole-number times.
 */
#include "base/random.h"
#include "solve/accum.h"

#include "solve/batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS_MAX 4
#define SPEEDS 8
#define COMMON 840 /* multiple of every speed below and of 10 */

/* Times over COMMON; fixed is in tenths, which doubles don't hold exactly. */
struct exact {
	int speed, fixed_tenths;
	int min, max, cmin, cmax, count;
};

struct answer {
	int found;
	long time, steps;
	int size[ROWS_MAX], accum[ROWS_MAX];
};

static uint64_t random_state = 1;

static int draw(int below)
{
	return (int)(random_next(&random_state) % (uint64_t)below);
}

static long exact_time(const struct exact *e, long accum, long size)
{
	return accum * (e->fixed_tenths * (COMMON / 10) + size * (COMMON / e->speed));
}

/* Less is better; equal ones come in the promised order, so the first found stays. */
static void walk(const struct exact *e, int n, int i, int left, const struct answer *so_far,
		 struct answer *best)
{
	if (i == n) {
		if (left == 0 && (!best->found || so_far->time < best->time ||
				  (so_far->time == best->time && so_far->steps < best->steps))) {
			*best = *so_far;
			best->found = 1;
		}
		return;
	}
	for (int c = e[i].cmin; c <= e[i].cmax; c++) {
		for (int x = e[i].max; x >= e[i].min; x--) {
			if (e[i].count * c * x > left)
				continue;
			struct answer next = *so_far;
			long t = exact_time(&e[i], c, x);
			next.time = t > next.time ? t : next.time;
			next.steps += e[i].count * c;
			next.size[i] = x;
			next.accum[i] = c;
			if (!best->found || next.time <= best->time)
				walk(e, n, i + 1, left - e[i].count * c * x, &next, best);
		}
	}
}

static void make_instance(struct exact *e, int n, int global)
{
	static const int speeds[SPEEDS] = {1, 2, 3, 4, 5, 7, 10, 14};
	int alike = draw(3) == 0, even = draw(8) == 0;
	for (int i = 0; i < n; i++) {
		e[i].speed = speeds[draw(alike ? 2 : SPEEDS)];
		e[i].fixed_tenths = draw(2) ? draw(30) : 0;
		e[i].min = draw(4);
		e[i].max = draw(3) ? global : e[i].min + draw(6);
		if (e[i].max < e[i].min)
			e[i].max = e[i].min;
		e[i].cmin = 1 + (draw(5) == 0) * draw(3);
		e[i].cmax = e[i].cmin + draw(4);
		e[i].count = even ? 2 * (1 + draw(2)) : 1 + (draw(2) ? draw(4) : 0);
	}
}

static void make_rows(const struct exact *e, int n, struct accum_type *t)
{
	for (int i = 0; i < n; i++)
		t[i] = (struct accum_type){.speed = e[i].speed,
					   .fixed = e[i].fixed_tenths / 10.0,
					   .min = (uint64_t)e[i].min,
					   .max = (uint64_t)e[i].max,
					   .cmin = (uint64_t)e[i].cmin,
					   .cmax = (uint64_t)e[i].cmax,
					   .count = (uint64_t)e[i].count};
}

static void the_same(const struct accum_type *t, int n, const struct exact *e, int global,
		     const struct answer *want)
{
	long time = 0, steps = 0, total = 0;
	for (int i = 0; i < n; i++) {
		assert_in_range(t[i].size, t[i].min, t[i].max);
		assert_in_range(t[i].accum, t[i].cmin, t[i].cmax);
		long own = exact_time(&e[i], (long)t[i].accum, (long)t[i].size);
		time = own > time ? own : time;
		steps += (long)(t[i].count * t[i].accum);
		total += (long)(t[i].count * t[i].accum * t[i].size);
	}
	assert_int_equal(total, global);
	assert_int_equal(time, want->time);
	assert_int_equal(steps, want->steps);
	for (int i = 0; i < n; i++) {
		assert_int_equal(t[i].accum, want->accum[i]);
		assert_int_equal(t[i].size, want->size[i]);
	}
}

static void accum_is_the_optimum(void **state)
{
	(void)state;
	int feasible = 0, bounds = 0, sums = 0, several = 0;
	for (int round = 0; round < 20000; round++) {
		struct exact e[ROWS_MAX];
		struct accum_type t[ROWS_MAX];
		struct error err;
		struct answer best = {0}, none = {0};
		int n = 1 + draw(ROWS_MAX), global = 1 + draw(n == ROWS_MAX ? 24 : 40);
		make_instance(e, n, global);
		make_rows(e, n, t);
		walk(e, n, 0, global, &none, &best);
		if (accum_solve(t, (size_t)n, (uint64_t)global, &err) != 0) {
			assert_int_equal(err.code, ERROR_DATA);
			assert_false(best.found);
			*(strstr(err.text, "no sizes") ? &sums : &bounds) += 1;
			continue;
		}
		assert_true(best.found);
		the_same(t, n, e, global, &best);
		feasible++;
		for (int i = 0; i < n; i++)
			several += t[i].accum > t[i].cmin;
	}
	/* The instances must not all be of one sort. */
	assert_true(feasible > 8000 && bounds > 1000 && sums > 500 && several > 2000);
}

/* The nearest sums of an error message are what the oracle finds below and above. */
static void nearest_sums_are_the_nearest(void **state)
{
	(void)state;
	int told = 0;
	for (int round = 0; round < 4000; round++) {
		struct exact e[ROWS_MAX];
		struct accum_type t[ROWS_MAX];
		struct error err;
		int n = 1 + draw(2), global = 1 + draw(40);
		make_instance(e, n, global);
		make_rows(e, n, t);
		if (accum_solve(t, (size_t)n, (uint64_t)global, &err) == 0)
			continue;
		const char *near = strstr(err.text, "; the nearest that do: ");
		if (!near)
			continue;
		char *end;
		int below = (int)strtol(near + 23, &end, 10);
		int above = (int)strtol(end + 5, NULL, 10);
		assert_true(below < global && global < above);
		for (int b = below; b <= above; b++) {
			struct answer best = {0}, none = {0};
			walk(e, n, 0, b, &none, &best);
			assert_int_equal(best.found, b == below || b == above);
		}
		told++;
	}
	assert_true(told > 100);
}

static const struct accum_type a_type = {
	.speed = 1, .min = 1, .max = BATCH_SIZE_MAX, .cmin = 1, .cmax = 1, .count = 1};

/* Full batches on the fast device, several times, where the slow one is below its saturation. */
static void fast_devices_accumulate(void **state)
{
	(void)state;
	struct accum_type t[2] = {a_type, a_type};
	t[0].speed = 300, t[0].min = 32, t[0].max = 96, t[0].cmax = 5, t[0].fixed = 0.02;
	t[1].speed = 100, t[1].min = 32, t[1].max = 96, t[1].cmax = 5, t[1].fixed = 0.02;
	assert_int_equal(accum_solve(t, 2, 384, NULL), 0);
	assert_int_equal(t[0].accum, 3); /* 288 in three steps of 96: 1.02 s */
	assert_int_equal(t[0].size, 96);
	assert_int_equal(t[1].accum, 1);
	assert_int_equal(t[1].size, 96);
	assert_true(accum_time(&t[0]) > 1.0199 && accum_time(&t[0]) < 1.0201);
}

/* Sums are not counted from 0: what no table could hold is solved when the answer is near. */
static void large_batches_are_exact(void **state)
{
	(void)state;
	struct error err;
	struct accum_type t[3] = {a_type, a_type, a_type};
	t[0].speed = 1e6, t[1].speed = 3e6, t[2].speed = 5e6;
	t[0].count = 6, t[1].count = 10, t[2].count = 15;
	t[0].cmax = t[1].cmax = t[2].cmax = 5;
	uint64_t global = (1ull << 52) + 1, sum = 0;
	assert_int_equal(accum_solve(t, 3, global, &err), 0);
	for (int i = 0; i < 3; i++)
		sum += t[i].count * t[i].accum * t[i].size;
	assert_int_equal(sum, global);
	/* 111e6 samples a second if all are busy all the time. */
	double bound = (double)global / 111e6;
	for (int i = 0; i < 3; i++)
		assert_true(accum_time(&t[i]) < bound * (1 + 1e-12));
	/* 2^52 is no multiple of 6: said at once. */
	t[1].count = t[2].count = 6;
	assert_int_equal(accum_solve(t, 3, 1ull << 52, &err), -1);
	assert_non_null(strstr(err.text, "multiples of 6"));
}

/* A slow row that dictates the time leaves all sums open: an error where tables can't hold them,
 * never a guess. */
static void too_large_is_an_error(void **state)
{
	(void)state;
	struct error err;
	struct accum_type t[3] = {a_type, a_type, a_type};
	t[0].speed = 1e-9, t[1].speed = t[2].speed = 1e9;
	t[1].count = 3, t[2].count = 2;
	assert_int_equal(accum_solve(t, 3, 1000, &err), 0);
	assert_int_equal(accum_solve(t, 3, 1ull << 40, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	assert_non_null(strstr(err.text, "too large for an exact answer"));
}

static void extremes_do_not_wrap(void **state)
{
	(void)state;
	struct error err;
	struct accum_type t[2] = {a_type, a_type};
	t[0].count = t[1].count = BATCH_COUNT_MAX;
	t[0].cmax = t[1].cmax = ACCUM_STEPS_MAX;
	t[0].cmin = ACCUM_STEPS_MAX;
	t[0].min = BATCH_SIZE_MAX;
	assert_int_equal(accum_solve(t, 2, BATCH_SIZE_MAX, &err), -1);
	assert_non_null(strstr(err.text, "sum of count*cmin*min"));
	t[0].min = 0;
	assert_int_equal(accum_solve(t, 2, 3 * BATCH_COUNT_MAX, &err), 0);
	assert_int_equal(t[0].size, 0);
	assert_int_equal(t[1].size * t[1].accum, 3);
	assert_int_equal(t[1].accum, 1);
	t[0] = a_type;
	t[0].cmax = 5;
	t[0].max = 7;
	assert_int_equal(accum_solve(t, 1, 36, &err), -1);
	assert_non_null(strstr(err.text, "sum of count*cmax*max, 35, is below"));
	assert_int_equal(accum_solve(t, 1, 35, &err), 0);
	assert_int_equal(accum_solve(t, 1, 31, &err), -1);
	assert_non_null(strstr(err.text, "30 and 35"));
	assert_int_equal(accum_solve(t, 0, 31, &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accum_is_the_optimum),
		cmocka_unit_test(nearest_sums_are_the_nearest),
		cmocka_unit_test(fast_devices_accumulate),
		cmocka_unit_test(large_batches_are_exact),
		cmocka_unit_test(too_large_is_an_error),
		cmocka_unit_test(extremes_do_not_wrap),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
