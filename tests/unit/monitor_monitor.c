/* monitor_monitor: records in, snapshots out, as literal lines; the clock is an argument. */
#include "monitor/monitor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct monitor *m;
static struct error err;
static char text[1 << 21];
static size_t text_len;

static int make(void **state)
{
	(void)state;
	return monitor_new(&m, 300, 600, &err);
}

static int drop(void **state)
{
	(void)state;
	monitor_free(m);
	return 0;
}

static int add(const char *line, double now)
{
	static struct record r;
	assert_int_equal(record_parse(&r, line, strlen(line), &err), 0);
	return monitor_add(m, &r, now, NULL, &err);
}

static void take(const char *line, double now)
{
	if (add(line, now) != MONITOR_TAKEN)
		fail_msg("%s: %s", line, err.text);
}

static void refuse(const char *line, const char *why)
{
	assert_int_equal(add(line, 1000), -1);
	if (!strstr(err.text, why))
		fail_msg("%s: %s", line, err.text);
}

static void put(const char *s, size_t len, void *arg)
{
	(void)arg;
	assert_true(text_len + len < sizeof text);
	memcpy(text + text_len, s, len);
	text_len += len;
	text[text_len] = '\0';
}

static const char *snapshot(double now)
{
	text_len = 0;
	text[0] = '\0';
	assert_int_equal(monitor_snapshot(m, now, put, NULL, &err), 0);
	return text;
}

/* The value of key in the node's line. */
static const char *node(const char *id, const char *key, double now)
{
	static char value[64];
	char name[80], field[80];
	snapshot(now);
	snprintf(name, sizeof name, " id=%s ", id);
	char *line = strstr(text, name);
	if (!line)
		fail_msg("no node %s in:\n%s", id, text);
	*strchr(line, '\n') = ' ';
	snprintf(field, sizeof field, " %s=", key);
	char *at = strstr(line, field) + strlen(field);
	snprintf(value, sizeof value, "%.*s", (int)strcspn(at, " "), at);
	return value;
}

#define NO_DEVICE "type= launch= device-speed= saturation= max= cpu= mem= "
#define TOTALS(batches, time) "batches=" batches " time-sum=" time " compute-sum= comm-sum= wait-sum=\n"

static void means_speeds_and_ratios(void **state)
{
	(void)state;
	take("bpt role=worker id=w0 iter=1 time=0.1 size=10 at=1000", NAN);
	take("bpt role=worker id=w0 iter=2 time=0.3 size=50 at=1100", NAN);
	take("bpt role=worker id=w1 iter=2 time=0.6 size=60 at=1100", NAN);
	take("bpt role=server id=ps0 iter=2 time=0.05 size=110 at=1100", NAN);
	assert_string_equal(
		snapshot(1350),
		"job at=1350.000000 iter=2 workers=2 servers=1 short=300 long=600\n"
		"node role=worker id=w0 state=up size=50 short=0.3 long=0.2 "
		"speed-short=166.666667 speed-long=150 ratio-short=0.666666667 ratio-long=0.5 "
		"samples=60 restarts=0 meant=0 up=350.000000 accum= last=1100.000000 speed-last=166.666667 " NO_DEVICE TOTALS("2", "0.400000")
		"node role=worker id=w1 state=up size=60 short=0.6 long=0.6 "
		"speed-short=100 speed-long=100 ratio-short=1.33333333 ratio-long=1.5 "
		"samples=60 restarts=0 meant=0 up=250.000000 accum= last=1100.000000 speed-last=100 " NO_DEVICE TOTALS("1", "0.600000")
		"node role=server id=ps0 state=up size=110 short=0.05 long=0.05 "
		"speed-short=2200 speed-long=2200 ratio-short=1 ratio-long=1 "
		"samples=110 restarts=0 meant=0 up=250.000000 accum= last=1100.000000 speed-last=2200 " NO_DEVICE TOTALS("1", "0.050000"));
	assert_string_equal(node("w0", "short", 2000), "");
	assert_string_equal(node("w0", "ratio-long", 2000), "");
}

static void batches_that_take_no_time(void **state)
{
	(void)state;
	take("bpt role=worker id=w0 iter=1 time=0 size=0 at=1000", NAN);
	assert_string_equal(node("w0", "short", 1000), "0");
	assert_string_equal(node("w0", "speed-short", 1000), "");
	assert_string_equal(node("w0", "ratio-short", 1000), "");
}

