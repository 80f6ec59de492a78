/* solve_balance: sizes at a barrier by either method, between the least and what memory holds. */
#include "solve/balance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS 4
#define ROUNDS 400

static struct error err;

static uint64_t sum_of(const struct balance_member *m, size_t n)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += m[i].size;
	return sum;
}

/* Many rounds of four of which one is 50 times as slow: it ends with the least. */
static void slow_one(const char *method, uint64_t least)
{
	struct balance *b;
	struct balance_member m[MEMBERS];
	static const char *const names[MEMBERS] = {"w0", "w1", "w2", "w3"};
	assert_int_equal(balance_new(&b, method, 40, least, &err), 0);
	memset(m, 0, sizeof m);
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < MEMBERS; i++) {
			m[i].worker = names[i];
			m[i].count = m[i].size;
			m[i].time = (double)m[i].size * (i == 2 ? 0.05 : 0.001);
		}
		assert_int_equal(balance_round(b, m, MEMBERS, &err), 0);
		assert_int_equal(sum_of(m, MEMBERS), 40);
		for (size_t i = 0; i < MEMBERS; i++)
			assert_true(m[i].size >= least);
	}
	assert_int_equal(m[2].size, least);
	balance_free(b);
}

static void no_size_below_the_least(void **state)
{
	(void)state;
	for (uint64_t least = 1; least <= 9; least += 4) {
		slow_one("lb-bsp", least);
		slow_one("lb-bsp-gpu", least);
	}
}

/* Members that are too many for the batch have the least each; memory is stronger than both. */
static void bounds_that_the_batch_does_not_meet(void **state)
{
	static const char *const methods[] = {"lb-bsp", "lb-bsp-gpu"};
	(void)state;
	for (size_t k = 0; k < 2; k++) {
		struct balance *b;
		struct balance_member m[3] = {{.worker = "a"}, {.worker = "b"}, {.worker = "c"}};
		assert_int_equal(balance_new(&b, methods[k], 20, 8, &err), 0);
		assert_int_equal(balance_round(b, m, 2, &err), 0);
		assert_int_equal(sum_of(m, 2), 20);
		assert_int_equal(balance_round(b, m, 3, &err), 0);
		assert_true(m[0].size == 8 && m[1].size == 8 && m[2].size == 8);
		m[0].most = 3;
		assert_int_equal(balance_round(b, m, 3, &err), 0);
		assert_int_equal(m[0].size, 3);
		assert_int_equal(sum_of(m, 3), 20);
		m[1].most = m[2].most = 7;
		assert_int_equal(balance_round(b, m, 3, &err), 0);
		assert_true(m[0].size == 3 && m[1].size == 7 && m[2].size == 7);
		balance_free(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_size_below_the_least),
		cmocka_unit_test(bounds_that_the_batch_does_not_meet),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
