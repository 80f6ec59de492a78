/* What a log says, taken together: courses, costs, effects. Logs as literal lines. */
#include "account/account.h"
#include "account/cost.h"
#include "account/effect.h"
#include "account/verdict.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct account *a;
static struct error err;

static int make(void **state)
{
	(void)state;
	return account_new(&a, NULL, NULL, &err);
}

static int drop(void **state)
{
	(void)state;
	account_free(a);
	return 0;
}

__attribute__((format(printf, 1, 2))) static void take(const char *fmt, ...)
{
	static struct record r;
	char line[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	assert_int_equal(record_parse(&r, line, strlen(line), &err), 0);
	assert_int_equal(account_take(a, &r, &err), 0);
}

static void begin(double at)
{
	take("begin job=j workers=2 servers=1 batch=100 shard=1000 sync=bsp solution=none at=%g",
	     at);
	take("phase name=running at=%g", at + 10);
}

static void node(const char *id, const char *kind, double at)
{
	take("event role=worker id=%s kind=%s life=0 at=%.9g", id, kind, at);
}

/* All of it since the beginning. */
static void series(const char *id, double batches, double samples, double time, double wait,
		   double at)
{
	take("series role=worker id=%s state=up size=50 samples=%.9g batches=%.9g time-sum=%.9g "
	     "compute-sum=%.9g comm-sum=0 wait-sum=%.9g last=%.9g at=%.9g",
	     id, samples, batches, time, time, wait, at, at);
}

static const struct account_node *find(const char *id)
{
	for (size_t i = 0; i < a->nodes; i++)
		if (strcmp(a->node[i].id, id) == 0)
			return &a->node[i];
	fail_msg("no node %s", id);
	return NULL;
}

static int is_near(double x, double y)
{
	return fabs(x - y) < 1e-6 * (1 + fabs(y));
}

#define near(x, y) assert_true(is_near((x), (y)))

/* ---- courses ---- */

static void what_lies_between_two_points_is_spread_over_the_time_up(void **state)
{
	(void)state;
	begin(1000);
	node("w0", "start", 1010);
	node("w0", "ready", 1020);
	series("w0", 10, 1000, 10, 0, 1030);
	node("w0", "exit", 1040);
	node("w0", "restart", 1045);
	node("w0", "ready", 1050);
	series("w0", 20, 2000, 20, 0, 1060);
	account_end(a);
	const struct account_node *n = find("w0");
	near(account_between(n, 1020, 1025).samples, 500);
	near(account_between(n, 1030, 1040).samples, 500);
	near(account_between(n, 1040, 1050).samples, 0);
	near(account_between(n, 1050, 1060).samples, 500);
	near(account_between(n, 0, 1e9).samples, 2000);
	near(account_between(n, 0, 1e9).batches, 20);
}

static void a_monitor_that_begins_anew_takes_nothing_away(void **state)
{
	(void)state;
	begin(1000);
	node("w0", "start", 1010);
	node("w0", "ready", 1010);
	series("w0", 10, 1000, 10, 0, 1020);
	series("w0", 4, 400, 4, 0, 1030);
	series("w0", 8, 800, 8, 0, 1040);
	account_end(a);
	near(account_between(find("w0"), 0, 1e9).samples, 1800);
	near(account_between(find("w0"), 1020, 1030).samples, 400);
}

/* What was there when the log begins is not of this log. */
static void of_a_course_whose_beginning_is_gone_the_rest_is_known(void **state)
{
	(void)state;
	take("begin job=j workers=1 goes-on=1 at=1000");
	take("phase name=running at=1000");
	series("w0", 1000, 100000, 1000, 0, 1010);
	series("w0", 1010, 101000, 1010, 0, 1020);
	account_end(a);
	near(account_between(find("w0"), 0, 1e9).samples, 1000);
}

static void long_courses_are_thinned_and_lose_nothing(void **state)
{
	(void)state;
	begin(1000);
	node("w0", "start", 1010);
	node("w0", "ready", 1010);
	for (int i = 1; i <= 100000; i++) {
		series("w0", i, 50.0 * i, 0.5 * i, 0.25 * i, 1010 + i);
		take("row iteration=%d loss=%g samples-done=%d samples=9999999 epochs=1 at=%d", i,
		     0.5, 50 * i, 1010 + i);
	}
	account_end(a);
	const struct account_node *n = find("w0");
	assert_true(n->points <= ACCOUNT_POINTS_MAX && n->points > ACCOUNT_POINTS_MAX / 3);
	assert_true(a->rows <= ACCOUNT_POINTS_MAX && a->rows > ACCOUNT_POINTS_MAX / 3);
	near(account_between(n, 0, 1e9).samples, 5000000);
	near(account_between(n, 1010, 51010).samples, 2500000);
	near(a->row[a->rows - 1].samples, 5000000);
	near(a->row[a->rows / 2].loss, 0.5);
}

/* Snapshots without sums: of size, speed and the number of samples. */
static void an_older_log_has_a_course_all_the_same(void **state)
{
	(void)state;
	begin(1000);
	node("w0", "start", 1010);
	node("w0", "ready", 1010);
	for (int i = 1; i <= 5; i++) {
		take("decision solution=even at=%d", 1010 + 10 * i);
		take("node role=worker id=w0 state=up size=50 speed-short=100 samples=%d last=%d",
		     500 * i, 1010 + 10 * i);
		take("decided actions=0 at=%d", 1010 + 10 * i);
	}
	account_end(a);
	struct account_point all = account_between(find("w0"), 0, 1e9);
	near(all.samples, 2500);
	near(all.batches, 50);
	near(all.time, 25);
	assert_true(isnan(all.wait));
}

static void a_supervisor_that_was_away_is_no_time_of_the_job(void **state)
{
	(void)state;
	begin(1000);
	take("row loss=1 samples-done=10 samples=100 at=1020");
	begin(5000);
	take("phase name=stopping at=5020");
	take("summary job=j state=done samples=100 jct=1 at=5025");
	account_end(a);
	near(account_seconds(a), 20 + 25);
	near(account_seconds_by(a, 1010), 10);
	near(account_seconds_by(a, 3000), 20);
	near(account_seconds_by(a, 5010), 30);
	near(account_at(a, 15), 1015);
	near(account_at(a, 30), 5010);
	assert_int_equal(a->runs, 2);
	assert_string_equal(a->state, "done");
}

static void a_clock_set_back_between_two_runs_takes_no_time_away(void **state)
{
	(void)state;
	begin(5000);
	node("w0", "ready", 5010);
	take("row loss=1 samples-done=10 samples=100 at=5020");
	begin(1000);
	node("w0", "ready", 1010);
	take("phase name=stopping at=1030");
	take("summary job=j state=done samples=100 jct=1 at=1035");
	account_end(a);
	near(account_seconds(a), 20 + 35);
	near(account_state_seconds(find("w0"), ACCOUNT_UP), 10 + 25);
	begin(6000);
	near(a->at, 6010 + 4020); /* behind that run, by what lies between the two */
}

/* The first report of a second run covers its own time, however long nobody was there before. */
static void a_job_that_goes_on_has_a_course_that_does(void **state)
{
	(void)state;
	begin(1000);
	node("w0", "start", 1010);
	node("w0", "ready", 1010);
	series("w0", 10, 1000, 10, 0, 1020);
	take("begin job=j workers=2 servers=1 at=100000");
	take("rollback at=100001");
	take("phase name=rollback at=100001");
	take("phase name=running at=100010");
	node("w0", "start", 100010);
	node("w0", "ready", 100010);
	series("w0", 1, 100, 1, 0, 100011);
	take("rollback at=100012");
	account_end(a);
	near(account_between(find("w0"), 100010, 100011).samples, 100);
	assert_int_equal(a->mark[0].kind, ACCOUNT_GOES_ON);
	assert_int_equal(a->mark[1].kind, ACCOUNT_ROLLBACK);
}

/* ---- costs ---- */

/* Two workers, 100 and 400 samples a second, the same batch: the fast one waits three quarters. */
static void uneven(double from, double to)
{
	for (double at = from + 1; at <= to; at++) {
		double seconds = at - 1010;
		series("w0", seconds, 100 * seconds, seconds, 0, at);
		series("w1", seconds, 100 * seconds, seconds / 4, seconds * 0.75, at);
	}
}

static void slow_and_fast(void)
{
	begin(1000);
	for (int i = 0; i < 2; i++) {
		node(i ? "w1" : "w0", "start", 1010);
		node(i ? "w1" : "w0", "ready", 1010);
	}
}

static double sum_of(const struct cost *c)
{
	double all = 0;
	for (int k = 0; k < COST_KINDS; k++)
		all += c->of[k];
	return all;
}

static void waiting_is_what_all_together_would_save(void **state)
{
	(void)state;
	struct cost c;
	slow_and_fast();
	uneven(1010, 1110);
	take("phase name=stopping at=1110");
	take("summary job=j state=done samples=20000 jct=100 at=1112");
	account_end(a);
	assert_int_equal(cost_of(a, &c, &err), 0);
	assert_true(c.known);
	near(c.seconds, 112);
	near(c.training, 100);
	near(sum_of(&c), c.seconds);
	near(c.could, 500);
	near(c.of[COST_TOGETHER], 40); /* 20000 samples at 500 a second */
	near(c.of[COST_WAITING], 60);
	near(c.of[COST_STARTING], 10);
	near(c.of[COST_ENDING], 2);
	near(c.busy, 12 + 40);
	near(c.even, 12 + 40); /* the median of two is their mean */
	assert_string_equal(a->node[c.slowest.node].id, "w0");
}

/* Two alike, each of whose batches takes half a second and half a second of waiting. */
static void alike(struct cost *c, const char *what)
{
	slow_and_fast();
	for (double at = 1011; at <= 1110; at++) {
		series("w0", at - 1010, 100 * (at - 1010), 0.5 * (at - 1010), 0.5 * (at - 1010),
		       at);
		series("w1", at - 1010, 100 * (at - 1010), 0.5 * (at - 1010), 0.5 * (at - 1010),
		       at);
	}
	take("%s", what);
	take("phase name=stopping at=1110");
	account_end(a);
	assert_int_equal(cost_of(a, c, &err), 0);
	near(sum_of(c), c->seconds);
}

static void what_all_wait_is_no_stragglers_fault(void **state)
{
	(void)state;
	struct cost c;
	alike(&c, "row loss=1 at=1110");
	assert_int_equal(verdict_of(a, &c).kind, VERDICT_MEETING);
	near(c.of[COST_TOGETHER], 50);
	near(c.of[COST_BARRIER], 50);
	near(c.of[COST_WAITING], 0);
	near(c.busy, c.seconds);
	near(c.could, c.speed);
}

static void a_wait_for_a_checkpoint_is_no_barrier(void **state)
{
	(void)state;
	struct cost c;
	alike(&c, "checkpoint iteration=100 stall=30 at=1109.9");
	near(c.of[COST_STALL], 30);
	near(c.of[COST_BARRIER], 20);
	struct verdict v = verdict_of(a, &c);
	assert_int_equal(v.kind, VERDICT_CHECKPOINTS);
	assert_false(v.machine);
	near(v.seconds, 30);
}

static void a_job_that_stood_longer_than_all_else_stood(void **state)
{
	(void)state;
	struct cost c;
	alike(&c, "stood iteration=100 why=no-one seconds=60 at=1110");
	struct verdict v = verdict_of(a, &c);
	assert_int_equal(v.kind, VERDICT_STOOD);
	assert_false(v.machine);
	assert_string_equal(v.id, "");
	near(v.seconds, 60);
}

/* Two ranks alike, but that w1 computes for 0.25 s and w0 for half of that; sums take 0.5 s. */
static void a_slow_link_is_in_collectives_and_no_straggler(void **state)
{
	(void)state;
	struct cost c;
	slow_and_fast();
	for (double at = 1011; at <= 1110; at++)
		for (int i = 0; i < 2; i++) {
			double n = at - 1010, time = (i ? 0.25 : 0.125) * n;
			take("series role=worker id=w%d state=up size=50 samples=%.9g batches=%.9g "
			     "time-sum=%.9g compute-sum=%.9g comm-sum=%.9g wait-sum=%.9g last=%.9g at=%.9g",
			     i, 100 * n, n, time, time, 0.75 * n - time, 0.25 * n, at, at);
		}
	take("phase name=stopping at=1110");
	account_end(a);
	assert_int_equal(cost_of(a, &c, &err), 0);
	near(c.of[COST_COLLECTIVE], 50);
	near(c.of[COST_BARRIER], 25);
	near(c.of[COST_OTHER], 0);
	assert_true(c.of[COST_WAITING] > 5);
	assert_string_equal(a->node[c.slowest.node].id, "w1");
	near(sum_of(&c), c.seconds);
	near(c.busy, c.seconds - c.of[COST_WAITING]);
}

/* Of three servers one takes 0.25 s longer. */
static void a_slower_server_is_a_straggler(void **state)
{
	(void)state;
	struct cost c;
	slow_and_fast();
	for (int i = 0; i < 3; i++) {
		take("event role=server id=ps%d kind=start life=0 at=1001", i);
		take("event role=server id=ps%d kind=ready life=0 at=1010", i);
	}
	for (double at = 1011; at <= 1110; at++) {
		series("w0", at - 1010, 100 * (at - 1010), 0.5 * (at - 1010), 0.5 * (at - 1010),
		       at);
		series("w1", at - 1010, 100 * (at - 1010), 0.5 * (at - 1010), 0.5 * (at - 1010),
		       at);
		for (int i = 0; i < 3; i++)
			take("series role=server id=ps%d batches=%g samples=%g time-sum=%g last=%g "
			     "at=%g",
			     i, at - 1010, 200 * (at - 1010),
			     (i == 1 ? 0.375 : 0.125) * (at - 1010), at, at);
	}
	take("phase name=stopping at=1110");
	account_end(a);
	assert_int_equal(cost_of(a, &c, &err), 0);
	near(c.of[COST_SERVER], 25);
	near(c.of[COST_BARRIER], 25);
	near(sum_of(&c), c.seconds);
	near(c.busy, c.seconds - 25);
	struct verdict v = verdict_of(a, &c);
	assert_int_equal(v.kind, VERDICT_SERVER);
	assert_string_equal(v.id, "ps1");
	near(v.seconds, 25);
}

static void what_does_not_count_was_thrown_away(void **state)
{
	(void)state;
	struct cost c;
	slow_and_fast();
	take("row loss=1 samples-done=0 samples=9 at=1010");
	uneven(1010, 1110);
	take("phase name=stopping at=1110");
	take("summary job=j state=done samples=10000 jct=100 at=1110");
	account_end(a);
	assert_int_equal(cost_of(a, &c, &err), 0);
	near(c.of[COST_TOGETHER], 20);
	near(c.of[COST_THROWN], 20);
	near(sum_of(&c), c.seconds);
}

static void a_worker_that_is_down_costs_what_it_could_have_done(void **state)
{
	(void)state;
	struct cost c;
	begin(1000);
	for (int i = 0; i < 2; i++) {
		node(i ? "w1" : "w0", "start", 1010);
		node(i ? "w1" : "w0", "ready", 1010);
	}
	for (double at = 1011; at <= 1110; at++) {
		double seconds = at - 1010;
		series("w0", seconds, 100 * seconds, seconds, 0, at);
		if (at <= 1060)
			series("w1", seconds, 100 * seconds, seconds, 0, at);
		if (at == 1060)
			node("w1", "exit", 1060);
	}
	take("phase name=stopping at=1110");
	take("summary job=j state=done samples=15000 jct=100 at=1110");
	account_end(a);
	assert_int_equal(cost_of(a, &c, &err), 0);
	near(c.of[COST_RESTARTS], 25); /* half the machines, half the time */
	near(c.of[COST_TOGETHER], 75);
	near(sum_of(&c), c.seconds);
	struct verdict v = verdict_of(a, &c);
	assert_int_equal(v.kind, VERDICT_RESTARTS);
	assert_false(v.machine);
	near(v.seconds, 25);
}

static void without_measurements_there_are_only_phases(void **state)
{
	(void)state;
	struct cost c;
	begin(1000);
	take("row loss=1 samples-done=10 samples=100 at=1030");
	account_end(a);
	assert_int_equal(cost_of(a, &c, &err), 0);
	assert_false(c.known);
	assert_true(isnan(c.busy));
	near(c.of[COST_OTHER], 20);
	near(sum_of(&c), 30);
}

/* ---- machine or job ---- */

static double link_cost; /* seconds, of h1 */

/* Four workers for 100 s, an iteration a second: time() says which part of it worker i takes for its
 * 100 samples; then it waits, if there is a barrier. */
static struct verdict judge_on(int workers_a_host, double (*time)(int i, double at), int barrier)
{
	static struct cost c;
	double sum[4] = {0}, wait[4] = {0};
	begin(1000);
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 2; k++)
			take("event role=worker id=w%d host=h%d kind=%s life=0 at=1010", i, i / workers_a_host,
			     k ? "ready" : "start");
	for (double at = 1011; at <= 1110; at++)
		for (int i = 0; i < 4; i++) {
			char id[] = {'w', (char)('0' + i), '\0'};
			sum[i] += barrier ? time(i, at) : 1;
			wait[i] += barrier ? 1 - time(i, at) : 0;
			double batches = barrier ? at - 1010 : (at - 1010) / time(i, at);
			series(id, batches, 100 * batches, sum[i], wait[i], at);
		}
	take("link host=h1 out=1 in=2 median=2 out-cost=%g in-cost=0 at=1110", link_cost);
	take("phase name=stopping at=1110");
	account_end(a);
	assert_int_equal(cost_of(a, &c, &err), 0);
	near(sum_of(&c), c.seconds);
	return verdict_of(a, &c);
}

