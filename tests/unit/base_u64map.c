/* u64map: what is there is found, what is removed is not, whatever the keys are. */
#include "base/u64map.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define KEYS 768 /* all that a room of 1024 takes */
#define STEPS 100000

/* Puts and removes them in any order; each step asks for one of them, too. */
static void any_order(const uint64_t key[KEYS])
{
	static char value[KEYS], is_there[KEYS];
	struct u64map map = {0};
	uint64_t seed = 1;
	size_t count = 0;
	assert_null(u64map_get(&map, key[0]));
	u64map_remove(&map, key[0]);
	for (size_t i = 0; i < KEYS; i++)
		is_there[i] = 0;
	for (size_t step = 0; step < STEPS; step++) {
		size_t i = (size_t)(random_next(&seed) % KEYS), asked = (size_t)(random_next(&seed) % KEYS);
		/* For some time it gets fuller, then emptier. */
		int puts = random_next(&seed) % 10 < (step / 5000 % 2 ? 2 : 8);
		if (puts && !is_there[i]) {
			assert_int_equal(u64map_reserve(&map, count + 1), 0);
			u64map_put(&map, key[i], &value[i]);
			is_there[i] = 1;
			count++;
		} else if (!puts) {
			u64map_remove(&map, key[i]);
			count -= (size_t)is_there[i];
			is_there[i] = 0;
		}
		assert_int_equal(map.count, count);
		assert_ptr_equal(u64map_get(&map, key[i]), is_there[i] ? &value[i] : NULL);
		assert_ptr_equal(u64map_get(&map, key[asked]), is_there[asked] ? &value[asked] : NULL);
	}
	for (size_t at = 0; u64map_next(&map, &at); count--)
		;
	assert_int_equal(count, 0);
	u64map_free(&map);
}

static void in_a_row(void **state)
{
	uint64_t key[KEYS];
	(void)state;
	for (size_t i = 0; i < KEYS; i++)
		key[i] = i;
	any_order(key);
}

/* So each line of the cache has one that belongs there, and all want the same slot of it. */
static void each_fourth(void **state)
{
	uint64_t key[KEYS];
	(void)state;
	for (size_t i = 0; i < KEYS; i++)
		key[i] = 4 * i;
	any_order(key);
}

static void any_numbers(void **state)
{
	uint64_t key[KEYS], seed = 2;
	(void)state;
	for (size_t i = 0; i < KEYS; i++)
		key[i] = random_next(&seed);
	key[0] = UINT64_MAX;
	any_order(key);
}

/* As somebody could choose them: they all belong into the same line, or into the two last ones of a room of 1024. */
static void same_home(void **state)
{
	uint64_t key[KEYS], k = 0;
	(void)state;
	for (size_t i = 0; i < KEYS; k++)
		if ((k / 4 * 0x9e3779b97f4a7c15u >> 20) % 256 >= 254)
			key[i++] = k;
	any_order(key);
}

static void room_is_reserved(void **state)
{
	struct u64map map = {0};
	(void)state;
	assert_int_equal(u64map_reserve(&map, 48), 0);
	assert_int_equal(map.room, 64);
	for (uint64_t i = 0; i < 48; i++)
		u64map_put(&map, 4 * i, &map);
	assert_int_equal(map.room, 64);
	assert_int_equal(map.count, 48);
	assert_ptr_equal(u64map_get(&map, 4), &map);
	u64map_free(&map);
	assert_null(u64map_get(&map, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_a_row), cmocka_unit_test(each_fourth), cmocka_unit_test(any_numbers),
		cmocka_unit_test(same_home), cmocka_unit_test(room_is_reserved)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
