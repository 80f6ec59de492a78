/*
 * Members that have the parameters themselves, where replicas sum: who enters with which state, who
 * gives it, what a settle waits for, who saves.  Two hosts, each with a replica; shardd takes
 * everything when it is asked, and replicas have a sum as soon as it can be made.
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

static size_t deaf; /* a replica that sums nothing; 9: none */
static int slow;    /* shardd does not answer settles */
static uint64_t asked, round_now;
static struct order_member member[8];
static size_t members;
static struct gate_push pushed[8];

static int stop_and_forget(void **state)
{
	memset(pushed, 0, sizeof pushed);
	members = 0;
	happened[0] = '\0';
	slow = 0;
	deaf = 9;
	return stop(state);
}
#define TEST(name) cmocka_unit_test_teardown(name, stop_and_forget)

static void add_answer(const struct gate_effect *e)
{
	add("%llu", (unsigned long long)e->token);
	if (e->saved)
		add(" saved %llu", (unsigned long long)e->saved - 1);
	if (e->save)
		add(e->save == GATE_SAVES_MEMORY ? " hold %s" : " save %s", e->worker);
	if (e->attempt)
		add(" give %llu", (unsigned long long)(e->attempt & UINT32_MAX));
	if (e->enough)
		add(" enough");
	if (e->save || e->attempt)
		add(" at %llu", (unsigned long long)e->iteration);
	add(e->ok ? " ok %s\n" : " err %s: %s\n", e->ok ? e->fields : e->code, e->fields);
}

/* A replica says of its members what they have told the lead, once all have pushed. */
static void sum(void)
{
	for (size_t i = 0; i < members; i++) {
		if (pushed[member[i].worker[1] - '0'].iteration != gate_iteration(gate) ||
		    !pushed[member[i].worker[1] - '0'].sequence)
			return;
	}
	for (size_t i = 0; i < members; i++) {
		const struct gate_push *p = &pushed[member[i].worker[1] - '0'];
		gate_summed_of(gate, (size_t)(member[i].replica[1] - '0'), round_now,
			       member[i].worker, member[i].generation, p->sequence, p->count);
	}
	for (size_t i = 0; i < 2; i++) {
		if (i != deaf && gate_in_force(gate, i))
			gate_summed(gate, i, round_now, 1);
	}
}

static void collect(void)
{
	const struct gate_effect *e;

	while ((e = gate_next(gate))) {
		switch (e->kind) {
		case GATE_ANSWER:
			add_answer(e);
			break;
		case GATE_SUM:
			round_now = e->round;
			members = e->members;
			memcpy(member, e->member, members * sizeof *member);
			add("sum %llu of %zu\n", (unsigned long long)e->iteration, members);
			break;
		case GATE_SETTLE:
			add("settle %llu", (unsigned long long)e->iteration);
			if (e->beginning)
				add(" of beginning %llu", (unsigned long long)e->beginning);
			add("\n");
			asked = e->number;
			if (!slow)
				gate_settled(gate, asked, NULL, 0);
			break;
		case GATE_APPLY:
			add("apply %llu\n", (unsigned long long)e->iteration);
			break;
		case GATE_SAVE:
			add("save\n");
			break;
		case GATE_CUT:
			add("cut %llu of %s", (unsigned long long)e->iteration,
			    e->members ? e->member->worker : "nobody");
			for (size_t i = 1; i < e->members; i++)
				add(e->member[i].only_memory ? ", held by %s" : " and %s",
				    e->member[i].worker);
			add("\n");
			break;
		default:
			break;
		}
	}
}

/* Rounds and attempts, which begin with the term, as #NUMBER. */
static void expect_at(int line, const char *expected)
{
	char out[sizeof happened], *at = out;

	collect();
	for (char *from = happened; *from;) {
		char *behind = from + 1;
		unsigned long long number = *from >= '0' && *from <= '9' ? strtoull(from, &behind, 10) : 0;
		if (number >> 32)
			at += sprintf(at, "#%llu", number & UINT32_MAX);
		else
			at = mempcpy(at, from, (size_t)(behind - from));
		from = behind;
	}
	*at = '\0';
	expect_said(line, out, expected);
}
#define expect(expected) expect_at(__LINE__, expected)

