/* solve_solution: snapshots as literal lines in, actions as literal lines out. */
#include "solve/solution.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct snapshot s;
static struct error err;
static char text[1 << 16];

static int begin(void **state)
{
	(void)state;
	snapshot_init(&s);
	return 0;
}

static int end(void **state)
{
	(void)state;
	snapshot_clear(&s);
	return 0;
}

static int add(const char *line)
{
	static struct record r;
	assert_int_equal(record_parse(&r, line, strlen(line), &err), 0);
	return snapshot_add(&s, &r, &err);
}

static void take(const char *line)
{
	if (add(line) != 0)
		fail_msg("%s: %s", line, err.text);
}

static int keep(const struct action *a, void *arg, struct error *e)
{
	(void)e;
	char line[RECORD_LINE_MAX];
	assert_true(action_format(a, line, sizeof line) > 0);
	strcat(text, line);
	return arg ? error_set(e, ERROR_IO, NULL, "full") : 0;
}

static int decide(const char *name, uint64_t batch)
{
	struct solution_options o;
	solution_options_init(&o);
	o.batch = batch;
	text[0] = '\0';
	return solution_decide(solution_find(name), &s, &o, keep, NULL, &err);
}

static void three_workers(void)
{
	take("job at=1000 iter=5 workers=3 servers=1 short=300 long=600");
	take("node role=worker id=w0 state=up size=60 short=0.1 long=0.1 up=20 new-key=1");
	take("node role=worker id=w1 state=down size=61 short= long= ratio-short=");
	take("node role=worker id=w2 state=starting size=0");
	take("node role=server id=ps0 state=up size=121");
}

static void even_keeps_the_global_batch(void **state)
{
	(void)state;
	three_workers();
	assert_int_equal(decide("even", 0), 0);
	assert_string_equal(text, "action kind=adjust-bs id=w0 size=61 accum=1 "
				  "reason=even:%20121%20over%202%20workers\n"
				  "action kind=adjust-bs id=w2 size=60 accum=1 "
				  "reason=even:%20121%20over%202%20workers\n");
	assert_int_equal(decide("even", 8), 0);
	assert_non_null(strstr(text, "id=w0 size=4 "));
	assert_int_equal(decide("even", 1), 0); /* somebody would get nothing */
	assert_int_equal(strncmp(text, "action kind=none reason=", 24), 0);
}

static void even_says_none_when_there_is_nothing_to_do(void **state)
{
	(void)state;
	take("job at=1000 iter=5 workers=2 servers=0 short=300 long=600");
	take("node role=worker id=w0 state=up size=60");
	take("node role=worker id=w1 state=up size=60");
	assert_int_equal(decide("even", 0), 0);
	assert_string_equal(text, "action kind=none reason=even:%20sizes%20are%20even%20already\n");
	s.node[0].size = s.node[1].size = 0;
	assert_int_equal(decide("even", 0), 0);
	assert_int_equal(strncmp(text, "action kind=none reason=", 24), 0);
	s.node[0].state = s.node[1].state = NODE_HUNG;
	assert_int_equal(decide("even", 100), 0);
	assert_int_equal(strncmp(text, "action kind=none reason=", 24), 0);
}

static void none_does_nothing(void **state)
{
	(void)state;
	three_workers();
	assert_int_equal(decide("none", 0), 0);
	assert_int_equal(strncmp(text, "action kind=none reason=", 24), 0);
	assert_null(solution_find("no-such"));
}

static void a_taker_may_end_it(void **state)
{
	(void)state;
	three_workers();
	struct solution_options o;
	solution_options_init(&o);
	text[0] = '\0';
	assert_int_equal(solution_decide(solution_find("even"), &s, &o, keep, &o, &err), -1);
	assert_int_equal(err.code, ERROR_IO);
	assert_null(strstr(text, "id=w2"));
}

static void refuse(const char *line, const char *why)
{
	assert_int_equal(add(line), -1);
	assert_int_equal(err.code, ERROR_DATA);
	if (!strstr(err.text, why))
		fail_msg("%s: %s", line, err.text);
}

