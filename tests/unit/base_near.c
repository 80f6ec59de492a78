/* base/near: hints for mistyped words. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/near.h"

#include <string.h>

static void test_distance(void **state)
{
	(void)state;
	static const struct {
		const char *a, *b;
		size_t distance;
	} cases[] = {
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"set", "st", 1},         /* one taken away */
		{"set", "seat", 1},       /* one added */
		{"set", "sat", 1},        /* one changed */
		{"set", "est", 1},        /* neighbours swapped */
		{"BATCH", "batch", 0},    /* capitals do not count */
		{"EPOHCS", "EPOCHS", 1},
		{"kitten", "sitting", 3},
		{"ca", "abc", 3},         /* a swap is not changed again */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(near_distance(cases[i].a, cases[i].b), cases[i].distance);
		assert_int_equal(near_distance(cases[i].b, cases[i].a), cases[i].distance);
	}
	char longest[NEAR_WORD_MAX + 2];
	memset(longest, 'a', sizeof longest);
	longest[NEAR_WORD_MAX] = '\0';
	assert_int_equal(near_distance(longest, "a"), NEAR_WORD_MAX - 1);
	longest[NEAR_WORD_MAX] = 'a';
	longest[NEAR_WORD_MAX + 1] = '\0';
	assert_true(near_distance(longest, "a") == SIZE_MAX);
	assert_true(near_distance("a", longest) == SIZE_MAX);
}

static void test_nearest(void **state)
{
	(void)state;
	static const char *const words[] = {"status", "stop", "list", "logs"};
	struct near near = {0};
	assert_false(near_enough(&near, "stats"));
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		near_look(&near, "stats", words[i]);
	assert_string_equal(near.word, "status");
	assert_true(near_enough(&near, "stats"));
	assert_false(near_enough(&near, "q"));
	near = (struct near){0};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		near_look(&near, "dance", words[i]);
	assert_non_null(near.word); /* some word is the nearest */
	assert_false(near_enough(&near, "dance"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distance),
		cmocka_unit_test(test_nearest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
