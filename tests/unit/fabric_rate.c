/* fabric/rate: the rate of a link from counts of the kernel: exact cases. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "fabric/rate.h"

#include <math.h>

#define TICK 0.004
#define WINDOW 0.25
#define FAST 125e6 /* bytes/s */

/* Of a connection that was busy for `busy` seconds of a window, at this rate. */
static struct traffic window(double rate, double busy, double limited)
{
	struct rate_counts from = {1000, 2000, 300}, to = from;
	struct traffic t;
	to.bytes += (uint64_t)(rate * busy + 0.5);
	to.busy += (uint64_t)(busy * 1e6 + 0.5);
	to.limited += (uint64_t)(limited * 1e6 + 0.5);
	assert_int_equal(traffic_between(&t, &from, &to, WINDOW), 0);
	t.waited = 1;
	return t;
}

static int take(struct rate *r, struct traffic t, double now)
{
	return traffic_is_enough(&t) ? rate_take(r, &t, TICK, now) : -1;
}

static void near(double value, double wanted)
{
	assert_true(fabs(value / wanted - 1) < 1e-9);
}

static void busy_for_56_percent_of_the_time(void **state)
{
	struct rate r = {0};
	(void)state;
	assert_int_equal(take(&r, window(FAST, 0.14, 0), 1), 1);
	near(r.value, FAST);
	near(r.error, FAST * TICK / 0.14); /* one sample: the resolution of the busy time */
	assert_false(r.is_least);
	near(r.at, 1);
	take(&r, window(1.02 * FAST, 0.14, 0), 1.25);
	near(r.value, 1.02 * FAST);
	take(&r, window(0.9 * FAST, 0.14, 0), 1.5);
	near(r.value, FAST);
	near(r.error, 0.06 * FAST); /* half of what the three differ */
	near(r.at, 1.5);
}

/* One window that is wrong changes nothing; the second of a new rate is believed. */
static void a_drop_to_a_tenth_is_seen_in_two_windows(void **state)
{
	struct rate r = {0};
	(void)state;
	for (int i = 1; i < 8; i++)
		take(&r, window(FAST, WINDOW, 0), i * WINDOW);
	take(&r, window(FAST / 10, WINDOW, 0), 2);
	near(r.value, FAST);
	near(r.error, 0.45 * FAST);
	take(&r, window(FAST / 10, WINDOW, 0), 2.25);
	near(r.value, FAST / 10);
	take(&r, window(FAST / 10, WINDOW, 0), 2.5);
	near(r.error, FAST / 10 * TICK / WINDOW);
}

static void what_the_receiver_limits_is_a_lower_bound(void **state)
{
	struct rate r = {0};
	(void)state;
	assert_int_equal(take(&r, window(FAST / 5, WINDOW, 0.2), 1), 1);
	near(r.value,
	     FAST / 5 * WINDOW / (WINDOW + TICK)); /* it may have been busy a tick longer */
	assert_true(r.is_least);
	/* A tenth of the time is let pass. */
	take(&r, window(FAST, 0.2, 0.02), 2);
	near(r.value, FAST);
	assert_false(r.is_least);
	/* Less than what is known says nothing, and makes nothing younger. */
	assert_int_equal(take(&r, window(FAST / 5, WINDOW, 0.2), 3), 0);
	near(r.value, FAST);
	near(r.at, 2);
	/* But then the link was as fast as that. */
	near(r.seen, FAST / 5 * WINDOW / (WINDOW + TICK));
	near(r.seen_at, 3);
	/* More says that what is known is wrong, but not once: a queue lets a burst through. */
	assert_int_equal(take(&r, window(2 * FAST, WINDOW, 0.2), 4), 0);
	near(r.value, FAST);
	assert_false(r.is_least);
	assert_int_equal(take(&r, window(2 * FAST, WINDOW, 0.2), 4.25), 1);
	near(r.value, 2 * FAST * WINDOW / (WINDOW + TICK));
	assert_true(r.is_least);
	/* And gives way to what is measured. */
	take(&r, window(FAST, WINDOW, 0), 5);
	near(r.value, FAST);
	assert_false(r.is_least);
}