static struct verdict judge(double (*time)(int i, double at), int barrier)
{
	return judge_on(2, time, barrier);
}

static double one_is_slow(int i, double at)
{
	return i == 2 && at < 1060.5 ? 1 : 0.25;
}

static void the_one_for_which_others_wait_costs_that_time(void **state)
{
	(void)state;
	struct verdict v = judge(one_is_slow, 1);
	assert_int_equal(v.kind, VERDICT_WORKER);
	assert_true(v.machine);
	assert_string_equal(v.id, "w2");
	near(v.seconds, 0.75 * 50);
}

/* A slow link makes its host's worker slow. */
static void where_the_link_is_most_of_it_the_link_is_told(void **state)
{
	(void)state;
	link_cost = 20;
	struct verdict v = judge(one_is_slow, 1);
	link_cost = 0;
	assert_int_equal(v.kind, VERDICT_LINK);
	assert_true(v.machine);
	assert_string_equal(v.id, "h1");
	near(v.seconds, 0.75 * 50);
}

/* Where nobody waits, it is what it does not train: 13 of 16 instead of 16 of 16. */
static double slow_without_barrier(int i, double at)
{
	(void)at;
	return i == 2 ? 4 : 1;
}

static void without_a_barrier_a_slow_one_costs_what_it_lacks(void **state)
{
	(void)state;
	struct verdict v = judge(slow_without_barrier, 0);
	assert_int_equal(v.kind, VERDICT_WORKER);
	assert_string_equal(v.id, "w2");
	near(v.seconds, 100 * (1 - 13. / 16));
}

