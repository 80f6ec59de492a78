/* param_map: every element and key has one part, the one that paceline-protocol(7) names. */
#include "param/layout.h"
#include "param/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define UNDO 244002641u /* times a place is the key there */

static struct map map;

static void check_key(uint32_t key, uint32_t n)
{
	assert_int_equal(map_part_of_key(&map, key), (uint64_t)(uint32_t)(key * 2654435761u) * n >> 32);
}

static void an_even_map_is_the_published_one(void **state)
{
	static const uint32_t keys[] = {0, 1, 2, 3, 1000, 0x7fffffff, 0x80000000, UINT32_MAX};

	(void)state;
	for (uint32_t n = 1; n <= MAP_PARTS_MAX; n = n < 40 ? n + 1 : n * 2 - 7) {
		map_even(&map, n, 1001);
		assert_int_equal(map.parts, n);
		assert_int_equal(map.dense_begin[0], 0);
		assert_int_equal(map.dense_begin[n], 1001);
		assert_int_equal(map.key_begin[0], 0);
		assert_int_equal(map.key_begin[n], MAP_PLACES);
		for (uint64_t i = 0; i < n; i++) {
			uint32_t place = (uint32_t)map.key_begin[i];
			assert_int_equal(map.dense_begin[i], i * 1001 / n);
			check_key(place * UNDO, n);
			check_key((place - 1) * UNDO, n);
		}
		for (uint32_t k = 0; k < 1000; k++)
			check_key(k < 8 ? keys[k] : k * 2246822519u, n);
	}
	map_even(&map, MAP_PARTS_MAX, LAYOUT_DENSE_MAX);
	assert_int_equal(map.dense_begin[MAP_PARTS_MAX], LAYOUT_DENSE_MAX);
}

static void keys_are_spread(void **state)
{
	(void)state;
	for (uint32_t n = 1; n < 20; n++) {
		uint32_t count[20] = {0};
		map_even(&map, n, 0);
		for (uint32_t key = 0; key < 20000; key++)
			count[map_part_of_key(&map, key)]++;
		for (uint32_t i = 0; i < n; i++)
			assert_in_range(count[i], 20000 / n * 9 / 10, 20000 / n * 11 / 10);
	}
}

/* Ranges of any length, some of them empty. */
static void an_uneven_map_is_followed(void **state)
{
	static const uint64_t begin[] = {0, 0, 1, 10, 10, MAP_PLACES / 2, MAP_PLACES - 1, MAP_PLACES};

	(void)state;
	map_even(&map, 7, 0);
	for (size_t i = 0; i < 8; i++)
		map.key_begin[i] = begin[i];
	for (uint32_t k = 0; k < 2000; k++) {
		uint32_t key = k < 20 ? k * UNDO : k * 2246822519u; /* the first places, and others */
		uint32_t part = map_part_of_key(&map, key);
		assert_true(map_place(key) >= begin[part] && map_place(key) < begin[part + 1]);
	}
	assert_int_equal(map_part_of_key(&map, 0), 1);
	assert_int_equal(map_part_of_key(&map, UNDO), 2);
	assert_int_equal(map_part_of_key(&map, UINT32_MAX * UNDO), 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_even_map_is_the_published_one),
		cmocka_unit_test(keys_are_spread),
		cmocka_unit_test(an_uneven_map_is_followed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