#define NONE GATE_NO_STATE

/* w0, w2 on the first host, w1, w3 on the second. beginning: of a state of iteration 0. */
static void enter_of(const char *worker, uint64_t generation, uint64_t version, uint64_t beginning)
{
	struct gate_who w = who(worker, generation);

	gate_state(gate, &w, version, beginning ? UINT64_C(1) << 32 | beginning : 0);
	assert_int_equal(gate_pushes_to(gate, &w, worker[1] % 2 ? "r1" : "r0"), 0);
	gate_join(gate, &w);
}

static void enter(const char *worker, uint64_t generation, uint64_t version)
{
	enter_of(worker, generation, version, 0);
}

static void push(const char *worker, uint64_t generation, uint64_t iteration, uint64_t count)
{
	struct gate_who w = who(worker, generation);
	struct gate_push *p = &pushed[worker[1] - '0'];
	struct gate_range range = {1, iteration * 100 + (uint64_t)worker[1], count};

	*p = (struct gate_push){.sequence = iteration + 1,
				.iteration = iteration,
				.count = count,
				.range = &range,
				.ranges = count > 0};
	gate_push(gate, &w, p);
	collect();
	sum();
	collect();
}

static void give(const char *worker, uint64_t attempt, int failed)
{
	struct gate_who w = who(worker, 1);

	gate_given(gate, &w, UINT64_C(1) << 32 | attempt, failed);
}

static void closed(const char *worker)
{
	gate_closed(gate, (uint64_t)worker[1]);
}

static void end(const char *worker)
{
	struct gate_who w = who(worker, 1);

	gate_end(gate, &w);
}

static void enough(const char *worker, uint64_t generation)
{
	struct gate_who w = who(worker, generation);

	gate_enough(gate, &w);
}

static void serve(size_t replica)
{
	gate_replica(gate, replica, &(struct gate_replica){.serving = 1});
}

static void open_gate(uint64_t expected, const struct gate_commit *last)
{
	start((struct gate_options){.foreign = 1, .replicas = 2, .expect = expected});
	gate_term(gate, 1, last);
	serve(0);
	serve(1);
}

/* w0 and w1, at iteration 1. */
static void two(void)
{
	open_gate(2, NULL);
	enter("w0", 1, 0);
	enter("w1", 1, 0);
	push("w0", 1, 0, 10);
	push("w1", 1, 0, 30);
	expect("1 ok iteration=0 members=2\n2 ok iteration=0 members=2\nsum 0 of 2\n"
	       "settle 0\napply 0\n"
	       "3 ok iteration=1 applied=1 samples=40 round=#1\n"
	       "4 ok iteration=1 applied=1 samples=40 round=#1\nsum 1 of 2\n");
}

/* ---- beginning ---- */

static void the_first_is_everybodys(void **state)
{
	(void)state;
	open_gate(3, NULL);
	enter("w2", 1, NONE);
	enter("w0", 1, NONE);
	expect("");
	enter("w1", 1, NONE);
	expect("2 give 2 at 0 ok iteration=0 members=1 beginning=#1\nsum 0 of 1\n");
	give("w0", 2, 0);
	expect("4 ok \n1 ok iteration=0 fill=r0 attempt=#2 beginning=#1\n"
	       "3 ok iteration=0 fill=r0 attempt=#2 beginning=#1\n");
	push("w0", 1, 0, 10); /* it waits for them */
	expect("");
	enter_of("w1", 1, 0, 1);
	expect("6 ok iteration=0 members=2 beginning=#1\nsum 0 of 2\n");
	enter_of("w2", 1, 0, 1);
	push("w1", 1, 0, 10);
	push("w2", 1, 0, 0);
	expect("7 ok iteration=0 members=3 beginning=#1\nsum 0 of 3\nsettle 0 of beginning #1\napply 0\n"
	       "5 ok iteration=1 applied=1 samples=20 round=#5\n"
	       "8 ok iteration=1 applied=1 samples=20 round=#5\n"
	       "9 ok iteration=1 applied=1 samples=20 round=#5\nsum 1 of 3\n");
}

