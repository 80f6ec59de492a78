/*
 * The gate, event by event: after each the effects, written as lines, are compared with what the
 * life of a batch asks for.
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

static int hold_is_told; /* 0: the servers have everything, and it is not looked at */

static int stop_and_forget(void **state)
{
	hold_is_told = 0;
	return stop(state);
}

static void add_effect(const struct gate_effect *e)
{
	switch (e->kind) {
	case GATE_ANSWER:
		add("%llu ", (unsigned long long)e->token);
		if (e->actions)
			add("{%s} ", e->actions);
		add(e->ok ? "ok %s" : "err %s", e->ok ? e->fields : e->code);
		break;
	case GATE_HOLD:
		add("hold");
		if (e->tos)
			add(" %llu", (unsigned long long)e->round & 0xffffffff);
		for (size_t i = 0; i < e->tos; i++)
			add(" r%zu%s", e->to[i], i + 1 < e->tos ? "" : ":");
		for (size_t i = 0; i < e->pushes; i++) {
			add(" %s/%llu.%llu", e->push[i].worker,
			    (unsigned long long)e->push[i].generation,
			    (unsigned long long)e->push[i].sequence);
			if (e->tos)
				add("*%llu", (unsigned long long)e->push[i].count);
		}
		break;
	case GATE_SETTLE:
		add("settle %llu", (unsigned long long)e->number);
		for (size_t i = 0; i < e->lines; i++)
			add(" %s%s/%llu:%llu+%llu", e->line[i].back ? "-" : "", e->line[i].worker,
			    (unsigned long long)e->line[i].generation,
			    (unsigned long long)e->line[i].range.begin,
			    (unsigned long long)e->line[i].range.length);
		if (e->whole)
			add(" whole %llu/%llu/%llu", (unsigned long long)e->round & 0xffffffff,
			    (unsigned long long)e->divisor, (unsigned long long)e->samples);
		break;
	case GATE_SUM:
		add("sum %llu", (unsigned long long)e->round & 0xffffffff);
		for (size_t i = 0; i < e->tos; i++)
			add(" r%zu", e->to[i]);
		add("%s:", e->check ? " check" : "");
		for (size_t i = 0; i < e->members; i++)
			add(" %s/%llu@%s*%g", e->member[i].worker,
			    (unsigned long long)e->member[i].generation, e->member[i].replica,
			    e->member[i].scale);
		break;
	case GATE_FILL:
		add("fill r%zu from r%zu at %llu", e->replica, e->from,
		    (unsigned long long)e->iteration);
		break;
	case GATE_APPLY:
		add("apply %llu", (unsigned long long)e->iteration);
		for (size_t i = 0; i < e->tos; i++)
			add(" r%zu", e->to[i]);
		if (e->round)
			add(" sum %llu/%llu", (unsigned long long)e->round & 0xffffffff,
			    (unsigned long long)e->divisor);
		for (size_t i = 0; i < e->pushes; i++)
			add(" %s/%llu.%llu@%llu*%g", e->push[i].worker,
			    (unsigned long long)e->push[i].generation,
			    (unsigned long long)e->push[i].sequence,
			    (unsigned long long)e->push[i].unit, e->push[i].scale);
		for (size_t i = 0; i < e->pushes; i++)
			if (e->push[i].size > e->push[i].count)
				add(" of %llu", (unsigned long long)e->push[i].size);
		break;
	case GATE_DROP:
		add("drop %s/%llu.%llu", e->worker, (unsigned long long)e->generation,
		    (unsigned long long)e->sequence);
		break;
	case GATE_THROW:
		add("throw %s/%llu", e->worker, (unsigned long long)e->generation);
		break;
	case GATE_SAVE:
		add("save");
		break;
	case GATE_CUT:
		add("cut %llu", (unsigned long long)e->iteration);
		break;
	case GATE_REFUSED:
		add("refused %s/%llu: %s", e->worker, (unsigned long long)e->generation, e->fields);
		break;
	case GATE_STILL:
		add("still");
		break;
	case GATE_QUIT:
		add("quit%s%s", e->fields[0] ? ": " : "", e->fields);
		break;
	}
	add("\n");
}

/* The effects since the last call, behind those that were not looked at yet. */
static void collect(void)
{
	const struct gate_effect *e;

	while ((e = gate_next(gate))) {
		if (e->kind != GATE_HOLD || hold_is_told || e->tos)
			add_effect(e);
		if (e->kind == GATE_HOLD && !hold_is_told && !e->tos)
			gate_held(gate, NULL, 0);
	}
}

/* What happens meanwhile is not looked at. */
static void pass(void)
{
	collect();
	happened[0] = '\0';
}

static void expect_at(int line, const char *expected)
{
	collect();
	expect_said(line, happened, expected);
}
#define expect(expected) expect_at(__LINE__, expected)

static void leave(const char *worker, uint64_t generation)
{
	struct gate_who w = who(worker, generation);
	gate_leave(gate, &w);
}

static double speed_said; /* with the next pushes */

static void push(const char *worker, uint64_t generation, uint64_t sequence, uint64_t iteration)
{
	struct gate_who w = who(worker, generation);
	struct gate_range range = {1, sequence * 10, 10};
	struct gate_push p = {.sequence = sequence,
			      .iteration = iteration,
			      .count = 10,
			      .loss = 1.0,
			      .range = &range,
			      .ranges = 1,
			      .speed = speed_said};
	gate_push(gate, &w, &p);
}

static void settled(uint64_t number, const char *fenced)
{
	collect(); /* the settle is one of them */
	gate_settled(gate, number, &fenced, fenced ? 1 : 0);
}

/* ---- BSP ---- */

static void first_member_enters_at_once_others_at_the_close(void **state)
{
	(void)state;
	start((struct gate_options){.iteration = 5});
	join("w0", 1);
	expect("1 ok iteration=5 members=1\n");
	join("w1", 1);
	expect("");
	push("w0", 1, 1, 5);
	expect("2 ok iteration=6 members=2\nsettle 1 w0/1:10+10\n");
	settled(1, NULL);
	expect("apply 5 w0/1.1@0*1\n3 ok iteration=6 applied=1\n");
}

static void pair(struct gate_options options)
{
	start(options);
	join("w10", 1);
	leave("w10", 1);
	join("w2", 1);
	join("w10", 1);
	push("w2", 1, 1, 0);
	pass();
	settled(1, NULL);
	pass();
}

/* They join, and all but the last two leave again; these push, the last one first. */
static void two_push_of(int workers)
{
	char id[8];

	start((struct gate_options){.iteration = 0, .expect = (uint64_t)workers});
	for (int i = 0; i < workers; i++) {
		snprintf(id, sizeof id, "w%d", i);
		join(id, 1);
	}
	for (int i = 0; i < workers - 2; i++) {
		snprintf(id, sizeof id, "w%d", i);
		leave(id, 1);
	}
	pass();
	for (int i = workers - 1; i >= workers - 2; i--) {
		snprintf(id, sizeof id, "w%d", i);
		push(id, 1, 1, 0);
	}
}

static void units_go_by_seat(void **state)
{
	(void)state;
	two_push_of(5);
	expect("settle 1 w3/1:10+10 w4/1:10+10\n");
}

static void units_go_as_they_came_where_few_are_left(void **state)
{
	(void)state;
	two_push_of(6);
	expect("settle 1 w5/1:10+10 w4/1:10+10\n");
}

static void unit_closes_with_all_and_applies_in_worker_order(void **state)
{
	(void)state;
	pair((struct gate_options){0});
	assert_int_equal(gate_awaits(gate), 2);
	push("w10", 1, 1, 1);
	expect("");
	assert_int_equal(gate_awaits(gate), 1);
	push("w2", 1, 2, 1);
	expect("settle 2 w10/1:10+10 w2/1:20+10\n");
	settled(1, NULL); /* of another number */
	expect("");
	settled(2, NULL);
	expect("apply 1 w2/1.2@0*1 w10/1.1@0*1\n6 ok iteration=2 applied=1\n"
	       "7 ok iteration=2 applied=1\n");
}

static void leave_idle(const char *worker, uint64_t generation, uint64_t size)
{
	struct gate_who w = who(worker, generation);
	gate_idle(gate, &w, size);
	gate_idle(gate, &w, size); /* said again, it counts once */
	gate_leave(gate, &w);
}

/* Until it joins again. Nobody says that he would train more than was ever trained, or without taking part. */
static void who_has_nothing_to_train_counts_in_the_mean(void **state)
{
	(void)state;
	pair((struct gate_options){0});
	push("w10", 1, 1, 1);
	leave_idle("w2", 1, 1000);
	pass();
	settled(2, NULL);
	expect("apply 1 w10/1.1@0*1 of 20\n6 ok iteration=2 applied=1\n");
	leave_idle("w2", 1, 8); /* it is out */
	push("w10", 1, 2, 2);
	pass();
	settled(3, NULL);
	expect("apply 2 w10/1.2@0*1 of 20\n9 ok iteration=3 applied=1\n");
	join("w2", 1);
	push("w10", 1, 3, 3);
	pass();
	settled(4, NULL);
	expect("apply 3 w10/1.3@0*1\n11 ok iteration=4 applied=1\n");
}

