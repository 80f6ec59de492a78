/* Staged pushes: found by their whole name, two generations side by side, bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ps/stage.h"

#include <stdio.h>
#include <stdlib.h>

static struct stage *stage;

static int start(void **state)
{
	(void)state;
	return stage_new(&stage, NULL);
}

static int stop(void **state)
{
	(void)state;
	stage_free(stage);
	return 0;
}

static int put(const char *worker, uint64_t generation, uint64_t sequence, uint64_t iteration,
	       uint64_t count)
{
	struct staged *p = calloc(1, sizeof *p);
	struct error err;

	snprintf(p->worker, sizeof p->worker, "%s", worker);
	p->generation = generation;
	p->sequence = sequence;
	p->iteration = iteration;
	p->push.count = count;
	if (stage_put(stage, p, &err) == 0)
		return 0;
	staged_free(p);
	return -1;
}

static void names_are_whole(void **state)
{
	(void)state;
	assert_int_equal(put("w0", 1, 1, 0, 10), 0);
	assert_int_equal(put("w1", 1, 1, 0, 11), 0);
	assert_int_equal(put("w0", 2, 1, 0, 12), 0);
	assert_int_equal(stage_find(stage, "w0", 1, 1)->push.count, 10);
	assert_int_equal(stage_find(stage, "w0", 2, 1)->push.count, 12);
	assert_null(stage_find(stage, "w0", 1, 2));
	assert_null(stage_find(stage, "w2", 1, 1));
	assert_int_equal(put("w0", 1, 1, 0, 13), 0); /* the same name: replaced */
	assert_int_equal(stage_find(stage, "w0", 1, 1)->push.count, 13);
	assert_int_equal(stage_count(stage), 3);
	stage_drop(stage, "w0", 1, 1);
	assert_null(stage_find(stage, "w0", 1, 1));
	assert_non_null(stage_find(stage, "w0", 2, 1));
}

static void two_generations_and_two_sequences(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 9; i++)
		assert_int_equal(put("w0", 3, i, 0, i), 0);
	assert_int_equal(stage_count(stage), 2);
	assert_non_null(stage_find(stage, "w0", 3, 8));
	assert_int_equal(put("w0", 4, 1, 0, 1), 0);
	assert_int_equal(stage_count(stage), 3);
	assert_int_equal(put("w0", 5, 1, 0, 1), 0); /* generation 3 can't be named any more */
	assert_int_equal(stage_count(stage), 2);
	assert_int_equal(put("w0", 3, 10, 0, 1), -1);
}

/* What the lead holds stays, and comes to an heir with what else there is, in any order. */
static void what_is_held_stays(void **state)
{
	struct stage *heir;
	struct error err;

	(void)state;
	put("w0", 1, 5, 0, 1);
	stage_find(stage, "w0", 1, 5)->held = 1;
	put("w0", 1, 100, 0, 2);
	put("w0", 1, 5, 0, 3); /* the same name */
	put("w0", 2, 1, 0, 1);
	put("w0", 3, 1, 0, 1);
	assert_int_equal(stage_find(stage, "w0", 1, 5)->push.count, 1);
	assert_int_equal(stage_new(&heir, &err), 0);
	static const uint64_t name[][2] = {{3, 1}, {2, 1}, {1, 5}, {1, 100}};
	for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
		struct staged *p = calloc(1, sizeof *p);
		snprintf(p->worker, sizeof p->worker, "w0");
		p->generation = name[i][0];
		p->sequence = name[i][1];
		p->held = p->sequence == 5;
		assert_int_equal(stage_restore(heir, p, &err), 0);
	}
	for (size_t i = 0; i < sizeof name / sizeof *name; i++)
		assert_non_null(stage_find(heir, "w0", name[i][0], name[i][1]));
	assert_int_equal(stage_count(heir), 4);
	stage_free(heir);
}

static void thrown_generations_are_refused(void **state)
{
	(void)state;
	put("w0", 3, 1, 0, 1);
	put("w0", 4, 1, 0, 1);
	stage_throw(stage, "w0", 3);
	assert_null(stage_find(stage, "w0", 3, 1));
	assert_non_null(stage_find(stage, "w0", 4, 1));
	assert_int_equal(put("w0", 3, 2, 0, 1), -1);
	assert_int_equal(put("w1", 3, 2, 0, 1), 0);
	stage_throw(stage, "w9", 2); /* before its first push */
	assert_int_equal(put("w9", 2, 1, 0, 1), -1);
}

static void units_that_are_over_go(void **state)
{
	(void)state;
	put("w0", 1, 1, 4, 1);
	put("w1", 1, 1, 5, 1);
	stage_drop_before(stage, 5);
	assert_int_equal(stage_count(stage), 1);
	assert_non_null(stage_find(stage, "w1", 1, 1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names_are_whole),
		TEST(two_generations_and_two_sequences),
		TEST(what_is_held_stays),
		TEST(thrown_generations_are_refused),
		TEST(units_that_are_over_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