static void who_is_expected_is_waited_for(void **state)
{
	(void)state;
	open_gate(2, NULL);
	enter("w1", 1, NONE);
	expect("");
	assert_false(gate_lost(gate));
	gate_begin(gate);
	expect("1 ok iteration=0 members=1 beginning=#1\nsum 0 of 1\n");
}

/* At iteration 0 each has begun with a state of its own: that of whoever is the first again is everybody's. */
static void after_all_have_gone_one_begins_again(void **state)
{
	(void)state;
	open_gate(1, NULL);
	enter("w0", 1, NONE);
	enter("w2", 1, NONE); /* w0 gives with its next answer, after the first sum */
	expect("1 ok iteration=0 members=1 beginning=#1\nsum 0 of 1\n");
	gate_replica_gone(gate, 0);
	serve(0);
	enter("w2", 2, NONE);
	expect("2 err fenced: its replica r0 is gone\n3 ok iteration=0 members=1 beginning=#3\nsum 0 of 1\n");
	enter_of("w0", 2, 0, 1);
	expect("");
	push("w2", 2, 0, 10);
	expect("settle 0 of beginning #3\napply 0\n5 give 5 at 1 ok iteration=1 applied=1 samples=10 round=#4\n"
	       "sum 1 of 1\n");
	enter_of("w0", 3, 0, 1); /* one behind, but not of the others' beginning */
	expect("4 err fenced: it joins again\n");
}

/* A new lead does not know which beginning was the last one, nor whether all who come are of the same. */
static void before_the_first_commit_a_new_lead_begins_again(void **state)
{
	(void)state;
	open_gate(2, NULL);
	enter_of("w0", 1, 0, 7);
	enter_of("w1", 1, 0, 9);
	expect("1 give 2 at 0 ok iteration=0 members=1 beginning=#1\nsum 0 of 1\n");
	give("w0", 2, 0);
	expect("3 ok \n2 ok iteration=0 fill=r0 attempt=#2 beginning=#1\n");
}

/* Behind it, it knows that from the note. */
static void after_the_first_commit_only_its_beginning_counts(void **state)
{
	struct gate_commit last = {.iteration = 1,
				   .round = UINT64_C(1) << 32 | 3,
				   .divisor = 1,
				   .samples = 10,
				   .beginning = UINT64_C(1) << 32 | 2};
	(void)state;
	open_gate(2, &last);
	enter_of("w0", 1, 0, 1); /* of an earlier one */
	enter_of("w1", 1, 0, 2);
	expect("2 ok iteration=1 step=#3 samples=10\n");
	enter("w1", 1, 1);
	expect("3 give 1 at 1 ok iteration=1 members=1\nsum 1 of 1\n");
	give("w1", 1, 0);
	expect("4 ok \n1 ok iteration=1 fill=r1 attempt=#1\n");
}

/* ---- joining ---- */

static void a_joiner_is_filled_and_enters_at_once(void **state)
{
	(void)state;
	two();
	push("w0", 1, 1, 10);
	enter("w2", 1, NONE); /* w0, on its host, is to give */
	expect("");
	push("w1", 1, 1, 10);
	expect("settle 1\napply 1\n5 give 3 at 2 ok iteration=2 applied=1 samples=20 round=#2\n"
	       "7 ok iteration=2 applied=1 samples=20 round=#2\nsum 2 of 2\n");
	push("w0", 1, 2, 10);
	push("w1", 1, 2, 10);
	expect(""); /* the sum is made, and not settled */
	give("w0", 3, 0);
	expect("10 ok \n6 ok iteration=2 fill=r0 attempt=#3\n");
	enter("w2", 1, 2);
	push("w2", 1, 2, 1);
	expect("11 ok iteration=2 members=3\nsum 2 of 3\nsettle 2\napply 2\n"
	       "8 ok iteration=3 applied=1 samples=21 round=#5\n"
	       "9 ok iteration=3 applied=1 samples=21 round=#5\n"
	       "12 ok iteration=3 applied=1 samples=21 round=#5\nsum 3 of 3\n");
}

