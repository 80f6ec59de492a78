/* What becomes of a host: each state with each event. */
#include "run/host_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ALL_STATES(reach, use)                                                                     \
	for (enum host_reach reach = HOST_THERE; reach < HOST_REACHES; reach++)                    \
		for (enum host_use use = HOST_USED; use < HOST_USES; use++)

static void each_state_with_each_event(void **state)
{
	(void)state;
	static const struct {
		enum host_reach reach;
		enum host_do todo;
	} expected[HOST_REACHES][HOST_EVENTS] = {
		/* HOST_ANSWERS, HOST_FAILS, HOST_SILENT, HOST_TAKEN */
		{{HOST_THERE, HOST_DO_NOTHING}, {HOST_LOST, HOST_DO_PROBE},
		 {HOST_THERE, HOST_DO_NOTHING}, {HOST_NONE, HOST_DO_YIELD}},
		{{HOST_THERE, HOST_DO_TELL}, {HOST_LOST, HOST_DO_NOTHING},
		 {HOST_GONE, HOST_DO_KILL}, {HOST_NONE, HOST_DO_YIELD}},
		{{HOST_THERE, HOST_DO_HOME}, {HOST_GONE, HOST_DO_NOTHING},
		 {HOST_GONE, HOST_DO_NOTHING}, {HOST_NONE, HOST_DO_YIELD}},
		{{HOST_THERE, HOST_DO_HOME}, {HOST_NONE, HOST_DO_NOTHING},
		 {HOST_NONE, HOST_DO_NOTHING}, {HOST_NONE, HOST_DO_NOTHING}},
	};
	ALL_STATES (from, use)
		for (enum host_event event = HOST_ANSWERS; event < HOST_EVENTS; event++) {
			enum host_reach reach = from;
			enum host_do todo = host_step(&reach, use, event);
			if (use == HOST_UNUSED && (event == HOST_FAILS || event == HOST_SILENT)) {
				assert_int_equal(reach, from);
				assert_int_equal(todo, HOST_DO_NOTHING);
				continue;
			}
			assert_int_equal(reach, expected[from][event].reach);
			assert_int_equal(todo, use == HOST_UNUSED && event == HOST_ANSWERS
						       ? HOST_DO_NOTHING
						       : expected[from][event].todo);
		}
}

static void its_use(void **state)
{
	(void)state;
	for (enum host_use use = HOST_USED; use < HOST_USES; use++)
		for (int empty = 0; empty < 2; empty++)
			assert_int_equal(host_use_next(use, 1, empty), HOST_USED);
	assert_int_equal(host_use_next(HOST_USED, 0, 0), HOST_LEAVES);
	assert_int_equal(host_use_next(HOST_USED, 0, 1), HOST_LEAVES); /* others must hear of it first */
	assert_int_equal(host_use_next(HOST_LEAVES, 0, 0), HOST_LEAVES);
	assert_int_equal(host_use_next(HOST_LEAVES, 0, 1), HOST_UNUSED);
	assert_int_equal(host_use_next(HOST_UNUSED, 0, 0), HOST_UNUSED);
	assert_int_equal(host_use_next(HOST_UNUSED, 0, 1), HOST_UNUSED);
}

static void who_is_in_the_fabric(void **state)
{
	(void)state;
	ALL_STATES (reach, use)
		for (int here = 0; here < 2; here++) {
			int joined = reach == HOST_THERE && (use != HOST_UNUSED || here);
			assert_int_equal(host_is_joined(reach, use, here), joined);
			if (reach == HOST_LOST && use != HOST_UNUSED) { /* it stays where it is */
				assert_false(host_is_misplaced(reach, use, here, 0));
				assert_false(host_is_misplaced(reach, use, here, 1));
				continue;
			}
			assert_int_equal(host_is_misplaced(reach, use, here, 0), joined);
			assert_int_equal(host_is_misplaced(reach, use, here, 7), !joined);
		}
}

static void its_word(void **state)
{
	(void)state;
	static const char *const reach_words[] = {"there", "lost", "gone", "none"};
	ALL_STATES (reach, use) {
		const char *word = use == HOST_LEAVES   ? "leaving"
				   : use == HOST_UNUSED ? "unused"
							: reach_words[reach];
		assert_string_equal(host_word(reach, use, 0), word);
	}
	assert_string_equal(host_word(HOST_THERE, HOST_USED, 1), "avoided");
	assert_string_equal(host_word(HOST_THERE, HOST_LEAVES, 1), "leaving");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_state_with_each_event),
		cmocka_unit_test(its_use),
		cmocka_unit_test(who_is_in_the_fabric),
		cmocka_unit_test(its_word),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
