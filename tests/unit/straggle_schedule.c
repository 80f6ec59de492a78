/* straggle/schedule: the patterns against what the papers say, the same for every order of asking,
 * and traces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "straggle/duty.h"
#include "straggle/schedule.h"

#include "scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NODES 200

static char name[NODES][16];
static const char *node[NODES];
static char path[96];

static int make(void **state)
{
	for (int i = 0; i < NODES; i++) {
		snprintf(name[i], sizeof name[i], "w%d", i);
		node[i] = name[i];
	}
	if (scratch_make(state) != 0)
		return -1;
	snprintf(path, sizeof path, "%s/trace", scratch);
	return 0;
}

static struct schedule_options options(size_t workers)
{
	return (struct schedule_options){.seed = 1,
					 .scale = 1,
					 .delay_scale = 1,
					 .intensity = 1,
					 .life = SCHEDULE_EVERY_LIFE,
					 .node = node,
					 .workers = workers};
}

/* words: one string, split at blanks; several patterns may stand in it. */
static int add(struct schedule *s, const char *text, struct error *err)
{
	char copy[512], *words[64], *save = NULL;
	size_t count = 0, n;
	snprintf(copy, sizeof copy, "%s", text);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		words[count++] = w;
	for (size_t at = 0; at < count; at += n) {
		n = schedule_words(words + at, count - at);
		if (schedule_add(s, words + at, n, err) < 0)
			return -1;
	}
	return 0;
}

static struct schedule *made(const struct schedule_options *o, const char *text)
{
	struct schedule *s;
	struct error err = {0};
	assert_int_equal(schedule_new(&s, o, &err), 0);
	if (add(s, text, &err) < 0)
		fail_msg("%s: %s: %s", text, err.place, err.text);
	return s;
}

static struct schedule_state state_of(const struct schedule *s, const char *id, int64_t life,
				      double t)
{
	struct schedule_state state = {.slowdown = 1};
	for (size_t i = 0; i < schedule_slots(s); i++)
		if (strcmp(schedule_slot(s, i)->id, id) == 0 && schedule_slot(s, i)->life == life)
			schedule_at(s, i, t, &state);
	return state;
}

#define EVERY SCHEDULE_EVERY_LIFE

/* 15 minutes in every 30, probability 0.3, 1.5 s times the intensity. */
static void test_transient(void **state)
{
	(void)state;
	struct schedule_options o = options(NODES);
	struct schedule *s = made(&o, "transient intensity=0.8");
	int slow = 0, same = 0, before[NODES] = {0};
	assert_int_equal(schedule_slots(s), NODES);
	assert_true(schedule_endless(s));
	for (int period = 0; period < 50; period++)
		for (int i = 0; i < NODES; i++) {
			double begin = period * 1800.0;
			struct schedule_state a = state_of(s, node[i], EVERY, begin);
			assert_true(a.drag.delay == (a.on ? 1.5 * 0.8 : 0));
			assert_int_equal(state_of(s, node[i], EVERY, begin + 899.9).on, a.on);
			assert_int_equal(state_of(s, node[i], EVERY, begin + 900).on, 0);
			assert_int_equal(state_of(s, node[i], EVERY, begin + 1799.9).on, 0);
			slow += a.on;
			same += period > 0 && a.on == before[i];
			before[i] = a.on;
		}
	/* 10,000 draws: mean 3000, deviation 46; two draws agree with 0.58: 5684, 49 */
	assert_in_range(slow, 3000 - 230, 3000 + 230);
	assert_in_range(same, 5684 - 250, 5684 + 250);
	schedule_free(s);
}

/* next() names exactly the moments at which something changes, also where sums of fractions round. */
static void test_next(void **state)
{
	(void)state;
	struct schedule_options o = options(40);
	o.scale = 1.0 / 7;
	struct schedule *s =
		made(&o, "transient on=0.1 every=0.7 p=0.5 from=0.3 persistent from=1 until=3");
	double t = 0;
	int changes = 0;
	for (int i = 0; i < 20000; i++) {
		double next = schedule_next(s, t);
		assert_true(next > t);
		for (size_t j = 0; i < 200 && j < schedule_slots(s); j++) {
			struct schedule_state a, b, c;
			schedule_at(s, j, t, &a);
			schedule_at(s, j, t + (next - t) * 0.999, &b);
			schedule_at(s, j, next, &c);
			assert_true(schedule_same(&a, &b));
			changes += !schedule_same(&b, &c);
		}
		t = next;
	}
	assert_true(changes > 1000);
	/* 2 moments a period of 0.1 s */
	assert_true(fabs(t - 1000) < 0.2);
	schedule_free(s);
}