/* Up to where w0 has given its state of iteration 2, and w2 has been told. */
static void filled(void)
{
	two();
	enter("w2", 1, NONE);
	push("w0", 1, 1, 10);
	push("w1", 1, 1, 10);
	give("w0", 3, 0);
	push("w0", 1, 2, 10);
	push("w1", 1, 2, 10);
	collect();
	happened[0] = '\0';
}

static void a_second_joiner_gets_the_same_state(void **state)
{
	(void)state;
	filled();
	enter("w3", 1, NONE);
	expect("11 ok iteration=2 fill=r0 attempt=#3\n");
	enter("w2", 1, 2);
	expect("12 ok iteration=2 members=3\nsum 2 of 3\n");
	push("w2", 1, 2, 0);
	expect(""); /* w3 is still to come */
	enter("w3", 1, 2);
	push("w3", 1, 2, 0);
	expect("14 ok iteration=2 members=4\nsum 2 of 4\nsettle 2\napply 2\n"
	       "9 ok iteration=3 applied=1 samples=20 round=#6\n"
	       "10 ok iteration=3 applied=1 samples=20 round=#6\n"
	       "13 ok iteration=3 applied=1 samples=20 round=#6\n"
	       "15 ok iteration=3 applied=1 samples=20 round=#6\nsum 3 of 4\n");
}

static void a_joiner_that_dies_holds_nobody(void **state)
{
	(void)state;
	filled();
	expect("");
	closed("w2");
	expect("settle 2\napply 2\n9 ok iteration=3 applied=1 samples=20 round=#4\n"
	       "10 ok iteration=3 applied=1 samples=20 round=#4\nsum 3 of 2\n");
}

static void a_late_joiner_is_filled_again(void **state)
{
	(void)state;
	filled();
	assert_int_equal(gate_state_due(gate), 3);
	gate_state_late(gate);
	assert_int_equal(gate_state_due(gate), 0);
	expect("settle 2\napply 2\n9 ok iteration=3 applied=1 samples=20 round=#4\n"
	       "10 ok iteration=3 applied=1 samples=20 round=#4\nsum 3 of 2\n");
	enter("w2", 1, 2); /* one behind: it may have the sum itself */
	expect("11 ok iteration=3 step=#4 samples=20\n");
	assert_int_equal(gate_state_due(gate), 4);
	enter("w2", 1, NONE); /* it has not */
	push("w0", 1, 3, 1);
	push("w1", 1, 3, 1);
	expect("settle 3\napply 3\n13 give 6 at 4 ok iteration=4 applied=1 samples=2 "
	       "round=#5\n14 ok iteration=4 applied=1 samples=2 round=#5\n"
	       "sum 4 of 2\n");
}

static void a_state_that_can_not_be_had_is_not_offered_twice(void **state)
{
	(void)state;
	filled();
	enter("w2", 1, NONE);
	expect("settle 2\napply 2\n"
	       "9 give 5 at 3 ok iteration=3 applied=1 samples=20 round=#4\n"
	       "10 ok iteration=3 applied=1 samples=20 round=#4\nsum 3 of 2\n");
}

/* ---- the giver ---- */

static void when_the_giver_dies_another_gives(void **state)
{
	(void)state;
	two();
	enter("w2", 1, NONE);
	push("w0", 1, 1, 10);
	push("w1", 1, 1, 10);
	expect("settle 1\napply 1\n6 give 3 at 2 ok iteration=2 applied=1 samples=20 round=#2\n"
	       "7 ok iteration=2 applied=1 samples=20 round=#2\nsum 2 of 2\n");
	push("w1", 1, 2, 10);
	closed("w0");
	expect("sum 2 of 1\n");
	sum();
	expect("settle 2\napply 2\n8 give 6 at 3 ok iteration=3 applied=1 samples=10 "
	       "round=#5\nsum 3 of 1\n");
	give("w0", 3, 0);
	expect("9 err no-give: nobody waits for attempt #3 of w0\n");
	give("w1", 6, 0);
	expect("10 ok \n5 ok iteration=3 fill=r1 attempt=#6\n");
}

