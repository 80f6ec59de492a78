/* The guard around restarts by intention. */
#include "solve/restart_guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct restart_rules rules = {.window = 600, .cooldown = 60, .limit = 3};

static void the_first_one_goes(void **state)
{
	(void)state;
	struct restart_past node = {0};
	assert_int_equal(restart_guard(&rules, &node, 0, 1000), RESTART_GO);
	assert_null(restart_guard_word(RESTART_GO));
}

static void once_a_window(void **state)
{
	(void)state;
	struct restart_past node = {.count = 1, .last = 1000};
	assert_int_equal(restart_guard(&rules, &node, 1000, 1599), RESTART_WINDOW);
	assert_int_equal(restart_guard(&rules, &node, 1000, 1600), RESTART_GO);
	assert_string_equal(restart_guard_word(RESTART_WINDOW), "window");
}

static void a_pause_between_any_two(void **state)
{
	(void)state;
	struct restart_past node = {0};
	assert_int_equal(restart_guard(&rules, &node, 1000, 1059), RESTART_COOLDOWN);
	assert_int_equal(restart_guard(&rules, &node, 1000, 1060), RESTART_GO);
}

static void so_many_in_all(void **state)
{
	(void)state;
	struct restart_past node = {.count = 3, .last = 1000};
	const struct restart_rules none = {.limit = 0};
	assert_int_equal(restart_guard(&rules, &node, 1000, 1e9), RESTART_LIMIT);
	node = (struct restart_past){0};
	assert_int_equal(restart_guard(&none, &node, 0, 1000), RESTART_LIMIT);
}

static void a_clock_set_back_locks_nobody_up(void **state)
{
	(void)state;
	struct restart_past node = {.count = 1, .last = 1e9};
	assert_int_equal(restart_guard(&rules, &node, 1e9, 1000), RESTART_GO);
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
	return cmocka_run_group_tests_name("solve_restart_guard", tests, NULL, NULL);
}