static void test_seed(void **state)
{
	(void)state;
	struct schedule_options o = options(NODES), other = o, fewer = o;
	other.seed = 2;
	fewer.workers = NODES / 2;
	struct schedule *a = made(&o, "transient"), *b = made(&o, "transient"),
			*c = made(&other, "transient"), *d = made(&fewer, "transient"),
			*e = made(&o, "transient transient");
	int differ = 0, doubled = 0;
	for (int i = 0; i < NODES; i++) {
		double t = 1800.0 * (i % 7);
		int on = state_of(a, node[i], EVERY, t).on;
		assert_int_equal(on, state_of(b, node[i], EVERY, t).on);
		differ += on != state_of(c, node[i], EVERY, t).on;
		if (i < NODES / 2) /* a node more changes nothing for the others */
			assert_int_equal(on, state_of(d, node[i], EVERY, t).on);
		doubled += state_of(e, node[i], EVERY, t).drag.delay == 3;
	}
	assert_true(differ > NODES / 5);
	assert_in_range(doubled, 1, NODES / 5); /* equal patterns draw different numbers */
	schedule_free(a);
	schedule_free(b);
	schedule_free(c);
	schedule_free(d);
	schedule_free(e);
}

static size_t count_on(const struct schedule *s, double t)
{
	size_t on = 0;
	for (size_t i = 0; i < schedule_slots(s); i++) {
		struct schedule_state state;
		schedule_at(s, i, t, &state);
		on += (size_t)state.on;
	}
	return on;
}

static void test_choice(void **state)
{
	(void)state;
	struct schedule_options o = options(20);
	struct schedule *s = made(&o, "persistent"), *two = made(&o, "persistent count=2"),
			*part = made(&o, "persistent fraction=0.25 intensity=0.5"),
			*none = made(&o, "persistent fraction=0");
	assert_int_equal(count_on(s, 0), 1);
	assert_int_equal(count_on(two, 1e6), 2);
	assert_int_equal(count_on(part, 0), 5);
	assert_int_equal(count_on(none, 0), 0);
	assert_true(isinf(schedule_next(s, 0)));
	assert_false(schedule_endless(s));
	/* one more wanted adds a node and changes none */
	assert_true(state_of(two, schedule_slot(s, 0)->id, EVERY, 0).drag.delay == 4);
	assert_true(state_of(part, schedule_slot(s, 0)->id, EVERY, 0).drag.delay == 2);
	schedule_free(s);
	schedule_free(two);
	schedule_free(part);
	schedule_free(none);
	o.workers = 3;
	o.servers = 2;
	s = made(&o, "server count=2 sleep=1");
	assert_int_equal(schedule_slots(s), 2);
	assert_true(state_of(s, "w3", EVERY, 0).on && state_of(s, "w4", EVERY, 0).on);
	schedule_free(s);
}

static void test_lives(void **state)
{
	(void)state;
	struct schedule_options o = options(3);
	o.life = 0;
	struct schedule *s = made(&o, "transient p=1 sleep=1 on=10 every=20 persistent nodes=w1 sleep=2");
	assert_int_equal(schedule_slots(s), 4);
	assert_true(state_of(s, "w1", EVERY, 0).drag.delay == 1);
	assert_true(state_of(s, "w1", 0, 0).drag.delay == 3); /* a node reads one file only */
	assert_true(state_of(s, "w1", 0, 15).drag.delay == 2);
	assert_true(state_of(s, "w1", EVERY, 15).on == 0);
	assert_true(state_of(s, "w0", EVERY, 0).drag.delay == 1);
	schedule_free(s);
}

