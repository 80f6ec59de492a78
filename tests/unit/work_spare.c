/* How long a spare waits for a supervisor that is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "work/result.h"
#include "work/spare.h"

#define WAIT 0.05
#define LONGER 0.2 /* than that, and than the pause between attempts */

static void who_asks_again_waits_anew(void **state)
{
	struct spare s = {.path = "/nobody/is/here.sock", .id = "w0", .wait_seconds = WAIT};
	struct error err;
	(void)state;
	assert_int_equal(spare_try(&s, &err), WORK_WAIT);
	clock_sleep(LONGER);
	spare_close(&s); /* as when its trainer was stopped for so long */
	assert_int_equal(spare_try(&s, &err), WORK_WAIT);
	clock_sleep(LONGER);
	assert_int_equal(spare_try(&s, &err), -1);
	assert_int_equal(err.code, ERROR_UNAVAILABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(who_asks_again_waits_anew)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
