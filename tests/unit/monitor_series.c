/* How often the course of the nodes is written. */
#include "monitor/series.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RECORD_BYTES 220.0
#define WEEK (7 * 86400.0)

static double bytes(size_t nodes, double until)
{
	double sum = 0;
	for (double at = 0; at < until; at += series_seconds(at, nodes))
		sum += RECORD_BYTES * (double)nodes;
	return sum;
}

static void short_jobs_are_seen_in_detail(void **state)
{
	(void)state;
	assert_true(series_seconds(0, 0) <= 0.5);
	assert_true(series_seconds(60, 10) <= 1);
	assert_true(series_seconds(3600, 10) <= 4);
}

static void less_and_less_often(void **state)
{
	(void)state;
	for (size_t nodes = 1; nodes <= 4096; nodes *= 2)
		for (double at = 1; at < WEEK; at *= 2) {
			assert_true(series_seconds(2 * at, nodes) >= series_seconds(at, nodes));
			assert_true(series_seconds(at, 2 * nodes) >= series_seconds(at, nodes));
		}
}

static void the_log_keeps_its_bound(void **state)
{
	(void)state;
	for (size_t nodes = 1; nodes <= 300; nodes += 13)
		assert_true(bytes(nodes, WEEK) < 32.0 * (1 << 20));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_jobs_are_seen_in_detail),
		cmocka_unit_test(less_and_less_often),
		cmocka_unit_test(the_log_keeps_its_bound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