static void test_pace(void **state)
{
	(void)state;
	struct schedule_options o = options(4);
	struct schedule *s = made(&o, "device speed=1200 factor=1,1,0.5,0.2 launch=0.01 "
				      "saturation=32 memory=512 type=v100 "
				      "persistent nodes=w2 sleep=1 "
				      "device nodes=w0 speed=100 from=5 until=6");
	struct schedule_state a = state_of(s, "w2", EVERY, 0);
	assert_true(a.drag.speed == 600 && a.drag.launch == 0.01 && a.drag.delay == 1);
	assert_int_equal(a.drag.saturation, 32);
	assert_int_equal(a.drag.memory, 512);
	assert_string_equal(a.drag.type, "v100");
	assert_true(state_of(s, "w3", EVERY, 0).drag.speed == 240);
	assert_true(state_of(s, "w0", EVERY, 0).drag.speed == 1200);
	a = state_of(s, "w0", EVERY, 5); /* of two devices the later one counts, whole */
	assert_true(a.drag.speed == 100 && a.drag.launch == 0 && a.drag.memory == 0);
	assert_true(schedule_next(s, 0) == 5 && schedule_next(s, 5) == 6);
	schedule_free(s);
}

static void test_scale(void **state)
{
	(void)state;
	struct schedule_options o = options(2);
	o.scale = 0.5;
	o.delay_scale = 0.1;
	o.intensity = 0.5;
	struct schedule *s = made(&o, "transient p=1 on=2 every=6 from=4 until=16");
	assert_true(schedule_next(s, 0) == 2);
	assert_true(schedule_next(s, 2) == 3);
	assert_true(schedule_next(s, 3) == 5);
	assert_true(schedule_next(s, 6) == 8 && isinf(schedule_next(s, 8)));
	assert_true(fabs(state_of(s, "w0", EVERY, 2).drag.delay - 1.5 * 0.5 * 0.1) < 1e-12);
	assert_int_equal(state_of(s, "w0", EVERY, 1.9).on, 0);
	assert_int_equal(state_of(s, "w0", EVERY, 8).on, 0);
	assert_false(schedule_endless(s));
	schedule_free(s);
}

static void test_processes(void **state)
{
	(void)state;
	struct schedule_options o = options(2);
	struct error err;
	o.processes = 1;
	struct schedule *s = made(&o, "persistent nodes=w0 slowdown=2 transient p=1 slowdown=3");
	assert_true(state_of(s, "w0", EVERY, 0).slowdown == 6);
	assert_true(state_of(s, "w0", EVERY, 900).slowdown == 2);
	assert_true(state_of(s, "w1", EVERY, 0).slowdown == 3);
	assert_int_equal(add(s, "persistent", &err), -1);
	assert_non_null(strstr(err.text, "slowdown"));
	assert_int_equal(add(s, "persistent slowdown=2 sleep=1", &err), -1);
	assert_int_equal(add(s, "device speed=1", &err), -1);
	schedule_free(s);
}

static void test_usage(void **state)
{
	(void)state;
	static const char *const bad[][2] = {
		{"wobble", "'wobble' is no pattern"},
		{"transient P=0.3", "this pattern has no key P="},
		{"transient p=1.5", "1.5"},
		{"transient p=0.1 p=0.2", "p"},
		{"transient every=0.0001", "less than"},
		{"transient slowdown=2", "processes"},
		{"persistent count=4", "4"},
		{"persistent nodes=w0,w9", "'w9' is none"},
		{"persistent nodes=w0,w0", "twice"},
		{"persistent nodes=", "empty"},
		{"persistent nodes=w0 count=1", "one of"},
		{"persistent intensity=1e6", "more than 86400"},
		{"persistent from=2 until=2", "not after"},
		{"server", "--servers"},
		{"device", "speed= is missing"},
		{"device factor=2", "without speed"},
		{"device speed=1,2", "2 values for 3 nodes"},
		{"device speed=1,2,x", "x"},
		{"device speed=1 launch=soon", "soon"},
		{"device launch=1 memory=5", "without speed"},
		{"replay", "file= is missing"},
	};
	struct schedule_options o = options(3);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct schedule *s;
		struct error err = {0};
		assert_int_equal(schedule_new(&s, &o, &err), 0);
		if (add(s, bad[i][0], &err) == 0)
			fail_msg("%s is taken", bad[i][0]);
		if (!strstr(err.text, bad[i][1]) || err.code != ERROR_USAGE)
			fail_msg("%s: %d %s", bad[i][0], err.code, err.text);
		assert_int_equal(schedule_slots(s), 0);
		schedule_free(s);
	}
}

