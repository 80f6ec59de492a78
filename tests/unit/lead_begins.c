/*
 * Members that keep the parameters themselves: their barrier, and the cuts that come to them there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate.h"

#include <stdio.h>
#include <string.h>

#define TEST(name) cmocka_unit_test_teardown(name, stop)

/* Parts there are none, and shardd takes everything at once. */
static void collect(void)
{
	const struct gate_effect *e;

	while ((e = gate_next(gate))) {
		switch (e->kind) {
		case GATE_ANSWER:
			add("%llu ", (unsigned long long)e->token);
			if (e->enough)
				add("enough, ");
			if (e->save)
				add("save %s at %llu, ", e->worker,
				    (unsigned long long)e->iteration);
			add(e->ok ? "ok %s\n" : "err %s: %s\n", e->ok ? e->fields : e->code,
			    e->fields);
			break;
		case GATE_HOLD:
			gate_held(gate, NULL, 0);
			break;
		case GATE_SETTLE: {
			uint64_t number = e->number;
			gate_settled(gate, number, NULL, 0);
			break;
		}
		case GATE_SAVE:
			add("save\n");
			break;
		case GATE_CUT:
			add("cut %llu:", (unsigned long long)e->iteration);
			for (size_t i = 0; i < e->members; i++)
				add(" %s/%llu", e->member[i].worker,
				    (unsigned long long)e->member[i].generation);
			add("\n");
			break;
		default:
			break;
		}
	}
}

static void expect_at(int line, const char *expected)
{
	collect();
	expect_said(line, happened, expected);
}
#define expect(expected) expect_at(__LINE__, expected)

static void enter(const char *worker, uint64_t generation, uint64_t world)
{
	struct gate_who w = who(worker, generation);

	gate_takes_part(gate, &w, world);
	gate_join(gate, &w);
}

static void begin(const char *worker, uint64_t generation, uint64_t iteration, uint64_t count)
{
	struct gate_who w = who(worker, generation);

	gate_take_part(gate, &w, &(struct gate_batch){.iteration = iteration, .count = count});
}

static void begin_empty(const char *worker, uint64_t iteration)
{
	struct gate_who w = who(worker, 1);

	gate_take_part(gate, &w, &(struct gate_batch){.iteration = iteration, .with_none = 1});
}

static void push(const char *worker, uint64_t generation, uint64_t sequence, uint64_t iteration,
		 uint64_t count)
{
	struct gate_who w = who(worker, generation);
	struct gate_range range = {1, sequence * 10, count};

	gate_push(gate, &w,
		  &(struct gate_push){.sequence = sequence,
				      .iteration = iteration,
				      .count = count,
				      .range = &range,
				      .ranges = count > 0});
}

static void closed(const char *worker)
{
	gate_closed(gate, (uint64_t)worker[1]);
}

static void open_gate(enum gate_sync sync)
{
	start((struct gate_options){.foreign = 1, .sync = sync, .staleness = 1});
}

/* w0 and w1, at iteration 1. */
static void two(void)
{
	open_gate(GATE_BSP);
	enter("w0", 1, 2);
	enter("w1", 1, 2);
	begin("w0", 1, 0, 10);
	begin("w1", 1, 0, 30);
	push("w0", 1, 1, 0, 10);
	push("w1", 1, 1, 0, 30);
	collect();
	assert_int_equal(gate_iteration(gate), 1);
	happened[0] = '\0';
	token = 0;
}

static void nobody_begins_before_all_have_said_what_they_have(void **state)
{
	(void)state;
	open_gate(GATE_BSP);
	enter("w0", 1, 2);
	expect("1 ok iteration=0 members=1\n");
	begin("w0", 1, 0, 10);
	expect("");
	enter("w1", 1, 2); /* nobody trains yet: it need not wait */
	expect("3 ok iteration=0 members=2\n");
	begin("w1", 1, 0, 30);
	expect("2 ok iteration=0 members=2 samples=40\n4 ok iteration=0 members=2 samples=40\n");
	push("w1", 1, 1, 0, 30);
	expect("");
	push("w0", 1, 1, 0, 10);
	expect("6 ok iteration=1 applied=1\n5 ok iteration=1 applied=1\n");
}

