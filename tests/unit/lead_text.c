/*
 * A gate on its way to another process: what must still hold behind a hand-over, field by field
 * where the random test (lead_random.c) would hardly come by; and text that no gate has written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What happens meanwhile is not looked at. */
static void pass(void)
{
	const struct gate_effect *e;

	while ((e = gate_next(gate))) {
		if (e->kind == GATE_HOLD)
			gate_held(gate, NULL, 0);
	}
}

static void hand_over(void)
{
	char *text;
	size_t len;
	struct error err = {0};

	assert_int_equal(gate_save(gate, &text, &len, &err), 0);
	gate_free(gate);
	assert_int_equal(gate_new(&gate, &started, NULL), 0);
	if (gate_load(gate, text, len, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	free(text);
}

static void push(const char *worker, uint64_t generation, uint64_t sequence, uint64_t iteration)
{
	struct gate_who w = who(worker, generation);
	struct gate_range range[40];

	for (size_t i = 0; i < 40; i++)
		range[i] = (struct gate_range){sequence, i, 1};
	struct gate_push p = {.sequence = sequence,
			      .iteration = iteration,
			      .count = 37,
			      .skipped = 3,
			      .size = 64,
			      .pulled = 3,
			      .loss = 0.1,
			      .range = range,
			      .ranges = 40,
			      .speed = 1.0 / 3.0,
			      .time = 0.7,
			      .mem = 0.25};
	gate_push(gate, &w, &p);
}

/* The first effect of a kind since the last look; the others go by. */
static int seen(enum gate_effect_kind kind, struct gate_effect *out)
{
	const struct gate_effect *e;
	int found = 0;

	while ((e = gate_next(gate))) {
		if (e->kind == kind && !found++)
			*out = *e;
		if (e->kind == GATE_HOLD)
			gate_held(gate, NULL, 0);
	}
	return found;
}

static struct gate_effect answer(void)
{
	struct gate_effect e = {0};

	assert_int_equal(seen(GATE_ANSWER, &e), 1);
	return e;
}

static void nothing(void)
{
	assert_null(gate_next(gate));
}

static uint64_t settle(void)
{
	struct gate_effect e = {0};

	assert_int_equal(seen(GATE_SETTLE, &e), 1);
	return e.number;
}

/* ---- what holds ---- */

static void fences_hold(void **state)
{
	(void)state;
	start((struct gate_options){.sync = GATE_BSP});
	join("w1", 3);
	gate_fence(gate, "w1", 5, ++token);
	pass();
	hand_over();
	join("w1", 5);
	assert_false(answer().ok);
	join("w1", 6);
	assert_true(answer().ok);
}

static void older_generations_stay_out(void **state)
{
	(void)state;
	start((struct gate_options){.sync = GATE_BSP});
	join("w1", 3);
	answer();
	hand_over();
	join("w1", 2);
	assert_false(answer().ok);
}

static void a_fence_under_way_is_carried_out(void **state)
{
	struct gate_effect e;

	(void)state;
	start((struct gate_options){.sync = GATE_BSP});
	join("w1", 1);
	push("w1", 1, 1, 0);
	uint64_t number = settle();
	gate_fence(gate, "w1", 1, ++token);
	nothing(); /* it waits for the settle */
	hand_over();
	gate_shards(gate, 1);
	assert_int_equal(settle(), number);
	gate_settled(gate, number, NULL, 0);
	assert_int_equal(seen(GATE_THROW, &e), 1);
	assert_int_equal(gate_active(gate), 0);
}

/* A new life says join while the old one's push is with shardd. */
static void what_is_to_be_thrown_away_is(void **state)
{
	struct gate_effect e;

	(void)state;
	start((struct gate_options){.sync = GATE_BSP});
	join("w1", 1);
	push("w1", 1, 1, 0);
	uint64_t number = settle();
	join("w1", 2);
	pass();
	hand_over();
	gate_shards(gate, 1);
	gate_settled(gate, number, NULL, 0);
	assert_int_equal(seen(GATE_THROW, &e), 1);
	assert_string_equal(e.worker, "w1");
	assert_int_equal(e.generation, 1);
}

static void clocks_go_on(void **state)
{
	(void)state;
	start((struct gate_options){.sync = GATE_SSP, .staleness = 1});
	join("w1", 1);
	join("w2", 1);
	push("w1", 1, 1, 0);
	gate_settled(gate, settle(), NULL, 0);
	assert_true(answer().ok); /* one ahead */
	hand_over();
	gate_shards(gate, 1);
	push("w1", 1, 2, 1);
	gate_settled(gate, settle(), NULL, 0);
	struct gate_effect e;
	assert_int_equal(seen(GATE_ANSWER, &e), 0); /* two ahead */
	hand_over();
	gate_shards(gate, 1);
	push("w1", 1, 2, 1); /* the answer still waits */
	nothing();
	push("w2", 1, 1, 0);
	gate_settled(gate, settle(), NULL, 0);
	assert_int_equal(seen(GATE_ANSWER, &e), 2);
}

static void weights_backups_and_acts_in_force_hold(void **state)
{
	static const char lines[] = "action kind=adjust-lr id=w1 scale=0.25\n"
				    "action kind=backup-workers count=1 reason=late\n"
				    "action kind=adjust-bs id=w2 size=9 accum=2\n";
	struct gate_effect e;

	(void)state;
	start((struct gate_options){.sync = GATE_BSP});
	assert_int_equal(gate_act(gate, lines, strlen(lines), 11, ++token, NULL), 0);
	answer();
	hand_over();
	gate_shards(gate, 1);
	assert_int_equal(gate_act(gate, lines, strlen(lines), 11, ++token, NULL), 0);
	assert_string_equal(answer().fields, "iteration=0 repeated=1");
	join("w1", 1);
	const struct gate_effect *joined = gate_next(gate);
	assert_non_null(joined);
	assert_string_equal(joined->actions, "action kind=backup-workers count=1 reason=late\n"
					     "action kind=adjust-lr id=w1 scale=0.25\n");
	nothing();
	join("w2", 1);
	push("w1", 1, 1, 0);
	gate_settled(gate, settle(), NULL, 0); /* w2 comes in with this close */
	pass();
	push("w1", 1, 2, 1); /* without w2, who is the backup */
	gate_settled(gate, settle(), NULL, 0);
	const struct gate_effect *apply = gate_next(gate);
	assert_int_equal(apply->kind, GATE_APPLY);
	assert_true(apply->push[0].scale < 0.26);
	assert_int_equal(seen(GATE_ANSWER, &e), 1);
}

static void the_end_holds(void **state)
{
	(void)state;
	start((struct gate_options){.sync = GATE_ASP});
	gate_finish(gate, ++token);
	answer();
	hand_over();
	struct gate_who w = who("w1", 1);
	gate_end(gate, &w);
	assert_true(answer().ok);
}

static void who_does_not_come_back_is_out(void **state)
{
	struct gate_effect e;

	(void)state;
	start((struct gate_options){.sync = GATE_BSP});
	join("w1", 1);
	gate_next(gate);
	nothing();
	join("w2", 1);
	push("w1", 1, 1, 0);
	gate_settled(gate, settle(), NULL, 0);
	pass();
	push("w1", 1, 2, 1);
	hand_over();
	gate_shards(gate, 1);
	gate_closed(gate, 'x'); /* connections of before say nothing here */
	gate_here(gate, "w1", 9, 'x');
	push("w1", 1, 2, 1);
	assert_int_equal(gate_active(gate), 2);
	gate_absent(gate);
	assert_int_equal(gate_active(gate), 1);
	assert_int_equal(seen(GATE_SETTLE, &e), 1); /* w2's absence closes the unit */
	gate_here(gate, "w1", 1, 'y'); /* it has a connection already */
	gate_closed(gate, 'y');
	assert_int_equal(gate_active(gate), 1);
}

static struct balance_member known[2];
static size_t asked;

static int sizes(uint64_t iteration, struct balance_member *m, size_t n, void *arg)
{
	(void)arg;
	assert_true(n <= 2);
	asked++;
	for (size_t i = 0; i < n; i++) {
		known[i] = m[i];
		m[i].size = 10 * iteration + i + 1;
	}
	return 0;
}

static void sizes_and_what_they_are_made_of_hold(void **state)
{
	const struct gate_effect *e;
	int told = 0;

	(void)state;
	start((struct gate_options){.sync = GATE_BSP, .balance = sizes, .expect = 2});
	join("w1", 1);
	hand_over(); /* one more is expected */
	gate_shards(gate, 1);
	join("w1", 1);
	nothing();
	join("w2", 1);
	pass();
	push("w1", 1, 1, 0);
	hand_over();
	gate_shards(gate, 1);
	push("w1", 1, 1, 0); /* the same again: held before, answered now */
	push("w2", 1, 1, 0);
	assert_int_equal(asked, 2);
	assert_int_equal(known[0].size, 1);
	assert_true(known[0].speed == 1.0 / 3.0 && known[0].time == 0.7 && known[0].mem == 0.25);
	assert_int_equal(known[0].count, 37);
	pass();
	hand_over(); /* the sizes are made, and not told yet */
	gate_shards(gate, 1);
	gate_settled(gate, settle(), NULL, 0);
	push("w1", 1, 1, 0);
	while ((e = gate_next(gate)))
		told += e->actions && strstr(e->actions, "id=w1 size=11 ");
	assert_int_equal(told, 1);
	assert_int_equal(asked, 2);
}

static void not_during_a_cut(void **state)
{
	char *text;
	size_t len;

	(void)state;
	start((struct gate_options){.sync = GATE_BSP});
	gate_cut(gate, ++token);
	assert_int_equal(gate_save(gate, &text, &len, NULL), -1); /* effects wait */
	pass();
	assert_int_equal(gate_save(gate, &text, &len, NULL), -1);
	gate_saved(gate);
	pass();
	gate_cut_over(gate);
	assert_int_equal(gate_save(gate, &text, &len, NULL), 0);
	free(text);
}

/* ---- text that no gate has written ---- */

/* A gate with something of everything. */
static void rich(void)
{
	static const char lines[] = "action kind=adjust-bs id=w2 size=9 accum=2\n";

	start((struct gate_options){.sync = GATE_BSP, .backup = 1});
	join("w1", 1);
	push("w1", 1, 1, 0);
	gate_settled(gate, settle(), NULL, 0);
	pass();
	assert_int_equal(gate_act(gate, lines, strlen(lines), 0, ++token, NULL), 0);
	push("w1", 1, 2, 1);
	settle();
	assert_int_equal(gate_act(gate, lines, strlen(lines), 0, ++token, NULL), 0);
	push("w1", 1, 3, 2);
	pass();
}

static int loads(const char *text, size_t len)
{
	struct gate *g;
	struct error err = {0};

	assert_int_equal(gate_new(&g, &started, NULL), 0);
	int rc = gate_load(g, text, len, &err);
	if (rc != 0) {
		assert_int_not_equal(err.code, 0);
		assert_string_not_equal(err.text, "");
	} else { /* what is taken can be used */
		gate_shards(g, 1);
		gate_absent(g);
		while (gate_next(g))
			;
	}
	gate_free(g);
	return rc;
}

static void damage_is_an_error_not_an_end(void **state)
{
	char *text, *copy;
	size_t len;

	(void)state;
	rich();
	assert_int_equal(gate_save(gate, &text, &len, NULL), 0);
	copy = malloc(len + 1);
	assert_non_null(copy);
	assert_int_equal(loads(text, len), 0);
	for (size_t i = 1; i < len; i++) {
		memcpy(copy, text, i); /* cut short */
		if (text[i - 1] != '\n')
			assert_int_equal(loads(copy, i), -1);
		memcpy(copy, text, len); /* one byte else, one byte less */
		copy[i] = copy[i] == '9' ? '0' : '9';
		(void)loads(copy, len);
		memmove(copy + i, text + i + 1, len - i - 1);
		(void)loads(copy, len - 1);
	}
	free(copy);
	free(text);
}

#define WORKER                                                                                     \
	"worker worker=w1 state=active generation=1 newest=1 fenced=0 throw=0 done=0 "             \
	"done-generation=0 done-sequence=0 done-dropped=0 clock=0 scale=1 acts-seen=0 fencing=0\n"

static void lines_that_cannot_be_are_refused(void **state)
{
	static const char *const bad[] = {
		"nonsense\n",
		"gate open=1\n",
		"ranges list=1:2:3\n",
		"worker worker=w1 state=absent generation=1\n",
		WORKER WORKER,
		("push list=held worker=w1 generation=1 sequence=1 iteration=0 count=1 loss=0 scale=1 "
		 "late=0 refused=0\n"),
		"act list=pending bytes=900\nx\n",
		"act list=pending bytes=1\nx",
		"act list=other bytes=2\nx\n",
		"act list=force bytes=2\nx\n",
		"act list=force bytes=7\naction\n",
		"act list=force bytes=22\naction kind=adjust-bs\n",
	};

	(void)state;
	start((struct gate_options){.sync = GATE_BSP});
	assert_int_equal(loads(WORKER, strlen(WORKER)), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (loads(bad[i], strlen(bad[i])) == 0)
			fail_msg("taken: %s", bad[i]);
	}
}

#define TEST(name) cmocka_unit_test_teardown(name, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fences_hold),
		TEST(older_generations_stay_out),
		TEST(a_fence_under_way_is_carried_out),
		TEST(what_is_to_be_thrown_away_is),
		TEST(clocks_go_on),
		TEST(weights_backups_and_acts_in_force_hold),
		TEST(the_end_holds),
		TEST(who_does_not_come_back_is_out),
		TEST(sizes_and_what_they_are_made_of_hold),
		TEST(not_during_a_cut),
		TEST(damage_is_an_error_not_an_end),
		TEST(lines_that_cannot_be_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