static void nodes_stand_in_natural_order(void **state)
{
	(void)state;
	const char *const lines[] = {"role=server id=ps0", "role=worker id=w10",
				     "role=worker id=w2",  "role=worker id=w02",
				     "role=worker id=a",   "role=worker id=w"};
	for (int i = 0; i < 6; i++) {
		char line[100];
		snprintf(line, sizeof line, "event %s kind=start at=5", lines[i]);
		take(line, NAN);
	}
	const char *at = snapshot(5);
	const char *const order[] = {"id=a ", "id=w ", "id=w02 ", "id=w2 ", "id=w10 ", "id=ps0 "};
	for (int i = 0; i < 6; i++) {
		at = strstr(at, order[i]);
		assert_non_null(at);
	}
}

static void states_follow_events(void **state)
{
	(void)state;
	static const char *const steps[][2] = {
		{"start", "starting"},   {"ready", "up"},       {"hung", "hung"},
		{"ready", "up"},         {"exit", "down"},      {"hung", "down"},
		{"restart", "starting"}, {"start", "starting"}, {"ready", "up"},
		{"kill", "down"},        {"exit", "down"},      {"start", "starting"}};
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		char line[100];
		snprintf(line, sizeof line, "event role=worker id=w0 kind=%s at=%zu", steps[i][0],
			 100 + i);
		take(line, NAN);
		assert_string_equal(node("w0", "state", 1000), steps[i][1]);
	}
	/* One announced and started, one started without a word. */
	assert_string_equal(node("w0", "restarts", 1000), "2");
	take("event role=worker id=w9 kind=start", 1000);
	take("event role=worker id=w9 kind=exit status=0 class=clean", 1001);
	assert_non_null(strstr(snapshot(1002), "id=w9 state=down"));
	assert_string_equal(node("w0", "meant", 1000), "0");
	take("event role=worker id=w0 kind=restart meant=1 at=200", NAN);
	take("event role=worker id=w0 kind=start at=201", NAN);
	take("event role=worker id=w0 kind=restart at=202", NAN);
	assert_string_equal(node("w0", "restarts", 1000), "4");
	assert_string_equal(node("w0", "meant", 1000), "1");
}

static void up_counts_from_ready(void **state)
{
	(void)state;
	take("event role=worker id=w0 kind=start at=100", 100);
	assert_string_equal(node("w0", "up", 150), "0.000000");
	take("event role=worker id=w0 kind=ready at=160", 160);
	take("bpt role=worker id=w0 iter=1 time=1 size=1 at=170", 170);
	assert_string_equal(node("w0", "up", 200), "40.000000");
	take("event role=worker id=w0 kind=hung at=210", 210);
	assert_string_equal(node("w0", "up", 220), "0.000000");
	take("bpt role=worker id=w0 iter=2 time=1 size=1 at=230", 230);
	assert_string_equal(node("w0", "state", 240), "up");
	assert_string_equal(node("w0", "up", 240), "80.000000");
}

/* What the dead process had sent must not speak for the new one. */
static void a_new_process_starts_afresh(void **state)
{
	(void)state;
	take("bpt role=worker id=w0 iter=7 time=9 size=10 at=1000", 1000);
	take("event role=worker id=w0 kind=exit status=1 at=1010", 1010);
	take("bpt role=worker id=w0 iter=8 time=9 size=10 at=1009", 1011);
	assert_string_equal(node("w0", "state", 1012), "down");
	assert_string_equal(node("w0", "short", 1012), "9");
	take("event role=worker id=w0 kind=start at=1020", 1020);
	assert_string_equal(node("w0", "short", 1020), "");
	take("bpt role=worker id=w0 iter=8 time=9 size=10 at=1008", 1021);
	assert_string_equal(node("w0", "state", 1021), "starting");
	assert_string_equal(node("w0", "long", 1021), "");
	take("bpt role=worker id=w0 iter=8 time=2 size=10 at=1030", 1030);
	assert_string_equal(node("w0", "state", 1031), "up");
	assert_string_equal(node("w0", "short", 1031), "2");
	assert_string_equal(node("w0", "samples", 1031), "40");
	assert_string_equal(node("w0", "restarts", 1031), "1");
}