static void when_the_giver_fails_another_gives(void **state)
{
	(void)state;
	two();
	enter("w2", 1, NONE);
	push("w0", 1, 1, 10);
	push("w1", 1, 1, 10);
	push("w0", 1, 2, 10);
	push("w1", 1, 2, 10);
	collect();
	happened[0] = '\0';
	give("w0", 3, 1);
	expect("10 ok \nsettle 2\napply 2\n8 ok iteration=3 applied=1 samples=20 "
	       "round=#4\n9 give 5 at 3 ok iteration=3 applied=1 samples=20 "
	       "round=#4\nsum 3 of 2\n");
}

static void a_state_goes_with_its_replica(void **state)
{
	(void)state;
	filled();
	gate_replica_gone(gate, 0); /* and w0, w2 with it */
	expect("9 err fenced: its replica r0 is gone\nsum 2 of 1\n");
	enter("w3", 1, NONE);
	expect("");
	sum();
	expect("settle 2\napply 2\n10 give 6 at 3 ok iteration=3 applied=1 samples=10 "
	       "round=#5\nsum 3 of 1\n");
}

/* ---- one behind ---- */

static void one_behind_steps_with_the_sum(void **state)
{
	(void)state;
	two();
	slow = 1;
	push("w0", 1, 1, 10);
	push("w1", 1, 1, 10);
	expect("settle 1\n");
	gate_sum_is_bad(gate);
	gate_replica_gone(gate, 0);
	serve(0);
	enter("w0", 1, 1); /* whether that is the lead's iteration is not known yet */
	expect("");
	slow = 0;
	gate_settled(gate, asked, NULL, 0);
	expect("apply 1\n5 ok iteration=2 applied=1 samples=20 round=#2 bad=1\n"
	       "6 ok iteration=2 applied=1 samples=20 round=#2 bad=1\n"
	       "7 ok iteration=2 step=#2 samples=20 bad=1\nsum 2 of 1\n");
	push("w1", 1, 2, 10);
	expect("");
	enter("w0", 1, 2);
	push("w0", 1, 2, 10);
	expect("9 ok iteration=2 members=2\nsum 2 of 2\nsettle 2\napply 2\n"
	       "8 ok iteration=3 applied=1 samples=20 round=#4\n"
	       "10 ok iteration=3 applied=1 samples=20 round=#4\nsum 3 of 2\n");
}

/* ---- a new lead ---- */

static void after_a_lead_died_members_come_back(void **state)
{
	struct gate_commit last = {.iteration = 7, .round = 5, .divisor = 20, .samples = 20};

	(void)state;
	open_gate(3, &last);
	enter("w0", 1, 6);
	enter("w1", 1, 7);
	expect("");
	enter("w2", 2, NONE); /* a new process */
	expect("1 ok iteration=7 step=5 samples=20\n2 give 1 at 7 ok iteration=7 members=1\n"
	       "sum 7 of 1\n");
	push("w1", 1, 7, 10);
	enter("w0", 1, 7);
	expect("5 ok iteration=7 members=2\nsum 7 of 2\n");
	give("w1", 1, 0);
	expect("6 ok \n3 ok iteration=7 fill=r1 attempt=#1\n");
}

static void when_nobody_has_the_state_it_is_lost(void **state)
{
	struct gate_commit last = {.iteration = 7, .round = 5, .divisor = 20, .samples = 20};

	(void)state;
	open_gate(2, &last);
	enter("w0", 2, NONE);
	assert_false(gate_lost(gate)); /* others are expected */
	gate_begin(gate);
	assert_true(gate_lost(gate));
	enter("w1", 2, 3);
	assert_true(gate_lost(gate));
	enter("w1", 2, 6);
	assert_false(gate_lost(gate));
	expect("2 err fenced: it joins again\n3 ok iteration=7 step=5 samples=20\n");
	enter("w1", 2, NONE);
	assert_true(gate_lost(gate));
	enter("w1", 2, 7);
	assert_false(gate_lost(gate));
	expect("4 err fenced: it joins again\n5 give 1 at 7 ok iteration=7 members=1\n"
	       "sum 7 of 1\n");
}