static void who_is_idle_and_goes_does_not_count(void **state)
{
	(void)state;
	pair((struct gate_options){0});
	push("w10", 1, 1, 1);
	leave_idle("w2", 1, 10);
	gate_fence(gate, "w2", 1, 100); /* it died */
	pass();
	settled(2, NULL);
	expect("apply 1 w10/1.1@0*1\n6 ok iteration=2 applied=1\n");
}

static void leaving_closes_the_unit_for_the_others(void **state)
{
	(void)state;
	pair((struct gate_options){0});
	push("w10", 1, 1, 1);
	leave("w2", 1);
	expect("7 ok \nsettle 2 w10/1:10+10\n");
}

static void closed_connection_leaves_and_discards(void **state)
{
	(void)state;
	pair((struct gate_options){0});
	push("w2", 1, 2, 1);
	gate_closed(gate, '2');
	expect("drop w2/1.2\n6 err fenced\n");
	push("w10", 1, 1, 1);
	expect("settle 2 w10/1:10+10\n");
	gate_closed(gate, '1'); /* its push is with shardd: that goes on */
	expect("");
	settled(2, NULL);
	expect("apply 1 w10/1.1@0*1\n7 ok iteration=2 applied=1\n");
}

static void fenced_at_shardd_is_not_applied_and_out(void **state)
{
	(void)state;
	pair((struct gate_options){0});
	push("w10", 1, 1, 1);
	push("w2", 1, 2, 1);
	expect("settle 2 w10/1:10+10 w2/1:20+10\n");
	settled(2, "w2");
	expect("apply 1 w10/1.1@0*1\n6 ok iteration=2 applied=1\n7 err fenced\n"
	       "throw w2/1\n");
	push("w2", 1, 3, 2);
	expect("8 err fenced\n");
	join("w2", 1); /* what it pushes is thrown away everywhere from now on */
	expect("9 err fenced\n");
	push("w10", 1, 2, 2);
	expect("settle 3 w10/1:20+10\n");
	join("w2", 2);
	settled(3, NULL);
	expect("apply 2 w10/1.2@0*1\n10 ok iteration=3 applied=1\n");
}

static void repeated_push_is_acknowledged_not_applied(void **state)
{
	(void)state;
	start((struct gate_options){0});
	join("w0", 3);
	push("w0", 3, 4, 0);
	push("w0", 3, 4, 0);
	settled(1, NULL);
	expect("1 ok iteration=0 members=1\nsettle 1 w0/3:40+10\napply 0 w0/3.4@0*1\n"
	       "2 ok iteration=1 applied=1\n3 ok iteration=1 applied=1 repeated=1\n");
	push("w0", 3, 4, 1);
	push("w0", 3, 2, 1);
	expect("4 ok iteration=1 applied=1 repeated=1\n5 ok iteration=1 applied=1 repeated=1\n");
}

static void old_names_are_refused(void **state)
{
	struct gate_who w;

	(void)state;
	start((struct gate_options){0});
	join("w0", 3);
	expect("1 ok iteration=0 members=1\n");
	push("w0", 2, 1, 0);
	expect("2 err fenced\n");
	push("w1", 1, 1, 0);
	expect("3 err fenced\n");
	join("w0", 2);
	expect("4 err fenced\n");
	w = who("w0", 3);
	w.incarnation = 6;
	gate_join(gate, &w);
	gate_leave(gate, &w);
	expect("5 err fenced\n5 err fenced\n");
	push("w0", 3, 1, 9);
	expect("6 err bad-request\ndrop w0/3.1\n"); /* an iteration that is not open yet */
	join("w0", 4);
	expect("throw w0/3\n7 ok iteration=0 members=1\n");
}

static void backup_worker_is_dropped_when_late(void **state)
{
	(void)state;
	pair((struct gate_options){.backup = 1});
	assert_int_equal(gate_awaits(gate), 1);
	push("w10", 1, 1, 1);
	expect("settle 2 w10/1:10+10\n");
	push("w2", 1, 2, 1);
	expect(""); /* late; one settle at a time */
	settled(2, NULL);
	expect("apply 1 w10/1.1@0*1\n6 ok iteration=2 applied=1\nsettle 3 -w2/1:20+10\n");
	settled(3, NULL);
	expect("7 ok iteration=2 dropped=1\n");
	push("w2", 1, 2, 1);
	expect("8 ok iteration=2 dropped=1 repeated=1\n");
}

/* ---- sizes at every barrier ---- */

static char asked[512];
static int refuse;

/* 100 in all, in proportion to speeds; the last one gets the rest. */
static int by_speed(uint64_t iteration, struct balance_member *m, size_t n, void *arg)
{
	double sum = 0;
	uint64_t left = 100;
	size_t len = (size_t)snprintf(asked, sizeof asked, "%llu", (unsigned long long)iteration);

	assert_ptr_equal(arg, asked);
	for (size_t i = 0; i < n; i++) {
		len += (size_t)snprintf(asked + len, sizeof asked - len, " %s:%g/%llu", m[i].worker,
					m[i].speed, (unsigned long long)m[i].size);
		sum += m[i].speed > 0 ? m[i].speed : 1;
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t size = (uint64_t)(100 * (m[i].speed > 0 ? m[i].speed : 1) / sum);
		m[i].size = i + 1 < n ? size : left;
		left -= size;
	}
	return refuse ? -1 : 0;
}

#define BALANCED                                                                                   \
	(struct gate_options)                                                                      \
	{                                                                                          \
		.balance = by_speed, .balance_arg = asked                                          \
	}
#define SIZE(worker, size)                                                                         \
	"{action kind=adjust-bs id=" worker " size=" #size " accum=1 barrier=1\n} "

static void balanced_pair(struct gate_options options)
{
	start(options);
	speed_said = 0;
	refuse = 0;
	join("w0", 1);
	expect("1 " SIZE("w0", 100) "ok iteration=0 members=1\n");
	join("w1", 1);
	speed_said = 3;
	push("w0", 1, 1, 0);
	expect("2 " SIZE("w1", 25) "ok iteration=1 members=2\nsettle 1 w0/1:10+10\n");
	assert_string_equal(asked, "1 w0:3/100 w1:0/0");
	settled(1, NULL);
	expect("apply 0 w0/1.1@0*1\n3 " SIZE("w0", 75) "ok iteration=1 applied=1\n");
}

static void sizes_go_with_the_answers_when_they_change(void **state)
{
	(void)state;
	balanced_pair(BALANCED);
	push("w0", 1, 2, 1);
	speed_said = 1;
	push("w1", 1, 1, 1);
	assert_string_equal(asked, "2 w0:3/75 w1:1/25");
	settled(2, NULL);
	expect("settle 2 w0/1:20+10 w1/1:10+10\napply 1 w0/1.2@0*1 w1/1.1@0*1\n"
	       "4 ok iteration=2 applied=1\n5 ok iteration=2 applied=1\n");
	push("w1", 1, 2, 2);
	speed_said = 1;
	push("w0", 1, 3, 2);
	settled(3, NULL);
	expect("settle 3 w0/1:30+10 w1/1:20+10\napply 2 w0/1.3@0*1 w1/1.2@0*1\n" /* by seat: w0 came last */
	       "7 " SIZE("w0", 50) "ok iteration=3 applied=1\n6 " SIZE("w1", 50)
	       "ok iteration=3 applied=1\n");
	push("w0", 1, 3, 2); /* its answer may have been lost */
	expect("8 " SIZE("w0", 50) "ok iteration=3 applied=1 repeated=1\n");
}

static void the_share_of_who_goes_goes_to_the_others(void **state)
{
	(void)state;
	balanced_pair(BALANCED);
	leave("w1", 1);
	push("w0", 1, 2, 1);
	assert_string_equal(asked, "2 w0:3/75");
	settled(2, NULL);
	expect("4 ok \nsettle 2 w0/1:20+10\napply 1 w0/1.2@0*1\n5 " SIZE("w0", 100)
	       "ok iteration=2 applied=1\n");
	join("w1", 2); /* comes back: what it told before is still known */
	speed_said = 3;
	push("w0", 1, 3, 2);
	assert_string_equal(asked, "3 w0:3/100 w1:0/25");
}

static void a_joiner_may_tell_its_speed(void **state)
{
	struct gate_who w;

	(void)state;
	balanced_pair(BALANCED);
	w = who("w2", 4);
	gate_speed(gate, &w, 2);
	gate_join(gate, &w);
	w = who("w2", 3); /* of a life that is over */
	gate_speed(gate, &w, 9);
	w = who("w2", 5); /* of another incarnation */
	w.incarnation--;
	gate_speed(gate, &w, 9);
	push("w0", 1, 2, 1);
	push("w1", 1, 1, 1);
	assert_string_equal(asked, "2 w0:3/75 w1:3/25 w2:2/0");
}

