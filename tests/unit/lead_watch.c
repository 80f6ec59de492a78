/* Rows for watchers: early at powers of two, then by time; their mean is of the units between. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lead/watch.h"

static void early_then_by_time(void **state)
{
	struct rows w;
	struct rows_unit unit = {0, 10, 0, 0};
	double mean = 0;
	uint64_t seen = 0;

	(void)state;
	rows_start(&w, 5.0, 0, 100.0);
	for (uint64_t i = 1; i <= 20; i++) {
		unit.iteration = i;
		unit.loss = (double)i * 10;
		if (rows_due(&w, &unit, 100.0 + (double)i * 0.1, &mean)) {
			assert_true((i & (i - 1)) == 0);
			seen |= UINT64_C(1) << i;
			if (i == 8) /* 5, 6, 7, 8 */
				assert_float_equal(mean, 6.5, 1e-9);
		}
	}
	assert_true(seen == ((1u << 1) | (1u << 2) | (1u << 4) | (1u << 8) | (1u << 16)));
	unit = (struct rows_unit){32, 0, 0, 0};
	assert_false(rows_due(&w, &unit, 106.0, &mean)); /* no longer early */
	assert_true(rows_due(&w, &unit, 106.7, &mean));
	assert_false(rows_due(&w, &unit, 111.6, &mean));
	assert_true(rows_due(&w, &unit, 111.8, &mean));
	assert_float_equal(mean, 0.0, 1e-12); /* no sample since */
}

static void what_is_in_no_row_yet_is_the_last_one(void **state)
{
	struct rows_unit unit = {1, 10, 10, 0};
	struct rows w;
	double mean = 0;

	(void)state;
	rows_start(&w, 5.0, 0, 100.0);
	assert_true(rows_due(&w, &unit, 100.1, &mean));
	assert_false(rows_last(&w, &mean));
	for (unit.iteration = 5; unit.iteration < 8; unit.iteration++, unit.loss += 10)
		rows_due(&w, &unit, 100.2, &mean);
	assert_true(rows_last(&w, &mean));
	assert_float_equal(mean, 2.5, 1e-9);
	assert_false(rows_last(&w, &mean));
}

static void without_an_interval_powers_only(void **state)
{
	struct rows_unit unit = {100, 0, 0, 0};
	struct rows w;
	double mean;
	int n = 0;

	(void)state;
	rows_start(&w, 0.0, 100, 0.0);
	for (unit.iteration = 101; unit.iteration < 1100; unit.iteration += 3)
		n += rows_due(&w, &unit, (double)unit.iteration, &mean);
	assert_int_equal(n, 4); /* 128, 256, 512, 1024, or the first after */
}

static void one_huge_loss_is_of_its_row_only(void **state)
{
	struct rows_unit unit = {1, 10, 1e30, 0};
	struct rows w;
	double mean;

	(void)state;
	rows_start(&w, 0.0, 0, 0.0);
	assert_true(rows_due(&w, &unit, 0.0, &mean));
	assert_float_equal(mean, 1e29, 1e20);
	unit = (struct rows_unit){2, 10, 5.0, 0};
	assert_true(rows_due(&w, &unit, 0.0, &mean));
	assert_float_equal(mean, 0.5, 1e-9);
}

static void a_loss_that_nobody_told_is_none(void **state)
{
	struct rows_unit unit = {1, 10, 0, 0};
	struct rows w;
	double mean = 0;

	(void)state;
	rows_start(&w, 0.0, 0, 0.0);
	assert_true(rows_due(&w, &unit, 0.0, &mean));
	assert_true(isnan(mean));
	unit = (struct rows_unit){2, 10, 0.0, 1};
	assert_true(rows_due(&w, &unit, 0.0, &mean));
	assert_float_equal(mean, 0.0, 0.0);
	unit = (struct rows_unit){3, 10, 0.0, 1};
	assert_false(rows_due(&w, &unit, 0.0, &mean));
	assert_true(rows_last(&w, &mean));
	assert_true(isnan(mean));
	unit = (struct rows_unit){4, 10, 5.0, 2};
	assert_true(rows_due(&w, &unit, 0.0, &mean));
	assert_float_equal(mean, 0.5, 1e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(early_then_by_time),
		cmocka_unit_test(what_is_in_no_row_yet_is_the_last_one),
		cmocka_unit_test(without_an_interval_powers_only),
		cmocka_unit_test(one_huge_loss_is_of_its_row_only),
		cmocka_unit_test(a_loss_that_nobody_told_is_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
