/* Orders as text and back: what a part behind a socket reads is what one in this process is given;
 * text that no lead has written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lead/order.h"

#include <stdlib.h>
#include <string.h>

static struct record record;
static struct order back;
static struct error err;

/* Writes and reads it. */
static void pass(const struct order *o)
{
	size_t head, bytes;
	char *text = order_write(o, &head, &bytes);

	assert_non_null(text);
	assert_true(head > 0 && text[head - 1] == '\n');
	assert_int_equal(record_parse(&record, text, head - 1, &err), 0);
	assert_int_equal(order_read(&back, &record, text + head, bytes, &err), 0);
	free(text);
	assert_int_equal(back.kind, o->kind);
	assert_int_equal(back.incarnation, o->incarnation);
	assert_int_equal(back.pushes, o->pushes);
	assert_int_equal(back.members, o->members);
}

static int clear(void **state)
{
	(void)state;
	order_clear(&back);
	return 0;
}

static void pushes_keep_their_names_and_numbers(void **state)
{
	struct order_push push[3] = {
		{.worker = "w0",
		 .generation = 3,
		 .sequence = 9,
		 .count = 64,
		 .size = 64,
		 .scale = 1},
		{.worker = "w10",
		 .generation = 1,
		 .sequence = 0,
		 .count = 7,
		 .size = 64,
		 .scale = 0.1},
		{.worker = "x",
		 .generation = 2,
		 .sequence = UINT64_MAX,
		 .unit = 1,
		 .scale = 2,
		 .delay = 17},
	};
	struct order o = {.kind = ORDER_APPLY,
			  .incarnation = 5,
			  .iteration = 41,
			  .units = 2,
			  .push = push,
			  .pushes = 3};

	(void)state;
	pass(&o);
	assert_int_equal(back.iteration, 41);
	assert_int_equal(back.units, 2);
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(back.push[i].worker, push[i].worker);
		assert_int_equal(back.push[i].generation, push[i].generation);
		assert_int_equal(back.push[i].sequence, push[i].sequence);
		assert_int_equal(back.push[i].unit, push[i].unit);
		assert_int_equal(back.push[i].count, push[i].count);
		assert_int_equal(back.push[i].size, push[i].size);
		assert_int_equal(back.push[i].delay, push[i].delay);
		assert_true(back.push[i].scale >= push[i].scale &&
			    back.push[i].scale <= push[i].scale);
	}
	clear(NULL);
	o.kind = ORDER_HOLD;
	pass(&o);
	assert_string_equal(back.push[1].worker, "w10");
	clear(NULL);
	o.kind = ORDER_APPLY; /* a unit without a gradient */
	o.push = NULL;
	o.pushes = 0;
	pass(&o);
	assert_int_equal(back.units, 2);
}

static void throws_and_cuts(void **state)
{
	struct order o = {.kind = ORDER_THROW, .worker = "w1", .generation = 4};

	(void)state;
	pass(&o);
	assert_string_equal(back.worker, "w1");
	assert_int_equal(back.generation, 4);
	assert_false(back.one);
	o.one = 1; /* sequence 0 is one, too */
	pass(&o);
	assert_true(back.one);
	assert_int_equal(back.sequence, 0);
	o = (struct order){.kind = ORDER_CUT, .path = "/a dir/%x", .iteration = 8};
	pass(&o);
	assert_string_equal(back.path, "/a dir/%x");
	assert_int_equal(back.iteration, 8);
	assert_int_equal(record_parse(&record, "cut incarnation=1 path=p", 24, &err), 0);
	assert_int_equal(order_read(&back, &record, NULL, 0, &err), 0);
	assert_true(back.iteration == ORDER_ANYWHERE);
}