static void iteration_is_that_of_the_living(void **state)
{
	(void)state;
	take("bpt role=worker id=w0 iter=90 time=1 size=1 at=10", NAN);
	take("bpt role=worker id=w1 iter=40 time=1 size=1 at=10", NAN);
	assert_non_null(strstr(snapshot(10), " iter=90 "));
	take("event role=worker id=w0 kind=exit at=11", NAN);
	assert_non_null(strstr(snapshot(11), " iter=40 "));
	take("event role=worker id=w1 kind=exit at=11", NAN);
	assert_non_null(strstr(snapshot(11), " iter=90 "));
}

static void clocks_are_clamped(void **state)
{
	(void)state;
	double at;
	static struct record r;
	const char *line = "bpt role=worker id=w0 iter=1 time=1 size=1 at=99999999";
	assert_int_equal(record_parse(&r, line, strlen(line), &err), 0);
	assert_int_equal(monitor_add(m, &r, 1000, &at, &err), MONITOR_TAKEN);
	assert_true(at == 1000);
	take("bpt role=worker id=w0 iter=2 time=5 size=1 at=3", 1001); /* long ago */
	take("bpt role=worker id=w0 iter=3 time=3 size=1", 1002);      /* now */
	assert_string_equal(node("w0", "short", 1003), "2");
	assert_string_equal(node("w0", "samples", 1003), "3");
	assert_true(monitor_latest(m) == 1002);
	assert_int_equal(add("bpt role=worker id=w0 iter=3 time=3 size=1", NAN), -1);
	assert_string_equal(err.text, "bpt: at= is missing");
}

static void infos_have_an_age(void **state)
{
	(void)state;
	take("info name=pending value=12 at=900", 1000);
	take("info name=note value=a%20b%25", 1000);
	take("info name=pending value=13 at=990", 1001);
	const char *s = snapshot(1010);
	assert_non_null(strstr(s, "info name=pending value=13 age=20.000000\n"
				  "info name=note value=a%20b%25 age=10.000000\n"));
	assert_int_equal(strncmp(s, "job ", 4), 0);
}

static void bad_records_change_nothing(void **state)
{
	(void)state;
	refuse("bpt role=worker id=w0 time=1 size=1", "iter= is missing");
	refuse("bpt role=boss id=w0 iter=1 time=1 size=1", "'boss' is none of worker|server");
	refuse("bpt role=worker id=../x iter=1 time=1 size=1", "is no id");
	refuse("bpt role=worker id=w0 iter=1 time=nan size=1", "time=");
	refuse("bpt role=worker id=w0 iter=1 time=-1 size=1", "time=");
	refuse("bpt role=worker id=w0 iter=-1 time=1 size=1", "iter=");
	refuse("bpt role=worker id=w0 iter=1 time=1 size=1e3", "size=");
	refuse("bpt role=worker id=w0 iter=1 time=1 size=99999999999999999", "size=");
	refuse("bpt role=worker id=w0 iter=1 time=1 size=1 at=1e300", "at=");
	refuse("bpt role=worker id=w0 iter=1 time=1 size=1 at=-5", "at=");
	refuse("bpt role=worker id=w0 iter=1 time=1 size=1 wait=x", "wait=");
	refuse("event role=worker id=w0 kind=die", "'die' is none of");
	refuse("event role=worker id=w0 kind=exit status=256", "status=");
	refuse("event role=worker id=w0 kind=exit class=maybe", "class=");
	refuse("info name=a%20b value=1", "is no id");
	refuse("info value=1", "name= is missing");
	assert_int_equal(add("snapshot", 1000), MONITOR_UNKNOWN);
	assert_non_null(strstr(snapshot(1000), " workers=0 servers=0 "));
	assert_true(monitor_latest(m) == 0);
}

