/* When a node is started again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proc/again.h"

/* How long a node took to start is no merit, nor that it stood there and did nothing. */
static void did_well(void **state)
{
	(void)state;
	assert_false(again_did_well(0, 1));
	assert_false(again_did_well(9.9, 1));
	assert_true(again_did_well(10, 1));
	assert_false(again_did_well(1e6, 0));
}

static void pauses_double_up_to_five_seconds(void **state)
{
	(void)state;
	assert_true(again_pause(1) == 0.1);
	assert_true(again_pause(2) == 0.2);
	assert_true(again_pause(6) == 3.2);
	assert_true(again_pause(7) == 5);
	assert_true(again_pause(UINT64_MAX) == 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(did_well),
		cmocka_unit_test(pauses_double_up_to_five_seconds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
