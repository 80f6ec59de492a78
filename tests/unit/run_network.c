/* run/network: what a slow link cost. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "run/network.h"
#include "solve/xfer_share.h"

#include <math.h>

#define FAST 20e6 /* bytes/s */
#define SLOW 2e6

static struct network_link link_of(double out, double in)
{
	return (struct network_link){
		.out = {.rate = out, .bytes = 40000000, .now = 40000000, .part = INFINITY},
		.in = {.rate = in, .bytes = 40000000, .now = 40000000, .part = INFINITY},
		.world = 1};
}

static double network_cost(const struct network_side *side, double median)
{
	struct network_side counted = *side;
	network_count(&counted, median);
	return counted.cost;
}

static double median_of(const struct network_link *link, size_t count)
{
	const struct network_link *at[8] = {NULL};
	for (size_t i = 0; i < count; i++)
		at[i] = &link[i];
	return network_median(at, count);
}

static int is_near(double value, double wanted)
{
	return fabs(value - wanted) <= 1e-9 * fabs(wanted);
}

/* In a ring of three, four of six directions are slow, and it is one host's fault. */
static void a_slow_host_in_a_ring_of_three(void **state)
{
	const struct network_link link[] = {link_of(SLOW, FAST), link_of(SLOW, SLOW),
					    link_of(FAST, SLOW)};
	double median = median_of(link, 3);
	(void)state;
	assert_true(is_near(median, FAST));
	assert_true(is_near(network_cost(&link[1].out, median), 20 - 2));
	assert_true(is_near(network_cost(&link[1].in, median), 20 - 2));
	assert_true(network_cost(&link[0].in, median) == 0);
}

static void an_even_number_of_hosts(void **state)
{
	const struct network_link link[] = {link_of(FAST, FAST), link_of(2 * FAST, FAST)};
	(void)state;
	assert_true(is_near(median_of(link, 2), 1.5 * FAST));
}

static void what_is_not_measured_costs_nothing(void **state)
{
	struct network_link link[] = {link_of(FAST, FAST), link_of(SLOW, NAN), link_of(FAST, FAST)};
	(void)state;
	assert_true(network_cost(&link[1].in, FAST) == 0);
	link[1].out.is_least = 1; /* it may be as fast as all others */
	assert_true(network_cost(&link[1].out, FAST) == 0);
	link[0] = link[2] = link_of(NAN, NAN);
	assert_true(isnan(median_of(link, 3))); /* one is known: it is compared with nothing */
	assert_true(network_cost(&link[2].out, NAN) == 0);
}

/* Equal links are not measured as equal. */
static void what_is_nearly_as_fast_costs_nothing(void **state)
{
	struct network_side near = link_of(0.8 * FAST, FAST).out,
			    half = link_of(FAST / 2, FAST).out;
	(void)state;
	assert_true(network_cost(&near, FAST) == 0);
	assert_true(is_near(network_cost(&half, FAST), 4 - 2));
	half.error = 0.3 * FAST;
	assert_true(network_cost(&half, FAST) == 0);
}

/* All goes to the server's host, whose port is the limit of everybody: nobody else is slow who has
 * a part of it. */
static void who_has_a_part_of_the_servers_port_is_not_slow(void **state)
{
	struct network_link link[] = {link_of(SLOW, FAST), link_of(SLOW, FAST),
				      link_of(SLOW, FAST)};
	const struct network_link *at[] = {&link[0], &link[1], &link[2]};
	(void)state;
	link[0].in.rate = 2 * SLOW;
	assert_true(isinf(network_part(at, 3, 1, 1))); /* it is a ring */
	link[0].in.bytes *= 2;
	assert_true(isinf(network_part(at, 3, 0, 1)));
	assert_true(isinf(network_part(at, 3, 1, 0)));
	link[1].out.part = network_part(at, 3, 1, 1);
	assert_true(is_near(link[1].out.part, SLOW / 2));
	assert_true(network_cost(&link[1].out, FAST) == 0);
	link[0].in.rate = 5 * SLOW;
	link[1].out.part = network_part(at, 3, 1, 1);
	assert_true(network_cost(&link[1].out, FAST) > 0);
}

/* A link that was slow for a while, and is fast when it is told. The median changes, too. */
static void each_second_has_its_own_rates(void **state)
{
	struct network_side out = link_of(SLOW, FAST).out;
	(void)state;
	network_count(&out, FAST);
	assert_int_equal(out.now, 0);
	out.rate = FAST;
	out.now = 40000000;
	network_count(&out, 2.5 * SLOW);
	out.rate = NAN;
	out.now = 1000;
	network_count(&out, FAST);
	out.rate = FAST;
	out.now = 1000;
	network_count(&out, NAN);
	assert_true(is_near(out.cost, 20 - 2));
	assert_int_equal(out.since, 80002000);
	assert_int_equal(out.timed, 80000000);
	assert_true(is_near(out.seconds, 20 + 2));
	assert_true(is_near(out.at_median, 2 + 8));
}