static void write_trace(const char *text)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static struct schedule *replayed(const struct schedule_options *o, const char *more)
{
	char words[256];
	snprintf(words, sizeof words, "replay file=%s %s", path, more);
	return made(o, words);
}

static void test_records(void **state)
{
	(void)state;
	struct schedule_options o = options(3);
	write_trace("on at=4 id=w1 delay=2\n"
		    "on at=1 id=w0 delay=1 epoch=17\n"
		    "gone at=2 id=w2\n"
		    "on at=1 id=w0 life=0 speed=100 launch=0.5 delay=3\n"
		    "\n"
		    "on at=6 id=w1 delay=2\n"
		    "off at=6 id=w1\n"
		    "off at=3 id=w0\n");
	struct schedule *s = replayed(&o, "");
	assert_int_equal(schedule_slots(s), 3);
	assert_int_equal(state_of(s, "w0", EVERY, 0.5).on, 0);
	assert_true(state_of(s, "w0", EVERY, 1).drag.delay == 1);
	/* the record of a life says all of its file */
	assert_true(state_of(s, "w0", 0, 2).drag.delay == 3);
	assert_true(state_of(s, "w0", 0, 9).drag.launch == 0.5);
	assert_int_equal(state_of(s, "w0", 0, 0).on, 0);
	assert_int_equal(state_of(s, "w0", EVERY, 3).on, 0);
	assert_true(state_of(s, "w1", EVERY, 5.9).drag.delay == 2);
	assert_int_equal(state_of(s, "w1", EVERY, 6).on, 0); /* the later line */
	assert_true(schedule_next(s, 0) == 1 && schedule_next(s, 1) == 3);
	assert_true(schedule_next(s, 4) == 6 && isinf(schedule_next(s, 6)));
	schedule_free(s);
}

static void test_batches(void **state)
{
	(void)state;
	struct schedule_options o = options(3);
	/* workers 3 and 7 become w0 and w1; steps last as long as their longest batch */
	write_trace(",worker,gpu,time,batch_time_norm\n0,7,25,1,100\n1,3,25,1,300\n2,3,25,2,50\n"
		    "3,7,25,2,0\n4,7,25,5,200\n");
	struct schedule *s = replayed(&o, "unit=0.01");
	assert_true(state_of(s, "w0", EVERY, 0).drag.delay == 3);
	assert_true(state_of(s, "w1", EVERY, 0).drag.delay == 1);
	assert_true(state_of(s, "w0", EVERY, 3).drag.delay == 0.5);
	assert_int_equal(state_of(s, "w1", EVERY, 3).on, 0);
	assert_true(state_of(s, "w1", EVERY, 3.5).drag.delay == 2);
	assert_true(state_of(s, "w0", EVERY, 3.5).drag.delay == 0.5); /* nothing new of it */
	assert_int_equal(state_of(s, "w0", EVERY, 5.5).on, 0);
	assert_int_equal(state_of(s, "w1", EVERY, 5.5).on, 0);
	assert_true(isinf(schedule_next(s, 5.5)));
	schedule_free(s);
	s = replayed(&o, "unit=0.01 own=0.75");
	assert_true(state_of(s, "w1", EVERY, 0).drag.delay == 0.25);
	assert_int_equal(state_of(s, "w0", EVERY, 3).on, 0);
	schedule_free(s);
	s = replayed(&o, "unit=0.01 batch=600 step=10 nodes=w2,w1");
	assert_true(state_of(s, "w2", EVERY, 9).drag.speed == 200);
	assert_true(state_of(s, "w1", EVERY, 20).drag.speed == 300);
	assert_int_equal(state_of(s, "w1", EVERY, 30).on, 0);
	schedule_free(s);
	write_trace("1,0,2\n1,1,4\r\n2,0,1\n");
	s = replayed(&o, "");
	assert_true(state_of(s, "w1", EVERY, 0).drag.delay == 4);
	assert_true(state_of(s, "w0", EVERY, 4).drag.delay == 1);
	schedule_free(s);
}