static double a_host_is_slow(int i, double at)
{
	(void)at;
	return i >= 2 ? 1 : 0.25;
}

static void two_on_a_slow_host_are_the_hosts_fault(void **state)
{
	(void)state;
	struct verdict v = judge(a_host_is_slow, 1);
	assert_int_equal(v.kind, VERDICT_HOST);
	assert_string_equal(v.id, "h1");
	near(v.seconds, 75);
}

static void without_a_barrier_it_is_the_hosts_fault_too(void **state)
{
	(void)state;
	struct verdict v = judge(a_host_is_slow, 0);
	assert_int_equal(v.kind, VERDICT_HOST);
	assert_string_equal(v.id, "h1");
}

static void a_host_of_all_workers_is_no_slow_one(void **state)
{
	(void)state;
	struct verdict v = judge_on(4, a_host_is_slow, 0);
	assert_int_equal(v.kind, VERDICT_WORKER);
	assert_string_equal(v.id, "w2");
}

/* One on each host; or another one in each iteration. */
static double two_are_slow(int i, double at)
{
	(void)at;
	return i % 3 == 0 ? 1 : 0.25;
}

static void where_several_are_slow_it_is_no_single_machine(void **state)
{
	(void)state;
	struct verdict v = judge(two_are_slow, 1);
	assert_int_equal(v.kind, VERDICT_TURNS);
	assert_false(v.machine);
	assert_string_equal(v.id, "");
}

