/* The guard around restarts by intention. */
#include "run/heavy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct heavy_rules rules = {.window = 600, .cooldown = 60, .limit = 3};

static void the_first_one_goes(void **state)
{
	(void)state;
	struct heavy_past node = {0};
	assert_int_equal(heavy_check(&rules, &node, 0, 1000), HEAVY_GO);
	assert_null(heavy_word(HEAVY_GO));
}

static void once_a_window(void **state)
{
	(void)state;
	struct heavy_past node = {.count = 1, .last = 1000};
	assert_int_equal(heavy_check(&rules, &node, 1000, 1599), HEAVY_WINDOW);
	assert_int_equal(heavy_check(&rules, &node, 1000, 1600), HEAVY_GO);
	assert_string_equal(heavy_word(HEAVY_WINDOW), "window");
}

static void a_pause_between_any_two(void **state)
{
	(void)state;
	struct heavy_past node = {0};
	assert_int_equal(heavy_check(&rules, &node, 1000, 1059), HEAVY_COOLDOWN);
	assert_int_equal(heavy_check(&rules, &node, 1000, 1060), HEAVY_GO);
}

static void so_many_in_all(void **state)
{
	(void)state;
	struct heavy_past node = {.count = 3, .last = 1000};
	const struct heavy_rules none = {.limit = 0};
	assert_int_equal(heavy_check(&rules, &node, 1000, 1e9), HEAVY_LIMIT);
	node = (struct heavy_past){0};
	assert_int_equal(heavy_check(&none, &node, 0, 1000), HEAVY_LIMIT);
}

static void a_clock_set_back_locks_nobody_up(void **state)
{
	(void)state;
	struct heavy_past node = {.count = 1, .last = 1e9};
	assert_int_equal(heavy_check(&rules, &node, 1e9, 1000), HEAVY_GO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_one_goes),
		cmocka_unit_test(once_a_window),
		cmocka_unit_test(a_pause_between_any_two),
		cmocka_unit_test(so_many_in_all),
		cmocka_unit_test(a_clock_set_back_locks_nobody_up),
	};
	return cmocka_run_group_tests_name("run_heavy", tests, NULL, NULL);
}