static void what_can_not_be_met_leaves_sizes_as_they_are(void **state)
{
	(void)state;
	balanced_pair(BALANCED);
	refuse = 1;
	speed_said = 7;
	push("w0", 1, 2, 1);
	push("w1", 1, 1, 1);
	settled(2, NULL);
	expect("settle 2 w0/1:20+10 w1/1:10+10\napply 1 w0/1.2@0*1 w1/1.1@0*1\n"
	       "4 ok iteration=2 applied=1\n5 ok iteration=2 applied=1\n");
}

static void late_ones_hear_of_the_newest_size(void **state)
{
	struct gate_options options = BALANCED;

	(void)state;
	options.backup = 1;
	balanced_pair(options);
	push("w0", 1, 2, 1);
	settled(2, NULL);
	expect("settle 2 w0/1:20+10\napply 1 w0/1.2@0*1\n4 ok iteration=2 applied=1\n");
	speed_said = 1;
	push("w1", 1, 1, 1); /* late */
	settled(3, NULL);
	expect("settle 3 -w1/1:10+10\n5 ok iteration=2 dropped=1\n");
	push("w0", 1, 3, 2);
	assert_string_equal(asked, "3 w0:1/75 w1:1/25");
	settled(4, NULL);
	expect("settle 4 w0/1:30+10\napply 2 w0/1.3@0*1\n6 " SIZE("w0", 50)
	       "ok iteration=3 applied=1\n");
	push("w1", 1, 2, 2);
	settled(5, NULL);
	expect("settle 5 -w1/1:20+10\n7 " SIZE("w1", 50)
	       "ok iteration=3 dropped=1\n");
}

static void sizes_by_hand_are_refused_then(void **state)
{
	static const char size[] = "action kind=adjust-lr id=w0 scale=0.5\n"
				   "action kind=adjust-bs id=w0 size=5\n";
	static const char rate[] = "action kind=adjust-lr id=w0 scale=0.5\n";
	struct error err = {0};

	(void)state;
	balanced_pair(BALANCED);
	assert_int_equal(gate_act(gate, size, strlen(size), 0, ++token, &err), -1);
	assert_int_equal(err.code, ERROR_NOPERM);
	assert_int_equal(gate_act(gate, rate, strlen(rate), 0, ++token, &err), 0);
	expect("5 ok iteration=2\n");
	speed_said = 3;
	push("w0", 1, 2, 1);
	speed_said = 3;
	push("w1", 1, 1, 1);
	settled(2, NULL);
	expect("settle 2 w0/1:20+10 w1/1:10+10\napply 1 w0/1.2@0*1 w1/1.1@0*1\n"
	       "6 {action kind=adjust-bs id=w0 size=50 accum=1 barrier=1\n"
	       "action kind=adjust-lr id=w0 scale=0.5\n} ok iteration=2 applied=1\n"
	       "7 {action kind=adjust-bs id=w1 size=50 accum=1 barrier=1\n} ok iteration=2 "
	       "applied=1\n");
}

static void those_who_are_expected_enter_together(void **state)
{
	struct gate_options options = BALANCED;

	(void)state;
	options.expect = 3;
	start(options);
	speed_said = 0;
	join("w0", 1);
	join("w1", 1);
	leave("w1", 1);
	join("w2", 1);
	expect("2 err fenced\n3 ok \n");
	join("w1", 2);
	expect("throw w1/1\n1 " SIZE("w0", 33) "ok iteration=0 members=3\n5 " SIZE("w1", 33)
	       "ok iteration=0 members=3\n4 " SIZE("w2", 34) "ok iteration=0 members=3\n");
}

static void nobody_is_expected_for_ever(void **state)
{
	struct gate_options options = BALANCED;

	(void)state;
	options.expect = 3;
	start(options);
	join("w0", 1);
	expect("");
	gate_begin(gate);
	expect("1 " SIZE("w0", 100) "ok iteration=0 members=1\n");
}

/* ---- fences ---- */

static void fence_waits_for_the_settle_that_names_the_worker(void **state)
{
	(void)state;
	start((struct gate_options){0});
	join("w0", 1);
	push("w0", 1, 1, 0);
	expect("1 ok iteration=0 members=1\nsettle 1 w0/1:10+10\n");
	gate_fence(gate, "w0", 1, ++token);
	expect("");
	settled(1, NULL);
	expect("apply 0 w0/1.1@0*1\n2 ok iteration=1 applied=1\nthrow w0/1\n3 ok \n");
	join("w0", 1);
	join("w0", 2);
	expect("4 err fenced\n5 ok iteration=1 members=1\n");
}

static void fence_discards_what_is_held(void **state)
{
	(void)state;
	pair((struct gate_options){0});
	push("w2", 1, 2, 1);
	gate_fence(gate, "w2", 1, ++token);
	expect("drop w2/1.2\n6 err fenced\nthrow w2/1\n7 ok \n");
	push("w10", 1, 1, 1);
	expect("settle 2 w10/1:10+10\n");
	gate_fence(gate, "w9", 4, ++token); /* of a worker never seen */
	expect("throw w9/4\n9 ok \n");
}

/* ---- ASP, SSP ---- */

static void asp_settles_waiting_pushes_together_as_units(void **state)
{
	(void)state;
	start((struct gate_options){.sync = GATE_ASP});
	join("w0", 1);
	join("w1", 1);
	join("w2", 1);
	expect("1 ok iteration=0 members=1\n2 ok iteration=0 members=2\n"
	       "3 ok iteration=0 members=3\n");
	push("w1", 1, 1, 0);
	push("w2", 1, 1, 0);
	push("w0", 1, 1, 0);
	expect("settle 1 w1/1:10+10\n");
	settled(1, NULL);
	expect("apply 0 w1/1.1@0*1\n4 ok iteration=1 applied=1\nsettle 2 w2/1:10+10 w0/1:10+10\n");
	settled(2, "w2");
	expect("apply 1 w0/1.1@0*1\n5 err fenced\nthrow w2/1\n6 ok iteration=2 applied=1\n");
}

static void ssp_holds_the_answer_of_who_is_ahead(void **state)
{
	(void)state;
	start((struct gate_options){.sync = GATE_SSP, .staleness = 1});
	join("w0", 1);
	join("w1", 1);
	assert_int_equal(gate_awaits(gate), 0); /* each push is a unit */
	push("w0", 1, 1, 0);
	settled(1, NULL);
	push("w0", 1, 2, 1);
	settled(2, NULL);
	expect("1 ok iteration=0 members=1\n2 ok iteration=0 members=2\nsettle 1 w0/1:10+10\n"
	       "apply 0 w0/1.1@0*1\n3 ok iteration=1 applied=1\nsettle 2 w0/1:20+10\n"
	       "apply 1 w0/1.2@0*1\n");
	push("w1", 1, 1, 0);
	settled(3, NULL);
	expect("settle 3 w1/1:10+10\napply 2 w1/1.1@0*1\n4 ok iteration=3 applied=1\n"
	       "5 ok iteration=3 applied=1\n");
	push("w0", 1, 3, 3);
	settled(4, NULL);
	expect("settle 4 w0/1:30+10\napply 3 w0/1.3@0*1\n");
	join("w2", 1); /* starts with the slowest */
	expect("7 ok iteration=4 members=3\n");
	leave("w1", 1);
	expect("8 ok \n");
	leave("w2", 1);
	expect("9 ok \n6 ok iteration=4 applied=1\n");
}

/* ---- actions ---- */

static void act(const char *lines)
{
	assert_int_equal(gate_act(gate, lines, strlen(lines), 0, ++token, NULL), 0);
}

static void actions_come_with_one_close_and_stay_for_joiners(void **state)
{
	(void)state;
	pair((struct gate_options){0});
	push("w10", 1, 1, 1);
	act("action kind=adjust-lr id=w2 scale=0.5\naction kind=none\n");
	expect("7 ok iteration=2\n");
	push("w2", 1, 2, 1);
	settled(2, NULL);
	expect("settle 2 w10/1:10+10 w2/1:20+10\napply 1 w2/1.2@0*1 w10/1.1@0*1\n"
	       "6 {action kind=none\n} ok iteration=2 applied=1\n"
	       "8 {action kind=none\naction kind=adjust-lr id=w2 scale=0.5\n} ok iteration=2 "
	       "applied=1\n");
	push("w10", 1, 2, 2);
	join("w3", 1);
	push("w2", 1, 3, 2);
	settled(3, NULL);
	expect("10 ok iteration=3 members=3\n"
	       "settle 3 w10/1:20+10 w2/1:30+10\napply 2 w2/1.3@0*0.5 w10/1.2@0*1\n"
	       "9 ok iteration=3 applied=1\n11 ok iteration=3 applied=1\n");
}

