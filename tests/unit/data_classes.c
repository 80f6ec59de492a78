/* The classes of a label: order, equal numbers, what is none of them. */
#include "data/classes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void add(struct classes *c, const char *text)
{
	assert_int_equal(classes_add(c, text, strlen(text), NULL), 0);
}

static void numbers_then_texts(void **unused)
{
	(void)unused;
	struct classes c = {0}, again = {0};
	static const char *const in[] = {"b",  "10", "a", "2",  "-1", "2.0", "+2",
					 "1e1", "B", "ab", "-0", "0"};
	static const char *const out[] = {"-1", "0", "2", "10", "B", "a", "ab", "b"};
	for (size_t i = 0; i < sizeof in / sizeof *in; i++)
		add(&c, in[i]);
	assert_int_equal(c.count, sizeof out / sizeof *out);
	for (size_t i = 0; i < c.count; i++) {
		assert_string_equal(c.value[i].text, out[i]);
		assert_int_equal(classes_find(&c, out[i], strlen(out[i])), i);
	}
	assert_int_equal(classes_find(&c, "10.0x", 4), 3);
	assert_int_equal(classes_find(&c, "abc", 3), CLASSES_NONE);
	assert_int_equal(classes_find(&c, "", 0), CLASSES_NONE);
	assert_int_equal(classes_find(&c, "3", 1), CLASSES_NONE);
	for (size_t i = c.count; i-- > 0;)
		add(&again, c.value[i].text);
	assert_true(classes_same(&c, &again));
	add(&again, "c");
	assert_false(classes_same(&c, &again));
	classes_free(&c);
	classes_free(&again);
}

static void too_many(void **unused)
{
	(void)unused;
	struct classes c = {0};
	struct error err = {0};
	char text[16];
	for (int i = 0; i < CLASSES_MAX; i++) {
		snprintf(text, sizeof text, "%d", i);
		add(&c, text);
	}
	add(&c, "7");
	assert_int_equal(classes_add(&c, "-7", 2, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	assert_non_null(strstr(err.text, "MODEL=linear"));
	classes_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_then_texts),
					   cmocka_unit_test(too_many)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
