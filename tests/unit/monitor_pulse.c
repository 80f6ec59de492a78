/* How long a node may be silent: exact cases, tick by tick as the supervisor ticks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "monitor/pulse.h"

#include <math.h>
#include <string.h>

#define TICK 0.25

/* As in deadline.c. */
static struct pulse_rules usual_rules(void)
{
	return (struct pulse_rules){.least = {600, 30, 30, 120, 60}};
}

/* n batches of so many seconds and samples. */
static void train(struct pulse *p, int n, double seconds, uint64_t samples)
{
	for (int i = 0; i < n; i++) {
		for (double t = 0; t < seconds - TICK / 2; t += TICK)
			pulse_tick(p, TICK, 1);
		pulse_work(p, samples);
	}
}

/* Seconds from its last sign of life until it is given up. */
static double found_after(struct pulse p, const struct pulse_rules *r, enum pulse_section section,
			  uint64_t samples)
{
	double t = 0;
	while (!pulse_hung(&p, r, section, samples) && t < 1e6) {
		pulse_tick(&p, TICK, 1);
		t += TICK;
	}
	return t;
}

static void two_second_batches_are_found_within_a_minute(void **state)
{
	struct pulse_rules r = usual_rules();
	struct pulse p = {0};
	(void)state;
	train(&p, 50, 2, 64);
	double t = found_after(p, &r, PULSE_BATCH, 64);
	assert_true(t > 30 && t < 60);
	struct pulse quick = {0};
	train(&quick, 50, TICK, 64);
	assert_true(fabs(found_after(quick, &r, PULSE_BATCH, 64) - 30) <= TICK);
}

/* What others take is not even asked: a batch is as long as this node's own. */
static void one_ten_times_slower_than_its_fellows_is_never_hit(void **state)
{
	struct pulse_rules r = usual_rules();
	struct pulse p = {0};
	(void)state;
	train(&p, 1, 20, 64); /* fellows: 2 s */
	for (int batch = 0; batch < 200; batch++)
		for (int i = 0; i < 20 / TICK; i++) {
			pulse_tick(&p, TICK, 1);
			assert_false(pulse_hung(&p, &r, PULSE_BATCH, 64));
			if (i + 1 == 20 / TICK)
				pulse_work(&p, 64);
		}
}

static void one_that_becomes_ten_times_slower_is_never_hit(void **state)
{
	struct pulse_rules r = usual_rules();
	(void)state;
	for (double was = 0.5; was < 100; was *= 2) {
		struct pulse p = {0};
		train(&p, 100, was, 64);
		for (int batch = 0; batch < 20; batch++) {
			for (int i = 0; i < 10 * was / TICK; i++) {
				pulse_tick(&p, TICK, 1);
				assert_false(pulse_hung(&p, &r, PULSE_BATCH, 64));
			}
			pulse_work(&p, 64);
		}
	}
}

/* One batch in fifty lasts a minute: the disk is slow to wake. */
static void a_pause_now_and_then_is_learnt(void **state)
{
	struct pulse_rules r = usual_rules();
	struct pulse p = {0};
	(void)state;
	train(&p, 1, 60, 64);
	for (int round = 0; round < 5; round++) {
		train(&p, 49, TICK, 64);
		assert_true(found_after(p, &r, PULSE_BATCH, 64) > 60);
		train(&p, 1, 60, 64);
	}
}

static void a_larger_batch_may_take_longer(void **state)
{
	struct pulse_rules r = usual_rules();
	struct pulse p = {0};
	(void)state;
	train(&p, 50, 2, 64);
	double once = found_after(p, &r, PULSE_BATCH, 64);
	assert_true(fabs(found_after(p, &r, PULSE_BATCH, 640) - 10 * once) < 3);
	assert_true(fabs(found_after(p, &r, PULSE_BATCH, 1) - 30) < 1);
}

static void without_a_past_the_start_has_its_deadline(void **state)
{
	struct pulse_rules r = usual_rules();
	struct pulse p = {0};
	(void)state;
	assert_false(p.begun);
	assert_true(fabs(found_after(p, &r, PULSE_START, 0) - 600) < 1);
	train(&p, 3, 2, 64);
	assert_true(p.begun);
	pulse_begin(&p); /* a new process: what the last one took is kept, but it has shown nothing */
	assert_false(p.begun);
	assert_true(p.usual > 0);
	assert_true(fabs(found_after(p, &r, PULSE_START, 64) - 600) < 1);
}

/* At a barrier, or while a server is away, it is not its turn. */
static void who_owes_nothing_is_never_hit(void **state)
{
	struct pulse_rules r = usual_rules();
	struct pulse p = {0};
	(void)state;
	train(&p, 10, 2, 64);
	for (int i = 0; i < 100000; i++)
		pulse_tick(&p, TICK, 0);
	assert_false(pulse_hung(&p, &r, PULSE_BATCH, 64));
	assert_true(p.silent <= 0);
}

