/* Which status a failed call deserves. */
#include "base/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int code(int errnum, int given)
{
	struct error err;
	errno = errnum;
	assert_int_equal(error_errno(&err, given, "x", "can't be made"), -1);
	return err.code;
}

static void what_may_pass_is_tried_again(void **state)
{
	(void)state;
	assert_int_equal(code(EIO, ERROR_CANTCREAT), ERROR_IO);
	assert_int_equal(code(ENOSPC, ERROR_CANTCREAT), ERROR_IO);
	assert_int_equal(code(EMFILE, ERROR_CANTCREAT), ERROR_OS);
	assert_int_equal(code(ENOMEM, ERROR_CANTCREAT), ERROR_OS);
}

static void what_does_not_is_as_it_was_said(void **state)
{
	(void)state;
	assert_int_equal(code(ENOENT, ERROR_CANTCREAT), ERROR_CANTCREAT);
	assert_int_equal(code(EACCES, ERROR_CANTCREAT), ERROR_CANTCREAT);
	assert_int_equal(code(EROFS, ERROR_CANTCREAT), ERROR_CANTCREAT);
	assert_int_equal(code(EIO, ERROR_OS), ERROR_OS);
	assert_int_equal(code(EACCES, 0), ERROR_NOPERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_may_pass_is_tried_again),
		cmocka_unit_test(what_does_not_is_as_it_was_said),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
