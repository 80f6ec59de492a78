/* ps/lag: when a standby must get a difference, and what workers must keep until it has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ps/lag.h"

#include "base/random.h"

#include <stdio.h>

static struct lag lag;

static int stop(void **state)
{
	(void)state;
	lag_free(&lag);
	return 0;
}

static void add(uint64_t unit, const char *worker, uint64_t sequence, int kept)
{
	struct lag_push push = {.unit = unit,
				.generation = 1,
				.sequence = sequence,
				.kept = kept,
				.bytes = kept ? 100 : 0};

	snprintf(push.worker, sizeof push.worker, "%s", worker);
	assert_int_equal(lag_add(&lag, &push, NULL), 0);
}

static void half_the_bound_is_due_and_the_whole_is_full(void **state)
{
	(void)state;
	for (uint64_t unit = 1; unit <= 8; unit++) {
		assert_int_equal(lag_is_due(&lag, 8, 0), unit > 4);
		assert_int_equal(lag_is_due(&lag, 8, 1), unit > 1);
		assert_int_equal(lag_is_full(&lag, 8, 1), 0);
		add(unit, "w0", unit, 1);
	}
	assert_int_equal(lag_is_full(&lag, 8, 1), 1);
	assert_int_equal(lag_is_full(&lag, 9, 1), 0);
	assert_int_equal(lag_is_full(&lag, 9, 2), 1);
	lag_merge(&lag, 8); /* all that follows is answered behind it */
	assert_int_equal(lag_ahead(&lag), 0);
	assert_int_equal(lag_is_full(&lag, 8, 1), 0);
	assert_int_equal(lag.count, 8);
	add(9, "w0", 9, 1);
	assert_int_equal(lag_ahead(&lag), 1);
	lag_reached(&lag, 8);
	assert_int_equal(lag.count, 1);
	assert_int_equal(lag_bytes(&lag), 100);
}

static void small_bounds(void **state)
{
	(void)state;
	assert_int_equal(lag_is_full(&lag, 1, 5),
			 0); /* larger than the bound, but nothing is before it */
	add(1, "w0", 1, 1);
	assert_int_equal(lag_is_due(&lag, 1, 0), 1);
	assert_int_equal(lag_is_due(&lag, 2, 0), 1);
	assert_int_equal(lag_is_due(&lag, 3, 0), 0);
	assert_int_equal(lag_is_full(&lag, 1, 1), 1);
	assert_int_equal(lag_is_full(&lag, 4, SIZE_MAX), 1);
}

/* Units that the standby applies itself need no difference, unless it lacks one before them. */
static void what_it_has_counts_only_behind_what_it_lacks(void **state)
{
	(void)state;
	for (uint64_t unit = 1; unit <= 20; unit++)
		add(unit, "w0", unit, 0);
	assert_int_equal(lag_ahead(&lag), 0);
	assert_int_equal(lag_is_due(&lag, 8, 0), 0);
	lag_reached(&lag, 20);
	add(21, "w0", 21, 1);
	add(22, "w1", 21, 0);
	assert_int_equal(lag_ahead(&lag), 2);
}

static void a_worker_keeps_from_its_first_that_is_lacking(void **state)
{
	(void)state;
	add(1, "w0", 4, 1);
	add(1, "w1", 6, 1);
	add(2, "w0", 5, 1);
	add(3, "w2", 1, 0);
	assert_int_equal(lag_first(&lag, "w0", 1, 9), 4);
	assert_int_equal(lag_first(&lag, "w0", 1, 4), 4);
	assert_int_equal(lag_first(&lag, "w1", 1, 9), 6);
	assert_int_equal(lag_first(&lag, "w1", 2, 9), 9); /* another generation */
	assert_int_equal(lag_first(&lag, "w2", 1, 9), 9); /* the standby has it */
	assert_true(lag_binds(&lag, "w0", 1));
	assert_false(lag_binds(&lag, "w2", 1));
	lag_merge(&lag, 1);
	assert_false(lag_binds(&lag, "w0", 1)); /* there will be room for one */
	lag_reached(&lag, 1);
	assert_int_equal(lag_first(&lag, "w0", 1, 9), 5);
	assert_true(lag_binds(&lag, "w0", 1));
}

/* As a server uses it: whatever comes, with units of 1 to `most` pushes, no commit leaves the
 * standby more than the bound behind, except a unit that alone is larger. */
static void the_bound_is_never_broken(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		uint64_t random = seed, unit = 0, merged = 0;
		size_t bound = 1 + random_next(&random) % 20, most = 1 + random_next(&random) % 9;
		for (int i = 0; i < 60; i++) {
			size_t n = 1 + random_next(&random) % most;
			if (lag_is_full(&lag, bound, n))
				lag_merge(&lag, merged = unit);
			lag_reached(&lag, merged); /* the hold is answered behind it */
			assert_true(lag.count == 0 || lag.count + n <= bound);
			unit++;
			while (n-- > 0)
				add(unit, "w0", unit, 1);
			if (lag_is_due(&lag, bound, random_next(&random) % 9 == 0))
				lag_merge(&lag, merged = unit);
		}
		lag_free(&lag);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(half_the_bound_is_due_and_the_whole_is_full, stop),
		cmocka_unit_test_teardown(small_bounds, stop),
		cmocka_unit_test_teardown(what_it_has_counts_only_behind_what_it_lacks, stop),
		cmocka_unit_test_teardown(a_worker_keeps_from_its_first_that_is_lacking, stop),
		cmocka_unit_test_teardown(the_bound_is_never_broken, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