static void sums_and_fills(void **state)
{
	struct order_member member[2] = {
		{.worker = "w0", .generation = 3, .replica = "r0", .scale = 1},
		{.worker = "w10", .generation = 1, .replica = "r2", .scale = 0.1},
	};
	struct order o = {.kind = ORDER_SUM,
			  .incarnation = 5,
			  .round = (UINT64_C(7) << 32) + 1,
			  .iteration = 41,
			  .replicas = "r0,r2",
			  .member = member,
			  .members = 2};

	(void)state;
	pass(&o);
	assert_true(back.round == o.round);
	assert_int_equal(back.iteration, 41);
	assert_false(back.check);
	assert_string_equal(back.replicas, "r0,r2");
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(back.member[i].worker, member[i].worker);
		assert_int_equal(back.member[i].generation, member[i].generation);
		assert_string_equal(back.member[i].replica, member[i].replica);
		assert_true(back.member[i].scale >= member[i].scale &&
			    back.member[i].scale <= member[i].scale);
	}
	clear(NULL);
	o.check = 1;
	o.members = 0;
	pass(&o);
	assert_true(back.check);
	clear(NULL);
	o = (struct order){.kind = ORDER_APPLY,
			   .iteration = 8,
			   .units = 1,
			   .round = 9,
			   .divisor = 1.0 / 3.0,
			   .samples = 77};
	pass(&o);
	assert_int_equal(back.round, 9);
	assert_true(back.divisor >= o.divisor && back.divisor <= o.divisor);
	assert_int_equal(back.samples, 77);
	o = (struct order){
		.kind = ORDER_FILL, .round = 10, .from = "/run dir/r0.sock", .iteration = 12};
	pass(&o);
	assert_int_equal(back.round, 10);
	assert_string_equal(back.from, "/run dir/r0.sock");
	assert_int_equal(back.iteration, 12);
}

static void refused(const char *head, const char *payload)
{
	assert_int_equal(record_parse(&record, head, strlen(head), &err), 0);
	if (order_read(&back, &record, payload, strlen(payload), &err) == 0)
		fail_msg("%s, %s: taken", head, payload);
	clear(NULL);
}

static void what_no_lead_writes_is_refused(void **state)
{
	const char *apply = "apply incarnation=1 iteration=0 units=2";

	(void)state;
	refused("nonsense incarnation=1", "");
	refused("apply incarnation=1 iteration=0 units=0", "");
	refused("apply incarnation=1 units=1", "");
	refused("apply incarnation=1 iteration=18446744073709551615 units=1", "");
	refused("throw incarnation=1 worker=../x generation=1", "");
	refused("cut incarnation=1", "");
	refused("hold", "");
	refused("sum incarnation=1 iteration=0 replicas=r0", "");
	refused("sum incarnation=1 round=0 iteration=0 replicas=r0", "");
	refused("sum incarnation=1 round=1 iteration=0", "");
	refused("sum incarnation=1 round=1 iteration=0 replicas=r0",
		"part worker=w0 generation=1 sequence=1 unit=0\n");
	refused("sum incarnation=1 round=1 iteration=0 replicas=r0",
		"member worker=w0 generation=0 replica=r0\n");
	refused("sum incarnation=1 round=1 iteration=0 replicas=r0",
		"member worker=w0 generation=1\n");
	refused("apply incarnation=1 iteration=0 units=2 round=1 divisor=1", "");
	refused("apply incarnation=1 iteration=0 units=1 round=1 divisor=-1", "");
	refused("apply incarnation=1 iteration=0 units=1 round=1", "");
	refused("fill incarnation=1 iteration=0", "");
	refused(apply, "part worker=w0 generation=1 sequence=1 unit=0");
	refused(apply, "rubbish\n");
	refused(apply, "part worker=w0 generation=0 sequence=1 unit=0\n");
	refused(apply, "part worker=w0 generation=1 sequence=1 unit=2\n");
	refused(apply, "part worker=w0 generation=1 sequence=1 unit=0 scale=nan\n");
	refused(apply, "part worker=w0 generation=1 sequence=1 unit=1\n"
		       "part worker=w1 generation=1 sequence=1 unit=0\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(pushes_keep_their_names_and_numbers, clear),
		cmocka_unit_test_teardown(throws_and_cuts, clear),
		cmocka_unit_test_teardown(sums_and_fills, clear),
		cmocka_unit_test_teardown(what_no_lead_writes_is_refused, clear),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
