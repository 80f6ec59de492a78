/* base/words: split as sh does, and joined so that the same words come back. */
#include "base/words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void splits(const char *text, size_t want, ...)
{
	char **item;
	size_t count;
	struct error err;
	va_list words;
	if (words_split(text, 100, &item, &count, &err) != 0)
		fail_msg("%s: %s", text, err.text);
	assert_int_equal(count, want);
	va_start(words, want);
	for (size_t i = 0; i < want; i++)
		assert_string_equal(item[i], va_arg(words, const char *));
	va_end(words);
	assert_null(item[count]);
	words_free(item, count);
}

static void test_words_are_those_of_sh(void **state)
{
	(void)state;
	splits("", 0);
	splits(" \t\n ", 0);
	splits("a.csv", 1, "a.csv");
	splits(" a.csv\tb.csv\nc.csv ", 3, "a.csv", "b.csv", "c.csv");
	splits("'my data.csv' b", 2, "my data.csv", "b");
	splits("\"my data.csv\" b", 2, "my data.csv", "b");
	splits("my\\ data.csv b", 2, "my data.csv", "b");
	splits("a'b c'd\"e f\"", 1, "ab cde f");
	splits("'it'\\''s' \"it's\" it\\'s", 3, "it's", "it's", "it's");
	splits("\"a\\\"b\\\\c\\$d\\`e\\f\"", 1, "a\"b\\c$d`e\\f");
	splits("'a\\b'", 1, "a\\b");
	splits("'' \"\"", 2, "", "");
	splits("$HOME *.csv", 2, "$HOME", "*.csv");
	splits("end\\", 1, "end\\");
}

static void test_a_word_for_a_shell(void **state)
{
	char out[64];
	(void)state;
	assert_string_equal(words_quote("a/b-c_1.csv", out, sizeof out), "a/b-c_1.csv");
	assert_string_equal(words_quote("", out, sizeof out), "''");
	assert_string_equal(words_quote("=ls", out, sizeof out), "'=ls'");
	assert_string_equal(words_quote("$(id)", out, sizeof out), "'$(id)'");
	assert_string_equal(words_quote("~/it's `id`", out, sizeof out), "'~/it'\\''s `id`'");
	assert_string_equal(words_quote("a;b", out, 5), "...");
	assert_string_equal(words_quote("abcd", out, 5), "abcd");
}

static void test_errors_hold_no_escape_sequence(void **state)
{
	struct error err;
	(void)state;
	error_set(&err, ERROR_DATA, "f\x1b[2J", "a\x9b" "b\xc2\x9b" "c\xc3\xa4\xa4\x7f\t");
	assert_string_equal(err.place, "f?[2J");
	assert_string_equal(err.text, "a?b??c\xc3\xa4\xa4??");
}

static void test_what_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why;
	} wrong[] = {{"a 'b c", "the single quote is not closed: 'b c"},
		     {"a \"b c", "the double quote is not closed: \"b c"},
		     {"O'Brien.csv", "the single quote is not closed: O'Brien.csv"},
		     {"a b c d", "more than 3 names"}};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char **item;
		size_t count;
		struct error err;
		assert_int_equal(words_split(wrong[i].text, 3, &item, &count, &err), -1);
		assert_int_equal(err.code, ERROR_CONFIG);
		assert_string_equal(err.text, wrong[i].why);
		assert_null(item);
	}
}

static void joins(char *const *item, size_t count, const char *want)
{
	char **again;
	size_t n;
	struct error err;
	char *text = words_join(item, count);
	assert_non_null(text);
	if (want)
		assert_string_equal(text, want);
	assert_int_equal(words_split(text, count, &again, &n, &err), 0);
	assert_int_equal(n, count);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(again[i], item[i]);
	words_free(again, n);
	free(text);
}

static void test_joined_words_come_back(void **state)
{
	(void)state;
	char *plain[] = {"/d/a.csv", "b$c*.csv"}, *quoted[] = {"my data.csv", "it's", "", "a\\b"};
	joins(plain, 2, "/d/a.csv b$c*.csv");
	joins(quoted, 4, "'my data.csv' 'it'\\''s' '' 'a\\b'");
	joins(plain, 0, "");
	/* Any bytes: names are not ours. */
	static const char alphabet[] = "ab '\"\\\t\n$`~*";
	uint32_t random = 1;
	for (int round = 0; round < 2000; round++) {
		char word[4][9];
		char *item[4];
		for (int i = 0; i < 4; i++) {
			size_t len = (random = random * 1664525u + 1013904223u) >> 29;
			for (size_t k = 0; k < len; k++) {
				random = random * 1664525u + 1013904223u;
				word[i][k] = alphabet[(random >> 16) % (sizeof alphabet - 1)];
			}
			word[i][len] = '\0';
			item[i] = word[i];
		}
		joins(item, 4, NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words_are_those_of_sh),
		cmocka_unit_test(test_a_word_for_a_shell),
		cmocka_unit_test(test_errors_hold_no_escape_sequence),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_joined_words_come_back),
	};
	return cmocka_run_group_tests_name("base_words", tests, NULL, NULL);
}