static void where_nothing_waited_the_sender_was_the_limit(void **state)
{
	struct traffic t = window(FAST, WINDOW, 0);
	struct rate r = {0};
	(void)state;
	t.waited = 0;
	take(&r, t, 1);
	assert_true(r.is_least);
	t.bytes = 4000; /* signs of life */
	assert_int_equal(take(&r, t, 2), -1);
}

static void a_link_that_is_idle_keeps_its_rate_and_gets_older(void **state)
{
	struct rate r = {0};
	(void)state;
	take(&r, window(FAST, WINDOW, 0), 1);
	assert_int_equal(take(&r, window(0, 0, 0), 2), -1);
	assert_int_equal(take(&r, window(FAST, 0.04, 0), 3), -1); /* too short to be measured */
	near(r.value, FAST);
	near(r.at, 1);
}

static void short_bursts_are_enough_together(void **state)
{
	struct traffic all = {0}, one = window(FAST, 0.04, 0);
	struct rate r = {0};
	(void)state;
	traffic_append(&all, &one);
	assert_false(traffic_is_enough(&all));
	traffic_append(&all, &one);
	near(all.seconds, 2 * WINDOW);
	take(&r, all, 1);
	near(r.value, FAST);
	near(r.error, FAST * TICK / 0.08);
}

static void counts_that_fall_say_nothing(void **state)
{
	const struct rate_counts from = {1000, 2000, 300};
	struct traffic t;
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct rate_counts to = {4000, 5000, 600};
		*(i == 0 ? &to.bytes : i == 1 ? &to.busy : &to.limited) = 7;
		assert_int_equal(traffic_between(&t, &from, &to, WINDOW), -1);
	}
	assert_int_equal(traffic_between(&t, &from, &from, WINDOW), 0);
}

/* Two connections on one link: each has half of it. */
static void connections_that_share_a_link_are_added(void **state)
{
	struct traffic all = {0}, half = window(FAST / 2, WINDOW, 0);
	struct rate r = {0};
	(void)state;
	traffic_beside(&all, &half);
	traffic_beside(&all, &half);
	near(all.seconds, WINDOW);
	take(&r, all, 1);
	near(r.value, FAST);
	assert_false(r.is_least);
	/* Each was busy in half of the time: in the same half, or one after the other? */
	struct traffic unclear = {0};
	half = window(FAST, WINDOW / 2, 0);
	traffic_beside(&unclear, &half);
	traffic_beside(&unclear, &half);
	near(unclear.busy, WINDOW / 2);
	near(unclear.busy_most, WINDOW);
	assert_int_equal(take(&r, unclear, 2), 0);
	near(r.at, 1);
}

static void small_messages_beside_do_not_count_as_time(void **state)
{
	struct traffic all = {0}, large = window(FAST, WINDOW / 2, 0),
		       small = window(2000, WINDOW, 0);
	struct rate r = {0};
	(void)state;
	small.waited = 0;
	traffic_beside(&all, &small);
	traffic_beside(&all, &large);
	traffic_beside(&all, &small);
	near(all.busy, WINDOW / 2);
	near(all.busy_most, WINDOW / 2);
	near(all.bytes, FAST * WINDOW / 2 + 2 * 2000 * WINDOW);
	take(&r, all, 1);
	assert_false(r.is_least);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(busy_for_56_percent_of_the_time),
		cmocka_unit_test(a_drop_to_a_tenth_is_seen_in_two_windows),
		cmocka_unit_test(what_the_receiver_limits_is_a_lower_bound),
		cmocka_unit_test(where_nothing_waited_the_sender_was_the_limit),
		cmocka_unit_test(a_link_that_is_idle_keeps_its_rate_and_gets_older),
		cmocka_unit_test(short_bursts_are_enough_together),
		cmocka_unit_test(counts_that_fall_say_nothing),
		cmocka_unit_test(connections_that_share_a_link_are_added),
		cmocka_unit_test(small_messages_beside_do_not_count_as_time),
	};
	return cmocka_run_group_tests_name("fabric_rate", tests, NULL, NULL);
}