static void enough(const char *worker)
{
	struct gate_who w = who(worker ? worker : "w9", 1);

	w.worker = worker;
	gate_enough(gate, &w);
}

static void end(const char *worker)
{
	struct gate_who w = who(worker, 1);

	gate_end(gate, &w);
}

static void what_has_begun_is_trained_when_it_is_enough(void **state)
{
	(void)state;
	two();
	begin("w0", 1, 1, 10);
	begin("w1", 1, 1, 30);
	collect();
	happened[0] = '\0';
	enough("w0");
	expect("3 enough, ok \n");
	push("w0", 1, 2, 1, 10);
	begin("w0", 1, 2, 10); /* early: it has not heard that */
	gate_cut(gate, 90);
	push("w1", 1, 2, 1, 30);
	expect("4 ok iteration=2 applied=1\n6 enough, ok iteration=2 applied=1\n"
	       "5 ok iteration=2 members=0 samples=0 wait=1\n");
	end("w0");
	expect("");
	end("w1"); /* now all have what the checkpoint is to have */
	expect("save\n");
	gate_saved(gate);
	expect("cut 2: w0/1 w1/1\n7 enough, save w0 at 2, ok wait=1\n8 enough, save w1 at 2, ok wait=1\n");
	gate_cut_over(gate);
	end("w0");
	gate_finish(gate, 91);
	expect("9 ok \n91 ok \n");
}

static void who_waits_for_others_hears_that_it_is_enough(void **state)
{
	(void)state;
	two();
	begin("w1", 1, 1, 30);
	enough("w0"); /* it validates, say */
	expect("2 enough, ok \n1 enough, ok iteration=1 members=0 samples=0 wait=1\n");
	begin("w1", 1, 1, 30); /* one that does not listen begins nothing */
	expect("3 ok iteration=1 members=0 samples=0 wait=1\n");
	enough("w2");
	expect("4 err fenced: not a member\n");
}

static void the_supervisor_says_enough_without_a_barrier(void **state)
{
	(void)state;
	open_gate(GATE_ASP);
	enter("w0", 1, 0);
	enter("w1", 1, 0);
	begin("w1", 1, 0, 0);
	collect();
	happened[0] = '\0';
	enough(NULL);
	expect("4 ok \n3 enough, ok iteration=0 members=0 samples=0 wait=1\n");
	push("w0", 1, 1, 0, 10);
	expect("5 enough, ok iteration=1 applied=1\n");
	closed("w1");
	enter("w1", 2, 0); /* another process does not know it */
	begin("w1", 2, 1, 0);
	expect("6 ok iteration=1 members=2\n7 enough, ok iteration=1 members=0 samples=0 wait=1\n");
}

static void one_without_rows_holds_up_nobody(void **state)
{
	(void)state;
	two();
	begin("w1", 1, 1, 0);
	expect("");
	begin("w0", 1, 1, 10);
	expect("2 ok iteration=1 members=1 samples=10\n1 ok iteration=1 members=1 samples=10\n");
	push("w1", 1, 2, 1, 0);
	push("w0", 1, 2, 1, 10);
	expect("4 ok iteration=2 applied=1\n3 ok iteration=2 applied=1\n");
	begin_empty("w1", 2);
	begin("w0", 1, 2, 10);
	expect("6 ok iteration=2 members=2 samples=10\n5 ok iteration=2 members=2 samples=10\n");
}

static void rows_that_come_later_are_said_anew(void **state)
{
	(void)state;
	two();
	begin("w0", 1, 1, 0);
	begin("w1", 1, 1, 0);
	expect("");
	begin("w0", 1, 1, 5);
	expect("1 ok iteration=1 members=0 samples=0 wait=1\n"
	       "3 ok iteration=1 members=1 samples=5\n2 ok iteration=1 members=1 samples=5\n");
	begin("w1", 1, 1, 7); /* said when its answer was on its way */
	expect("4 ok iteration=1 members=0 samples=0 wait=1\n");
}

static void the_next_one_begins_when_all_have_gone(void **state)
{
	(void)state;
	open_gate(GATE_BSP);
	enter("w0", 1, 0);
	begin("w0", 1, 0, 10);
	closed("w0");
	enter("w1", 1, 0);
	begin("w1", 1, 0, 10);
	expect("1 ok iteration=0 members=1\n2 ok iteration=0 members=1 samples=10\n"
	       "3 ok iteration=0 members=1\n4 ok iteration=0 members=1 samples=10\n");
}