/* A rate that is measured as too low would make it cost more time than there was. */
static void a_link_is_not_busy_for_longer_than_there_was_time(void **state)
{
	struct network_side out = link_of(SLOW, FAST).out;
	(void)state;
	network_count(&out, FAST);
	network_bound(&out, 25);
	assert_true(is_near(out.seconds, 20));
	assert_true(is_near(out.cost, 20 - 2));
	network_bound(&out, 15);
	assert_true(is_near(out.seconds, 15));
	assert_true(is_near(out.cost, 15 - 2));
	network_bound(&out, 1);
	assert_true(out.cost == 0);
}

/* What is estimated takes all bytes; those at a lower bound may have needed no time. */
static void a_lower_bound_says_nothing_of_how_busy_a_link_was(void **state)
{
	struct network_side out = link_of(SLOW, FAST).out;
	(void)state;
	network_count(&out, FAST);
	out.now = 1000;
	out.is_least = 1;
	network_count(&out, FAST);
	assert_true(out.lately.bytes == 40001000);
	assert_true(is_near(out.lately.busy, 20));
}

/* How much longer a byte takes in the ring; 0: it takes no longer, or nobody knows. */
static double ring_cost(const struct network_link *link, size_t count)
{
	const struct network_link *at[8] = {NULL};
	struct xfer_round round;
	for (size_t i = 0; i < count; i++)
		at[i] = &link[i];
	network_round(at, count, &round);
	return round.is_ring ? 0 : round.ring - round.seconds;
}

/* By shares the slow one sends the vector once, in the ring 4/3 times. */
static void a_ring_with_a_slow_host(void **state)
{
	struct network_link link[] = {link_of(SLOW, FAST), link_of(SLOW, SLOW),
				      link_of(FAST, SLOW)};
	(void)state;
	assert_true(is_near(ring_cost(link, 3), (4.0 / 3 - 1) / SLOW));
	/* Its slower direction holds both up. */
	link[1].in.rate *= 1.25;
	assert_true(is_near(ring_cost(link, 3), (4.0 / 3 - 1) / SLOW));
	/* What waits for the slow one is only known to be as fast as that: that is enough. */
	link[0].in.is_least = link[2].out.is_least = 1;
	assert_true(is_near(ring_cost(link, 3), (4.0 / 3 - 1) / SLOW));
}

static void a_ring_that_costs_no_more_than_shares(void **state)
{
	struct network_link link[] = {link_of(FAST, FAST), link_of(FAST, FAST),
				      link_of(FAST, FAST)};
	(void)state;
	assert_true(ring_cost(link, 0) == 0);
	assert_true(ring_cost(link, 3) == 0);
	link[1] = link_of(0.6 * FAST, 0.6 * FAST); /* shares take it for equal */
	assert_true(ring_cost(link, 3) == 0);
	link[1] = link_of(SLOW, SLOW);
	assert_true(ring_cost(link, 2) == 0); /* two hosts send the same in any case */
}

static void a_ring_that_is_not_measured(void **state)
{
	struct network_link link[] = {link_of(FAST, FAST), link_of(SLOW, SLOW),
				      link_of(FAST, FAST)};
	(void)state;
	link[1].in.is_least = 1; /* it may be as fast as the others */
	link[1].in.rate *= 1.5;
	assert_true(ring_cost(link, 3) == 0);
	link[1] = link_of(SLOW, SLOW);
	link[2] = link_of(NAN, NAN);
	assert_true(ring_cost(link, 3) == 0);
	link[2] = link_of(FAST, NAN); /* one direction is enough */
	assert_true(ring_cost(link, 3) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_host_in_a_ring_of_three),
		cmocka_unit_test(an_even_number_of_hosts),
		cmocka_unit_test(what_is_not_measured_costs_nothing),
		cmocka_unit_test(what_is_nearly_as_fast_costs_nothing),
		cmocka_unit_test(who_has_a_part_of_the_servers_port_is_not_slow),
		cmocka_unit_test(each_second_has_its_own_rates),
		cmocka_unit_test(a_link_is_not_busy_for_longer_than_there_was_time),
		cmocka_unit_test(a_lower_bound_says_nothing_of_how_busy_a_link_was),
		cmocka_unit_test(a_ring_with_a_slow_host),
		cmocka_unit_test(a_ring_that_costs_no_more_than_shares),
		cmocka_unit_test(a_ring_that_is_not_measured),
	};
	return cmocka_run_group_tests_name("run_network", tests, NULL, NULL);
}