/* A batch of 64 was cut for two; the third is not there then, and has a size from before. */
static void sizes_make_their_batch_when_members_come_and_go(void **state)
{
	(void)state;
	pair((struct gate_options){0});
	act("action kind=adjust-bs id=w3 size=20 accum=1 batch=64\n");
	act("action kind=adjust-bs id=w10 size=40 accum=1 batch=64\n"
	    "action kind=adjust-bs id=w2 size=24 accum=1 batch=64\n");
	push("w10", 1, 1, 1);
	push("w2", 1, 2, 1);
	settled(2, NULL);
	expect("6 ok iteration=2\n"
	       "7 ok iteration=2\n"
	       "settle 2 w10/1:10+10 w2/1:20+10\n"
	       "apply 1 w2/1.2@0*1 w10/1.1@0*1\n"
	       "8 {action kind=adjust-bs id=w10 size=40 accum=1 batch=64\n"
	       "} ok iteration=2 applied=1\n"
	       "9 {action kind=adjust-bs id=w2 size=24 accum=1 batch=64\n"
	       "} ok iteration=2 applied=1\n");
	join("w3", 1);
	push("w10", 1, 2, 2);
	push("w2", 1, 3, 2);
	settled(3, NULL);
	expect("10 {action kind=adjust-bs id=w3 size=20 accum=1 batch=64\n"
	       "action kind=adjust-bs id=w3 size=15 accum=1 barrier=1\n"
	       "} ok iteration=3 members=3\n"
	       "settle 3 w10/1:20+10 w2/1:30+10\n"
	       "apply 2 w2/1.3@0*1 w10/1.2@0*1\n"
	       "11 {action kind=adjust-bs id=w10 size=30 accum=1 barrier=1\n"
	       "} ok iteration=3 applied=1\n"
	       "12 {action kind=adjust-bs id=w2 size=19 accum=1 barrier=1\n"
	       "} ok iteration=3 applied=1\n");
	push("w10", 1, 3, 3);
	push("w3", 1, 1, 3);
	leave("w2", 1);
	settled(4, NULL);
	expect("15 ok \n"
	       "settle 4 w10/1:30+10 w3/1:10+10\n"
	       "apply 3 w3/1.1@0*1 w10/1.3@0*1\n"
	       "13 {action kind=adjust-bs id=w10 size=43 accum=1 barrier=1\n"
	       "} ok iteration=4 applied=1\n"
	       "14 {action kind=adjust-bs id=w3 size=21 accum=1 barrier=1\n"
	       "} ok iteration=4 applied=1\n");
	/* one of them is no part of a batch: all have what they were given */
	act("action kind=adjust-bs id=w10 size=10 accum=1\n");
	push("w10", 1, 4, 4);
	push("w3", 1, 2, 4);
	settled(5, NULL);
	expect("16 ok iteration=5\n"
	       "settle 5 w10/1:40+10 w3/1:20+10\n"
	       "apply 4 w3/1.2@0*1 w10/1.4@0*1\n"
	       "17 {action kind=adjust-bs id=w10 size=10 accum=1\n"
	       "action kind=adjust-bs id=w10 size=10 accum=1 barrier=1\n"
	       "} ok iteration=5 applied=1\n"
	       "18 {action kind=adjust-bs id=w3 size=20 accum=1 barrier=1\n"
	       "} ok iteration=5 applied=1\n");
}

/* A size and a rate for each of as many workers as a job may have; each gets its own two. */
static void a_decision_for_1024_workers_is_one(void **state)
{
	enum { WORKERS = 1024 };
	char *lines = NULL, own[200];
	size_t len = 0;
	FILE *out = open_memstream(&lines, &len);

	(void)state;
	pair((struct gate_options){0});
	for (int i = 0; i < WORKERS; i++)
		fprintf(out, "action kind=adjust-bs id=w%d size=%d accum=16\n"
			     "action kind=adjust-lr id=w%d scale=0.70710678118654757\n",
			i, 1000000 + i, i);
	fclose(out);
	assert_true(len > 65536);
	act(lines);
	pass();
	for (uint64_t again = 0; again < 2; again++) { /* with the close, and in force */
		const struct gate_effect *e;
		int id = again ? 1023 : 10, told = 0;
		snprintf(own, sizeof own,
			 "action kind=adjust-bs id=w%d size=%d accum=16\n"
			 "action kind=adjust-lr id=w%d scale=0.70710678118654757\n",
			 id, 1000000 + id, id);
		if (again)
			join("w1023", 1);
		push("w10", 1, 1 + again, 1 + again);
		push("w2", 1, 2 + again, 1 + again);
		while ((e = gate_next(gate))) {
			told += e->actions && strcmp(e->actions, own) == 0;
			if (e->kind == GATE_HOLD)
				gate_held(gate, NULL, 0);
			else if (e->kind == GATE_SETTLE)
				gate_settled(gate, e->number, NULL, 0);
		}
		assert_int_equal(told, 1);
	}
	free(lines);
}

static void lead_obeys_backup_workers(void **state)
{
	(void)state;
	pair((struct gate_options){0});
	act("action kind=backup-workers count=1\n");
	push("w10", 1, 1, 1);
	expect("6 ok iteration=2\n");
	push("w2", 1, 2, 1);
	settled(2, NULL);
	pass();
	push("w10", 1, 2, 2);
	expect("settle 3 w10/1:20+10\n");
}

static void bad_actions_change_nothing(void **state)
{
	static const char *const bad[] = {"action kind=adjust-lr id=w0 scale=fast\n",
					  "action\n",
					  "row kind=none\n",
					  "action kind=none",
					  "action kind=backup-workers\n",
					  "action kind=adjust-bs\n"};
	struct error err;

	(void)state;
	start((struct gate_options){0});
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(gate_act(gate, bad[i], strlen(bad[i]), 0, 1, &err), -1);
	expect("");
}

/* ---- cuts ---- */

static void cut_holds_settlements_from_save_to_fork(void **state)
{
	(void)state;
	start((struct gate_options){0});
	join("w0", 1);
	push("w0", 1, 1, 0);
	gate_cut(gate, ++token);
	expect("1 ok iteration=0 members=1\nsettle 1 w0/1:10+10\n");
	settled(1, NULL);
	push("w0", 1, 2, 1);
	expect("apply 0 w0/1.1@0*1\n2 ok iteration=1 applied=1\nsave\n");
	gate_saved(gate);
	expect("cut 1\nsettle 2 w0/1:20+10\n");
	gate_cut(gate, ++token);
	expect("5 err busy\n");
	gate_cut_over(gate);
	gate_cut(gate, ++token);
	settled(2, NULL);
	expect("apply 1 w0/1.2@0*1\n4 ok iteration=2 applied=1\nsave\n");
	gate_save_refused(gate, 0, "no room");
	expect("6 err cut\n");
}

/* In a job in which nothing else happens. */
static void a_move_waits_for_a_cut(void **state)
{
	(void)state;
	start((struct gate_options){.commit = 1});
	gate_cut(gate, ++token);
	gate_still(gate);
	gate_saved(gate);
	expect("save\ncut 0\n");
	gate_cut_over(gate);
	expect("still\n");
}

static void cut_waits_for_all_servers(void **state)
{
	(void)state;
	start((struct gate_options){.commit = 1});
	gate_servers(gate, 0);
	gate_cut(gate, ++token);
	expect("");
	gate_servers(gate, 1);
	expect("save\n");
	gate_save_refused(gate, 1, "incarnation");
	expect("1 err cut\nquit\n");
}

/* ---- shardd comes and goes ---- */

static void lost_settle_is_sent_again_with_its_number(void **state)
{
	(void)state;
	start((struct gate_options){.settle_first = 40});
	join("w0", 1);
	push("w0", 1, 1, 0);
	expect("1 ok iteration=0 members=1\nsettle 41 w0/1:10+10\n");
	gate_shards(gate, 0);
	expect("");
	gate_shards(gate, 1);
	expect("settle 41 w0/1:10+10\n");
	gate_settle_refused(gate, 41, GATE_REFUSED_NOW);
	expect("");
	gate_shards(gate, 1);
	expect("settle 41 w0/1:10+10\n");
	gate_settle_refused(gate, 41, GATE_REFUSED_INCARNATION);
	expect("quit\n");
	settled(41, NULL);
	expect("");
}

/* A push that came to the lead and not to all servers: shardd must not hear of it. */
static void what_a_server_lacks_is_not_settled(void **state)
{
	const char *missing = "w10";

	(void)state;
	pair((struct gate_options){0});
	hold_is_told = 1;
	push("w10", 1, 1, 1);
	push("w2", 1, 2, 1);
	expect("hold w2/1.2 w10/1.1\n");
	gate_cut(gate, ++token);
	settled(2, NULL); /* nobody asked */
	expect("");
	gate_held(gate, &missing, 1);
	expect("6 err fenced\nthrow w10/1\nsettle 2 w2/1:20+10\n");
	gate_held(gate, &missing, 1); /* twice */
	settled(2, NULL);
	expect("apply 1 w2/1.2@0*1\n7 ok iteration=2 applied=1\nsave\n");
	gate_saved(gate);
	gate_cut_over(gate);
	expect("cut 2\n");
	missing = "w2"; /* nobody is left in the unit: it is over all the same */
	push("w2", 1, 3, 2);
	expect("hold w2/1.3\n");
	gate_held(gate, &missing, 1);
	expect("9 err fenced\nthrow w2/1\napply 2\n");
}