static void bad_snapshots_are_refused(void **state)
{
	(void)state;
	assert_int_equal(decide("none", 0), -1);
	assert_string_equal(err.text, "snapshot: no job record");
	refuse("job at=1 workers=1 servers=0 short=1", "long= is missing");
	refuse("node role=worker id=w0 state=odd", "'odd' is none of");
	refuse("node role=x id=w0 state=up", "'x' is none of");
	refuse("node role=worker state=up", "id= is missing");
	refuse("node role=worker id=w0 state=up short=-1", "short=");
	refuse("node role=worker id=w0 state=up size=many", "size=");
	refuse("info name=a", "value= is missing");
	assert_int_equal(s.node_count, 0);
	take("job at=1 workers=2 servers=0 short=1 long=2");
	refuse("job at=1 workers=2 servers=0 short=1 long=2", "second job");
	take("node role=worker id=w0 state=up");
	assert_int_equal(decide("none", 0), -1);
	assert_non_null(strstr(err.text, "workers=2"));
	take("node role=worker id=w0 state=up");
	assert_int_equal(decide("none", 0), -1);
	assert_non_null(strstr(err.text, "id=w0 appears twice"));
}

static void infos_as_numbers(void **state)
{
	(void)state;
	take("info name=pending value=61.5 age=3");
	take("info name=note value=hello age=3");
	assert_true(snapshot_info_real(&s, "pending") == 61.5);
	assert_true(isnan(snapshot_info_real(&s, "note")));
	assert_true(isnan(snapshot_info_real(&s, "none")));
}

static void actions_there_and_back(void **state)
{
	(void)state;
	static const char *const lines[] = {
		"action kind=none reason=nothing%20to%20do\n",
		"action kind=adjust-bs id=w0 size=64 accum=2 reason=why%20not\n",
		"action kind=backup-workers count=1\n",
		"action kind=kill-restart role=server id=ps1 reason=ratio%202.5\n",
		"action kind=adjust-lr id=w3 scale=0.5\n"};
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		static struct record r;
		struct action a;
		char line[RECORD_LINE_MAX];
		assert_int_equal(record_parse(&r, lines[i], strlen(lines[i]) - 1, &err), 0);
		assert_int_equal(action_parse(&a, &r, &err), 0);
		action_format(&a, line, sizeof line);
		assert_string_equal(line, lines[i]);
	}
	static const char *const bad[] = {"batch id=w0",
					  "action",
					  "action kind=dance",
					  "action kind=adjust-bs id=w0",
					  "action kind=adjust-bs id=w0 size=-1",
					  "action kind=adjust-bs id=w0 size=1 accum=0",
					  "action kind=kill-restart id=w0 reason=x",
					  "action kind=adjust-lr id=w0 scale=nan",
					  "action kind=adjust-bs id=a%2Fb size=1"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		static struct record r;
		struct action a;
		assert_int_equal(record_parse(&r, bad[i], strlen(bad[i]), &err), 0);
		assert_int_equal(action_parse(&a, &r, &err), -1);
		assert_int_equal(err.code, ERROR_DATA);
	}
}

static void options_are_checked(void **state)
{
	(void)state;
	struct solution_options o;
	solution_options_init(&o);
	assert_int_equal(solution_options_set(&o, "batch=128", &err), 0);
	assert_int_equal(solution_options_set(&o, "lambda=1.5", &err), 0);
	assert_int_equal(solution_options_set(&o, "pending=0", &err), 0);
	assert_true(o.batch == 128 && o.lambda == 1.5 && o.pending == 0);
	static const char *const bad[] = {
		"batch",     "batch=0", "batch=x",    "lambda=0.5",
		"color=red", "=1",      "pending=-1", "batchbatchbatchbatchbatchbatch=1"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(solution_options_set(&o, bad[i], &err), -1);
		assert_int_equal(err.code, ERROR_USAGE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
		TEST(even_keeps_the_global_batch), TEST(even_says_none_when_there_is_nothing_to_do),
		TEST(none_does_nothing),           TEST(a_taker_may_end_it),
		TEST(bad_snapshots_are_refused),   TEST(infos_as_numbers),
		TEST(actions_there_and_back),      TEST(options_are_checked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