/* One that the lead put out may compute for long before it hears of that. */
static void who_was_put_out_may_still_come(void **state)
{
	(void)state;
	two();
	closed("w1");
	gate_replica_gone(gate, 0);
	serve(0);
	enter("w2", 1, NONE);
	assert_false(gate_lost(gate));
	closed("w0");
	assert_int_equal(gate_lost(gate), GATE_LOST_ABSENT);
}

/* As when the fabric begins anew, while a rank on the lead's host lacks the state. */
static void who_was_cut_off_may_come_back(void **state)
{
	(void)state;
	two();
	closed("w1");
	gate_fence(gate, "w1", 1, 99);
	closed("w0");
	enter("w2", 1, NONE);
	assert_int_equal(gate_lost(gate), GATE_LOST_ABSENT);
	gate_fence(gate, "w0", 1, 98); /* the supervisor has seen its end */
	assert_int_equal(gate_lost(gate), GATE_LOST);
	enter("w0", 2, 1); /* a person has said it, and it lives */
	assert_int_equal(gate_lost(gate), GATE_LOST_NOT);
	closed("w0");
	assert_int_equal(gate_lost(gate), GATE_LOST_ABSENT);
	enter("w0", 3, NONE);
	assert_int_equal(gate_lost(gate), GATE_LOST);
}

static void whose_replica_is_not_in_force_may_come_back(void **state)
{
	(void)state;
	two();
	gate_replica_gone(gate, 1);
	closed("w0");
	gate_fence(gate, "w0", 1, 99);
	enter("w1", 2, 1);
	enter("w2", 1, NONE);
	assert_int_equal(gate_lost(gate), GATE_LOST_ABSENT);
	assert_false(gate_turn_away(gate));
	assert_int_equal(gate_lost(gate), GATE_LOST_ABSENT);
	enter("w1", 2, 1);
	serve(1);
	assert_int_equal(gate_lost(gate), GATE_LOST_NOT);
}

static void who_loads_too_long_may_still_come(void **state)
{
	(void)state;
	filled();
	closed("w0");
	closed("w1");
	gate_state_late(gate);
	gate_replica_gone(gate, 0); /* with what was given */
	enter("w3", 1, NONE);
	assert_false(gate_lost(gate));
	closed("w2");
	assert_true(gate_lost(gate));
}

/* ---- leaving ---- */

static void leave(const char *worker)
{
	struct gate_who w = who(worker, 1);

	gate_leave(gate, &w);
}

static void the_last_gives_before_it_leaves(void **state)
{
	(void)state;
	two();
	leave("w1");
	expect("5 ok \nsum 1 of 1\n");
	enter("w2", 1, NONE);
	leave("w0");
	expect("7 give 4 at 1 ok wait=1\n");
	leave("w0");
	expect("8 ok wait=1\n");
	give("w0", 4, 0);
	expect("9 ok \n6 ok iteration=1 fill=r0 attempt=#4\n");
	leave("w0");
	expect("10 ok \n");
	enter("w2", 1, 1);
	expect("11 ok iteration=1 members=1\nsum 1 of 1\n");
	leave("w2"); /* nobody waits */
	expect("12 ok \n");
}

static void the_last_gives_before_it_leaves_after_its_end(void **state)
{
	(void)state;
	two();
	end("w1");
	leave("w0");
	expect("sum 1 of 1\n6 ok \n");
	enter("w2", 1, NONE);
	expect("5 give 4 at 1 ok wait=1\n");
	give("w1", 4, 0);
	expect("8 ok \n7 ok iteration=1 fill=r1 attempt=#4\n");
	enter("w2", 2, NONE); /* its connection broke: the state is still there */
	expect("9 ok iteration=1 fill=r1 attempt=#4\n");
	closed("w2");
	enter("w3", 1, NONE);
	gate_replica_gone(gate, 1);
	serve(1);
	enter("w0", 2, NONE);
	leave("w1");
	collect();
	assert_non_null(strstr(happened, "12 give"));
}