static void servers_that_are_away_are_asked_when_they_are_back(void **state)
{
	(void)state;
	start((struct gate_options){.sync = GATE_ASP});
	hold_is_told = 1;
	join("w0", 1);
	push("w0", 1, 1, 0);
	expect("1 ok iteration=0 members=1\nhold w0/1.1\n");
	gate_servers(gate, 0);
	gate_shards(gate, 0);
	gate_shards(gate, 1);
	gate_servers(gate, 1); /* the owner keeps what it asked */
	expect("");
	gate_shards(gate, 0);
	gate_held(gate, NULL, 0);
	expect("");
	gate_shards(gate, 1);
	expect("settle 1 w0/1:10+10\n");
}

static struct gate_who given(const char *worker, uint64_t sequence, uint64_t iteration,
			     uint64_t count, uint64_t skipped, uint64_t size, uint64_t rows)
{
	struct gate_who w = who(worker, 1);
	struct gate_range range = {1, sequence * 100, rows};
	struct gate_push p = {.sequence = sequence,
			      .iteration = iteration,
			      .count = count,
			      .skipped = skipped,
			      .size = size,
			      .range = &range,
			      .ranges = rows ? 1 : 0};

	gate_push(gate, &w, &p);
	return w;
}

static void samples_are_the_rows_of_the_ranges(void **state)
{
	(void)state;
	start((struct gate_options){0});
	join("w0", 1);
	expect("1 ok iteration=0 members=1\n");
	given("w0", 1, 0, 10, 0, 0, 0); /* a gradient of no rows */
	given("w0", 1, 0, 0, 0, 0, 10); /* rows without a gradient */
	given("w0", 1, 0, UINT64_C(1) << 48, 0, 0, 10);
	given("w0", 1, 0, 9, 0, 0, 10);
	given("w0", 1, 0, 9, 2, 0, 10);
	given("w0", 1, 0, 1, UINT64_MAX, 0, 0);
#define REFUSED " err bad-request\ndrop w0/1.1\n"
	expect("2" REFUSED "3" REFUSED "4" REFUSED "5" REFUSED "6" REFUSED "7" REFUSED);
	given("w0", 1, 0, 8, 2, 0, 10); /* two rows could not be read */
	expect("settle 1 w0/1:100+10\n");
	settled(1, NULL);
	expect("apply 0 w0/1.1@0*1\n8 ok iteration=1 applied=1\n");
	/* None could: the rows are settled, and there is no gradient. */
	given("w0", 2, 1, 0, 10, 0, 10);
	expect("settle 2 w0/1:200+10\n");
	settled(2, NULL);
	expect("apply 1\n9 ok iteration=2 applied=1\n");
	given("w0", 3, 2, 0, 0, 0, 0); /* nothing to do in this iteration */
	expect("apply 2\n10 ok iteration=3 applied=1\n");
}

static uint64_t size_applied(void)
{
	const struct gate_effect *e;
	uint64_t size = 0;

	while ((e = gate_next(gate))) {
		if (e->kind == GATE_HOLD)
			gate_held(gate, NULL, 0);
		if (e->kind == GATE_SETTLE)
			settled(e->number, NULL);
		if (e->kind == GATE_APPLY && e->pushes)
			size = e->push[0].size;
	}
	return size;
}

/* size= divides the gradient: who claims a huge batch would undo those of the others. */
static void a_whole_batch_is_no_larger_than_any_that_was_settled(void **state)
{
	(void)state;
	start((struct gate_options){0});
	join("w0", 1);
	given("w0", 1, 0, 10, 0, UINT64_C(1) << 40, 10);
	assert_int_equal(size_applied(), 10);
	given("w0", 2, 1, 20, 5, 30, 25);
	assert_int_equal(size_applied(), 20);
	given("w0", 3, 2, 2, 0, 20, 2); /* the end of the data */
	assert_int_equal(size_applied(), 20);
	given("w0", 4, 3, 2, 0, 1000, 2);
	assert_int_equal(size_applied(), 20);
	given("w0", 5, 4, 2, 0, 0, 2);
	assert_int_equal(size_applied(), 2);
}

static void who_has_no_gradient_is_waited_for_no_longer(void **state)
{
	(void)state;
	pair((struct gate_options){0});
	push("w2", 1, 2, 1);
	expect("");
	gate_let_go(gate, "w10", 2, "of another generation");
	expect("");
	gate_let_go(gate, "w10", 1, "not finite");
	expect("settle 2 w2/1:20+10\n");
}

#define MEMBERS 1000
#define RANGES 60

/* A unit of more lines than a settle takes: several, each repeated under its own number, and applied
 * when all of them are answered. */
static void a_large_unit_is_settled_in_several_requests(void **state)
{
	struct gate_range range[RANGES];
	uint64_t lines = 0, settles = 0, number = 0, parts = 0;
	char name[OPTION_ID_MAX];

	(void)state;
	start((struct gate_options){.expect = MEMBERS});
	for (int i = 0; i < MEMBERS; i++) {
		snprintf(name, sizeof name, "w%d", i);
		join(name, 1);
	}
	for (uint64_t i = 0; i < MEMBERS; i++) {
		snprintf(name, sizeof name, "w%u", (unsigned)i);
		for (uint64_t k = 0; k < RANGES; k++)
			range[k] = (struct gate_range){i * RANGES + k, 0, 1};
		struct gate_who w = who(name, 1);
		struct gate_push p = {
			.sequence = 1, .count = RANGES, .range = range, .ranges = RANGES};
		gate_push(gate, &w, &p);
	}
	for (const struct gate_effect *e; (e = gate_next(gate));) {
		if (e->kind == GATE_HOLD) {
			assert_int_equal(e->pushes, MEMBERS);
			gate_held(gate, NULL, 0);
			continue;
		}
		if (e->kind == GATE_APPLY)
			parts = e->pushes;
		if (e->kind != GATE_SETTLE)
			continue;
		assert_true(e->lines <= GATE_SETTLE_LINES && parts == 0);
		if (e->number == number + 1) { /* lost, and asked again */
			number = e->number;
			gate_shards(gate, 0);
			gate_shards(gate, 1);
			continue;
		}
		assert_int_equal(e->number, number);
		assert_int_equal(e->line[0].range.id, lines);
		lines += e->lines;
		settles++;
		snprintf(name, sizeof name, "%s", e->line[0].worker);
		const char *fenced = name;
		gate_settled(gate, number, &fenced, settles == 2 ? 1 : 0);
	}
	assert_int_equal(lines, MEMBERS * RANGES);
	assert_int_equal(settles, 8);
	assert_int_equal(parts, MEMBERS - 1);
}

static void servers_that_are_away_hold_the_unit(void **state)
{
	(void)state;
	start((struct gate_options){0});
	join("w0", 1);
	gate_servers(gate, 0);
	push("w0", 1, 1, 0);
	expect("1 ok iteration=0 members=1\n");
	gate_servers(gate, 1);
	expect("settle 1 w0/1:10+10\n");
}

/* ---- the end, and small things ---- */

static void end_waits_for_finish(void **state)
{
	struct gate_who w;

	(void)state;
	start((struct gate_options){0});
	join("w0", 1);
	join("w1", 1);
	expect("1 ok iteration=0 members=1\n");
	w = who("w0", 1);
	gate_end(gate, &w);
	expect("2 ok iteration=0 members=1\n"); /* nobody waits for one who ended */
	gate_finish(gate, ++token);
	expect("3 ok \n4 ok \n");
	w = who("w1", 1);
	gate_end(gate, &w);
	expect("5 ok \n");
}

static void without_shardd_units_commit_at_once(void **state)
{
	struct gate_options options = {.incarnation = 7};

	(void)state;
	token = 0;
	assert_int_equal(gate_new(&gate, &options, NULL), 0);
	join("w0", 1);
	push("w0", 1, 1, 0);
	gate_cut(gate, ++token);
	expect("1 ok iteration=0 members=1\napply 0 w0/1.1@0*1\n2 ok iteration=1 applied=1\n"
	       "cut 1\n");
}

static void say_member(const struct gate_member *m, void *arg)
{
	(void)arg;
	add("%s/%llu %llu %s\n", m->worker, (unsigned long long)m->generation,
	    (unsigned long long)m->iteration, m->state);
}

static void say_debt(const struct gate_member *m, void *arg)
{
	(void)arg;
	add("%s %s %llu/%llu of %llu\n", m->worker, m->owes ? "owes" : "waits",
	    (unsigned long long)m->pushes, (unsigned long long)m->samples,
	    (unsigned long long)m->size);
}

static void debts(const char *want)
{
	happened[0] = '\0';
	gate_members(gate, say_debt, NULL);
	assert_string_equal(happened, want);
}

/* Whoever was let in or answered owes a push; who pushed, joins or has ended waits himself. */
static void a_member_that_was_answered_owes_a_push(void **state)
{
	(void)state;
	start((struct gate_options){0});
	join("w0", 1);
	join("w1", 1);
	debts("w0 owes 0/0 of 0\nw1 waits 0/0 of 0\n");
	push("w0", 1, 1, 0); /* which lets w1 in; it is with shardd */
	debts("w0 waits 0/0 of 10\nw1 owes 0/0 of 0\n");
	settled(1, NULL);
	debts("w0 owes 1/10 of 10\nw1 owes 0/0 of 0\n");
	push("w0", 1, 2, 1);
	debts("w0 waits 1/10 of 10\nw1 owes 0/0 of 0\n"); /* at the barrier, for w1 */
	leave("w1", 1);
	settled(2, NULL);
	debts("w0 owes 2/20 of 10\n");
}