static void history_is_the_last_reports(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		char line[160];
		snprintf(line, sizeof line,
			 "bpt role=worker id=w0 iter=%d time=0.5 size=3 at=%d wait=0.25 "
			 "accum=2 count=5 own-cpu=1.5 throttled=0.1",
			 i, 1000 + i);
		take(line, NAN);
	}
	text_len = 0;
	assert_int_equal(monitor_history(m, NODE_WORKER, "w0", 2, put, NULL), 0);
	assert_string_equal(text, "bpt role=worker id=w0 iter=198 time=0.5 size=3 at=1198.000000 "
				  "accum=2 count=5 wait=0.25 throttled=0.1 own-cpu=1.5\n"
				  "bpt role=worker id=w0 iter=199 time=0.5 size=3 at=1199.000000 "
				  "accum=2 count=5 wait=0.25 throttled=0.1 own-cpu=1.5\n");
	text_len = 0;
	assert_int_equal(monitor_history(m, NODE_WORKER, "w0", UINT64_MAX, put, NULL), 0);
	assert_int_equal(strncmp(text, "bpt role=worker id=w0 iter=72 ", 30), 0);
	assert_int_equal(monitor_history(m, NODE_SERVER, "w0", 2, put, NULL), -1);
	take("event role=server id=w0 kind=start at=1", 5);
	text_len = 0;
	assert_int_equal(monitor_history(m, NODE_SERVER, "w0", 2, put, NULL), 0);
	assert_int_equal(text_len, 0);
}

/* A report of several batches weighs as much as they would. */
static void a_report_may_cover_several_batches(void **state)
{
	(void)state;
	take("bpt role=worker id=w0 iter=9 time=0.1 size=10 at=1000 count=9", NAN);
	take("bpt role=worker id=w0 iter=10 time=1.1 size=30 at=1001", NAN);
	assert_string_equal(node("w0", "short", 1001), "0.2");
	assert_string_equal(node("w0", "speed-short", 1001), "60");
	assert_string_equal(node("w0", "samples", 1001), "120");
	refuse("bpt role=worker id=w0 iter=1 time=1 size=1 count=0", "count=");
	refuse("bpt role=worker id=w0 iter=1 time=1 size=1 accum=0", "accum=");
	refuse("bpt role=worker id=w0 iter=1 time=1 size=1 psi-cpu=-1", "psi-cpu=");
}

/* A new process does not begin them anew. */
static void totals_are_of_all_that_was_ever_reported(void **state)
{
	(void)state;
	take("bpt role=worker id=w0 iter=8 time=0.5 size=20 at=1000 count=8 compute=0.25 comm=0.125 wait=2", NAN);
	take("event role=worker id=w0 kind=restart at=1010", NAN);
	take("bpt role=worker id=w0 iter=9 time=1 size=20 at=1020 compute=0.5 comm=0.5", NAN);
	assert_string_equal(node("w0", "batches", 1020), "9");
	assert_string_equal(node("w0", "time-sum", 1020), "5.000000");
	assert_string_equal(node("w0", "compute-sum", 1020), "2.500000");
	assert_string_equal(node("w0", "comm-sum", 1020), "1.500000");
	assert_string_equal(node("w0", "wait-sum", 1020), "16.000000");
}

static void the_last_report_stands_until_a_new_process(void **state)
{
	(void)state;
	take("bpt role=worker id=w0 iter=2 time=0.5 size=20 at=1000 accum=4 cpu=0.75 mem=0.5", NAN);
	take("bpt role=worker id=w0 iter=1 time=9 size=1 at=999 accum=1 cpu=0 mem=0", NAN);
	assert_string_equal(node("w0", "accum", 9000), "4");
	assert_string_equal(node("w0", "last", 9000), "1000.000000");
	assert_string_equal(node("w0", "speed-last", 9000), "40");
	assert_string_equal(node("w0", "cpu", 9000), "0.75");
	assert_string_equal(node("w0", "mem", 9000), "0.5");
	take("event role=worker id=w0 kind=restart at=1005", NAN);
	static const char *const keys[] = {"accum", "last", "speed-last", "cpu", "mem"};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		assert_string_equal(node("w0", keys[i], 1006), "");
	take("bpt role=worker id=w0 iter=3 time=9 size=1 at=1004 accum=1", NAN);
	assert_string_equal(node("w0", "last", 1006), "");
}

