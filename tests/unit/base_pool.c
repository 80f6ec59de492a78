/* pool: objects are apart, each begins a line of the cache, and none is taken twice. */
#include "base/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OBJECTS 5000

static int by_address(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;
	return (x > y) - (x < y);
}

static void objects_are_apart(void **state)
{
	static const size_t sizes[] = {1, 8, 64, 65, 1000, 100000, 3000000};
	static char *object[OBJECTS];
	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct pool p = {.bytes = sizes[i]};
		size_t count = sizes[i] > 1000 ? 20 : OBJECTS;
		assert_int_equal(pool_reserve(&p, count / 2), 0);
		for (size_t round = 0; round < 3; round++) {
			for (size_t k = round == 0 ? 0 : count / 2; k < count; k++) {
				assert_non_null(object[k] = pool_take(&p));
				assert_int_equal((uintptr_t)object[k] % POOL_LINE, 0);
				memset(object[k], (int)k, sizes[i]);
			}
			qsort(object, count, sizeof *object, by_address);
			for (size_t k = 1; k < count; k++)
				assert_true((size_t)(object[k] - object[k - 1]) >= sizes[i]);
			for (size_t k = count / 2; k < count; k++)
				pool_give(&p, object[k]);
		}
		pool_give(&p, NULL);
		pool_free(&p);
		assert_int_equal(p.bytes, sizes[i]);
		assert_non_null(pool_take(&p)); /* it is an empty one */
		pool_free(&p);
	}
}

/* What was reserved is taken without more memory. */
static void reserved_is_there(void **state)
{
	struct pool p = {.bytes = 100};
	(void)state;
	assert_int_equal(pool_reserve(&p, 1000), 0);
	const struct pool_chunk *chunk = p.chunk;
	for (size_t i = 0; i < 1000; i++)
		pool_take(&p);
	assert_ptr_equal(p.chunk, chunk);
	pool_free(&p);
}

static void arrays_are_zero(void **state)
{
	(void)state;
	for (size_t bytes = 1; bytes < 10000000; bytes *= 7) {
		char *array = pool_array(bytes);
		assert_non_null(array);
		assert_int_equal((uintptr_t)array % POOL_LINE, 0);
		for (size_t i = 0; i < bytes; i++)
			assert_int_equal(array[i], 0);
		free(array);
	}
	assert_null(pool_array(SIZE_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_apart),
		cmocka_unit_test(reserved_is_there),
		cmocka_unit_test(arrays_are_zero),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