/* Whoever gives no sign of life holds nobody up; what it pushes later is not taken. */
static void a_silent_member_is_let_go_of(void **state)
{
	(void)state;
	start((struct gate_options){0});
	join("w0", 1);
	join("w1", 1);
	push("w0", 1, 1, 0);
	settled(1, NULL);
	push("w0", 1, 2, 1);
	pass();
	gate_let_go(gate, "w1", 2, "silent"); /* of another generation: nobody */
	gate_let_go(gate, "w9", 1, "silent");
	expect("");
	gate_let_go(gate, "w1", 1, "silent");
	expect("settle 2 w0/1:20+10\n");
	push("w1", 1, 1, 1);
	expect("5 err fenced\n");
	settled(2, NULL);
	expect("apply 1 w0/1.2@0*1\n4 ok iteration=2 applied=1\n");
}

/* Under SSP who is ahead waits for the others. */
static void who_is_ahead_owes_nothing(void **state)
{
	(void)state;
	start((struct gate_options){.sync = GATE_SSP, .staleness = 0});
	join("w0", 1);
	join("w1", 1);
	push("w0", 1, 1, 0);
	settled(1, NULL);
	debts("w0 waits 1/10 of 10\nw1 owes 0/0 of 0\n");
	push("w1", 1, 1, 0);
	settled(2, NULL);
	debts("w0 owes 1/10 of 10\nw1 owes 1/10 of 10\n");
}

static void members_are_told_in_order(void **state)
{
	(void)state;
	pair((struct gate_options){0});
	join("w1", 5);
	happened[0] = '\0';
	gate_members(gate, say_member, NULL);
	assert_string_equal(happened, "w1/5 1 joining\nw2/1 1 active\nw10/1 1 active\n");
	assert_int_equal(gate_active(gate), 2);
	assert_int_equal(gate_iteration(gate), 1);
}

