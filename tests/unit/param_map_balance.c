/* param_map_balance: bounds by what is asked of places. */
#include "param/map_balance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define RANGES 64
#define PLACES (MAP_PLACES / RANGES)

static struct map now, out;
static struct map_load range[RANGES];
static struct map_balance result;

/* Each range as much, but for `hot` of them from `first` on: `times` as much. */
static void heat(size_t first, size_t hot, double times)
{
	for (size_t i = 0; i < RANGES; i++)
		range[i] = (struct map_load){.begin = i * PLACES,
					     .places = PLACES,
					     .load = i >= first && i < first + hot ? times : 1.0};
}

static double work(uint32_t part)
{
	double sum = 0.0;

	for (size_t i = 0; i < RANGES; i++) {
		uint64_t a = range[i].begin, b = a + PLACES;
		a = a > out.key_begin[part] ? a : out.key_begin[part];
		b = b < out.key_begin[part + 1] ? b : out.key_begin[part + 1];
		sum += a < b ? range[i].load * (double)(b - a) / (double)PLACES : 0.0;
	}
	return sum;
}

static void an_even_load_is_left_alone(void **state)
{
	(void)state;
	map_even(&now, 4, 1000);
	heat(0, 0, 1.0);
	assert_int_equal(map_balance(&out, &now, 0.001, range, RANGES, 0.1, &result), 0);
	assert_memory_equal(&out, &now, sizeof now);
	assert_true(result.before > 0.999 && result.before < 1.001);
	/* A little is not worth a move. */
	heat(0, 16, 1.05);
	assert_int_equal(map_balance(&out, &now, 0.0, range, RANGES, 0.1, &result), 0);
	/* Nothing was asked for. */
	heat(0, RANGES, 0.0);
	assert_int_equal(map_balance(&out, &now, 0.001, range, RANGES, 0.1, &result), 0);
	map_even(&now, 1, 1000);
	heat(0, 4, 50.0);
	assert_int_equal(map_balance(&out, &now, 0.001, range, RANGES, 0.1, &result), 0);
}

static void a_hot_part_is_split(void **state)
{
	(void)state;
	map_even(&now, 4, 1000);
	now.version = 5;
	heat(16, 8, 9.0); /* in part 1: 16 + 8 * 8 = 80 of 128 */
	assert_int_equal(map_balance(&out, &now, 0.0, range, RANGES, 0.1, &result), 1);
	assert_int_equal(out.version, 6);
	assert_int_equal(result.busiest, 1);
	assert_true(result.before > 2.49 && result.before < 2.51);
	assert_true(result.after < 1.001);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(work(i) > 31.9 && work(i) < 32.1);
	assert_int_equal(out.key_begin[0], 0);
	assert_int_equal(out.key_begin[4], MAP_PLACES);
	assert_int_equal(out.dense_begin[2], 500);
	/* Done twice, nothing is left to do. */
	now = out;
	assert_int_equal(map_balance(&out, &now, 0.0, range, RANGES, 0.1, &result), 0);
}

/* The dense vector is even, so that little can be gained by keys. */
static void the_vector_counts(void **state)
{
	(void)state;
	map_even(&now, 2, 1000);
	heat(0, 32, 3.0);
	assert_int_equal(map_balance(&out, &now, 1.0, range, RANGES, 0.1, &result), 0);
	/* It was uneven before: it becomes even. */
	now.dense_begin[1] = 900;
	assert_int_equal(map_balance(&out, &now, 1.0, range, RANGES, 0.1, &result), 1);
	assert_int_equal(out.dense_begin[1], 500);
	assert_true(result.after < 1.01);
}

/* One range has it all: it is cut, as if its places were alike. */
static void one_range_is_cut(void **state)
{
	(void)state;
	map_even(&now, 3, 0);
	heat(0, RANGES, 0.0);
	range[63].load = 10.0;
	assert_int_equal(map_balance(&out, &now, 0.0, range, RANGES, 0.1, &result), 1);
	assert_true(result.before > 2.99);
	assert_true(result.after < 1.001);
	assert_true(out.key_begin[1] > range[63].begin);
	assert_true(out.key_begin[1] < out.key_begin[2]);
	assert_true(out.key_begin[2] < MAP_PLACES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_even_load_is_left_alone),
		cmocka_unit_test(a_hot_part_is_split),
		cmocka_unit_test(the_vector_counts),
		cmocka_unit_test(one_range_is_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