static void who_leaves_while_its_end_waits_is_answered_both(void **state)
{
	(void)state;
	two();
	end("w0");
	leave("w0");
	expect("sum 1 of 1\n5 ok wait=1\n6 ok \n");
	end("w1");
	enter("w2", 1, NONE);
	collect();
	assert_non_null(strstr(happened, "7 give"));
}

static void one_that_has_ended_gives_too(void **state)
{
	(void)state;
	two();
	end("w0");
	end("w1");
	expect("sum 1 of 1\n");
	enter("w2", 1, NONE);
	expect("5 give 4 at 1 ok wait=1\n");
	give("w0", 4, 0);
	end("w0");
	enter("w2", 1, 1);
	expect("8 ok \n7 ok iteration=1 fill=r0 attempt=#4\n"
	       "10 ok iteration=1 members=1\nsum 1 of 1\n");
}

static void who_was_put_out_does_not_end(void **state)
{
	(void)state;
	two();
	gate_replica_gone(gate, 0);
	serve(0);
	expect("sum 1 of 1\nsum 1 of 1\n");
	end("w0");
	expect("5 err fenced: not a member\n");
	enter("w0", 2, 1);
	collect();
	happened[0] = '\0';
	struct gate_who w = who("w0", 2);
	gate_end(gate, &w);
	end("w1");
	gate_finish(gate, 99);
	expect("sum 1 of 1\n7 ok \n8 ok \n99 ok \n");
}

/* ---- cuts ---- */

static void one_saves_what_was_committed(void **state)
{
	(void)state;
	two();
	gate_cut(gate, 99);
	push("w0", 1, 1, 10);
	push("w1", 1, 1, 10);
	expect("sum 1 of 2\nsettle 1\napply 1\nsave\nsum 2 of 2\n"); /* nobody has been answered */
	gate_saved(gate);
	expect("cut 2 of w0, held by w1\n5 save w0 at 2 ok iteration=2 applied=1 samples=20 round=#3\n"
	       "6 hold w1 at 2 ok iteration=2 applied=1 samples=20 round=#3\n");
	gate_cut_saved(gate);
	gate_cut_over(gate);
	gate_cut(gate, 98);
	push("w0", 1, 2, 10);
	push("w1", 1, 2, 10);
	expect("settle 2\napply 2\n7 saved 2 ok iteration=3 applied=1 samples=20 round=#4\n"
	       "8 saved 2 ok iteration=3 applied=1 samples=20 round=#4\nsum 3 of 2\n"); /* not checked */
	push("w0", 1, 3, 10);
	push("w1", 1, 3, 10);
	expect("settle 3\napply 3\nsave\nsum 4 of 2\n");
	gate_save_refused(gate, 0, "no");
	expect("98 err cut: shardd: no\n9 ok iteration=4 applied=1 samples=20 round=#5\n"
	       "10 ok iteration=4 applied=1 samples=20 round=#5\n");
}

static void one_of_each_other_host_holds_its_state(void **state)
{
	(void)state;
	open_gate(4, NULL);
	for (size_t i = 0; i < 4; i++)
		enter(&"w0\0w1\0w2\0w3"[3 * i], 1, 0);
	for (size_t i = 0; i < 4; i++)
		push(&"w0\0w1\0w2\0w3"[3 * i], 1, 0, 10);
	happened[0] = '\0';
	gate_cut(gate, 99);
	for (size_t i = 0; i < 4; i++)
		push(&"w0\0w1\0w2\0w3"[3 * i], 1, 1, 10);
	happened[0] = '\0';
	gate_saved(gate);
	collect();
	assert_non_null(strstr(happened, "cut 2 of w0, held by w1\n"));
	assert_null(strstr(happened, "hold w2"));
	assert_null(strstr(happened, "hold w3"));
}

static void before_the_first_iteration_nobody_saves(void **state)
{
	(void)state;
	open_gate(2, NULL);
	gate_cut(gate, 99);
	expect("save\n");
	gate_saved(gate);
	expect("cut 0 of nobody\n");
}

