/* Which bytes are letters of UTF-8. */
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void letters_have_a_length(void **state)
{
	(void)state;
	assert_int_equal(utf8_length("a"), 1);
	assert_int_equal(utf8_length("\xc3\xa9"), 2);
	assert_int_equal(utf8_length("\xe2\x96\x81"), 3);
	assert_int_equal(utf8_length("\xf0\x9f\x98\x80"), 4);
}

static void other_bytes_have_none(void **state)
{
	(void)state;
	static const char *const none[] = {"\x80",     "\xc3",         "\xc3(",
					   "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
					   "\xf8",     "\xf4\x90\x80\x80"};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		assert_int_equal(utf8_length(none[i]), 0);
}

static void a_text_is_whole_characters(void **state)
{
	(void)state;
	assert_true(utf8_is("", 0));
	assert_true(utf8_is("a\0\xc3\xa9", 4));
	assert_false(utf8_is("\xc3\xa9", 1)); /* what stands behind it is not its */
	assert_false(utf8_is("a\xff", 2));
}

static void plain(const char *text, const char *want)
{
	char out[64];
	snprintf(out, sizeof out, "%s", text);
	utf8_plain(out);
	assert_string_equal(out, want);
}

static void what_is_plain_stays(void **state)
{
	(void)state;
	plain("", "");
	plain("w0 \xc3\xa9t\xc3\xa9 <b>", "w0 \xc3\xa9t\xc3\xa9 <b>");
	plain("a\nb\x7f\x1b[1m", "a?b??[1m");
	plain("\xc3", "?");
	plain("x\xc2\x9by", "x??y"); /* a control character of two bytes */
	plain("\xff\xfe\xe2\x96", "????");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(letters_have_a_length),
		cmocka_unit_test(other_bytes_have_none),
		cmocka_unit_test(a_text_is_whole_characters),
		cmocka_unit_test(what_is_plain_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
