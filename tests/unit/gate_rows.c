/* Rows for watchers: early at powers of two, then by time; their mean is of the units between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate/rows.h"

static void early_then_by_time(void **state)
{
	struct rows_total total = {0, 0, 0};
	struct rows w;
	double mean = 0;
	uint64_t seen = 0;

	(void)state;
	rows_start(&w, 5.0, &total, 100.0);
	for (uint64_t i = 1; i <= 20; i++) {
		total.iteration = i;
		total.samples += 10;
		total.loss += (double)i * 10;
		if (rows_due(&w, &total, 100.0 + (double)i * 0.1, &mean)) {
			assert_true((i & (i - 1)) == 0);
			seen |= UINT64_C(1) << i;
			if (i == 8) /* 5, 6, 7, 8 */
				assert_float_equal(mean, 6.5, 1e-9);
		}
	}
	assert_true(seen == ((1u << 1) | (1u << 2) | (1u << 4) | (1u << 8) | (1u << 16)));
	total.iteration = 32;
	assert_false(rows_due(&w, &total, 106.0, &mean)); /* no longer early */
	assert_true(rows_due(&w, &total, 106.7, &mean));
	assert_false(rows_due(&w, &total, 111.6, &mean));
	assert_true(rows_due(&w, &total, 111.8, &mean));
	assert_float_equal(mean, 0.0, 1e-12); /* no sample since */
}

static void without_an_interval_powers_only(void **state)
{
	struct rows_total total = {100, 0, 0};
	struct rows w;
	double mean;
	int n = 0;

	(void)state;
	rows_start(&w, 0.0, &total, 0.0);
	for (total.iteration = 101; total.iteration < 1100; total.iteration += 3)
		n += rows_due(&w, &total, (double)total.iteration, &mean);
	assert_int_equal(n, 4); /* 128, 256, 512, 1024, or the first after */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(early_then_by_time),
		cmocka_unit_test(without_an_interval_powers_only),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