static void without_a_trainer_nothing_is_saved(void **state)
{
	(void)state;
	two();
	closed("w0");
	closed("w1");
	gate_cut(gate, 99);
	expect("sum 1 of 1\n"); /* both may come back */
	gate_fence(gate, "w0", 1, 97);
	gate_fence(gate, "w1", 1, 98);
	collect();
	expect("97 ok \n98 ok \n99 err cut: no trainer is here\n");
}

/* A lead that has just begun. */
static void a_cut_waits_for_the_first_who_comes(void **state)
{
	struct gate_commit last = {.iteration = 7, .round = 5, .divisor = 20, .samples = 20};

	(void)state;
	open_gate(0, &last);
	gate_cut(gate, 99);
	expect("");
	enter("w0", 1, 7);
	push("w0", 1, 7, 10);
	expect("1 ok iteration=7 members=1\nsum 7 of 1\nsettle 7\napply 7\nsave\nsum 8 of 1\n");
}

static void one_that_has_ended_saves(void **state)
{
	(void)state;
	two();
	end("w0");
	end("w1");
	gate_cut(gate, 99);
	expect("sum 1 of 1\nsave\n");
	gate_saved(gate);
	expect("cut 1 of w0\n5 save w0 at 1 ok wait=1\n");
}

/* It says so before its push or after it: in both cases all of that sum end behind it. */
static void all_of_a_sum_end_when_it_is_enough(void **state)
{
	(void)state;
	two();
	enough("w1", 7);
	enough("w0", 1);
	push("w0", 1, 1, 10);
	enough("w1", 1);
	expect("5 err fenced: not a member\n6 ok \n8 ok \n");
	push("w1", 1, 1, 10);
	expect("settle 1\napply 1\n7 enough ok iteration=2 applied=1 samples=20 round=#2\n"
	       "9 enough ok iteration=2 applied=1 samples=20 round=#2\nsum 2 of 2\n");
	end("w0");
	enter("w0", 2, 2); /* once more, while w1 has not ended yet, but trains nothing */
	expect("sum 2 of 1\n10 err fenced: it joins again\n11 enough ok iteration=2 members=2\nsum 2 of 2\n");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(the_first_is_everybodys),
		TEST(who_is_expected_is_waited_for),
		TEST(after_all_have_gone_one_begins_again),
		TEST(before_the_first_commit_a_new_lead_begins_again),
		TEST(after_the_first_commit_only_its_beginning_counts),
		TEST(a_joiner_is_filled_and_enters_at_once),
		TEST(a_second_joiner_gets_the_same_state),
		TEST(a_joiner_that_dies_holds_nobody),
		TEST(a_late_joiner_is_filled_again),
		TEST(a_state_that_can_not_be_had_is_not_offered_twice),
		TEST(when_the_giver_dies_another_gives),
		TEST(when_the_giver_fails_another_gives),
		TEST(a_state_goes_with_its_replica),
		TEST(one_behind_steps_with_the_sum),
		TEST(after_a_lead_died_members_come_back),
		TEST(when_nobody_has_the_state_it_is_lost),
		TEST(who_was_put_out_may_still_come),
		TEST(who_was_cut_off_may_come_back),
		TEST(whose_replica_is_not_in_force_may_come_back),
		TEST(who_loads_too_long_may_still_come),
		TEST(the_last_gives_before_it_leaves),
		TEST(the_last_gives_before_it_leaves_after_its_end),
		TEST(who_leaves_while_its_end_waits_is_answered_both),
		TEST(one_that_has_ended_gives_too),
		TEST(who_was_put_out_does_not_end),
		TEST(one_saves_what_was_committed),
		TEST(one_of_each_other_host_holds_its_state),
		TEST(before_the_first_iteration_nobody_saves),
		TEST(without_a_trainer_nothing_is_saved),
		TEST(a_cut_waits_for_the_first_who_comes),
		TEST(one_that_has_ended_saves),
		TEST(all_of_a_sum_end_when_it_is_enough),
	};

	deaf = 9;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