static void who_goes_is_waited_for_no_longer(void **state)
{
	(void)state;
	open_gate(GATE_BSP);
	enter("w0", 1, 0);
	enter("w1", 1, 0);
	begin("w0", 1, 0, 10);
	collect();
	happened[0] = '\0';
	closed("w1");
	expect("3 ok iteration=0 members=1 samples=10\n");
}

static void a_begin_behind_the_push_waits_for_the_others(void **state)
{
	(void)state;
	two();
	begin("w0", 1, 1, 10);
	begin("w1", 1, 1, 30);
	collect();
	happened[0] = '\0';
	begin("w0", 1, 2, 5); /* it has not pushed */
	expect("3 err bad-request: iteration 1 is open\n");
	push("w0", 1, 2, 1, 10);
	begin("w0", 1, 2, 5);
	begin("w0", 1, 3, 5);
	expect("6 err bad-request: iteration 1 is open\n");
	push("w1", 1, 2, 1, 30);
	expect("4 ok iteration=2 applied=1\n7 ok iteration=2 applied=1\n");
	begin("w1", 1, 2, 7);
	expect("5 ok iteration=2 members=2 samples=12\n8 ok iteration=2 members=2 samples=12\n");
}

/* The cut is between the two iterations, whenever the begin came. */
static void a_cut_is_before_a_begin_that_came_early(void **state)
{
	(void)state;
	two();
	begin("w0", 1, 1, 10);
	begin("w1", 1, 1, 10);
	collect();
	happened[0] = '\0';
	push("w0", 1, 2, 1, 10);
	begin("w0", 1, 2, 10);
	gate_cut(gate, ++token);
	expect("");
	push("w1", 1, 2, 1, 10);
	begin("w1", 1, 2, 10);
	expect("3 ok iteration=2 applied=1\n6 ok iteration=2 applied=1\nsave\n");
	gate_saved(gate);
	expect("cut 2: w0/1 w1/1\n4 save w0 at 2, ok iteration=2 members=2 samples=20\n"
	       "7 save w1 at 2, ok iteration=2 members=2 samples=20\n");
}

static void an_action_undoes_what_was_said_early(void **state)
{
	static const char act[] = "action kind=adjust-bs id=w0 size=3\n";
	struct error err;

	(void)state;
	two();
	begin("w0", 1, 1, 10);
	begin("w1", 1, 1, 10);
	collect();
	happened[0] = '\0';
	assert_int_equal(gate_act(gate, act, sizeof act - 1, 0, ++token, &err), 0);
	push("w0", 1, 2, 1, 10);
	begin("w0", 1, 2, 10);
	push("w1", 1, 2, 1, 10);
	expect("3 ok iteration=2\n4 ok iteration=2 applied=1\n"
	       "5 ok iteration=2 members=0 samples=0 wait=1\n6 ok iteration=2 applied=1\n");
	begin("w0", 1, 2, 3);
	begin("w1", 1, 2, 10);
	expect("7 ok iteration=2 members=2 samples=13\n8 ok iteration=2 members=2 samples=13\n");
}

/* The answer with the action was on its way when it was said. */
static void an_action_undoes_what_is_said_early_and_comes_late(void **state)
{
	static const char act[] = "action kind=adjust-bs id=w0 size=3\n";
	struct gate_who w;
	struct error err;

	(void)state;
	two();
	begin("w0", 1, 1, 10);
	begin("w1", 1, 1, 10);
	collect();
	happened[0] = '\0';
	assert_int_equal(gate_act(gate, act, sizeof act - 1, 0, ++token, &err), 0);
	push("w0", 1, 2, 1, 10);
	push("w1", 1, 2, 1, 10);
	expect("3 ok iteration=2\n4 ok iteration=2 applied=1\n5 ok iteration=2 applied=1\n");
	begin("w1", 1, 2, 10);
	w = who("w0", 1);
	gate_take_part(gate, &w, &(struct gate_batch){.iteration = 2, .count = 10, .is_ahead = 1});
	expect("7 ok iteration=2 members=0 samples=0 wait=1\n");
	begin("w0", 1, 2, 3);
	expect("8 ok iteration=2 members=2 samples=13\n6 ok iteration=2 members=2 samples=13\n");
}

