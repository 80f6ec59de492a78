/* monitor_window: sums over windows against plain loops over all observations. */
#include "base/random.h"
#include "monitor/window.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint64_t random_state = 7;

static double draw(void)
{
	return random_uniform(&random_state);
}

#define MANY 20000
static double at[MANY], seconds[MANY], samples[MANY];

static struct window_sum plain(int n, double from)
{
	struct window_sum sum = {0};
	for (int i = 0; i < n; i++)
		if (at[i] > from) {
			sum.count++;
			sum.seconds += seconds[i];
			sum.samples += samples[i];
		}
	return sum;
}

static void fill(struct window *w, int i, double when, double now, double s, double l)
{
	at[i] = when;
	seconds[i] = draw();
	samples[i] = floor(draw() * 100);
	struct window_sum what = {1, seconds[i], samples[i]};
	assert_int_equal(window_add(w, when, &what, now, s, l, NULL), 0);
}

/* As long as all fits, the edges are exact, whatever the order of arrival. */
static void few_are_exact(void **state)
{
	(void)state;
	struct pool pool = WINDOW_POOL;
	struct window w;
	window_init(&w, &pool);
	double now = 1000;
	for (int i = 0; i < WINDOW_ROOM; i++)
		fill(&w, i, now - draw() * 600, now, 300, 600);
	for (int k = 0; k < 1000; k++) {
		double from = now - draw() * 600;
		struct window_sum got = window_since(&w, from), want = plain(WINDOW_ROOM, from);
		assert_int_equal(got.count, want.count);
		assert_true(fabs(got.seconds - want.seconds) < 1e-9);
		assert_true(got.samples == want.samples);
	}
	window_clear(&w);
	pool_free(&pool);
}

/* 100 reports a second for 200 s: bounded memory, and sums that lie between those of a window
 * shorter and one longer by the grid. */
static void many_are_off_by_the_grid(void **state)
{
	(void)state;
	struct pool pool = WINDOW_POOL;
	struct window w;
	window_init(&w, &pool);
	const double s = 10, l = 60;
	for (int i = 0; i < MANY; i++) {
		double now = 5000 + i * 0.01;
		double late = i % 7 == 0 ? draw() * 3 : 0;
		fill(&w, i, now - late, now, s, l);
		assert_true(w.count <= WINDOW_ROOM);
		if (i % 500 != 499)
			continue;
		const double length[2] = {s, l};
		for (int k = 0; k < 2; k++) {
			double grid = length[k] / WINDOW_GRID;
			struct window_sum got = window_since(&w, now - length[k]);
			struct window_sum low = plain(i + 1, now - length[k] + grid);
			struct window_sum high = plain(i + 1, now - length[k] - grid);
			assert_in_range(got.count, low.count, high.count);
			assert_true(got.seconds > low.seconds - 1e-6 &&
				    got.seconds < high.seconds + 1e-6);
			assert_in_range((uint64_t)got.samples, (uint64_t)low.samples,
					(uint64_t)high.samples);
		}
	}
	assert_true(w.room <= WINDOW_ROOM);
	window_clear(&w);
	pool_free(&pool);
}

static void old_ones_do_not_count(void **state)
{
	(void)state;
	struct pool pool = WINDOW_POOL;
	struct window w;
	window_init(&w, &pool);
	fill(&w, 0, 400, 1000, 300, 600);
	fill(&w, 1, 400.5, 1000, 300, 600);
	fill(&w, 2, 1000, 1000, 300, 600);
	assert_int_equal(window_since(&w, 400).count, 2);
	assert_int_equal(window_since(&w, 1000).count, 0);
	window_clear(&w);
	assert_int_equal(window_since(&w, 0).count, 0);
	pool_free(&pool);
}

/* A clock that was set back leaves observations ahead of now: they must not fill the room for
 * ever. */
static void a_clock_set_back_is_survived(void **state)
{
	(void)state;
	struct pool pool = WINDOW_POOL;
	struct window w;
	window_init(&w, &pool);
	for (int i = 0; i < 3 * WINDOW_ROOM; i++)
		fill(&w, i, 1e6 + i * 100, 10, 300, 600);
	assert_true(w.count <= WINDOW_ROOM);
	assert_true(window_since(&w, 0).count > 0);
	window_clear(&w);
	pool_free(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_are_exact),
		cmocka_unit_test(many_are_off_by_the_grid),
		cmocka_unit_test(old_ones_do_not_count),
		cmocka_unit_test(a_clock_set_back_is_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
