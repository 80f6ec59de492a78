/* late: whom a sum goes on without, in exact cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lead/late.h"

#define NEVER INT64_MAX

static struct late_batch ready(int64_t took)
{
	return (struct late_batch){.state = LATE_READY, .took = took};
}

static struct late_batch computes(int64_t began, int64_t took)
{
	return (struct late_batch){.state = LATE_COMPUTES, .began = began, .took = took};
}

static void late_from_times_the_median_on(void **state)
{
	struct late_batch b[] = {ready(100), ready(80), computes(1000, 120)};

	(void)state;
	assert_int_equal(late_mark(b, 3, 1.5, 1149), 1150);
	assert_false(b[2].is_late);
	assert_int_equal(late_mark(b, 3, 1.5, 1150), NEVER);
	assert_true(b[2].is_late);
	assert_false(b[0].is_late || b[1].is_late);
}

static void each_from_its_own_start(void **state)
{
	struct late_batch b[] = {ready(100), ready(100), computes(1000, 100), computes(1040, 100)};

	(void)state;
	assert_int_equal(late_mark(b, 4, 2, 1200), 1240);
	assert_true(b[2].is_late && !b[3].is_late);
	assert_int_equal(late_mark(b, 4, 2, 1240), NEVER);
	assert_true(b[3].is_late);
}

static void the_median_is_between_the_middle_two(void **state)
{
	struct late_batch b[] = {ready(100), computes(0, 300)};

	(void)state;
	assert_int_equal(late_mark(b, 2, 1.5, 0), 300);
	b[1].took = 900;
	assert_int_equal(late_mark(b, 2, 1.5, 0), 750);
}

static void half_of_them_at_most(void **state)
{
	struct late_batch b[] = {ready(100), computes(0, 100), computes(0, 100), computes(0, 100)};

	(void)state;
	assert_int_equal(late_mark(b, 4, 1.5, 10000), NEVER);
	assert_false(b[1].is_late || b[2].is_late || b[3].is_late);
	b[1].state = LATE_READY;
	assert_int_equal(late_mark(b, 4, 1.5, 10000), NEVER);
	assert_true(b[2].is_late && b[3].is_late);
}

static void nobody_twice_running(void **state)
{
	struct late_batch b[] = {ready(100), ready(100), computes(0, 100)};

	(void)state;
	b[2].was_late = 1;
	assert_int_equal(late_mark(b, 3, 1.5, 10000), NEVER);
	assert_false(b[2].is_late);
}

static void nobody_before_half_have_computed_a_batch(void **state)
{
	struct late_batch b[] = {ready(100), ready(0), computes(0, 0)};

	(void)state;
	assert_int_equal(late_mark(b, 3, 1.5, 10000), NEVER);
	assert_false(b[2].is_late);
	b[1].took = 300; /* of 100, 300 and one that is not known */
	assert_int_equal(late_mark(b, 3, 1.5, 400), 450);
	assert_int_equal(late_mark(b, 3, 1.5, 450), NEVER);
	assert_true(b[2].is_late);
}

static void one_that_has_not_begun_is_waited_for(void **state)
{
	struct late_batch b[] = {ready(100), ready(100), {.took = 100}};

	(void)state;
	assert_int_equal(late_mark(b, 3, 1.5, 10000), NEVER);
	assert_false(b[2].is_late);
}

static void great_numbers_never_come(void **state)
{
	struct late_batch b[] = {ready(1000000000), computes(0, 1000000000)};

	(void)state;
	assert_int_equal(late_mark(b, 2, LATE_TIMES_MAX, 0), INT64_C(1000000000000000000));
	b[0].took = b[1].took = 1000001000;
	assert_int_equal(late_mark(b, 2, LATE_TIMES_MAX, INT64_C(1) << 62), NEVER);
	assert_false(b[1].is_late);
	assert_int_equal(late_mark(NULL, 0, 1.5, 0), NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(late_from_times_the_median_on),
		cmocka_unit_test(each_from_its_own_start),
		cmocka_unit_test(the_median_is_between_the_middle_two),
		cmocka_unit_test(half_of_them_at_most),
		cmocka_unit_test(nobody_twice_running),
		cmocka_unit_test(nobody_before_half_have_computed_a_batch),
		cmocka_unit_test(one_that_has_not_begun_is_waited_for),
		cmocka_unit_test(great_numbers_never_come),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
