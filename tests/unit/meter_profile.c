/* meter_profile: times of steps in, launch, speed and saturation out; which batches a report covers. */
#include "meter/profile.h"
#include "meter/times.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct profile_point point[32];

/* Sizes 1, 2, 4, ... on a device, each time off by up to `noise` of itself. */
static struct profile fit(size_t count, double launch, double speed, uint64_t saturation,
			  double noise)
{
	struct profile out;
	for (size_t i = 0; i < count; i++) {
		uint64_t size = (uint64_t)1 << i, most = size > saturation ? size : saturation;
		double off = 1 + noise * ((double)(i * 7 % 5) / 4); /* late only, never early */
		point[i] = (struct profile_point){size,
						  (launch + (double)most / speed) * off};
	}
	profile_fit(point, count, &out);
	return out;
}

static void near(double got, double want, double part)
{
	if (!(fabs(got - want) <= want * part + 1e-12))
		fail_msg("%.9g is not %.9g", got, want);
}

static void devices_come_back(void **state)
{
	(void)state;
	static const struct profile device[] = {
		{0, 1000, 1},    {0.01, 1000, 1},  {0.01, 1000, 64}, {0, 400, 32},
		{0.1, 10000, 1}, {0.002, 2e5, 48}, {0, 1e6, 1}};
	for (size_t i = 0; i < sizeof device / sizeof *device; i++) {
		const struct profile *d = &device[i];
		struct profile got = fit(11, d->launch, d->speed, d->saturation, 0);
		near(got.launch, d->launch, 1e-6);
		near(got.speed, d->speed, 1e-6);
		assert_int_equal(got.saturation, d->saturation);
		got = fit(11, d->launch, d->speed, d->saturation, 0.02);
		near(got.speed, d->speed, 0.04);
		double level = d->launch + (double)d->saturation / d->speed;
		near(got.launch + (double)got.saturation / got.speed, level, 0.05);
	}
}

static void one_point_above_the_knee_gives_a_line(void **state)
{
	(void)state;
	struct profile got = fit(8, 0.01, 1000, 64, 0); /* 1 .. 64 flat, 128 */
	near(got.speed, 1000, 1e-6);
	near(got.launch, 0.01, 1e-6);
	assert_int_equal(got.saturation, 64);
}

/* All that is known is that so many samples take so long. */
static void a_device_that_is_never_full(void **state)
{
	(void)state;
	struct profile got = fit(6, 0.25, 1000, 500, 0.01);
	assert_int_equal(got.saturation, 32);
	near(got.launch + 32 / got.speed, 0.75, 0.01);
	got = fit(1, 0, 100, 1, 0);
	assert_int_equal(got.saturation, 1);
	near(got.speed, 100, 1e-9);
}

/* Caches: the last sizes are slower a sample than the first. No launch comes out below 0. */
static void times_that_bend_upwards(void **state)
{
	(void)state;
	struct profile got;
	for (size_t i = 0; i < 8; i++) {
		double n = (double)((uint64_t)1 << i);
		point[i] = (struct profile_point){(uint64_t)1 << i, 0.001 * n * (1 + n / 200)};
	}
	profile_fit(point, 8, &got);
	assert_true(got.launch >= 0);
	assert_true(got.speed > 500 && got.speed < 1000);
	assert_int_equal(got.saturation, 1);
}

/* ---- tally ---- */

static const struct tally_batch one = {.time = 1, .compute = 0.5, .comm = 0.25, .wait = 3, .samples = 10},
				two = {.time = 2, .compute = 1, .comm = 0.5, .wait = 5, .samples = 21};

static void early_reports_then_every_so_many(void **state)
{
	(void)state;
	struct tally t;
	struct tally_batch mean;
	const struct tally_rules rules = {10, 1e9};
	tally_start(&t, 0);
	char due[40] = {0};
	for (int i = 0; i < 38; i++) {
		int is = tally_add(&t, &rules, &one, 0);
		due[i] = is ? 'x' : '.';
		if (is)
			tally_take(&t, 0, &mean);
	}
	/* batches 1, 2, 4, 8, then ten after each report */
	assert_string_equal(due, "xx.x...x.........x.........x.........x");
}

static void time_makes_one_due(void **state)
{
	(void)state;
	struct tally t;
	struct tally_batch mean;
	const struct tally_rules rules = {1000, 0.5};
	tally_start(&t, 100);
	for (int i = 0; i < 8; i++)
		tally_add(&t, &rules, &one, 100);
	assert_int_equal(tally_take(&t, 100, &mean), 8);
	assert_false(tally_add(&t, &rules, &one, 100.4));
	assert_true(tally_add(&t, &rules, &one, 100.5));
	assert_int_equal(tally_take(&t, 100.5, &mean), 2);
	assert_false(tally_add(&t, &rules, &one, 100.9));
	assert_true(tally_add(&t, &rules, &one, 101.1));
}

static void a_report_is_the_mean(void **state)
{
	(void)state;
	struct tally t;
	struct tally_batch mean = {0};
	const struct tally_rules rules = {10, 10};
	tally_start(&t, 0);
	assert_int_equal(tally_take(&t, 0, &mean), 0);
	tally_add(&t, &rules, &one, 0);
	tally_add(&t, &rules, &two, 0);
	assert_int_equal(tally_take(&t, 0, &mean), 2);
	assert_true(mean.time == 1.5 && mean.compute == 0.75 && mean.comm == 0.375 &&
		    mean.wait == 4);
	assert_int_equal(mean.samples, 16); /* 15.5, rounded */
	tally_add(&t, &rules, &two, 0);
	assert_int_equal(tally_take(&t, 0, &mean), 1);
	assert_true(mean.time == 2 && mean.samples == 21);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_come_back),
		cmocka_unit_test(one_point_above_the_knee_gives_a_line),
		cmocka_unit_test(a_device_that_is_never_full),
		cmocka_unit_test(times_that_bend_upwards),
		cmocka_unit_test(early_reports_then_every_so_many),
		cmocka_unit_test(time_makes_one_due),
		cmocka_unit_test(a_report_is_the_mean),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
