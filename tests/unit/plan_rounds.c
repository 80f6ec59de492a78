/* rounds, answer: what a brain is asked with, and what it may say. */
#include "plan/answer.h"
#include "plan/rounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void add(struct rounds *r, unsigned number, unsigned cores)
{
	char text[200];
	struct error err;
	int len = snprintf(text, sizeof text,
			   "job batch=%u\nnode role=worker id=w0 cores=%u\nnode role=server id=ps0 cores=1\n",
			   number, cores);
	assert_int_equal(rounds_add(r, text, (size_t)len, &err), 0);
}

static unsigned number_of(const struct rounds *r, size_t i)
{
	size_t len;
	return (unsigned)atoi(rounds_at(r, i, &len) + strlen("job batch="));
}

static void the_newest_of_a_configuration_stay(void **state)
{
	struct rounds r = {0};
	(void)state;
	add(&r, 1, 7); /* of another one */
	for (unsigned i = 2; i < 22; i++)
		add(&r, i, 1);
	assert_int_equal(r.count, 1 + ROUNDS_EACH);
	assert_int_equal(number_of(&r, 0), 1);
	assert_int_equal(number_of(&r, 1), 22 - ROUNDS_EACH);
	assert_int_equal(number_of(&r, r.count - 1), 21);
	rounds_clear(&r);
}

static void the_newest_configurations_stay(void **state)
{
	struct rounds r = {0};
	(void)state;
	for (unsigned i = 1; i <= 2 * ROUNDS_CONFIGURATIONS; i++) {
		add(&r, i, i);
		add(&r, i, i);
	}
	assert_int_equal(r.count, 2 * ROUNDS_CONFIGURATIONS);
	assert_int_equal(number_of(&r, 0), ROUNDS_CONFIGURATIONS + 1);
	rounds_clear(&r);
}

static void what_is_no_round_is_refused(void **state)
{
	static const char *const wrong[] = {"", "node role=worker id=w0 cores=1\n",
					    "job batch=0\n", "job batch=1\nplan role=worker\n"};
	struct rounds r = {0};
	struct error err;
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(rounds_add(&r, wrong[i], strlen(wrong[i]), &err), -1);
	assert_int_equal(r.count, 0);
	rounds_clear(&r);
}

static void the_last_round_counts(void **state)
{
	static const char text[] = "plan role=worker count=9 cores=9\ndecision change=yes\n\n\n"
				   "plan role=worker count=2 cores=3\ndecision reason=faster\n\n";
	struct answer a = {0};
	struct error err;
	size_t len;
	const char *last = answer_last(text, strlen(text), &len);
	(void)state;
	assert_int_equal(answer_parse(&a, last, len, &err), 0);
	assert_true(answer_changes(&a));
	assert_int_equal(a.role[PLAN_WORKER].count, 2);
	assert_int_equal(a.role[PLAN_WORKER].cores, 3);
	assert_false(a.plans[PLAN_SERVER]);
	assert_string_equal(a.reason, "faster");
	answer_last("", 0, &len);
	assert_int_equal(len, 0);
	answer_clear(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_newest_of_a_configuration_stay),
		cmocka_unit_test(the_newest_configurations_stay),
		cmocka_unit_test(what_is_no_round_is_refused),
		cmocka_unit_test(the_last_round_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