static void who_goes_takes_an_early_begin_with_it(void **state)
{
	(void)state;
	two();
	begin("w0", 1, 1, 10);
	begin("w1", 1, 1, 10);
	collect();
	happened[0] = '\0';
	push("w0", 1, 2, 1, 10);
	begin("w0", 1, 2, 10);
	closed("w0");
	collect();
	assert_non_null(strstr(happened, "4 err fenced"));
}

static void a_cut_is_at_the_barrier(void **state)
{
	(void)state;
	two();
	begin("w0", 1, 1, 10);
	gate_cut(gate, ++token);
	expect("");
	begin("w1", 1, 1, 10);
	expect("save\n");
	gate_saved(gate);
	expect("cut 1: w0/1 w1/1\n1 save w0 at 1, ok iteration=1 members=2 samples=20\n"
	       "3 save w1 at 1, ok iteration=1 members=2 samples=20\n");
	gate_cut(gate, ++token);
	expect("4 err busy: a cut is being made\n");
	push("w0", 1, 2, 1, 10);
	push("w1", 1, 2, 1, 10);
	expect("5 ok iteration=2 applied=1\n6 ok iteration=2 applied=1\n");
	gate_cut_over(gate);
}

static void a_cut_comes_to_those_who_wait(void **state)
{
	struct gate_who w;

	(void)state;
	two();
	begin("w0", 1, 1, 0);
	w = who("w1", 1);
	gate_end(gate, &w);
	gate_cut(gate, ++token);
	expect("save\n");
	gate_saved(gate);
	expect("cut 1: w0/1 w1/1\n1 save w0 at 1, ok iteration=1 members=0 samples=0 wait=1\n"
	       "2 save w1 at 1, ok wait=1\n");
	w = who("w1", 1);
	gate_end(gate, &w);
	w = who("w0", 1);
	gate_end(gate, &w);
	expect("");
	gate_cut_over(gate);
	gate_finish(gate, ++token);
	expect("5 ok \n4 ok \n6 ok \n");
}

static void what_has_gone_with_a_member_is_in_no_cut(void **state)
{
	(void)state;
	open_gate(GATE_BSP);
	gate_cut(gate, ++token); /* nothing is trained, nobody is here */
	expect("save\n");
	gate_saved(gate);
	expect("cut 0:\n");
	gate_cut_over(gate);
	gate_free(gate);
	two();
	closed("w1");
	gate_cut(gate, ++token);
	expect("1 err cut: w1 left with parameters that were not saved: go back to a "
	       "checkpoint\n");
}

/* Between shardd's save and the word to the trainers. */
static void who_goes_while_shardd_saves_is_in_no_cut(void **state)
{
	(void)state;
	two();
	begin("w0", 1, 1, 10);
	gate_cut(gate, ++token);
	begin("w1", 1, 1, 10);
	expect("save\n");
	closed("w1");
	collect();
	happened[0] = '\0';
	gate_saved(gate);
	collect();
	assert_null(strstr(happened, "cut 1:"));
	assert_non_null(strstr(happened, "2 err cut: w1 left with parameters that were not saved"));
	gate_cut(gate, ++token);
	collect();
	assert_non_null(strstr(happened, "4 err cut: w1 left with"));
}

/* Its push is on its way to shardd, and is settled when it has gone. */
static void what_is_settled_when_a_member_has_gone_is_in_no_cut(void **state)
{
	(void)state;
	open_gate(GATE_BSP);
	enter("w0", 1, 2);
	enter("w1", 1, 2);
	begin("w0", 1, 0, 10);
	begin("w1", 1, 0, 30);
	push("w0", 1, 1, 0, 10);
	push("w1", 1, 1, 0, 30);
	closed("w1");
	collect();
	enter("w1", 2, 2);
	collect();
	happened[0] = '\0';
	token = 0;
	begin("w0", 1, 1, 10);
	begin("w1", 2, 1, 30);
	collect();
	push("w0", 1, 2, 1, 10);
	push("w1", 2, 2, 1, 30);
	collect();
	happened[0] = '\0';
	token = 0;
	gate_cut(gate, ++token);
	expect("1 err cut: w1 left with parameters that were not saved: go back to a "
	       "checkpoint\n");
}