static double all_alike(int i, double at)
{
	(void)i;
	(void)at;
	return 0.9;
}

static void where_all_are_alike_it_is_the_job(void **state)
{
	(void)state;
	struct verdict v = judge(all_alike, 1);
	assert_int_equal(v.kind, VERDICT_JOB);
	near(v.seconds, 90);
}

/* w1 starts 50 s later, and w0 waits: nobody is slow. */
static void waiting_for_one_that_starts_is_no_straggler(void **state)
{
	(void)state;
	struct cost c;
	begin(1000);
	node("w0", "start", 1010);
	node("w0", "ready", 1010);
	node("w1", "start", 1010);
	series("w0", 1, 100, 0.5, 0, 1010.5);
	node("w1", "ready", 1060);
	for (int t = 1; t <= 10; t++) {
		series("w0", 1 + t, 100 + 100 * t, 0.5 + t, 49.5, 1060 + t);
		series("w1", t, 100 * t, t, 0, 1060 + t);
	}
	take("phase name=stopping at=1070");
	account_end(a);
	assert_int_equal(cost_of(a, &c, &err), 0);
	assert_true(c.of[COST_FIRST] > 48);
	assert_true(c.slowest.seconds < 2);
	assert_int_equal(verdict_of(a, &c).kind, VERDICT_AROUND);
}

