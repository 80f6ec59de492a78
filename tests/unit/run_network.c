/* run/network: what a slow link cost. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "run/network.h"

#include <math.h>

#define FAST 20e6 /* bytes/s */
#define SLOW 2e6

static struct network_link link_of(double out, double in)
{
	return (struct network_link){.out = {.rate = out, .since = 40000000},
				     .in = {.rate = in, .since = 40000000},
				     .world = 1};
}

static double median_of(const struct network_link *link, size_t count)
{
	const struct network_link *at[8];
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_host_in_a_ring_of_three),
		cmocka_unit_test(an_even_number_of_hosts),
		cmocka_unit_test(what_is_not_measured_costs_nothing),
	};
	return cmocka_run_group_tests_name("run_network", tests, NULL, NULL);
}
