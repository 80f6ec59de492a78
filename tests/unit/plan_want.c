/* measure, want: what is told to a brain, and what its answer may do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/want.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Over so many seconds a worker has trained this, at so many cores; of a server: it was busy for so long. */
static struct snapshot_node node_after(double seconds, double batches, uint64_t samples, double busy)
{
	struct snapshot_node n = {.last = 1000 + seconds, .samples = samples, .own_cpu = 1.5, .own_mem = NAN};
	n.total.batches = batches;
	n.total.time = n.total.compute = busy;
	n.total.comm = n.total.wait = NAN;
	return n;
}

/* Two workers of 100 samples each 0.1 s, half of which they compute, and a server that is busy for a fifth. */
static struct measure measured(struct snapshot_node now[3])
{
	const struct snapshot_node before = node_after(0, 0, 0, 0);
	struct measure m = {0};
	assert_int_equal(measure_add(&m, PLAN_WORKER, "w0", &before), 0);
	assert_int_equal(measure_add(&m, PLAN_WORKER, "w1", &before), 0);
	assert_int_equal(measure_add(&m, PLAN_SERVER, "ps0", &before), 0);
	now[0] = now[1] = node_after(10, 100, 10000, 5);
	now[2] = node_after(10, 200, 20000, 2);
	for (size_t i = 0; i < 3; i++) {
		m.node[i].now = &now[i];
		m.node[i].cores = 2;
	}
	measure_sample(&m);
	return m;
}

static void a_round_says_what_was_done(void **state)
{
	struct snapshot_node now[3];
	struct measure m = measured(now);
	struct measure_job job = {.batch = 200, .sync = "asp", .samples = 50000, .done = 20000, .at = 5000, .changed = NAN};
	size_t len;
	(void)state;
	assert_true(measure_is_enough(&m));
	assert_false(measure_counts_anew(&m));
	assert_true(fabs(measure_rate(&m, 200) - 10) < 1e-9);
	char *text = measure_text(&m, &job, &len);
	/* A step of 200 samples takes a worker 0.2 s; its own update is a tenth of that. */
	assert_string_equal(text,
		"job batch=200 steps-per-second=10 io-time=0.08 compute-time=0.1 update-time=0.02 samples=50000 "
		"left=30000 at=5000.000000 changed=0.000000\n"
		"node role=worker id=w0 cores=2 used=1.5 time=0.1\n"
		"node role=worker id=w1 cores=2 used=1.5 time=0.1\n"
		"node role=server id=ps0 cores=2 used=1.5 time=0.01\n");
	free(text);
	/* Under bsp all wait for all of the server's work. */
	job.sync = "bsp";
	text = measure_text(&m, &job, &len);
	assert_non_null(strstr(text, " io-time=0.06 compute-time=0.1 update-time=0.04 left="));
	free(text);
	/* A quota stopped the server in half of the time. */
	now[2].throttled = 0.5;
	m.node[2].cpu = 0;
	m.node[2].seen = 0;
	m.node[2].throttled = 0;
	measure_sample(&m);
	text = measure_text(&m, &job, &len);
	assert_non_null(strstr(text, " io-time=0 compute-time=0.1 update-time=0.1 left="));
	assert_non_null(strstr(text, "node role=server id=ps0 cores=2 used=1.5 time=0.025\n"));
	free(text);
	now[1].total.batches = 3; /* too few; and less than there were is another monitor */
	assert_false(measure_is_enough(&m));
	m.node[1].batches = 4;
	assert_true(measure_counts_anew(&m));
	measure_free(&m);
}

static struct answer answered(const char *text)
{
	struct answer a = {0};
	struct error err;
	assert_int_equal(answer_parse(&a, text, strlen(text), &err), 0);
	return a;
}

#define DECISION "decision change=yes reason=faster method=search now= expected= confidence=\n"

static void what_an_answer_may_do(void **state)
{
	const struct plan_role_size now[PLAN_ROLES] = {{2, 2, 0}, {1, 4, 0}};
	const struct want_rules rules = {.most = {8, 4}, .cores = 20, .node_cores = 4};
	struct want w;
	char text[256];
	(void)state;
	struct answer a = answered("plan role=worker count=99 cores=2\n" DECISION);
	want_of(&w, &a, now, &rules);
	assert_int_equal(w.role[PLAN_WORKER].count, 8);
	assert_true(w.counts && !w.sizes && want_anything(&w, &a));
	assert_false(want_is_beyond(&w, &rules, text, sizeof text)); /* 8 * 2 + 4 */
	want_text(&w, &a, text, sizeof text);
	assert_string_equal(text, "8 workers of 2 cores, 1 server of 4: faster");
	assert_null(want_refusal(&w, &a, 0, 0));
	assert_string_equal(want_refusal(&w, &a, 1, 1), "limit");
	assert_string_equal(want_refusal(&w, &a, 0, 1), "every");
	strcpy(a.reason, "oom");
	assert_null(want_refusal(&w, &a, 0, 1));
	answer_clear(&a);
	a = answered("plan role=worker count=5 cores=4\n" DECISION);
	want_of(&w, &a, now, &rules);
	assert_true(want_is_beyond(&w, &rules, text, sizeof text));
	assert_string_equal(text, "it plans 24 cores in all, and BRAIN cores is 20");
	answer_clear(&a);
	a = answered("plan role=server count=1 cores=5\n" DECISION);
	want_of(&w, &a, now, &rules);
	assert_true(want_is_beyond(&w, &rules, text, sizeof text));
	answer_clear(&a);
	a = answered("plan role=worker count=2 cores=2\n" DECISION);
	want_of(&w, &a, now, &rules);
	assert_false(want_anything(&w, &a));
	answer_clear(&a);
}

static void what_is_done_about_a_node(void **state)
{
	struct answer_node k = {.what = PLAN_REPLACE, .cores = 4};
	(void)state;
	assert_null(want_node_refusal(&k, 2, 0, 4));
	assert_string_equal(want_node_refusal(&k, 4, 0, 4), "it has as much already");
	assert_string_equal(want_node_refusal(&k, 2, 0, 3), "BRAIN node-cores are fewer");
	k.bytes = 1000;
	assert_null(want_node_refusal(&k, 4, 0, 4));
	k.what = PLAN_MIGRATE;
	assert_null(want_node_refusal(&k, 4, 1000, 1));
}

/* Ten seconds, in which 300 samples were trained where 100 a second had been. */
static void what_a_change_costs(void **state)
{
	struct want_past past = {.changed = NAN};
	(void)state;
	assert_true(want_cost_of_change(&past, 5) == 5);
	assert_true(want_cost_of_change(&past, NAN) == 2);
	assert_true(want_changed(&past, 10, 300, 100, 777) == 7);
	assert_true(want_changed(&past, 10, 2000, 100, 888) == 0);
	assert_true(isnan(want_changed(&past, 10, 300, 0, 999)));
	assert_int_equal(past.changes, 3);
	assert_true(past.changed == 999);
	assert_true(want_cost_of_change(&past, 5) == 3.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_round_says_what_was_done),
		cmocka_unit_test(what_an_answer_may_do),
		cmocka_unit_test(what_is_done_about_a_node),
		cmocka_unit_test(what_a_change_costs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
