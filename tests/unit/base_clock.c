/* The clock of `at=`, while somebody sets the machine's. */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

static time_t machine = 1000000, up = 500, moves = 200; /* what each clock says */

int clock_gettime(clockid_t id, struct timespec *t)
{
	*t = (struct timespec){.tv_sec = id == CLOCK_REALTIME   ? machine
					 : id == CLOCK_BOOTTIME ? up
								: moves};
	return 0;
}

static void pass(time_t seconds)
{
	machine += seconds;
	up += seconds;
	moves += seconds;
}

static void setting_the_clock_moves_nothing(void **state)
{
	(void)state;
	double began = clock_epoch(), mono = clock_mono();
	assert_true(began == 1000000);
	pass(10);
	machine -= 3600;
	assert_true(clock_epoch() - began == 10);
	pass(10);
	machine += 86400;
	assert_true(clock_epoch() - began == 20);
	assert_true(clock_mono() - mono == 20);
	assert_true(clock_wall() == (double)machine);
}

static void a_machine_that_slept_is_later(void **state)
{
	(void)state;
	double began = clock_epoch();
	machine += 8000;
	up += 8000;
	assert_true(clock_epoch() - began == 8000);
}

static void within_a_time(void **state)
{
	(void)state;
	assert_true(clock_within(1000, 1000, 10));
	assert_true(clock_within(1000, 1009, 10));
	assert_false(clock_within(1000, 1010, 10));
	assert_false(clock_within(1000, 999, 10));
	assert_false(clock_within(0, 5, 10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(setting_the_clock_moves_nothing),
		cmocka_unit_test(a_machine_that_slept_is_later),
		cmocka_unit_test(within_a_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