static void ranges_are_parsed_strictly(void **state)
{
	static const char *const bad[] = {"1",
					  "1:2",
					  "1:2:",
					  "1:2:0",
					  "1:2:3,",
					  ",1:2:3",
					  "1:2:3,,1:2:3",
					  "a:2:3",
					  "1:-2:3",
					  "1:2:3:4",
					  " 1:2:3",
					  "1:18446744073709551615:2",
					  "99999999999999999999:1:1"};
	struct gate_range r[GATE_RANGES_MAX];
	char many[1024] = "";
	size_t n;

	(void)state;
	assert_int_equal(gate_ranges_parse("", r, &n, NULL), 0);
	assert_int_equal(n, 0);
	assert_int_equal(gate_ranges_parse("1:2:3,40:50:60", r, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_int_equal(r[1].id, 40);
	assert_int_equal(r[1].begin, 50);
	assert_int_equal(r[1].length, 60);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (gate_ranges_parse(bad[i], r, &n, NULL) == 0)
			fail_msg("taken: %s", bad[i]);
	}
	for (size_t i = 0; i < GATE_RANGES_MAX; i++)
		strcat(many, i ? ",1:2:3" : "1:2:3");
	assert_int_equal(gate_ranges_parse(many, r, &n, NULL), 0);
	strcat(many, ",1:2:3");
	assert_int_equal(gate_ranges_parse(many, r, &n, NULL), -1);
}

static void sync_modes(void **state)
{
	enum gate_sync sync;
	uint64_t s;

	(void)state;
	assert_int_equal(gate_sync_parse("ssp:4", &sync, &s, NULL), 0);
	assert_int_equal(sync, GATE_SSP);
	assert_int_equal(s, 4);
	assert_int_equal(gate_sync_parse("asp", &sync, &s, NULL), 0);
	assert_int_equal(gate_sync_parse("bsp", &sync, &s, NULL), 0);
	assert_int_equal(gate_sync_parse("ssp", &sync, &s, NULL), -1);
	assert_int_equal(gate_sync_parse("ssp:-1", &sync, &s, NULL), -1);
	assert_int_equal(gate_sync_parse("BSP", &sync, &s, NULL), -1);
}

#define TEST(name) cmocka_unit_test_teardown(name, stop_and_forget)

/* ---- replicas ---- */

static void here(size_t replica, uint64_t iteration, uint64_t round)
{
	struct gate_replica at = {
		.serving = 1, .iteration = iteration, .round = round};

	gate_replica(gate, replica, &at);
}

static void join_at(const char *replica, const char *worker, uint64_t generation)
{
	struct gate_who w = who(worker, generation);

	assert_int_equal(gate_pushes_to(gate, &w, replica), 0);
	gate_join(gate, &w);
}

#define ROUND(n) ((UINT64_C(3) << 32) + (n))

/* The worker of that replica pushed this to it, of ten samples; with other generations nothing is
 * said. */
static void summed(size_t replica, uint64_t round, uint64_t sequence, uint64_t sum)
{
	const char *worker = replica ? "w1" : "w0";

	gate_summed_of(gate, replica, round, worker, 1, sequence, 10);
	gate_summed_of(gate, replica, round, worker, 2, sequence, 10);
	gate_summed(gate, replica, round, sum);
}

/* Two replicas at iteration 5 with a worker each. */
static void replicas(struct gate_options options)
{
	options.replicas = 2;
	start(options);
	gate_term(gate, 3, NULL);
	here(0, 5, 0);
	here(1, 5, 0);
	join_at("r0", "w0", 1);
	expect("1 ok iteration=5 members=1\nsum 1 r0 r1: w0/1@r0*1\n");
	join_at("r1", "w1", 1);
	push("w0", 1, 1, 5);
	summed(0, ROUND(1), 1, 7);
	expect("");
	summed(1, ROUND(1), 0, 7);
	expect("settle 12884901889 w0/1:10+10 whole 1/10/10\n");
	settled(ROUND(1), NULL);
	expect("apply 5 r0 r1 sum 1/10\n2 ok iteration=6 members=2\n"
	       "3 ok iteration=6 applied=1\nsum 2 r0 r1: w0/1@r0*1 w1/1@r1*1\n");
}

static void sum_first_commit_then_step_last(void **state)
{
	(void)state;
	replicas((struct gate_options){0});
	summed(0, ROUND(2), 2, 0);
	summed(1, ROUND(2), 1, 0);
	push("w0", 1, 2, 6);
	expect("");
	push("w1", 1, 1, 6);
	settled(ROUND(2), "w1"); /* all of it is refused */
	expect("settle 12884901890 w0/1:20+10 w1/1:10+10 whole 2/20/20\n"
	       "5 err fenced\nthrow w1/1\nsum 3 r0 r1: w0/1@r0*1\n");
	summed(0, ROUND(2), 0, 0); /* of an old one */
	summed(1, ROUND(3), 0, 0);
	expect("");
	summed(0, ROUND(3), 2, 0);
	settled(ROUND(3), NULL);
	expect("settle 12884901891 w0/1:20+10 whole 3/10/10\napply 6 r0 r1 sum 3/10\n"
	       "4 ok iteration=7 applied=1\nsum 4 r0 r1: w0/1@r0*1\n");
}

static void replica_that_goes_takes_its_members_along(void **state)
{
	(void)state;
	replicas((struct gate_options){0});
	push("w1", 1, 1, 6);
	gate_replica_gone(gate, 1);
	expect("drop w1/1.1\n4 err fenced\nsum 3 r0: w0/1@r0*1\n");
	join_at("r1", "w1", 2);
	push("w0", 1, 2, 6);
	summed(0, ROUND(3), 2, 0);
	here(1, 6, 0); /* a settle is out: it is looked at later */
	expect("throw w1/1\nsettle 12884901890 w0/1:20+10 whole 3/10/10\n");
	settled(ROUND(2), NULL);
	expect("apply 6 r0 sum 3/10\n6 ok iteration=7 applied=1\nfill r1 from r0 at 7\n"
	       "sum 5 r0: w0/1@r0*1\n");
	push("w0", 1, 3, 7);
	summed(0, ROUND(5), 3, 0);
	expect(""); /* held for the one that is filled */
	gate_filled(gate, 1);
	expect("sum 6 r0 r1: w0/1@r0*1\n");
	summed(0, ROUND(6), 3, 0);
	summed(1, ROUND(6), 0, 0);
	settled(ROUND(3), NULL);
	expect("settle 12884901891 w0/1:30+10 whole 6/10/10\napply 7 r0 r1 sum 6/10\n"
	       "5 ok iteration=8 members=2\n7 ok iteration=8 applied=1\n"
	       "sum 7 r0 r1: w0/1@r0*1 w1/2@r1*1\n");
}

static void replica_comes_back_with_the_sum(void **state)
{
	(void)state;
	replicas((struct gate_options){0});
	push("w0", 1, 2, 6);
	push("w1", 1, 1, 6);
	summed(0, ROUND(2), 2, 0);
	summed(1, ROUND(2), 1, 0);
	pass();
	gate_replica_gone(gate, 0);
	gate_replica_gone(gate, 1);
	settled(ROUND(2), NULL);
	expect("apply 6 sum 2/20\n4 ok iteration=7 applied=1\n5 ok iteration=7 applied=1\n");
	here(1, 6, ROUND(2));
	expect("apply 6 r1 sum 2/20\n");
	here(0, 6, ROUND(1)); /* another sum */
	expect("fill r0 from r1 at 7\n");
	gate_fill_failed(gate, 0);
	expect("");
	gate_fill_again(gate, 0);
	expect("fill r0 from r1 at 7\n");
	gate_fill_failed(gate, 0);
	gate_replica_gone(gate, 1);
	expect("");
	here(1, 5, 0);
	expect("quit: no replica is at iteration 7: r0 is empty r1 is at 5\n");
}

static void new_lead_asks_what_was_committed(void **state)
{
	struct gate_commit last = {.iteration = 9, .round = 77, .divisor = 4, .samples = 4};

	(void)state;
	start((struct gate_options){.replicas = 3});
	here(0, 8, 76);
	here(1, 8, 77);
	expect(""); /* the term is not known yet */
	gate_term(gate, 3, &last);
	expect("apply 8 r1 sum 77/4\nfill r0 from r1 at 9\n");
	join_at("r1", "w1", 4);
	expect("1 ok iteration=9 members=1\nsum 2 r1: w1/4@r1*1\n");
	push("w0", 2, 1, 8); /* of the time before */
	expect("2 err fenced\n");
}

/* A replica may have summed it already. */
static void refused_push_is_in_no_sum(void **state)
{
	struct gate_range range = {1, 20, 10};
	struct gate_push p = {
		.sequence = 2, .iteration = 6, .count = 11, .range = &range, .ranges = 1};

	(void)state;
	replicas((struct gate_options){.commit = 1});
	struct gate_who w = who("w0", 1);
	gate_push(gate, &w, &p);
	expect("4 err bad-request\ndrop w0/1.2\nsum 3 r0 r1: w1/1@r1*1\n");
}

static void gradient_that_cant_be_summed(void **state)
{
	(void)state;
	replicas((struct gate_options){0});
	push("w0", 1, 2, 6);
	gate_diverged(gate, ROUND(2), "w0", 1, "dense[3] is nan");
	expect("4 err diverged\ndrop w0/1.2\nsum 3 r0 r1: w1/1@r1*1\n");
	gate_diverged(gate, ROUND(3), "w1", 1, "dense[4] is nan"); /* before its push */
	expect("");
	push("w1", 1, 1, 6);
	push("w1", 2, 1, 6);
	expect("5 err diverged\n6 err fenced\n");
}

static void sums_that_differ_end_the_lead(void **state)
{
	(void)state;
	start((struct gate_options){.replicas = 2});
	gate_term(gate, 3, NULL);
	here(0, GATE_CHECK_UNITS - 1, 0);
	here(1, GATE_CHECK_UNITS - 1, 0);
	join_at("r0", "w0", 1);
	expect("1 ok iteration=63 members=1\nsum 1 r0 r1 check: w0/1@r0*1\n");
	push("w0", 1, 1, GATE_CHECK_UNITS - 1);
	gate_summed(gate, 0, ROUND(1), 1);
	gate_summed(gate, 1, ROUND(1), 2);
	expect("quit: iteration 63: the sums of r0 and r1 differ (0000000000000001, "
	       "0000000000000002)\n");
}

static void cut_is_behind_a_sum_that_is_checked(void **state)
{
	(void)state;
	replicas((struct gate_options){0});
	summed(0, ROUND(2), 2, 0);
	gate_cut(gate, ++token);
	expect("sum 3 r0 r1 check: w0/1@r0*1 w1/1@r1*1\n");
	summed(0, ROUND(3), 2, 9);
	summed(1, ROUND(3), 1, 9);
	push("w0", 1, 2, 6);
	push("w1", 1, 1, 6);
	settled(ROUND(2), NULL);
	expect("settle 12884901890 w0/1:20+10 w1/1:10+10 whole 3/20/20\n"
	       "apply 6 r0 r1 sum 3/20\n5 ok iteration=7 applied=1\n6 ok iteration=7 applied=1\n"
	       "save\nsum 4 r0 r1: w0/1@r0*1 w1/1@r1*1\n");
	gate_saved(gate);
	expect("cut 7\n");
	summed(0, ROUND(4), 3, 9);
	summed(1, ROUND(4), 2, 9);
	push("w0", 1, 3, 7);
	push("w1", 1, 2, 7);
	expect(""); /* the cut must not have that */
	gate_cut_forked(gate);
	expect("settle 12884901891 w0/1:30+10 w1/1:20+10 whole 4/20/20\n");
	gate_cut_over(gate);
	settled(ROUND(3), NULL);
	pass();
	gate_cut(gate, ++token);
	expect("sum 6 r0 r1 check: w0/1@r0*1 w1/1@r1*1\n");
	leave("w0", 1);
	leave("w1", 1); /* nobody trains: it need not wait */
	expect("10 ok \nsum 7 r0 r1 check: w1/1@r1*1\n11 ok \nsave\n");
}

static void sum_breaks_with_its_fabric(void **state)
{
	(void)state;
	replicas((struct gate_options){0});
	gate_sum_again(gate, ROUND(1)); /* of an old one */
	expect("");
	gate_sum_again(gate, ROUND(2));
	expect("sum 3 r0 r1: w0/1@r0*1 w1/1@r1*1\n");
}

static void backup_workers_are_not_summed(void **state)
{
	(void)state;
	replicas((struct gate_options){0});
	act("action kind=backup-workers count=1\naction kind=adjust-lr id=w1 scale=0.5\n");
	push("w0", 1, 2, 6);
	push("w1", 1, 1, 6);
	summed(0, ROUND(2), 2, 0);
	summed(1, ROUND(2), 1, 0);
	pass();
	settled(ROUND(2), NULL);
	pass();
	push("w1", 1, 2, 7);
	expect("sum 3 r0 r1: w1/1@r1*0.5\n");
	push("w0", 1, 3, 7); /* too late, though nothing is settled yet */
	summed(0, ROUND(3), 0, 0);
	summed(1, ROUND(3), 2, 0);
	settled(ROUND(3), NULL);
	expect("settle 12884901891 w1/1:20+10 whole 3/10/10\napply 7 r0 r1 sum 3/10\n"
	       "7 ok iteration=8 applied=1\nsettle 12884901892 -w0/1:30+10\n");
	push("w1", 1, 3, 8);
	settled(ROUND(4), NULL);
	expect("8 ok iteration=8 dropped=1\nsum 4 r0 r1: w1/1@r1*0.5\n");
	push("w0", 1, 4, 7); /* the same again, and the fabric goes meanwhile */
	expect("settle 12884901893 -w0/1:40+10\n");
	gate_sum_again(gate, ROUND(4));
	expect("");
	settled(ROUND(5), NULL);
	expect("10 ok iteration=8 dropped=1\nsum 5 r0 r1: w1/1@r1*0.5\n");
	push("w0", 1, 5, 7);
	pass();
	gate_diverged(gate, ROUND(5), "w1", 1, "nan");
	expect("9 err diverged\ndrop w1/1.3\n");
	settled(ROUND(6), NULL);
	expect("11 ok iteration=8 dropped=1\n");
	push("w0", 1, 6, 8);
	expect("sum 6 r0 r1: w0/1@r0*1\n");
}

/* A last, short batch is divided by its whole size; nobody by more than the largest that was. */
static void divisor_of_a_short_batch(void **state)
{
	struct gate_range range = {1, 50, 3};
	struct gate_push p = {.sequence = 2,
			      .iteration = 6,
			      .count = 3,
			      .size = 1000,
			      .range = &range,
			      .ranges = 1};
	struct gate_who w;

	(void)state;
	replicas((struct gate_options){0});
	w = who("w0", 1);
	gate_push(gate, &w, &p);
	w = who("w1", 1);
	p = (struct gate_push){.sequence = 1, .iteration = 6};
	gate_push(gate, &w, &p); /* nothing to train */
	gate_summed_of(gate, 0, ROUND(2), "w0", 1, 2, 3);
	gate_summed_of(gate, 1, ROUND(2), "w1", 1, 1, 0);
	gate_summed(gate, 0, ROUND(2), 0);
	gate_summed(gate, 1, ROUND(2), 0);
	expect("settle 12884901890 w0/1:50+3 whole 2/10/3\n");
}

static void divisor_beside_an_idle_one(void **state)
{
	(void)state;
	replicas((struct gate_options){0});
	leave_idle("w1", 1, 4);
	push("w0", 1, 2, 6);
	pass();
	summed(0, ROUND(3), 2, 0);
	summed(1, ROUND(3), 0, 0);
	expect("settle 12884901890 w0/1:20+10 whole 3/14/10\n");
}

static void who_says_two_things_is_out(void **state)
{
	(void)state;
	replicas((struct gate_options){0});
	push("w0", 1, 2, 6);
	summed(0, ROUND(2), 2, 0);
	gate_summed_of(gate, 1, ROUND(2), "w1", 1, 1, 11);
	gate_summed_of(gate, 1, ROUND(2), "w0", 1, 9, 9); /* which is not its own */
	gate_summed_of(gate, 1, ROUND(1), "w1", 1, 1, 10);
	gate_summed(gate, 1, ROUND(2), 0);
	expect("");
	push("w1", 1, 1, 6);
	expect("refused w1/1: it told r1 of sequence 1 with 11 samples, and the lead of sequence 1 "
	       "with 10\ndrop w1/1.1\n5 err fenced\nthrow w1/1\nsum 3 r0 r1: w0/1@r0*1\n");
	join_at("r1", "w1", 1);
	expect("6 err fenced\n");
	join_at("r1", "w1", 2);
	summed(0, ROUND(3), 2, 0);
	summed(1, ROUND(3), 0, 0);
	settled(ROUND(2), NULL);
	expect("settle 12884901890 w0/1:20+10 whole 3/10/10\napply 6 r0 r1 sum 3/10\n"
	       "7 ok iteration=7 members=2\n4 ok iteration=7 applied=1\n"
	       "sum 4 r0 r1: w0/1@r0*1 w1/2@r1*1\n");
	push("w1", 2, 1, 7);
	push("w0", 1, 3, 7);
	summed(0, ROUND(4), 4, 0);
	summed(1, ROUND(4), 2, 0); /* both at once */
	expect("refused w0/1: it told r0 of sequence 4 with 10 samples, and the lead of sequence 3 "
	       "with 10\ndrop w0/1.3\n9 err fenced\nthrow w0/1\n"
	       "refused w1/2: it told r1 of sequence 2 with 10 samples, and the lead of sequence 1 "
	       "with 10\ndrop w1/2.1\n8 err fenced\nthrow w1/2\n");
}

static void who_told_the_lead_alone_is_found(void **state)
{
	(void)state;
	replicas((struct gate_options){0});
	gate_sum_late(gate);
	push("w0", 1, 2, 6);
	assert_int_equal(gate_sum_due(gate), 0);
	gate_sum_late(gate);
	expect(""); /* w1 has not pushed */
	push("w1", 1, 1, 6);
	assert_int_equal(gate_sum_due(gate), ROUND(2));
	summed(0, ROUND(2), 2, 0);
	assert_int_equal(gate_sum_due(gate), ROUND(2));
	gate_sum_late(gate);
	expect("hold 2 r1: w0/1.2*10 w1/1.1*10\n");
	gate_refused(gate, ROUND(1), "w1", 1, "of an old one");
	gate_refused(gate, ROUND(2), "w1", 2, "of another life");
	gate_refused(gate, ROUND(2), "w9", 1, "of nobody");
	expect("");
	gate_refused(gate, ROUND(2), "w1", 1, "not here");
	expect("refused w1/1: not here\ndrop w1/1.1\n5 err fenced\nthrow w1/1\n"
	       "sum 3 r0 r1: w0/1@r0*1\n");
	summed(0, ROUND(3), 2, 0);
	summed(1, ROUND(3), 0, 0);
	assert_int_equal(gate_sum_due(gate), 0); /* it is with shardd */
	gate_refused(gate, ROUND(3), "w0", 1, "too late");
	gate_sum_late(gate);
	expect("settle 12884901890 w0/1:20+10 whole 3/10/10\n");
}

static void a_push_said_again_says_the_same(void **state)
{
	struct gate_range range = {1, 20, 9};
	struct gate_push p = {
		.sequence = 2, .iteration = 6, .count = 9, .range = &range, .ranges = 1};
	struct gate_who w;

	(void)state;
	replicas((struct gate_options){0});
	push("w0", 1, 2, 6);
	w = who("w0", 1);
	gate_push(gate, &w, &p);
	expect("5 err bad-request\n");
	push("w0", 1, 2, 6);
	push("w1", 1, 1, 6);
	summed(0, ROUND(2), 2, 0);
	summed(1, ROUND(2), 1, 0);
	settled(ROUND(2), NULL);
	expect("settle 12884901890 w0/1:20+10 w1/1:10+10 whole 2/20/20\n"
	       "apply 6 r0 r1 sum 2/20\n4 ok iteration=7 applied=1\n"
	       "6 ok iteration=7 applied=1 repeated=1\n7 ok iteration=7 applied=1\n"
	       "sum 3 r0 r1: w0/1@r0*1 w1/1@r1*1\n");
}

static void joiners_of_a_replica_that_is_not_there_are_told(void **state)
{
	(void)state;
	start((struct gate_options){.replicas = 2});
	gate_term(gate, 3, NULL);
	struct gate_replica filling = {.filling = 1};
	join_at("r1", "w1", 1);
	assert_int_equal(gate_turn_away(gate), 1); /* nobody trains: no rows are missed */
	gate_replica(gate, 1, &filling);
	gate_replica(gate, 1, &filling); /* for another lead, still */
	expect("");
	gate_replica_gone(gate, 1);
	expect("1 err fenced\n");
	join_at("r1", "w1", 1);
	here(0, 5, 0);
	join_at("r0", "w0", 1);
	expect("3 ok iteration=5 members=1\nsum 1 r0: w0/1@r0*1\n");
	assert_int_equal(gate_turn_away(gate), 0);
	expect("2 err fenced\n");
	here(1, 5, 0);
	expect("sum 2 r0 r1: w0/1@r0*1\n");
	join_at("r1", "w1", 2);
	assert_int_equal(gate_turn_away(gate), 0);
	expect("throw w1/1\n"); /* it waits for the barrier */
	gate_replica_gone(gate, 1);
	expect("4 err fenced\nsum 3 r0: w0/1@r0*1\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(first_member_enters_at_once_others_at_the_close),
		TEST(units_go_by_seat),
		TEST(units_go_as_they_came_where_few_are_left),
		TEST(unit_closes_with_all_and_applies_in_worker_order),
		TEST(who_has_nothing_to_train_counts_in_the_mean),
		TEST(who_is_idle_and_goes_does_not_count),
		TEST(leaving_closes_the_unit_for_the_others),
		TEST(closed_connection_leaves_and_discards),
		TEST(fenced_at_shardd_is_not_applied_and_out),
		TEST(repeated_push_is_acknowledged_not_applied),
		TEST(old_names_are_refused),
		TEST(backup_worker_is_dropped_when_late),
		TEST(sizes_go_with_the_answers_when_they_change),
		TEST(the_share_of_who_goes_goes_to_the_others),
		TEST(a_joiner_may_tell_its_speed),
		TEST(what_can_not_be_met_leaves_sizes_as_they_are),
		TEST(late_ones_hear_of_the_newest_size),
		TEST(sizes_by_hand_are_refused_then),
		TEST(those_who_are_expected_enter_together),
		TEST(nobody_is_expected_for_ever),
		TEST(fence_waits_for_the_settle_that_names_the_worker),
		TEST(fence_discards_what_is_held),
		TEST(asp_settles_waiting_pushes_together_as_units),
		TEST(ssp_holds_the_answer_of_who_is_ahead),
		TEST(actions_come_with_one_close_and_stay_for_joiners),
		TEST(sizes_make_their_batch_when_members_come_and_go),
		TEST(lead_obeys_backup_workers),
		TEST(a_decision_for_1024_workers_is_one),
		TEST(bad_actions_change_nothing),
		TEST(cut_holds_settlements_from_save_to_fork),
		TEST(a_move_waits_for_a_cut),
		TEST(cut_waits_for_all_servers),
		TEST(lost_settle_is_sent_again_with_its_number),
		TEST(what_a_server_lacks_is_not_settled),
		TEST(servers_that_are_away_are_asked_when_they_are_back),
		TEST(samples_are_the_rows_of_the_ranges),
		TEST(a_whole_batch_is_no_larger_than_any_that_was_settled),
		TEST(who_has_no_gradient_is_waited_for_no_longer),
		TEST(a_large_unit_is_settled_in_several_requests),
		TEST(servers_that_are_away_hold_the_unit),
		TEST(end_waits_for_finish),
		TEST(without_shardd_units_commit_at_once),
		TEST(members_are_told_in_order),
		TEST(a_member_that_was_answered_owes_a_push),
		TEST(who_is_ahead_owes_nothing),
		TEST(a_silent_member_is_let_go_of),
		TEST(ranges_are_parsed_strictly),
		TEST(sync_modes),
		TEST(sum_first_commit_then_step_last),
		TEST(replica_that_goes_takes_its_members_along),
		TEST(replica_comes_back_with_the_sum),
		TEST(new_lead_asks_what_was_committed),
		TEST(refused_push_is_in_no_sum),
		TEST(gradient_that_cant_be_summed),
		TEST(sums_that_differ_end_the_lead),
		TEST(cut_is_behind_a_sum_that_is_checked),
		TEST(sum_breaks_with_its_fabric),
		TEST(backup_workers_are_not_summed),
		TEST(divisor_of_a_short_batch),
		TEST(divisor_beside_an_idle_one),
		TEST(who_says_two_things_is_out),
		TEST(who_told_the_lead_alone_is_found),
		TEST(a_push_said_again_says_the_same),
		TEST(joiners_of_a_replica_that_is_not_there_are_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