static void test_bad_traces(void **state)
{
	(void)state;
	static const char *const bad[][2] = {
		{"", "says nothing"},
		{"on at=1 id=w0 delay=1\non at=x id=w0\n", ":2"},
		{"on at=1 id=w7\n", ":1"},
		{"on at=1 id=w0 launch=2\n", "without speed"},
		{"on at=1 id=w0 slowdown=2\n", "processes"},
		{"on at=1 id=w0 delay=1", "no end"},
		{"worker,time\n", "batch_time"},
		{"1,0,2\n1,x,2\n", ":2"},
		{"1,0,2\n1,1\n", ":2"},
		{"1,0,2\n1,1,-2\n", ":2"},
		{"1,0,99999\n", "longer"},
		{"1,0,1\n1,1,1\n1,2,1\n1,3,1\n", "4 workers, but 3 nodes"},
	};
	struct schedule_options o = options(3);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct schedule *s;
		struct error err = {0};
		char words[128];
		write_trace(bad[i][0]);
		snprintf(words, sizeof words, "replay file=%s", path);
		assert_int_equal(schedule_new(&s, &o, &err), 0);
		assert_int_equal(add(s, words, &err), -1);
		if (err.code != ERROR_DATA || !strstr(err.place, path) ||
		    (!strstr(err.text, bad[i][1]) && !strstr(err.place, bad[i][1])))
			fail_msg("%s: %d %s: %s", bad[i][0], err.code, err.place, err.text);
		schedule_free(s);
	}
}

/* The share of time that a process stands still, when the clock is late by up to lag. */
static double stopped_share(double slowdown, double period, double lag)
{
	struct duty d = {.slowdown = 1, .turn = INFINITY};
	double now = 5, still = 0, random = 0.5;
	duty_start(&d, slowdown, 5.03);
	assert_true(d.turn == 5.03);
	while (now < 105) {
		double before = now;
		int was_stopped = d.stopped;
		assert_true(d.turn <= now + period + 0.03);
		random = fmod(random * 997.0 + 0.123, 1.0);
		now = fmax(d.turn, now) + lag * random;
		still += was_stopped ? now - before : 0;
		duty_turn(&d, period, now);
	}
	return still / 100;
}

static void test_duty(void **state)
{
	(void)state;
	static const double slowdown[] = {1.1, 2, 4, 50};
	for (size_t i = 0; i < 4; i++) {
		double share = 1 - 1 / slowdown[i];
		assert_true(fabs(stopped_share(slowdown[i], 0.1, 0) - share) < 0.002);
		if (slowdown[i] < 10) /* who is to run for 2 ms at a time can't be 20 ms late */
			assert_true(fabs(stopped_share(slowdown[i], 0.1, 0.02) - share) < 0.01);
	}
	struct duty d = {.slowdown = 1, .turn = INFINITY};
	duty_start(&d, 1, 7);
	assert_true(isinf(d.turn) && !d.stopped);
	duty_start(&d, 2, 7);
	duty_turn(&d, 1, 7);
	assert_true(d.stopped && d.turn == 7.5);
	duty_start(&d, 1, 7.1); /* in the middle of a stop */
	assert_true(isinf(d.turn) && !d.stopped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transient), cmocka_unit_test(test_next),
		cmocka_unit_test(test_seed),	  cmocka_unit_test(test_choice),
		cmocka_unit_test(test_lives),	  cmocka_unit_test(test_pace),
		cmocka_unit_test(test_scale),	  cmocka_unit_test(test_processes),
		cmocka_unit_test(test_usage),	  cmocka_unit_test(test_records),
		cmocka_unit_test(test_batches),	  cmocka_unit_test(test_bad_traces),
		cmocka_unit_test(test_duty),
	};
	return cmocka_run_group_tests(tests, make, scratch_remove);
}
