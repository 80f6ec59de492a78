/* ps/ring: pieces of a memory, taken and given back at random; none overlaps another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ps/ring.h"

#include "base/random.h"

#include <string.h>

#define SIZE 1000

static void test_pieces(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct ring r = {.size = SIZE};
		struct {
			size_t from, bytes;
		} piece[SIZE];
		char used[SIZE] = {0};
		size_t first = 0, last = 0, wrapped = 0;
		uint64_t random = seed, most = 1 + random_next(&random) % 600;
		for (int i = 0; i < 900; i++) {
			size_t bytes = 1 + random_next(&random) % most, from;
			if (random_next(&random) % 2 && first < last) {
				memset(used + piece[first].from, 0, piece[first].bytes);
				ring_give(&r, piece[first].from, piece[first].bytes);
				first++;
			} else if (last < SIZE && ring_take(&r, bytes, &from)) {
				assert_true(from <= SIZE - bytes);
				assert_null(memchr(used + from, 1, bytes));
				memset(used + from, 1, bytes);
				wrapped += last > first && from < piece[last - 1].from;
				piece[last].from = from;
				piece[last++].bytes = bytes;
			} else
				assert_true(first < last || last == SIZE); /* an empty one has room */
		}
		assert_int_equal(r.inside, last - first);
		assert_true(wrapped > 0 || most < 10 || most > 500);
	}
}

static void test_limits(void **state)
{
	(void)state;
	struct ring r = {.size = SIZE};
	size_t from, other;
	assert_false(ring_take(&r, SIZE + 1, &from));
	assert_true(ring_take(&r, SIZE, &from));
	assert_int_equal(from, 0);
	assert_false(ring_take(&r, 1, &other));
	ring_give(&r, from, SIZE);
	assert_true(ring_take(&r, 600, &from));
	assert_true(ring_take(&r, 400, &other));
	ring_give(&r, from, 600);
	assert_false(ring_take(&r, 600, &from)); /* it would look empty */
	assert_true(ring_take(&r, 599, &from));
	assert_int_equal(from, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces),
					   cmocka_unit_test(test_limits)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
