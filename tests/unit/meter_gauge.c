/* meter_gauge: a device measured by batches of several sizes, without a trainer. */
#include "meter/gauge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MOST (1u << 24)

struct emulated {
	double launch, speed, base, each;
	uint64_t saturation;
};

static double seconds_of(const struct emulated *e, uint64_t rows)
{
	return e->launch + (double)(rows > e->saturation ? rows : e->saturation) / e->speed;
}

/* Trains until it is measured; returns the number of batches. Each size's first batch is disturbed. */
static int measure(struct gauge *g, const struct emulated *e, uint64_t *sizes)
{
	int batches = 0;
	uint64_t size, before = 0;
	while ((size = gauge_size(g)) > 0) {
		double disturbed = size != before ? 3 : 1;
		gauge_take(g, size, seconds_of(e, size) * disturbed, e->base + e->each * (double)size);
		sizes[batches++] = before = size;
	}
	return batches;
}

static void measures(void **state)
{
	static const struct emulated e = {.launch = 0.02, .speed = 1000, .base = 0.1, .each = 0.002, .saturation = 40};
	static const uint64_t want[] = {100, 6, 6, 12, 12, 25, 25, 50, 50, 100, 100, 200, 200};
	struct gauge g;
	struct device d;
	uint64_t sizes[64];
	(void)state;
	gauge_begin(&g, 100, 1);
	assert_int_equal(measure(&g, &e, sizes), 13);
	assert_memory_equal(sizes, want, sizeof want);
	assert_int_equal(gauge_fit(&g, 0.5, MOST, &d), 0);
	assert_float_equal(d.profile.launch, 0.02, 1e-6);
	assert_float_equal(d.profile.speed, 1000, 1e-3);
	assert_in_range(d.profile.saturation, 39, 41);
	/* 0.1 + 0.002 n is 0.5 at 200 rows, and 0.95 at 425. */
	assert_in_range(d.max, 424, 425);
}

static void keeps_to_least(void **state)
{
	static const struct emulated e = {.launch = 0.01, .speed = 100, .saturation = 1};
	struct gauge g;
	struct device d;
	uint64_t sizes[64];
	(void)state;
	gauge_begin(&g, 32, 32);
	assert_int_equal(measure(&g, &e, sizes), 5);
	assert_int_equal(sizes[1], 32);
	assert_int_equal(sizes[4], 64);
	assert_int_equal(gauge_fit(&g, 0, MOST, &d), 0);
	assert_float_equal(d.profile.speed, 100, 1e-3);
	assert_int_equal(d.max, MOST); /* nothing is known of its memory */
	gauge_begin(&g, 8, 64); /* it may not be measured at all */
	assert_int_equal(gauge_size(&g), 0);
	assert_int_equal(gauge_fit(&g, 0, MOST, &d), -1);
}

/* Batches that are too short do not count, and do not last for ever. */
static void ends(void **state)
{
	static const struct emulated e = {.launch = 0.02, .speed = 1000, .saturation = 10};
	struct gauge g;
	struct device d;
	uint64_t size;
	int batches = 0;
	(void)state;
	gauge_begin(&g, 100, 1);
	while ((size = gauge_size(&g)) > 0 && batches++ < 100)
		gauge_take(&g, size < 60 ? size : 60, seconds_of(&e, size), 0);
	assert_true(batches < 100);
	assert_int_equal(gauge_fit(&g, 0, MOST, &d), -1); /* not even the first one was whole */

	gauge_begin(&g, 100, 1);
	gauge_take(&g, 100, 1, 0);
	for (batches = 0; (size = gauge_size(&g)) > 0 && batches < 100; batches++)
		gauge_take(&g, size < 60 ? size : 60, seconds_of(&e, size), 0);
	assert_true(batches < 100);
	assert_int_equal(gauge_fit(&g, 0, MOST, &d), 0); /* of 6, 12, 25, 50 */
	assert_float_equal(d.profile.launch, 0.02, 1e-6);

	gauge_begin(&g, 100, 1);
	for (int i = 0; i < 7; i++)
		gauge_take(&g, gauge_size(&g), 0.1, 0);
	gauge_end(&g); /* larger ones do not fit */
	assert_int_equal(gauge_size(&g), 0);
	assert_int_equal(gauge_fit(&g, 0, 20, &d), 0);
	assert_int_equal(d.max, 20);
	assert_int_equal(d.profile.saturation, 20);
}

static void memory(void **state)
{
	struct emulated e = {.launch = 0.01, .speed = 100, .saturation = 1, .base = 0.2, .each = 0.00004};
	struct gauge g;
	struct device d;
	uint64_t sizes[64];
	(void)state;
	gauge_begin(&g, 100, 1); /* it grows by less than a hundredth */
	measure(&g, &e, sizes);
	assert_int_equal(gauge_fit(&g, 0.2, MOST, &d), 0);
	assert_int_equal(d.max, MOST);
	e.each = 0.01; /* it is full before the largest */
	gauge_begin(&g, 100, 1);
	measure(&g, &e, sizes);
	assert_int_equal(gauge_fit(&g, 2.2, MOST, &d), 0);
	assert_in_range(d.max, 74, 75);
	assert_int_equal(gauge_fit(&g, 0, 300, &d), 0); /* that is known to fit */
	assert_int_equal(d.max, 300);
	assert_int_equal(gauge_fit(&g, 5, MOST, &d), 0);
	assert_int_equal(d.max, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(measures), cmocka_unit_test(keeps_to_least),
					   cmocka_unit_test(ends), cmocka_unit_test(memory)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
