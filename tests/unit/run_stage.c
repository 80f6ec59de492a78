/* The table of a node's stages. */
#include "run/stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static enum node_action step(enum node_stage *stage, enum node_event event)
{
	enum node_action action;
	struct error err;
	assert_int_equal(stage_step(stage, event, &action, &err), 0);
	return action;
}

static void a_life(void **state)
{
	(void)state;
	enum node_stage s = STAGE_OFF;
	assert_int_equal(step(&s, EVENT_LAUNCHED), DO_NOTHING);
	assert_int_equal(step(&s, EVENT_ANSWERS), DO_TELL);
	assert_int_equal(step(&s, EVENT_ENDED), DO_MEND);
	assert_int_equal(s, STAGE_MENDING);
	assert_int_equal(step(&s, EVENT_MENDED), DO_PAUSE);
	assert_int_equal(step(&s, EVENT_PAUSE_OVER), DO_LAUNCH);
	assert_int_equal(s, STAGE_OFF);
	step(&s, EVENT_LAUNCHED);
	assert_int_equal(step(&s, EVENT_ENDED_BAD), DO_FAIL);
	assert_int_equal(s, STAGE_OFF);
}

static void handed_over_it_starts_without_mending(void **state)
{
	(void)state;
	enum node_stage s = STAGE_READY;
	assert_int_equal(step(&s, EVENT_HANDED), DO_NOTHING);
	assert_int_equal(s, STAGE_STARTING);
	assert_int_equal(step(&s, EVENT_HANDED), DO_NOTHING); /* adopted in the middle of it */
	assert_int_equal(s, STAGE_STARTING);
	assert_int_equal(step(&s, EVENT_ANSWERS), DO_TELL);
}

static void a_stop_wins(void **state)
{
	(void)state;
	for (int from = STAGE_OFF; from < STAGES; from++) {
		enum node_stage s = (enum node_stage)from;
		step(&s, EVENT_STOP);
		assert_true(s == STAGE_OFF || s == STAGE_STOPPING);
		if (s == STAGE_STOPPING) {
			assert_int_equal(step(&s, EVENT_ENDED_BAD), DO_GONE); /* we wanted it */
			assert_int_equal(s, STAGE_OFF);
		}
	}
}

static void unknown_pairs_name_both(void **state)
{
	(void)state;
	enum node_stage s = STAGE_PAUSING;
	enum node_action action;
	struct error err;
	assert_int_equal(stage_step(&s, EVENT_LAUNCHED, &action, &err), -1);
	assert_int_equal(err.code, ERROR_SOFTWARE);
	assert_non_null(strstr(err.text, "launched"));
	assert_non_null(strstr(err.text, "pausing"));
	assert_int_equal(s, STAGE_PAUSING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_life),
		cmocka_unit_test(handed_over_it_starts_without_mending),
		cmocka_unit_test(a_stop_wins),
		cmocka_unit_test(unknown_pairs_name_both),
	};
	return cmocka_run_group_tests_name("run_stage", tests, NULL, NULL);
}