static void a_cut_is_of_all(void **state)
{
	(void)state;
	start((struct gate_options){.foreign = 1, .sync = GATE_ASP, .iteration = 5});
	enter("w0", 1, 2);
	gate_cut(gate, ++token);
	expect("1 ok iteration=5 members=1\n2 err cut: 1 of 2 trainers are here\n");
	enter("w1", 1, 2);
	gate_cut(gate, ++token);
	expect("3 ok iteration=5 members=2\nsave\n");
}

static void a_cut_does_not_wait_for_who_is_not_here(void **state)
{
	(void)state;
	start((struct gate_options){.foreign = 1, .sync = GATE_BSP, .iteration = 5});
	enter("w0", 1, 2);
	begin("w0", 1, 5, 10);
	gate_cut(gate, ++token);
	expect("1 ok iteration=5 members=1\n3 err cut: 1 of 2 trainers are here\n");
}

/* Whoever trained under that name has the rows in parameters that are gone. */
static void a_second_life_has_not_what_the_first_one_trained(void **state)
{
	(void)state;
	two();
	enter("w1", 2, 2);
	gate_cut(gate, ++token);
	collect();
	assert_non_null(strstr(happened, "2 err cut: w1 left with parameters that were not saved"));
}

static void a_wrong_number_of_ranks_goes_with_who_said_it(void **state)
{
	(void)state;
	open_gate(GATE_BSP);
	enter("w0", 1, 5);
	begin("w0", 1, 0, 10);
	closed("w0");
	enter("w0", 2, 2);
	enter("w1", 1, 2);
	begin("w0", 2, 0, 10);
	collect();
	happened[0] = '\0';
	begin("w1", 1, 0, 10);
	expect("5 ok iteration=0 members=2 samples=20\n6 ok iteration=0 members=2 samples=20\n");
}

/* It would train rows that are in the model of one that was left behind. */
static void nobody_is_left_behind(void **state)
{
	static const char one[] = "action kind=backup-workers count=1\n";
	static const char none[] = "action kind=backup-workers count=0\n";
	struct error err;

	(void)state;
	open_gate(GATE_BSP);
	assert_int_equal(gate_act(gate, one, strlen(one), 0, ++token, &err), -1);
	assert_non_null(strstr(err.text, "no backup workers"));
	assert_int_equal(gate_act(gate, none, strlen(none), 0, ++token, &err), 0);
}

static void without_a_barrier_each_hears_of_a_cut_with_its_next_answer(void **state)
{
	(void)state;
	open_gate(GATE_ASP);
	enter("w0", 1, 0);
	enter("w1", 1, 0);
	begin("w1", 1, 0, 0); /* has nothing: it waits here */
	push("w0", 1, 1, 0, 10);
	collect();
	happened[0] = '\0';
	gate_cut(gate, ++token);
	expect("save\n");
	push("w0", 1, 2, 1, 10);
	expect(""); /* no commit between the queue's save and the cut */
	gate_saved(gate);
	expect("cut 1: w0/1 w1/1\n3 save w1 at 1, ok iteration=1 members=0 samples=0 wait=1\n"
	       "6 save w0 at 1, ok iteration=2 applied=1\n");
}

static void an_idle_member_holds_up_nobody_under_ssp(void **state)
{
	(void)state;
	open_gate(GATE_SSP);
	enter("w0", 1, 0);
	enter("w1", 1, 0);
	begin("w1", 1, 0, 0);
	push("w0", 1, 1, 0, 10);
	push("w0", 1, 2, 1, 10);
	collect();
	happened[0] = '\0';
	push("w0", 1, 3, 2, 10);
	expect("6 ok iteration=3 applied=1\n");
	begin("w1", 1, 0, 10);
	expect("3 ok iteration=3 members=0 samples=0 wait=1\n7 ok iteration=3 members=2 samples=10\n");
}

static void a_stranger_can_not_be_told(void **state)
{
	(void)state;
	open_gate(GATE_BSP);
	assert_int_equal(gate_tells_all(gate), 1);
	join("w0", 1);
	assert_int_equal(gate_tells_all(gate), 0);
	begin("w0", 1, 0, 10);
	expect("1 ok iteration=0 members=1\n2 err bad-request: it has not joined with begins=1\n");
}

/* ---- as agents do it, in any order ---- */