static void a_device_is_kept(void **state)
{
	(void)state;
	take("device role=worker id=w0 type=v100 speed=1200.5 saturation=64 max=4096 at=1000", NAN);
	assert_string_equal(node("w0", "type", 1000), "v100");
	assert_string_equal(node("w0", "launch", 1000), "");
	take("device role=worker id=w0 type=p100 launch=0.01 speed=400 saturation=32 max=1099511627776",
	     1001);
	take("event role=worker id=w0 kind=restart at=1005", NAN);
	assert_string_equal(node("w0", "type", 1005), "p100");
	assert_string_equal(node("w0", "launch", 1005), "0.01");
	assert_string_equal(node("w0", "device-speed", 1005), "400");
	assert_string_equal(node("w0", "saturation", 1005), "32");
	assert_string_equal(node("w0", "max", 1005), "1099511627776");
	assert_string_equal(node("w0", "state", 1005), "starting");
	refuse("device role=worker id=w0 type=a%20b speed=1 saturation=1 max=1", "is no id");
	refuse("device role=worker id=w0 type=a speed=1 saturation=0 max=1", "saturation=");
	refuse("device role=worker id=w0 type=a saturation=1 max=1", "speed= is missing");
}

static void a_full_table_forgets_the_dead_first(void **state)
{
	(void)state;
	char line[120];
	for (int i = 0; i < MONITOR_NODES_MAX; i++) {
		snprintf(line, sizeof line, "event role=worker id=w%d kind=ready at=%d", i, 10 + i);
		take(line, NAN);
	}
	assert_int_equal(add("event role=worker id=new kind=ready at=9000", NAN), -1);
	assert_int_equal(err.code, ERROR_TEMPFAIL);
	take("event role=worker id=w5 kind=hung at=9001", NAN);
	take("event role=worker id=w9 kind=exit at=9000", NAN);
	take("event role=worker id=new kind=ready at=9000", NAN);
	assert_null(strstr(snapshot(9002), " id=w9 "));
	assert_non_null(strstr(snapshot(9002), " id=w5 "));
	for (int i = 0; i < MONITOR_INFOS_MAX; i++) {
		snprintf(line, sizeof line, "info name=i%d value=1 at=1", i);
		take(line, NAN);
	}
	assert_int_equal(add("info name=more value=1 at=1", NAN), -1);
	assert_int_equal(err.code, ERROR_TEMPFAIL);
}

static void ids_are_ordered_by_their_numbers(void **state)
{
	static const char *const order[] = {"a",  "w",     "w0",  "w01",   "w1",    "w2",
					    "w9", "w009x", "w10", "w10-2", "w10-10"};
	size_t n = sizeof order / sizeof *order;
	(void)state;
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < n; j++) {
			int is = node_id_compare(order[i], order[j]);
			if ((is > 0) - (is < 0) != (i > j) - (i < j))
				fail_msg("%s against %s", order[i], order[j]);
		}
	}
}

/* A clock that is 100 s behind: at= 900 there is 1000 here; one that is ahead; none at all. */
static void other_clocks(void **unused)
{
	(void)unused;
	static const char line[] = "bpt role=worker id=w0 iter=1 time=1 size=2 at=900";
	static const char bare[] = "bpt role=worker id=w0 iter=2 time=1 size=2";
	static struct record r;
	double at = 0;
	assert_int_equal(record_parse(&r, line, sizeof line - 1, &err), 0);
	assert_int_equal(monitor_add_from(m, &r, 1001, 100, &at, &err), MONITOR_TAKEN);
	assert_true(at == 1000);
	assert_int_equal(monitor_add_from(m, &r, 1001, -100, &at, &err), MONITOR_TAKEN);
	assert_true(at == 800);
	assert_int_equal(monitor_add_from(m, &r, 1001, 200, &at, &err), MONITOR_TAKEN);
	assert_true(at == 1001);
	assert_int_equal(record_parse(&r, bare, sizeof bare - 1, &err), 0);
	assert_int_equal(monitor_add_from(m, &r, 1001, 100, &at, &err), MONITOR_TAKEN);
	assert_true(at == 1001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, drop)
		TEST(means_speeds_and_ratios),
		TEST(batches_that_take_no_time),
		TEST(nodes_stand_in_natural_order),
		TEST(states_follow_events),
		TEST(up_counts_from_ready),
		TEST(a_new_process_starts_afresh),
		TEST(iteration_is_that_of_the_living),
		TEST(clocks_are_clamped),
		TEST(other_clocks),
		TEST(infos_have_an_age),
		TEST(bad_records_change_nothing),
		TEST(history_is_the_last_reports),
		TEST(a_report_may_cover_several_batches),
		TEST(totals_are_of_all_that_was_ever_reported),
		TEST(the_last_report_stands_until_a_new_process),
		TEST(a_device_is_kept),
		TEST(a_full_table_forgets_the_dead_first),
		TEST(ids_are_ordered_by_their_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