/* The watcher was stopped for an hour: that is nobody's silence. */
static void the_watchers_sleep_counts_for_nobody(void **state)
{
	struct pulse_rules r = usual_rules();
	struct pulse p = {0};
	(void)state;
	train(&p, 10, 2, 64);
	pulse_tick(&p, 3600, 1);
	assert_true(p.silent <= PULSE_TICK_MAX);
	assert_false(pulse_hung(&p, &r, PULSE_BATCH, 64));
}

static void signs_end_a_silence(void **state)
{
	struct pulse_rules r = usual_rules();
	struct pulse p = {0};
	(void)state;
	for (int i = 0; i < 100; i++) {
		for (int k = 0; k < 100; k++)
			pulse_tick(&p, TICK, 1);
		pulse_sign(&p);
	}
	assert_false(pulse_hung(&p, &r, PULSE_EXCHANGE, 1));
	assert_false(p.begun);
}

/* Of work whose beginning nobody saw only its end is known. */
static void half_seen_work_teaches_nothing(void **state)
{
	struct pulse_rules r = usual_rules();
	struct pulse p = {0};

	(void)state;
	pulse_begin(&p);
	for (int i = 0; i < 2; i++)
		pulse_tick(&p, 1, 1);
	pulse_resume(&p);
	assert_true(p.begun && p.silent == 0);
	assert_true(found_after(p, &r, PULSE_BATCH, 64) >= 30);
	for (int i = 0; i < 29; i++)
		pulse_tick(&p, 1, 1);
	pulse_work(&p, 64);
	assert_true(found_after(p, &r, PULSE_BATCH, 64) > 20 * 29 - 1);
}

static void rules_as_text(void **state)
{
	struct pulse_rules r = usual_rules();
	struct error err;
	(void)state;
	assert_int_equal(pulse_rules_parse(&r, "", &err), 0);
	assert_int_equal(r.fixed[PULSE_BATCH], 0);
	assert_int_equal(pulse_rules_parse(&r, "5", &err), 0);
	assert_true(r.least[PULSE_BATCH] == 5 && r.fixed[PULSE_BATCH]);
	assert_true(r.least[PULSE_EXCHANGE] == 5 && r.fixed[PULSE_EXCHANGE]);
	assert_true(r.least[PULSE_START] == 600 && !r.fixed[PULSE_START]);
	assert_true(r.least[PULSE_CHECKPOINT] == 120 && !r.fixed[PULSE_CHECKPOINT]);
	assert_int_equal(pulse_rules_parse(&r, "300", &err), 0);
	assert_true(r.least[PULSE_CHECKPOINT] == 300 && r.fixed[PULSE_CHECKPOINT]);
	assert_int_equal(pulse_rules_parse(&r, "never", &err), 0);
	for (int i = 0; i < PULSE_SECTIONS; i++)
		assert_true(isinf(r.least[i]));
	static const char *const one_over_all[] = {"batch:10,300", "300,batch:10"};
	for (int i = 0; i < 2; i++) {
		r = usual_rules();
		assert_int_equal(pulse_rules_parse(&r, one_over_all[i], &err), 0);
		assert_true(r.least[PULSE_BATCH] == 10 && r.least[PULSE_EXCHANGE] == 300);
	}
	r = usual_rules();
	assert_int_equal(pulse_rules_parse(&r, "checkpoint:auto,300", &err), 0);
	assert_true(r.least[PULSE_CHECKPOINT] == 120 && !r.fixed[PULSE_CHECKPOINT]);
	r = usual_rules();
	assert_int_equal(pulse_rules_parse(&r, "auto", &err), 0);
	for (int i = 0; i < PULSE_SECTIONS; i++)
		assert_true(r.least[i] == usual_rules().least[i] && !r.fixed[i]);
	r = usual_rules();
	assert_int_equal(pulse_rules_parse(&r, "batch:2.5,start:never,checkpoint:0", &err), 0);
	assert_true(r.least[PULSE_BATCH] == 2.5);
	assert_true(isinf(r.least[PULSE_START]) && isinf(r.least[PULSE_CHECKPOINT]));
	struct pulse slow = {0};
	train(&slow, 10, 2, 64);
	assert_true(found_after(slow, &r, PULSE_BATCH, 64) < 3); /* what is given is obeyed */
	assert_true(found_after(slow, &r, PULSE_START, 64) > 9e5);
	static const char *const bad[] = {"x", "batch", "batch:", "sleep:3", "-1", "3,", ",3", "nan",
					  "batch:3:4", "inf", "auto:3"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(pulse_rules_parse(&r, bad[i], &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_second_batches_are_found_within_a_minute),
		cmocka_unit_test(one_ten_times_slower_than_its_fellows_is_never_hit),
		cmocka_unit_test(one_that_becomes_ten_times_slower_is_never_hit),
		cmocka_unit_test(a_pause_now_and_then_is_learnt),
		cmocka_unit_test(a_larger_batch_may_take_longer),
		cmocka_unit_test(without_a_past_the_start_has_its_deadline),
		cmocka_unit_test(who_owes_nothing_is_never_hit),
		cmocka_unit_test(half_seen_work_teaches_nothing),
		cmocka_unit_test(the_watchers_sleep_counts_for_nobody),
		cmocka_unit_test(signs_end_a_silence),
		cmocka_unit_test(rules_as_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