/* ---- effects ---- */

static void size(const char *id, int samples, double at)
{
	take("decision solution=antdt-nd at=%g", at);
	take("action kind=adjust-bs id=%s size=%d accum=1 reason=slow", id, samples);
	take("decided actions=1 at=%g", at);
}

static void effects_are_speeds_before_and_after(void **state)
{
	(void)state;
	struct effect *list;
	size_t count;
	slow_and_fast();
	uneven(1010, 1060);
	size("w0", 40, 1060);
	size("w1", 160, 1060.5);                   /* close: the same effect */
	for (double at = 1061; at <= 1110; at++) { /* now 400 samples a second */
		double more = at - 1060;
		series("w0", 50 + more, 5000 + 80 * more, 50 + more, 0, at);
		series("w1", 50 + more, 5000 + 320 * more, 12.5 + more, 37.5, at);
	}
	size("w1", 160, 1100); /* as it was: none */
	take("phase name=stopping at=1110");
	account_end(a);
	assert_int_equal(effect_list(a, &list, &count, &err), 0);
	assert_int_equal(count, 1);
	near(list[0].from, 1060);
	near(list[0].last, 1060.5);
	assert_int_equal(list[0].sizes, 2);
	near(list[0].before, 200);
	near(list[0].after, 400);
	near(list[0].saved, 50);
	assert_string_equal(a->mark[list[0].mark].reason, "slow");
	free(list);
}