enum at { OUT, JOINING, IN, BEGINNING, READY, PUSHING, ENDING, ENDED };
enum asked { A_NONE, A_JOIN, A_BEGIN, A_PUSH, A_END };
#define MEMBERS 3

static struct agent {
	enum at at;
	uint64_t rows, count, iteration, sequence; /* count: of the iteration that has begun */
	int begins;                                /* that are not answered */
	int early;                                 /* one was said behind the push */
} agent[MEMBERS];
static const char *const name[MEMBERS] = {"w0", "w1", "w2"};
static struct {
	int member;
	enum asked kind;
	uint64_t count;
} ask[100000];
static uint64_t rows_left, rows_done, told, told_of, cuts, cut_token, dice;
static int save_wanted, is_cut;

static uint64_t roll(uint64_t of)
{
	dice = dice * 6364136223846793005u + 1442695040888963407u;
	return (dice >> 33) % of;
}

static struct gate_who asks(int m, enum asked kind, uint64_t count)
{
	struct gate_who w = who(name[m], 1);

	ask[token].member = m;
	ask[token].kind = kind;
	ask[token].count = count;
	return w;
}

static void answered_begin(struct agent *a, uint64_t count, const char *fields)
{
	unsigned long long iteration, members, samples;

	assert_int_equal(sscanf(fields, "iteration=%llu members=%llu samples=%llu", &iteration,
				&members, &samples), 3);
	a->begins--;
	if (samples == 0) {
		if (a->at == BEGINNING && a->begins == 0)
			a->at = IN;
		return;
	}
	assert_int_equal(iteration, a->iteration);
	assert_int_equal(a->at, BEGINNING);
	a->at = READY;
	a->count = count;
}

static void answered(const struct gate_effect *e)
{
	struct agent *a = &agent[ask[e->token].member];
	unsigned long long iteration = 0;

	if (e->token == cut_token)
		return;
	if (!e->ok)
		fail_msg("refused: %s %s", e->code, e->fields);
	if (e->save) { /* its parameters are of that iteration */
		assert_int_equal(e->iteration, a->iteration);
		told++;
	}
	sscanf(e->fields, "iteration=%llu", &iteration);
	switch (ask[e->token].kind) {
	case A_JOIN:
		a->at = IN;
		a->iteration = iteration;
		break;
	case A_BEGIN:
		answered_begin(a, ask[e->token].count, e->fields);
		break;
	case A_PUSH:
		a->at = a->early ? BEGINNING : IN;
		a->early = 0;
		a->iteration = iteration;
		break;
	case A_END:
		a->at = strcmp(e->fields, "wait=1") == 0 ? ENDED : OUT;
		break;
	case A_NONE:
		break;
	}
	ask[e->token].kind = A_NONE;
}

static void carry_out(void)
{
	const struct gate_effect *e;

	while ((e = gate_next(gate))) {
		if (e->kind == GATE_ANSWER)
			answered(e);
		else if (e->kind == GATE_HOLD)
			gate_held(gate, NULL, 0);
		else if (e->kind == GATE_SETTLE)
			gate_settled(gate, e->number, NULL, 0);
		else if (e->kind == GATE_SAVE)
			save_wanted = 1;
		else if (e->kind == GATE_CUT) {
			told_of = e->members;
			is_cut = 1;
		}
	}
}

static void say_begin(int m, uint64_t iteration)
{
	struct agent *a = &agent[m];
	struct gate_who w = asks(m, A_BEGIN, a->rows);

	if (!a->early)
		a->at = BEGINNING;
	a->begins++;
	gate_take_part(gate, &w, &(struct gate_batch){.iteration = iteration, .count = a->rows});
}

static void say_end(int m)
{
	struct gate_who w = asks(m, A_END, 0);

	agent[m].at = ENDING;
	gate_end(gate, &w);
}

static void take_rows(struct agent *a)
{
	uint64_t rows = roll(3) ? 1 + roll(5) : 0;

	a->rows = rows < rows_left ? rows : rows_left;
	rows_left -= a->rows;
}

