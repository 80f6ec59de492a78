/* A command line word by word: order, what is one word, and its end. */
#include "base/argv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void words_stand_in_their_order(void **state)
{
	static const char *const expected[] = {"p", "--a", "", "x=7", "--n", "18446744073709551615",
					       "--r", "0.1",  "a,b,c"};
	size_t count = sizeof expected / sizeof *expected;
	struct argv a = {0};
	struct error err;
	(void)state;
	argv_add(&a, "p", "--a", "");
	argv_format(&a, "x=%d", 7);
	argv_u64(&a, "--n", UINT64_MAX);
	argv_real(&a, "--r", 0.1);
	argv_add(&a, "a");
	argv_more(&a, ",b");
	argv_more(&a, "");
	argv_more(&a, ",c");
	assert_int_equal(argv_end(&a, &err), 0);
	assert_int_equal(a.count, count);
	for (size_t i = 0; i < count; i++)
		assert_string_equal(a.word[i], expected[i]);
	assert_null(a.word[count]);
	argv_free(&a);
	assert_null(a.word);
}

static void what_is_not_whole_is_nothing(void **state)
{
	struct argv a = {0};
	struct error err;
	(void)state;
	argv_add(&a, "p");
	a.failed = 1; /* as it is without memory */
	argv_more(&a, "q");
	assert_int_equal(argv_end(&a, &err), -1);
	assert_int_equal(err.code, ERROR_OS);
	assert_null(a.word);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_stand_in_their_order),
		cmocka_unit_test(what_is_not_whole_is_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
