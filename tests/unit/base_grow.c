/* base/grow: room, its limits, and what stays when there is no memory. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

static void test_room(void **state)
{
	(void)state;
	uint64_t *list = NULL;
	size_t room = 0, copies = 0, before = 0;
	for (size_t n = 0; n < 100000; n++) {
		assert_int_equal(GROW(list, room, n + 1), 0);
		assert_true(room >= n + 1);
		copies += room != before ? n : 0;
		before = room;
		list[n] = n;
	}
	assert_true(copies < 200000);
	for (size_t n = 0; n < 100000; n++)
		assert_int_equal(list[n], n);
	uint64_t *same = list;
	assert_int_equal(GROW(list, room, room), 0);
	assert_ptr_equal(list, same);
	assert_int_equal(GROW(list, room, 1000000), 0);
	assert_true(room >= 1000000);
	free(list);
}

static void test_large_items(void **state)
{
	(void)state;
	struct {
		char bytes[1000];
	} *list = NULL;
	size_t room = 0;
	assert_int_equal(GROW(list, room, 1), 0);
	assert_true(room >= 1 && room <= 4);
	free(list);
}

static void test_two_arrays_with_one_room(void **state)
{
	(void)state;
	struct {
		char bytes[1000];
	} *large = NULL;
	char *small = NULL;
	size_t room = 0;
	for (size_t n = 0; n < 100; n++) {
		size_t copy = room;
		assert_int_equal(GROW(large, copy, n + 1), 0);
		assert_int_equal(GROW(small, room, n + 1), 0);
		assert_int_equal(copy, room);
	}
	free(large);
	free(small);
}

static void test_no_such_size(void **state)
{
	(void)state;
	uint64_t *list = NULL, *same;
	size_t room = 0;
	assert_int_equal(GROW(list, room, 10), 0);
	same = list;
	size_t kept = room;
	assert_int_equal(GROW(list, room, SIZE_MAX), -1);
	assert_int_equal(GROW(list, room, SIZE_MAX / 8 + 2), -1);
	assert_ptr_equal(list, same);
	assert_int_equal(room, kept);
	/* A room that can't be doubled. */
	room = SIZE_MAX / 2 + 1;
	assert_int_equal(GROW(list, room, room + 1), -1);
	assert_ptr_equal(list, same);
	free(list);
}

static void test_stream(void **state)
{
	(void)state;
	char *text;
	size_t len;
	FILE *out = grow_stream(&text, &len);
	assert_non_null(out);
	for (int i = 0; i < 10000; i++)
		fprintf(out, "%d\n", i);
	assert_int_equal(fflush(out), 0);
	assert_int_equal(len, 48890);
	fputs("end", out);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(strlen(text), 48893);
	assert_string_equal(text + 48885, "9999\nend");
	free(text);
	assert_int_equal(fclose(grow_stream(&text, &len)), 0);
	assert_string_equal(text, "");
	free(text);
}

static void test_stream_without_memory(void **state)
{
	(void)state;
	char *text;
	size_t len;
	FILE *out = grow_stream(&text, &len);
	fputs("a part", out);
	assert_int_equal(fflush(out), 0);
	len = SIZE_MAX - 4; /* there is no memory for that */
	fputs("another part", out);
	assert_int_not_equal(fflush(out), 0);
	len = 6;
	fputs("the last part", out);
	assert_int_not_equal(fclose(out), 0);
	assert_string_equal(text, "a part");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_large_items),
		cmocka_unit_test(test_two_arrays_with_one_room),
		cmocka_unit_test(test_no_such_size),
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_stream_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
