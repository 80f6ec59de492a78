/* xfer_gate, xfer_share: how far a server is ahead of its replica; who sums what in a round. */
#include "solve/xfer_gate.h"
#include "solve/xfer_share.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-9)

static void gates_of(double momentum, double most, double history, size_t ahead, size_t n,
		     const double *norm, const struct xfer_gate *want, size_t want_above)
{
	const struct xfer_drift d = {.momentum = momentum, .history = history, .most = most};
	struct xfer_gate gate[8];
	assert_int_equal(xfer_gates(&d, norm, n, ahead, gate), want_above);
	for (size_t i = ahead; i < n; i++) {
		assert_int_equal(gate[i].replica, want[i].replica);
		NEAR(gate[i].bound, want[i].bound);
	}
}

static void gates(void **state)
{
	(void)state;
	/* (g + g^2) h0 + (1 + g) u1 + u2; once u1 is at the replica, |h1| = 0.9 + 2. */
	gates_of(0.9, 100, 1, 1, 2, (double[]){2, 3}, (struct xfer_gate[]){{0, 0}, {0, 8.51}}, 0);
	gates_of(0.9, 100, 2.9, 0, 1, (double[]){3}, (struct xfer_gate[]){{0, 5.61}}, 0);
	gates_of(0.9, 100, 1, 1, 2, (double[]){0, 1}, (struct xfer_gate[]){{0, 0}, {0, 2.71}}, 0);
	gates_of(0, 3, 0, 0, 6, (double[]){1, 1, 1, 1, 2, 1},
		 (struct xfer_gate[]){{0, 1}, {0, 2}, {0, 3}, {1, 3}, {3, 3}, {4, 3}}, 0);
	gates_of(0.5, 4, 1, 1, 5, (double[]){1, 1, 1, 1, 1},
		 (struct xfer_gate[]){{0, 0}, {0, 3.25}, {1, 3.625}, {2, 3.8125}, {3, 3.90625}}, 0);
	gates_of(0, 3, 0, 0, 3, (double[]){1, 4, 1}, (struct xfer_gate[]){{0, 1}, {1, 4}, {2, 1}},
		 1);
}

static void half_the_bound(void **state)
{
	const struct xfer_drift d = {.momentum = 0.5, .history = 1, .most = 8};
	const double norm[] = {1, 1, 1, 1, 9, 1};
	size_t limit[6];
	(void)state;
	/* g|h| is 0.5, 0.75, 0.875, 0.9375 before the first four. */
	xfer_gate_limits(&d, norm, 6, limit);
	const size_t want[] = {2, 3, 3, 3, 4, 5};
	assert_memory_equal(limit, want, sizeof want);
	/* X: 1.5, 1.5 + 1.75, that + 1.875. */
	assert_int_equal(xfer_gate_is_due(&d, norm, 0), 0);
	assert_int_equal(xfer_gate_is_due(&d, norm, 2), 0);
	assert_int_equal(xfer_gate_is_due(&d, norm, 3), 1);
}

/* rate: negative without workers. */
static void shares_of(size_t n, const double *rate, const double *share, double seconds,
		      int is_ring)
{
	struct xfer_member m[8];
	struct xfer_round round;
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		m[i] = (struct xfer_member){.rate = fabs(rate[i]), .works = rate[i] > 0};
	assert_int_equal(xfer_shares(m, n, 1e8, &round, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		NEAR(m[i].share, share[i]);
		sum += m[i].share;
	}
	NEAR(sum, 1);
	NEAR(round.seconds, seconds);
	assert_int_equal(round.is_ring, is_ring);
}

static void shares(void **state)
{
	(void)state;
	shares_of(4, (double[]){1e8, 1e8, 1e8, 1e8}, (double[]){.25, .25, .25, .25}, 1.5, 1);
	shares_of(3, (double[]){1e8, 2e8, 1e8}, (double[]){0, 1, 0}, 1, 0);
	/* 3T - 1 + 2T - 1 = 1; the slowest sends and receives in 1 s. */
	shares_of(3, (double[]){1e8, 2e8, 3e8}, (double[]){0, .2, .8}, 1, 0);
	shares_of(5, (double[]){2e8, 2e8, 1e8, 2e8, 2e8}, (double[]){.25, .25, 0, .25, .25}, 1, 0);
	/* Without workers. */
	shares_of(4, (double[]){1e8, 1e8, -1.5e8, 1e8}, (double[]){1. / 7, 1. / 7, 4. / 7, 1. / 7},
		  8. / 7, 0);
	shares_of(4, (double[]){1e8, 1e8, 1e8, -9e8}, (double[]){0, 0, 0, 1}, 1, 0);
	/* With one or two, shares decide nothing. */
	shares_of(2, (double[]){1e8, 2e8}, (double[]){.5, .5}, 1, 1);
	shares_of(1, (double[]){1e8}, (double[]){1}, 0, 1);
}

static void owners(void **state)
{
	const struct xfer_member m[] = {{.share = 0}, {.share = 0.2}, {.share = 0.8}};
	size_t owner[64], count[3] = {0};
	(void)state;
	assert_int_equal(xfer_owners(m, 3, owner, 64, NULL), 0);
	for (size_t i = 0; i < 64; i++) {
		assert_true(i == 0 || owner[i] >= owner[i - 1]);
		count[owner[i]]++;
	}
	const size_t want[] = {0, 13, 51};
	assert_memory_equal(count, want, sizeof want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gates),
		cmocka_unit_test(half_the_bound),
		cmocka_unit_test(shares),
		cmocka_unit_test(owners),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