static void delays_of_each_lead_are_added(void **state)
{
	(void)state;
	take("row loss=1 samples-done=1 samples=100 delay=1 delay-95=4 delay-most=9 stale=5 at=1020");
	take("row loss=1 samples-done=2 samples=100 delay=2 delay-95=5 delay-most=9 stale=7 at=1021");
	assert_int_equal(a->leads, 0);
	take("row loss=1 samples-done=3 samples=100 at=1022");
	take("row loss=1 samples-done=4 samples=100 delay=0 delay-95=1 delay-most=3 stale=0 at=1023");
	take("row loss=1 samples-done=5 samples=100 delay=1 delay-95=1 delay-most=4 stale=2 at=1024");
	account_end(a);
	assert_int_equal(a->leads, 1);
	assert_int_equal(a->delay[0], 1);
	assert_int_equal(a->delay[1], 1);
	assert_int_equal(a->delay[2], 9);
	assert_int_equal(a->stale, 9);
}

static void dropped_batches_of_each_generation_are_added(void **state)
{
	static const unsigned long long stale[] = {0, 3, 3, 4, 1, 6};
	(void)state;
	for (size_t i = 0; i < sizeof stale / sizeof *stale; i++)
		take("series role=worker id=w1 state=up samples=9 batches=9 stale=%llu at=%zu", stale[i],
		     1020 + i);
	take("series role=worker id=w1 state=up samples=9 batches=9 at=1030");
	take("series role=worker id=w2 state=up samples=9 batches=9 at=1031");
	account_end(a);
	assert_int_equal(a->node[0].stale, 10);
	assert_int_equal(a->node[1].stale, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, drop)
		TEST(what_lies_between_two_points_is_spread_over_the_time_up),
		TEST(a_monitor_that_begins_anew_takes_nothing_away),
		TEST(of_a_course_whose_beginning_is_gone_the_rest_is_known),
		TEST(long_courses_are_thinned_and_lose_nothing),
		TEST(an_older_log_has_a_course_all_the_same),
		TEST(a_supervisor_that_was_away_is_no_time_of_the_job),
		TEST(a_clock_set_back_between_two_runs_takes_no_time_away),
		TEST(a_job_that_goes_on_has_a_course_that_does),
		TEST(waiting_is_what_all_together_would_save),
		TEST(what_all_wait_is_no_stragglers_fault),
		TEST(a_wait_for_a_checkpoint_is_no_barrier),
		TEST(a_job_that_stood_longer_than_all_else_stood),
		TEST(a_slow_link_is_in_collectives_and_no_straggler),
		TEST(the_one_for_which_others_wait_costs_that_time),
		TEST(without_a_barrier_a_slow_one_costs_what_it_lacks),
		TEST(where_the_link_is_most_of_it_the_link_is_told),
		TEST(two_on_a_slow_host_are_the_hosts_fault),
		TEST(without_a_barrier_it_is_the_hosts_fault_too),
		TEST(a_host_of_all_workers_is_no_slow_one),
		TEST(where_several_are_slow_it_is_no_single_machine),
		TEST(where_all_are_alike_it_is_the_job),
		TEST(waiting_for_one_that_starts_is_no_straggler),
		TEST(a_slower_server_is_a_straggler),
		TEST(what_does_not_count_was_thrown_away),
		TEST(a_worker_that_is_down_costs_what_it_could_have_done),
		TEST(without_measurements_there_are_only_phases),
		TEST(effects_are_speeds_before_and_after),
		TEST(delays_of_each_lead_are_added),
		TEST(dropped_batches_of_each_generation_are_added),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