/* shardd says that it is over when all rows are settled. */
static void act(int m)
{
	struct agent *a = &agent[m];
	struct gate_who w;

	switch (a->at) {
	case OUT:
		w = asks(m, A_JOIN, 0);
		a->at = JOINING;
		gate_takes_part(gate, &w, MEMBERS);
		gate_join(gate, &w);
		break;
	case IN:
		if (a->rows == 0)
			take_rows(a);
		if (a->rows == 0 && rows_done == 200)
			say_end(m);
		else
			say_begin(m, a->iteration);
		break;
	case BEGINNING:
		if (a->rows > 0)
			break;
		take_rows(a);
		if (a->rows > 0)
			say_begin(m, a->iteration);
		else if (rows_done == 200)
			say_end(m);
		break;
	case READY:
		a->at = PUSHING;
		rows_done += a->count;
		a->sequence++;
		asks(m, A_PUSH, 0);
		token--;
		push(name[m], 1, a->sequence, a->iteration, a->count);
		if (a->count > 0)
			a->rows = 0;
		if (a->rows == 0 && roll(2))
			take_rows(a);
		a->early = a->rows > 0;
		if (a->early)
			say_begin(m, a->iteration + 1);
		break;
	case ENDED:
		say_end(m);
		break;
	default:
		break;
	}
}

static int all_end(void)
{
	for (int m = 0; m < MEMBERS; m++)
		if (agent[m].at != ENDING)
			return 0;
	return 1;
}

static void one_life(uint64_t seed)
{
	static const char lines[] = "action kind=adjust-lr id=w1 scale=0.5\n";
	struct error err;

	dice = seed;
	memset(agent, 0, sizeof agent);
	rows_left = 200;
	rows_done = told = told_of = cut_token = 0;
	save_wanted = is_cut = 0;
	open_gate(GATE_BSP);
	for (int steps = 0; !all_end() || cut_token; steps++) {
		if (steps > 20000)
			fail_msg("seed %llu: stuck", (unsigned long long)seed);
		if (!cut_token && roll(20) == 0)
			gate_cut(gate, cut_token = ++token);
		else if (roll(40) == 0) {
			asks(0, A_NONE, 0);
			gate_act(gate, lines, sizeof lines - 1, 0, token, &err);
		}
		else if (save_wanted && roll(3) == 0) {
			save_wanted = 0;
			gate_saved(gate);
		} else
			act((int)roll(MEMBERS));
		carry_out();
		if (is_cut && told == told_of) {
			gate_cut_over(gate);
			told = told_of = cut_token = 0;
			is_cut = 0;
			cuts++;
		}
	}
	gate_free(gate);
	gate = NULL;
}

static void nobody_is_stuck_and_every_cut_is_exact(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++)
		one_life(seed);
	assert_true(cuts > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nobody_begins_before_all_have_said_what_they_have),
		TEST(what_has_begun_is_trained_when_it_is_enough),
		TEST(who_waits_for_others_hears_that_it_is_enough),
		TEST(the_supervisor_says_enough_without_a_barrier),
		TEST(one_without_rows_holds_up_nobody),
		TEST(rows_that_come_later_are_said_anew),
		TEST(the_next_one_begins_when_all_have_gone),
		TEST(who_goes_is_waited_for_no_longer),
		TEST(a_begin_behind_the_push_waits_for_the_others),
		TEST(a_cut_is_before_a_begin_that_came_early),
		TEST(an_action_undoes_what_was_said_early),
		TEST(an_action_undoes_what_is_said_early_and_comes_late),
		TEST(who_goes_takes_an_early_begin_with_it),
		TEST(a_cut_is_at_the_barrier),
		TEST(a_cut_comes_to_those_who_wait),
		TEST(what_has_gone_with_a_member_is_in_no_cut),
		TEST(who_goes_while_shardd_saves_is_in_no_cut),
		TEST(what_is_settled_when_a_member_has_gone_is_in_no_cut),
		TEST(a_cut_is_of_all),
		TEST(a_cut_does_not_wait_for_who_is_not_here),
		TEST(a_second_life_has_not_what_the_first_one_trained),
		TEST(a_wrong_number_of_ranks_goes_with_who_said_it),
		TEST(nobody_is_left_behind),
		TEST(without_a_barrier_each_hears_of_a_cut_with_its_next_answer),
		TEST(an_idle_member_holds_up_nobody_under_ssp),
		TEST(a_stranger_can_not_be_told),
		TEST(nobody_is_stuck_and_every_cut_is_exact),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
