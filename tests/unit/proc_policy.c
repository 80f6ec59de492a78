/* What a node's end means, and the table of a node's states. */
#include "proc/policy.h"
#include "run/show.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static enum end_class exited(int status)
{
	struct node_end end = {.seen = 1, .status = status};
	return policy_class(&end);
}

static enum end_class died(int sig)
{
	struct node_end end = {.seen = 1, .signal = sig};
	return policy_class(&end);
}

static void classes(void **state)
{
	(void)state;
	const int retryable[] = {69, 71, 74, 75, 137, 143},
		  not [] = {1, 64, 65, 66, 70, 73, 77, 78, 127, 139};
	const int kills[] = {SIGKILL, SIGTERM, SIGHUP, SIGPIPE},
		  crashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
	assert_int_equal(exited(0), END_CLEAN);
	for (size_t i = 0; i < sizeof retryable / sizeof *retryable; i++)
		assert_int_equal(exited(retryable[i]), END_RETRYABLE);
	for (size_t i = 0; i < sizeof not / sizeof *not ; i++)
		assert_int_equal(exited(not [i]), END_UNRETRYABLE);
	for (size_t i = 0; i < sizeof kills / sizeof *kills; i++)
		assert_int_equal(died(kills[i]), END_RETRYABLE);
	for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
		assert_int_equal(died(crashes[i]), END_UNRETRYABLE);
	struct node_end unseen = {0};
	assert_int_equal(policy_class(&unseen), END_RETRYABLE);
}

/* How long a node took to start is no merit, nor that it stood there and did nothing. */
static void did_well(void **state)
{
	(void)state;
	assert_false(policy_did_well(0, 1));
	assert_false(policy_did_well(9.9, 1));
	assert_true(policy_did_well(10, 1));
	assert_false(policy_did_well(1e6, 0));
}

static void end_status(void **state)
{
	(void)state;
	struct node_end end = {.seen = 1, .status = 65};
	assert_int_equal(policy_end_status(&end), 65);
	end = (struct node_end){.seen = 1, .signal = SIGSEGV};
	assert_int_equal(policy_end_status(&end), 128 + SIGSEGV);
}

static void pauses_double_up_to_five_seconds(void **state)
{
	(void)state;
	assert_true(policy_pause(1) == 0.1);
	assert_true(policy_pause(2) == 0.2);
	assert_true(policy_pause(6) == 3.2);
	assert_true(policy_pause(7) == 5);
	assert_true(policy_pause(UINT64_MAX) == 5);
}

static enum node_action step(enum node_stage *stage, enum node_event event)
{
	enum node_action action;
	struct error err;
	assert_int_equal(policy_step(stage, event, &action, &err), 0);
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
	assert_int_equal(policy_step(&s, EVENT_LAUNCHED, &action, &err), -1);
	assert_int_equal(err.code, ERROR_SOFTWARE);
	assert_non_null(strstr(err.text, "launched"));
	assert_non_null(strstr(err.text, "pausing"));
	assert_int_equal(s, STAGE_PAUSING);
}

static void rows_for_people_and_programs(void **state)
{
	(void)state;
	struct run_row row = {.iteration = 8,
			      .epoch = 1,
			      .epochs = 2,
			      .loss = 0.5,
			      .samples = 512,
			      .total = 1024,
			      .rate = 100,
			      .left = 5.12,
			      .time = 5,
			      .slowest = "w3",
			      .ratio = 1.5};
	char text[SHOW_LINE_MAX];
	show_line(&row, text, sizeof text);
	assert_string_equal(text,
			    "step 8  epoch 1/2  loss 0.5000  100 samples/s  0:05 left  w3 x1.50");
	show_bar(&row, 40, text, sizeof text);
	assert_string_equal(text, "[############............]  50%  step 8 ");
	show_record(&row, text, sizeof text);
	assert_string_equal(text, "row iteration=8 epoch=1 epochs=2 loss=0.5 samples-done=512 "
				  "samples=1024 samples-per-second=100 left=5.12 slowest=w3 "
				  "ratio=1.5 time=5.000000\n");
	row.loss = row.rate = row.left = row.ratio = NAN;
	row.slowest[0] = '\0';
	show_line(&row, text, sizeof text);
	assert_string_equal(text, "step 8  epoch 1/2");
	show_time(3723.4, text, sizeof text);
	assert_string_equal(text, "1:02:03");
	show_time(NAN, text, sizeof text);
	assert_string_equal(text, "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes),
		cmocka_unit_test(did_well),
		cmocka_unit_test(end_status),
		cmocka_unit_test(pauses_double_up_to_five_seconds),
		cmocka_unit_test(a_life),
		cmocka_unit_test(handed_over_it_starts_without_mending),
		cmocka_unit_test(a_stop_wins),
		cmocka_unit_test(unknown_pairs_name_both),
		cmocka_unit_test(rows_for_people_and_programs),
	};
	return cmocka_run_group_tests_name("run_policy", tests, NULL, NULL);
}
