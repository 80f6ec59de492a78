/* What a snapshot says of the job besides its nodes, and when a solution is asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "solve/facts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void facts_list(const char *name, const char *value, void *arg)
{
	char *text = arg;
	snprintf(text + strlen(text), 400 - strlen(text), "%s=%s ", name, value);
}

static void puts_what_is_known(void **state)
{
	char text[400] = "";
	struct facts f = {.samples = 100, .done = 120, .rate = NAN, .pending = NAN,
			  .restart_worker = 0.25, .restart_server = NAN, .sync = "ssp:3"};
	(void)state;
	facts_put(&f, facts_list, text);
	assert_string_equal(text, "samples-left=0 backup-workers=-1 restart-worker=0.25 sync=ssp:3 ");
	*text = '\0';
	f = (struct facts){.samples = 100, .done = 20, .rate = 8, .pending = 3, .may_leave = 1, .backup = 2,
			   .restart_worker = NAN, .restart_server = 1, .restart_all = 1, .sync = "bsp"};
	facts_put(&f, facts_list, text);
	assert_string_equal(text, "samples-left=80 rate=8 pending=3 backup-workers=2 restart-server=1 "
				  "restart-all=1 sync=bsp ");
}

/* At once when all have reported, and then on a grid: small delays do not add up. */
static void decides_in_time(void **state)
{
	(void)state;
	assert_false(facts_may_decide(100, 105, 10, 0, 0));
	assert_true(facts_may_decide(100, 105, 10, 0, 1));
	assert_true(facts_may_decide(100, 110, 10, 0, 0));
	assert_false(facts_may_decide(105, 114, 10, 1, 1));
	/* 0.3 + 0.1 is rounded: the moment that was planned is due. */
	assert_true(facts_may_decide(0.3, 0.3 + 0.1, 0.1, 1, 0));
	assert_true(facts_decided(100, 105, 10, 0) == 105);
	assert_true(facts_decided(105, 115.2, 10, 1) == 115);
	assert_true(facts_decided(105, 131, 10, 1) == 131); /* one was missed */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(puts_what_is_known),
		cmocka_unit_test(decides_in_time),
	};
	return cmocka_run_group_tests_name("solve_facts", tests, NULL, NULL);
}
