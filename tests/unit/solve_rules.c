/* solve_rules: what each built-in solution says to snapshots made by hand. */
#include "solve/solution.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct snapshot s;
static struct solution_options o;
static struct error err;
static char text[1 << 16];    /* actions without their reasons, a line each */
static char reasons[1 << 16]; /* a line each */

static int begin(void **state)
{
	(void)state;
	snapshot_init(&s);
	solution_options_init(&o);
	return 0;
}

static int end(void **state)
{
	(void)state;
	snapshot_clear(&s);
	return 0;
}

__attribute__((format(printf, 1, 2))) static void take(const char *format, ...)
{
	static struct record r;
	char line[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (record_parse(&r, line, strlen(line), &err) != 0 || snapshot_add(&s, &r, &err) != 0)
		fail_msg("%s: %s", line, err.text);
}

static void job(unsigned workers, unsigned servers)
{
	take("job at=1000 iter=5 workers=%u servers=%u short=1 long=10", workers, servers);
}

/* A worker of that batch and these speeds, up for `up` seconds. */
static void worker(const char *id, unsigned size, double fast, double slow, double up)
{
	take("node role=worker id=%s state=up size=%u short=%.6g long=%.6g speed-short=%.6g "
	     "speed-long=%.6g samples=1000 up=%g speed-last=%.6g",
	     id, size, size / fast, size / slow, fast, slow, up, fast);
}

static void server(const char *id, double time_short, double time_long, double mean, double up)
{
	take("node role=server id=%s state=up size=100 short=%g long=%g ratio-short=%g "
	     "ratio-long=%g up=%g",
	     id, time_short, time_long, time_short / mean, time_long / mean, up);
}

static int keep(const struct action *a, void *arg, struct error *e)
{
	struct action plain = *a;
	size_t len = strlen(text);
	(void)arg;
	(void)e;
	assert_true(a->reason[0] != '\0');
	snprintf(reasons + strlen(reasons), sizeof reasons - strlen(reasons), "%s\n", a->reason);
	plain.reason[0] = '\0';
	action_format(&plain, text + len, sizeof text - len);
	return 0;
}

static const char *decide(const char *name)
{
	static char once[sizeof text];
	for (int i = 0; i < 2; i++) {
		text[0] = reasons[0] = '\0';
		solution_options_name(&o, name);
		if (solution_decide(solution_find(name), &s, &o, keep, NULL, &err) != 0)
			fail_msg("%s: %s", name, err.text);
		if (i == 0)
			memcpy(once, text, sizeof text);
	}
	assert_string_equal(once, text); /* same input, same output */
	return text;
}

static void says(const char *name, const char *actions, const char *reason)
{
	assert_string_equal(decide(name), actions);
	if (!strstr(reasons, reason))
		fail_msg("'%s' is not in: %s", reason, reasons);
}

#define NONE "action kind=none\n"

/* ---- backup ---- */

static void backup_takes_its_number_from_its_name(void **state)
{
	(void)state;
	job(3, 0);
	for (int i = 0; i < 3; i++)
		take("node role=worker id=w%d state=up size=10", i);
	says("backup:1", "action kind=backup-workers count=1\n", "end when 2 of 3");
	says("backup:2", "action kind=backup-workers count=2\n", "");
	says("backup:7", "action kind=backup-workers count=2\n", "one must be left");
	take("info name=backup-workers value=2 age=0");
	says("backup:2", NONE, "in force");
	says("backup:0", "action kind=backup-workers count=0\n", "");
	assert_int_equal(solution_options_set(&o, "sync=asp", &err), 0);
	says("backup:1", NONE, "only BSP");
	assert_null(solution_find("backup"));
	assert_null(solution_find("backup:"));
	assert_null(solution_find("backup:x"));
	assert_null(solution_find("backup:-1"));
}

/* ---- lb-bsp ---- */

static void lb_bsp_splits_by_the_newest_speeds(void **state)
{
	(void)state;
	job(3, 0);
	take("node role=worker id=w0 state=up size=40 speed-short=100 speed-last=400");
	take("node role=worker id=w1 state=up size=40 speed-short=100 speed-last=");
	take("node role=worker id=w2 state=down size=40 speed-short=100");
	o.batch = 100;
	says("lb-bsp",
	     "action kind=adjust-bs id=w0 size=80 accum=1\n"
	     "action kind=adjust-bs id=w1 size=20 accum=1\n",
	     "0.2 s instead of 0.4 s");
	s.node[0].size = 80;
	s.node[1].size = 20;
	says("lb-bsp", NONE, "fit the newest");
	take("info name=sync value=asp age=0");
	says("lb-bsp", NONE, "ASP");
}

static void a_device_bounds_its_size(void **state)
{
	(void)state;
	job(2, 0);
	take("node role=worker id=w0 state=up size=50 speed-short=400 max=60");
	take("node role=worker id=w1 state=up size=50 speed-short=100");
	says("lb-bsp",
	     "action kind=adjust-bs id=w0 size=60 accum=1\n"
	     "action kind=adjust-bs id=w1 size=40 accum=1\n",
	     "");
	s.node[1].max = 30;
	says("lb-bsp", NONE, "sum of max");
	o.batch = 1;
	says("antdt-nd", NONE, "sum of min");
	says("pace", NONE, "can't be split");
}

/* ---- least ---- */

static void least(const char *assignment)
{
	if (solution_options_set(&o, assignment, &err) != 0)
		fail_msg("%s: %s", assignment, err.text);
}

/* One of three takes 30 times as long as each other; nobody gets less than told, and the rest is
 * shared out as ever. */
static void no_size_below_the_least(void **state)
{
	static const char *const names[] = {"lb-bsp", "antdt-nd", "pace"};
	(void)state;
	job(3, 0);
	worker("w0", 40, 3000, 3000, 100);
	worker("w1", 40, 3000, 3000, 100);
	worker("w2", 40, 100, 100, 100);
	o.limit = 0;
	for (size_t i = 0; i < 3; i++) {
		least("least=1");
		says(names[i],
		     "action kind=adjust-bs id=w0 size=60 accum=1\n"
		     "action kind=adjust-bs id=w1 size=59 accum=1\n"
		     "action kind=adjust-bs id=w2 size=1 accum=1\n",
		     "");
		least("least=8");
		says(names[i],
		     "action kind=adjust-bs id=w0 size=56 accum=1\n"
		     "action kind=adjust-bs id=w1 size=56 accum=1\n"
		     "action kind=adjust-bs id=w2 size=8 accum=1\n",
		     "");
		least("least=40"); /* as they are */
		says(names[i], NONE, "");
	}
}

static void the_least_may_be_more_than_there_is(void **state)
{
	(void)state;
	job(3, 0);
	worker("w0", 40, 3000, 3000, 100);
	worker("w1", 40, 3000, 3000, 100);
	worker("w2", 40, 100, 100, 100);
	o.limit = 0;
	least("least=41");
	says("lb-bsp", NONE, "sum of min, 123, is above the global batch 120");
	says("antdt-nd", NONE, "sum of min, 123");
	says("pace", NONE, "120 samples can't be split over 3 workers, 41 each at least");
	s.node[0].size = 39;
	o.batch = 120;
	says("even", NONE, "120 samples can't be split over 3 workers, 41 each at least");
	least("least=40");
	assert_non_null(strstr(decide("even"), "id=w0 size=40 "));
}

/* What a device can't hold it can't be given. */
static void memory_is_stronger_than_the_least(void **state)
{
	(void)state;
	job(2, 0);
	take("node role=worker id=w0 state=up size=50 speed-short=100 max=6");
	take("node role=worker id=w1 state=up size=50 speed-short=100");
	least("least=20");
	says("lb-bsp",
	     "action kind=adjust-bs id=w0 size=6 accum=1\n"
	     "action kind=adjust-bs id=w1 size=94 accum=1\n",
	     "");
}

/* Whatever the speeds: the batch is shared out whole, and nobody has less. */
static void sizes_sum_to_the_batch_whatever_the_least(void **state)
{
	(void)state;
	unsigned draw = 1;
	for (int round = 0; round < 200; round++) {
		unsigned n = 2 + (unsigned)round % 7, bound = 1 + (unsigned)round % 20, sum = 0;
		char assignment[32];
		snapshot_clear(&s);
		snapshot_init(&s);
		job(n, 0);
		for (unsigned i = 0; i < n; i++) {
			draw = draw * 1664525 + 1013904223;
			unsigned speed = 1 + (draw >> 20) % (i == 0 ? 9 : 1000);
			worker((char[]){'w', (char)('0' + i), '\0'}, 20 + (i == 0), speed, speed,
			       100);
		}
		snprintf(assignment, sizeof assignment, "least=%u", bound);
		least(assignment);
		const char *at = decide(round % 2 ? "lb-bsp" : "antdt-nd");
		if (strcmp(at, NONE) == 0)
			continue;
		while ((at = strstr(at, " size="))) {
			unsigned size = (unsigned)strtoul(at += 6, NULL, 10);
			assert_true(size >= bound);
			sum += size;
		}
		assert_int_equal(sum, 20 * n + 1);
	}
}

/* ---- antdt-nd ---- */

static void nobody_slow_nothing_done(void **state)
{
	static const char *const name[] = {"antdt-nd", "lb-bsp", "pace"};
	(void)state;
	job(4, 2);
	for (int i = 0; i < 4; i++)
		worker((char[]){'w', (char)('0' + i), '\0'}, 100, 1000, 1000, 100);
	server("ps0", 0.01, 0.01, 0.01, 100);
	server("ps1", 0.01, 0.01, 0.01, 100);
	take("info name=restart-worker value=1 age=0");
	take("info name=restart-server value=1 age=0");
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(decide(name[i]), NONE);
}

static void slow_for_a_while_means_sizes(void **state)
{
	(void)state;
	job(4, 0);
	worker("w0", 120, 1200, 1200, 100);
	worker("w1", 120, 1200, 1200, 100);
	worker("w2", 120, 1200, 1200, 100);
	worker("w3", 120, 400, 1100, 100);
	says("antdt-nd",
	     "action kind=adjust-bs id=w0 size=144 accum=1\n"
	     "action kind=adjust-bs id=w1 size=144 accum=1\n"
	     "action kind=adjust-bs id=w2 size=144 accum=1\n"
	     "action kind=adjust-bs id=w3 size=48 accum=1\n",
	     "w3 takes 2 times the mean per sample over 1 s");
	o.lambda = 2.1;
	says("antdt-nd", NONE, "no node is slow");
	assert_int_equal(solution_options_set(&o, "sync=asp", &err), 0);
	o.lambda = 1.3;
	says("antdt-nd", NONE, "no node is slow");
}

/* Sizes as balanced: each takes 0.12 s a batch, and only speeds tell. */
static void balanced(double up)
{
	job(4, 0);
	worker("w0", 144, 1200, 1200, up);
	worker("w1", 144, 1200, 1200, up);
	worker("w2", 144, 1200, 1200, up);
	worker("w3", 48, 400, 400, up);
}

static void balance_does_not_hide_who_is_slow(void **state)
{
	(void)state;
	balanced(10);
	says("antdt-nd", "action kind=kill-restart role=worker id=w3 reason=\n",
	     "w3 takes 2 times the mean per sample over 10 s");
	take("info name=pending value=60 age=300.5"); /* who said so has died */
	says("antdt-nd", "action kind=kill-restart role=worker id=w3 reason=\n", "");
	s.info_count--;
	take("info name=pending value=60 age=300");
	says("antdt-nd", NONE, "w3: slow, but sizes fit");
	o.pending = 61;
	says("antdt-nd", "action kind=kill-restart role=worker id=w3 reason=\n", "");
	s.node[3].restarts = s.node[3].meant = 3;
	says("antdt-nd", NONE, "w3");
	o.limit = 4;
	says("antdt-nd", "action kind=kill-restart role=worker id=w3 reason=\n", "");
	s.node[3].up = 9.9;
	assert_string_equal(decide("antdt-nd"), NONE);
}

static void a_persistent_one_is_restarted_under_asp_too(void **state)
{
	(void)state;
	balanced(10);
	take("info name=sync value=ssp:4 age=0");
	assert_non_null(strstr(decide("antdt-nd"), "kill-restart"));
	assert_int_equal(solution_options_set(&o, "sync=asp", &err), 0);
	says("antdt-nd", "action kind=kill-restart role=worker id=w3 reason=\n", "");
	take("info name=pending value=60 age=0");
	says("antdt-nd", NONE, "w3: slow for long, but the cluster is busy");
	s.node[3].up = 5;
	says("antdt-nd", NONE, "w3: slow, but not up for the long window");
	s.node[3].up = 10;
	s.info_count = 0;
	s.node[3].restarts = s.node[3].meant = 3;
	says("antdt-nd", NONE, "w3: slow for long, but restarted often enough");
}

static void uneven_sizes_are_evened_out(void **state)
{
	(void)state;
	balanced(100);
	s.node[3].speed_short = s.node[3].speed_long = s.node[3].speed_last = 1200;
	says("antdt-nd",
	     "action kind=adjust-bs id=w0 size=120 accum=1\n"
	     "action kind=adjust-bs id=w1 size=120 accum=1\n"
	     "action kind=adjust-bs id=w2 size=120 accum=1\n"
	     "action kind=adjust-bs id=w3 size=120 accum=1\n",
	     "no worker is slow, but sizes are uneven");
	/* Less than 1 % to gain. */
	for (int i = 0; i < 4; i++)
		s.node[i].size = i == 3 ? 118 : i == 0 ? 122 : 120;
	s.node[0].speed_short = 1215;
	says("antdt-nd", NONE, "no node is slow");
}

static void sizes_of_the_gone_are_taken_over(void **state)
{
	(void)state;
	job(3, 0);
	worker("w0", 100, 1000, 1000, 100);
	worker("w1", 100, 1000, 1000, 100);
	take("node role=worker id=w2 state=down size=100 speed-short=10 speed-long=10 up=");
	o.batch = 300;
	says("antdt-nd",
	     "action kind=adjust-bs id=w0 size=150 accum=1\n"
	     "action kind=adjust-bs id=w1 size=150 accum=1\n",
	     "don't sum to 300");
	says("pace",
	     "action kind=adjust-bs id=w0 size=150 accum=1\n"
	     "action kind=adjust-bs id=w1 size=150 accum=1\n",
	     "not to 300");
	s.node[0].size = s.node[1].size = 150;
	static const enum node_state away[] = {NODE_DOWN, NODE_HUNG, NODE_STARTING};
	for (size_t i = 0; i < 3; i++) {
		s.node[2].state = away[i];
		says("antdt-nd", NONE, "");
		says("pace", NONE, "");
	}
	/* Up again, no report yet: as fast as the others. */
	s.node[2].state = NODE_UP;
	s.node[2].speed_short = s.node[2].speed_long = s.node[2].speed_last = 0;
	s.node[2].mean_short = s.node[2].mean_long = 0;
	assert_non_null(strstr(decide("antdt-nd"), "id=w2 size=100 "));
	assert_non_null(strstr(decide("pace"), "id=w2 size=100 "));
}

static void a_slow_server_is_restarted(void **state)
{
	(void)state;
	job(2, 3);
	worker("w0", 100, 1000, 1000, 100);
	worker("w1", 100, 1000, 1000, 100);
	server("ps0", 0.01, 0.01, 0.02, 100);
	server("ps1", 0.04, 0.04, 0.02, 100);
	server("ps2", 0.01, 0.01, 0.02, 100);
	says("antdt-nd", "action kind=kill-restart role=server id=ps1 reason=\n",
	     "ps1 takes 2 times the mean of the servers over 10 s");
	s.node[3].ratio_long = 1;
	says("antdt-nd", NONE, "no node is slow"); /* a short one is no reason */
	s.node[3].ratio_long = 2;
	s.node[3].up = 1;
	says("antdt-nd", NONE, "ps1");
}

static void ratios_stand_in_for_speeds(void **state)
{
	(void)state;
	job(2, 0);
	take("node role=worker id=w0 state=up size=10 ratio-short=1.6 ratio-long=1.6 up=10");
	take("node role=worker id=w1 state=up size=10 ratio-short=0.4 ratio-long=0.4 up=10");
	says("antdt-nd", "action kind=kill-restart role=worker id=w0 reason=\n", "1.6 times");
	says("lb-bsp", NONE, "no speed reported");
	says("pace", NONE, "no worker has reported");
}

static void empty_and_tiny_snapshots(void **state)
{
	static const char *const name[] = {"none",     "even",     "backup:1", "lb-bsp",
					   "antdt-nd", "antdt-dd", "pace"};
	(void)state;
	job(0, 0);
	for (size_t i = 0; i < 7; i++)
		assert_string_equal(decide(name[i]), NONE);
	snapshot_clear(&s);
	job(1, 1);
	take("node role=worker id=w0 state=up size=10 short=0.1 long=0.1 speed-short=100 "
	     "speed-long=100 speed-last=20 ratio-short=1 ratio-long=1 up=100");
	take("node role=server id=ps0 state=up size=10 short=9 long=9 ratio-short=1 ratio-long=1 "
	     "up=100");
	for (size_t i = 3; i < 7; i++)
		assert_string_equal(decide(name[i]), NONE);
	says("backup:1", "action kind=backup-workers count=0\n", "one must be left");
	snapshot_clear(&s);
	job(2, 0);
	take("node role=worker id=w0 state=up size= short= long= speed-short= up=");
	take("node role=worker id=w1 state=up size=0 short=0 long=0 speed-short=0 speed-last=0");
	o.batch = 10;
	for (size_t i = 3; i < 7; i++)
		assert_string_equal(decide(name[i]), NONE);
}

/* ---- antdt-dd ---- */

static void device(const char *id, const char *type, unsigned size, unsigned accum, double speed,
		   unsigned saturation, unsigned max)
{
	take("node role=worker id=%s state=up size=%u accum=%u type=%s launch= device-speed=%g "
	     "saturation=%u max=%u",
	     id, size, accum, type, speed, saturation, max);
}

static void dd_solves_eq_4_once(void **state)
{
	(void)state;
	job(4, 0);
	device("w0", "v100", 100, 1, 300, 32, 100);
	device("w1", "v100", 100, 1, 300, 32, 100);
	device("w2", "p100", 100, 1, 100, 32, 100);
	device("w3", "p100", 100, 1, 100, 32, 100);
	/* 2 of 300 and 2 of 100 samples a second: 3 steps of 100 take as long as one. */
	o.batch = 800;
	says("antdt-dd",
	     "action kind=adjust-bs id=w0 size=100 accum=3\n"
	     "action kind=adjust-bs id=w1 size=100 accum=3\n"
	     "action kind=adjust-bs id=w2 size=100 accum=1\n"
	     "action kind=adjust-bs id=w3 size=100 accum=1\n",
	     "Eq. 4 over 2 types, the slowest takes 1 s");
	for (int i = 0; i < 2; i++) {
		s.node[i].size = 300;
		s.node[i].accum = 3;
	}
	says("antdt-dd", NONE, "already");
	least("least=50"); /* of a step; 32 is where these devices saturate */
	o.batch = 160;
	says("antdt-dd", NONE, "the sum of");
	least("least=40");
	says("antdt-dd",
	     "action kind=adjust-bs id=w0 size=40 accum=1\n"
	     "action kind=adjust-bs id=w1 size=40 accum=1\n"
	     "action kind=adjust-bs id=w2 size=40 accum=1\n"
	     "action kind=adjust-bs id=w3 size=40 accum=1\n",
	     "");
	o.batch = 800;
	assert_int_equal(solution_options_set(&o, "cmax=1", &err), 0);
	says("antdt-dd", NONE, "400, is below the global batch 800");
}

static void dd_without_types_goes_by_what_was_measured(void **state)
{
	(void)state;
	job(3, 0);
	device("w0", "", 10, 1, 200, 1, 100);
	device("w1", "", 10, 1, 100, 1, 100);
	device("w2", "", 10, 1, 200, 1, 100);
	o.batch = 250;
	says("antdt-dd",
	     "action kind=adjust-bs id=w0 size=100 accum=1\n"
	     "action kind=adjust-bs id=w1 size=50 accum=1\n"
	     "action kind=adjust-bs id=w2 size=100 accum=1\n",
	     "over 2 types");
}

static void dd_without_a_solution_gives_some_one_more(void **state)
{
	uint64_t sum = 0;
	const char *at;
	(void)state;
	job(4, 0);
	device("w0", "a", 10, 1, 200, 1, 1000);
	device("w1", "a", 10, 1, 200, 1, 1000);
	device("w2", "b", 10, 1, 100, 1, 1000);
	device("w3", "b", 10, 1, 100, 1, 1000);
	o.batch = 601;
	at = decide("antdt-dd");
	assert_non_null(strstr(reasons, "no solution for 601: this is the solution for 600"));
	for (int i = 0; i < 4; i++) {
		at = strstr(at, "size=") + 5;
		uint64_t size = strtoull(at, NULL, 10);
		uint64_t accum = strtoull(strstr(at, "accum=") + 6, NULL, 10);
		s.node[i].size = size * accum;
		s.node[i].accum = accum;
		sum += size * accum;
	}
	assert_int_equal(sum, 601);
	says("antdt-dd", NONE, "already");
}

static void dd_says_what_is_missing(void **state)
{
	(void)state;
	job(2, 0);
	device("w0", "a", 10, 1, 200, 1, 100);
	take("node role=worker id=w1 state=up size=10 device-speed=100");
	says("antdt-dd", NONE, "w1 has not measured its device: max= is missing");
	s.node[1].device_speed = 0;
	says("antdt-dd", NONE, "device-speed= is missing");
}

/* ---- pace ---- */

static void costs(double worker_s, double server_s, double left)
{
	take("info name=restart-worker value=%g age=0", worker_s);
	take("info name=restart-server value=%g age=0", server_s);
	take("info name=samples-left value=%g age=0", left);
}

static void pace_weighs_a_restart(void **state)
{
	(void)state;
	balanced(100);
	costs(5, 1, 1e6);
	says("pace", "action kind=kill-restart role=worker id=w3 reason=\n", "a restart saves");
	assert_non_null(strstr(reasons, "costs 0.512 s"));
	memcpy(s.info[0].value, "900", 4);
	says("pace", NONE, "costs 90");
	memcpy(s.info[0].value, "5", 2);
	memcpy(s.info[2].value, "4800", 5); /* ten iterations are left */
	says("pace", NONE, "w3");
	memcpy(s.info[2].value, "1e6", 4);
	s.node[3].restarts = s.node[3].meant = 3;
	says("pace", NONE, "restarts 3");
	s.node[3].restarts = s.node[3].meant = 1;
	s.node[3].up = 9;
	says("pace", NONE, "restarts 1");
	s.node[3].restarts = s.node[3].meant = 0;
	take("info name=pending value=60 age=0");
	says("pace", NONE, "w3");
}

/* Trainers go back together: nobody goes on meanwhile. */
static void pace_pays_for_all_that_a_restart_stops(void **state)
{
	(void)state;
	balanced(100);
	costs(5, 1, 1e6);
	says("pace", "action kind=kill-restart role=worker id=w3 reason=\n", "costs 0.512 s");
	take("info name=restart-all value=1 age=0");
	decide("pace");
	assert_non_null(strstr(reasons, "costs 5.12 s"));
	take("info name=sync value=asp age=0");
	decide("pace");
	assert_non_null(strstr(reasons, "costs 5"));
}

/* w3 is stopped at a barrier: soon all are silent, first of all itself. What it said before must not
 * bring it more to do. */
static void who_sends_nothing_gets_nothing(void **state)
{
	static const char *const rules[] = {"pace", "antdt-nd", "lb-bsp", "antdt-dd"};
	(void)state;
	balanced(100);
	costs(5, 1, 1e6);
	for (int i = 0; i < 4; i++)
		s.node[i].last = s.at - 11;
	s.node[3].last = s.at - 12;
	s.node[3].speed_short = s.node[3].speed_last = 1e6; /* it was fast */
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		says(rules[i], NONE, "w3 has reported nothing for 12 s: decisions wait");
	/* The others go on without it: one that is idle. */
	for (int i = 0; i < 3; i++)
		s.node[i].last = s.at - 1;
	says("pace", NONE, "w3 has reported nothing for 12 s");
	/* A batch of 4 s comes every 4 s at most. */
	s.node[2].mean_long = 4;
	assert_null(strstr(decide("pace"), NONE));
	/* Under ASP others don't wait: decisions on them go on, and on it they wait. */
	s.node[2].mean_long = s.node[2].mean_short;
	take("info name=sync value=asp age=0");
	s.node[3].speed_short = s.node[3].speed_last = s.node[3].speed_long;
	decide("antdt-nd");
	assert_null(strstr(text, "w3"));
	s.node[3].last = s.at - 1;
	assert_non_null(strstr(decide("antdt-nd"), "kill-restart role=worker id=w3"));
	s.node[3].state = NODE_HUNG;
	assert_null(strstr(decide("antdt-nd"), "w3"));
}

/* w3's own rows are done: it reports no more, and nobody waits for it. */
static void who_owes_nothing_is_not_waited_for(void **state)
{
	(void)state;
	balanced(100);
	s.node[3].last = s.at - 100;
	says("antdt-nd", NONE, "w3 has reported nothing for 100 s");
	s.node[3].silent = 30;
	says("antdt-nd", NONE, "w3 has reported nothing for 100 s");
	s.node[3].silent = 0.9;
	for (int i = 0; i < 3; i++)
		s.node[i].last = s.at - 1;
	assert_null(strstr(decide("antdt-nd"), "w3"));
	assert_non_null(strstr(text, "kind=adjust-bs id=w0"));
}

/* Crashes, and restarts after a loss, are nobody's intention. */
static void crashes_do_not_count_against_the_limit(void **state)
{
	(void)state;
	balanced(10);
	s.node[3].restarts = 7;
	s.node[3].meant = 2;
	says("antdt-nd", "action kind=kill-restart role=worker id=w3 reason=\n", "");
	s.node[3].meant = 3;
	says("antdt-nd", NONE, "w3");
}

static void pace_without_costs_restarts_as_antdt_nd(void **state)
{
	(void)state;
	balanced(10);
	says("pace", "action kind=kill-restart role=worker id=w3 reason=\n", "not known");
	s.node[3].up = 9;
	says("pace", NONE, "not known");
}

static void pace_sees_a_jump_in_one_report(void **state)
{
	(void)state;
	job(4, 0);
	for (int i = 0; i < 4; i++)
		worker((char[]){'w', (char)('0' + i), '\0'}, 120, 1200, 1200, 100);
	s.node[3].speed_last = 400;
	costs(5, 1, 1e5);
	says("pace",
	     "action kind=adjust-bs id=w0 size=144 accum=1\n"
	     "action kind=adjust-bs id=w1 size=144 accum=1\n"
	     "action kind=adjust-bs id=w2 size=144 accum=1\n"
	     "action kind=adjust-bs id=w3 size=48 accum=1\n",
	     "an iteration lasts 0.3 s, with these sizes 0.12 s: saves 37.5 s of 62.5 s");
	s.node[3].speed_last = 1150; /* noise */
	says("pace", NONE, "no worker is slow");
}

/* 0.25 s of delay and 1200 samples a second, seen at two sizes: the right size in one step, where
 * speeds alone would give 231. */
static void pace_tells_delay_from_speed(void **state)
{
	(void)state;
	job(3, 0);
	worker("w0", 450, 1200, 1200, 100);
	worker("w1", 450, 1200, 1200, 100);
	worker("w2", 300, 300 / (300 / 1200. + 0.25), 750, 100);
	s.node[2].mean_long = 450 / 1200. + 0.25;
	s.node[2].speed_long = 450 / s.node[2].mean_long;
	costs(1000, 1, 1e5);
	says("pace",
	     "action kind=adjust-bs id=w0 size=500 accum=1\n"
	     "action kind=adjust-bs id=w1 size=500 accum=1\n"
	     "action kind=adjust-bs id=w2 size=200 accum=1\n",
	     "lasts 0.5 s, with these sizes 0.4167 s");
}

static void pace_leaves_out_who_delays_all(void **state)
{
	(void)state;
	job(8, 0);
	for (int i = 0; i < 8; i++)
		worker((char[]){'w', (char)('0' + i), '\0'}, i ? 100 : 1, i ? 1000 : 2,
		       i ? 1000 : 2, 100);
	costs(1e6, 1, 1e5);
	o.batch = 701;
	says("pace", "action kind=backup-workers count=1\n", "they get the least batch");
	least("least=5");
	decide("pace");
	assert_non_null(strstr(text, "id=w0 size=5 "));
	least("least=1");
	take("info name=backup-workers value=1 age=0");
	says("pace", NONE, "w0");
	s.node[0].mean_short = s.node[0].mean_long = 0.001;
	s.node[0].speed_short = s.node[0].speed_long = s.node[0].speed_last = 1000;
	decide("pace");
	assert_non_null(strstr(text, "backup-workers count=0"));
	assert_non_null(strstr(text, "id=w0 size=88 "));
}

/* Ranks have the parameters: none can be left out, whether the restart of one takes all back or not. */
static void ranks_leave_nobody_behind(const char *info)
{
	job(8, 0);
	for (int i = 0; i < 8; i++)
		worker((char[]){'w', (char)('0' + i), '\0'}, i ? 100 : 1, i ? 1000 : 2,
		       i ? 1000 : 2, 100);
	costs(1e6, 1, 1e5);
	o.batch = 701;
	take("%s", info);
	says("backup:1", NONE, "can be left out");
	says("pace", NONE, "w0");
}

static void trainers_leave_nobody_behind(void **state)
{
	(void)state;
	ranks_leave_nobody_behind("info name=restart-all value=1 age=0");
}

static void summed_ranks_leave_nobody_behind(void **state)
{
	(void)state;
	ranks_leave_nobody_behind("info name=backup-workers value=-1 age=0");
}

static void pace_restarts_a_server(void **state)
{
	(void)state;
	job(2, 3);
	worker("w0", 100, 1000, 1000, 100);
	worker("w1", 100, 1000, 1000, 100);
	server("ps0", 0.01, 0.01, 0.02, 100);
	server("ps1", 0.04, 0.04, 0.02, 100);
	server("ps2", 0.01, 0.01, 0.02, 100);
	costs(1, 0.2, 1e5);
	says("pace", "action kind=kill-restart role=server id=ps1 reason=\n", "costs 0.2 s");
	memcpy(s.info[1].value, "9", 2);
	says("pace", NONE, "costs 9 s");
	take("info name=sync value=asp age=0");
	memcpy(s.info[1].value, "0.1", 4);
	says("pace", "action kind=kill-restart role=server id=ps1 reason=\n", "");
}

static void options_of_all(void **state)
{
	static const char *const good[] = {"sync=bsp", "sync=ssp", "sync=ssp:3", "sync=asp",
					   "limit=0",  "cmax=1",   "cmax=9",   "least=1"};
	static const char *const bad[] = {"sync=",   "sync=x", "sync=bspx", "limit=-1",
					  "limit=x", "cmax=0", "number=3", "least=0"};
	(void)state;
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(solution_options_set(&o, good[i], &err), 0);
		assert_int_equal(solution_options_set(&o, bad[i], &err), -1);
		assert_int_equal(err.code, ERROR_USAGE);
	}
	assert_int_equal(o.sync, SYNC_ASP);
	assert_true(o.limit == 0 && o.cmax == 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
		TEST(backup_takes_its_number_from_its_name),
		TEST(lb_bsp_splits_by_the_newest_speeds),
		TEST(a_device_bounds_its_size),
		TEST(no_size_below_the_least),
		TEST(the_least_may_be_more_than_there_is),
		TEST(memory_is_stronger_than_the_least),
		TEST(sizes_sum_to_the_batch_whatever_the_least),
		TEST(nobody_slow_nothing_done),
		TEST(slow_for_a_while_means_sizes),
		TEST(balance_does_not_hide_who_is_slow),
		TEST(a_persistent_one_is_restarted_under_asp_too),
		TEST(uneven_sizes_are_evened_out),
		TEST(sizes_of_the_gone_are_taken_over),
		TEST(a_slow_server_is_restarted),
		TEST(ratios_stand_in_for_speeds),
		TEST(empty_and_tiny_snapshots),
		TEST(dd_solves_eq_4_once),
		TEST(dd_without_types_goes_by_what_was_measured),
		TEST(dd_without_a_solution_gives_some_one_more),
		TEST(dd_says_what_is_missing),
		TEST(pace_weighs_a_restart),
		TEST(pace_pays_for_all_that_a_restart_stops),
		TEST(who_sends_nothing_gets_nothing),
		TEST(who_owes_nothing_is_not_waited_for),
		TEST(crashes_do_not_count_against_the_limit),
		TEST(pace_without_costs_restarts_as_antdt_nd),
		TEST(pace_sees_a_jump_in_one_report),
		TEST(pace_tells_delay_from_speed),
		TEST(pace_leaves_out_who_delays_all),
		TEST(trainers_leave_nobody_behind),
		TEST(summed_ranks_leave_nobody_behind),
		TEST(pace_restarts_a_server),
		TEST(options_of_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
