/*
 * solve_course: whole courses of training on emulated nodes, decided by each solution, beside the
 * bound that no solution can beat.
 *
 * Iterations, delays, reports, the monitor's windows and restarts are those of a job, only the time
 * is a number: a course of minutes takes milliseconds, and the same seed gives the same course.
 * The patterns are AntDT's (VII-B) with times by 1/60: iterations of 2.2 s/60; transient stragglers
 * 15 s of every 30 s, each worker with probability 0.3, delay 1.5 s/60 x intensity, whatever
 * process it is; a persistent one with 4 s/60 x intensity until it is restarted.
 *
 * The bound: at each moment the least z with sum over workers of max(0, z - delay)*pace >= B, plus
 * what a healthy server takes; delays of transients as they are, persistent ones absent.
 */
#include "solve/solution.h"
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

#define NODES_MAX 32
#define ITERATION (2.2 / 60) /* seconds of compute at even sizes */
#define SERVING (0.05 / 60)  /* seconds of a healthy server */
#define NOISE 0.02           /* of a batch's time, both ways */
#define REPORT_BATCHES 10
#define NEAR 0.005 /* of the bound: courses differ by that much through noise alone */

struct shape {
	size_t workers, servers;
	double intensity;
	int persistent, transient, slow_server; /* how many; whether; whether */
	double spike;                           /* probability of a delay of 3 iterations */
	double every, window_short, window_long;
	double lambda, pending;
	const double *pace; /* by worker, of the even one; NULL: all the same */
	const char *sync;
	double seconds, warm_up;
};

struct node {
	enum node_role role;
	char id[16];
	double pace, delay; /* samples a second; a persistent one's delay, until it is restarted */
	uint64_t size, samples;
	int up, transient;
	double ready_at, free_at; /* seconds */
	double report_at, sum_time, sum_size;
	unsigned batches;
};

struct course {
	const struct shape *shape;
	struct node node[NODES_MAX];
	size_t nodes;
	struct monitor *monitor;
	struct solution_options options;
	const struct solution *solution;
	uint64_t random, batch, backup, iteration;
	double now, waits_until; /* a server's hand-over */
	double done, bound;      /* samples, since the warm-up */
	double rate_at[16], rate_samples[16], all;
	size_t rates;
	unsigned adjusts, kills[NODE_ROLES], backups;
	int period;
};

#define RESTART_WORKER 1.0
#define RESTART_SERVER 0.3

static struct error err;

static double uniform(struct course *c)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return (double)(c->random >> 11) * 0x1p-53;
}

__attribute__((format(printf, 2, 3))) static void tell(struct course *c, const char *format, ...)
{
	static struct record r;
	char line[512];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (record_parse(&r, line, strlen(line), &err) != 0 ||
	    monitor_add(c->monitor, &r, c->now, NULL, &err) != 0)
		fail_msg("%s: %s", line, err.text);
}

static void event(struct course *c, const struct node *n, const char *kind)
{
	tell(c, "event role=%s id=%s kind=%s at=%.6f", node_role_name(n->role), n->id, kind,
	     c->now);
}

/* ---- reports ---- */

static void flush(struct course *c, struct node *n)
{
	if (n->batches == 0)
		return;
	tell(c, "bpt role=%s id=%s iter=%llu time=%.9g size=%.0f count=%u at=%.6f",
	     node_role_name(n->role), n->id, (unsigned long long)c->iteration,
	     n->sum_time / n->batches, n->sum_size / n->batches, n->batches, c->now);
	n->sum_time = n->sum_size = n->batches = 0;
	n->report_at = c->now;
}

static void measure(struct course *c, struct node *n, double time, double size)
{
	n->sum_time += time;
	n->sum_size += size;
	n->batches++;
	n->samples += (uint64_t)size;
	if (n->batches >= REPORT_BATCHES || c->now - n->report_at >= fmin(0.5, c->shape->every / 2))
		flush(c, n);
}

/* ---- actions ---- */

static struct node *find(struct course *c, enum node_role role, const char *id)
{
	for (size_t i = 0; i < c->nodes; i++)
		if (c->node[i].role == role && strcmp(c->node[i].id, id) == 0)
			return &c->node[i];
	fail_msg("no node %s", id);
	return NULL;
}

static void restart(struct course *c, struct node *n)
{
	c->kills[n->role]++;
	n->batches = 0;
	n->sum_time = n->sum_size = 0;
	n->delay = 0;
	assert_true(n->up);
	if (n->role == NODE_SERVER) {
		c->waits_until = c->now + RESTART_SERVER;
		event(c, n, "restart meant=1");
		event(c, n, "ready");
		return;
	}
	event(c, n, "exit");
	event(c, n, "restart meant=1");
	n->up = 0;
	n->ready_at = n->free_at = c->now + RESTART_WORKER;
}

static int act(const struct action *a, void *arg, struct error *e)
{
	struct course *c = arg;
	(void)e;
	assert_true(a->reason[0] != '\0');
	if (a->kind == ACTION_ADJUST_BS) {
		struct node *n = find(c, NODE_WORKER, a->id);
		assert_true(n->up && a->size > 0);
		if (n->size != a->size)
			flush(c, n);
		n->size = a->size;
		c->adjusts++;
	} else if (a->kind == ACTION_KILL_RESTART)
		restart(c, find(c, a->role, a->id));
	else if (a->kind == ACTION_BACKUP_WORKERS) {
		c->backup = a->count;
		c->backups++;
	}
	return 0;
}

/* ---- decisions ---- */

static struct snapshot snapshot;

static void take_line(const char *line, size_t len, void *arg)
{
	static struct record r;
	(void)arg;
	if (record_parse(&r, line, len - 1, &err) != 0 || snapshot_add(&snapshot, &r, &err) != 0)
		fail_msg("%.*s: %s", (int)len, line, err.text);
}

static void inform(const char *name, double value)
{
	char line[128];
	int len = snprintf(line, sizeof line, "info name=%s value=%.9g age=0\n", name, value);
	take_line(line, (size_t)len, NULL);
}

static void decide(struct course *c)
{
	snapshot_init(&snapshot);
	assert_int_equal(monitor_snapshot(c->monitor, c->now, take_line, NULL, &err), 0);
	inform("samples-left", (c->shape->seconds - c->now) * (double)c->batch / ITERATION);
	if (c->rates > 1) {
		size_t last = (c->rates - 1) % 16, first = c->rates > 16 ? c->rates % 16 : 0;
		inform("rate", (c->rate_samples[last] - c->rate_samples[first]) /
				       (c->rate_at[last] - c->rate_at[first]));
	}
	inform("backup-workers", (double)c->backup);
	inform("restart-worker", RESTART_WORKER);
	inform("restart-server", RESTART_SERVER);
	if (c->shape->pending > 0)
		inform("pending", c->shape->pending);
	if (solution_decide(c->solution, &snapshot, &c->options, act, c, &err) != 0)
		fail_msg("%s", err.text);
	snapshot_clear(&snapshot);
}

/* ---- time ---- */

static double delay_of(struct course *c, const struct node *n)
{
	double delay = n->transient ? 1.5 / 60 * c->shape->intensity : 0;
	return fmax(delay, n->delay);
}

/* Each period is drawn for each worker as it begins; all are on in its first half. */
static void draw(struct course *c)
{
	int period = (int)(c->now / 15);
	if (period == c->period)
		return;
	c->period = period;
	for (size_t i = 0; i < c->nodes; i++)
		if (c->node[i].role == NODE_WORKER)
			c->node[i].transient =
				period % 2 == 0 && c->shape->transient && uniform(c) < 0.3;
}

/* The bound's iteration now, by bisection. */
static double bound_now(struct course *c)
{
	double low = 0, high = 100;
	for (int k = 0; k < 60; k++) {
		double z = (low + high) / 2, samples = 0;
		for (size_t i = 0; i < c->nodes; i++) {
			const struct node *n = &c->node[i];
			double delay = n->transient ? 1.5 / 60 * c->shape->intensity : 0;
			if (n->role == NODE_WORKER)
				samples += fmax(0, z - delay) * n->pace;
		}
		if (samples < (double)c->batch)
			low = z;
		else
			high = z;
	}
	return high + (c->shape->servers ? SERVING : 0);
}

static int compare_reals(const void *a, const void *b)
{
	double p = *(const double *)a, q = *(const double *)b;
	return p < q ? -1 : p > q;
}

static double noise(struct course *c)
{
	return 1 + NOISE * (2 * uniform(c) - 1);
}

static double serve(struct course *c)
{
	double slowest = 0;
	for (size_t i = 0; i < c->nodes; i++) {
		struct node *n = &c->node[i];
		if (n->role != NODE_SERVER)
			continue;
		double time = SERVING * noise(c) + n->delay;
		measure(c, n, time, (double)c->batch);
		slowest = fmax(slowest, time);
	}
	return slowest;
}

/* One BSP iteration: until all but `backup` of those up have pushed. */
static void iterate(struct course *c)
{
	double end[NODES_MAX], time[NODES_MAX], sorted[NODES_MAX], start = c->now;
	size_t up = 0;
	for (size_t i = 0; i < c->nodes; i++) {
		struct node *n = &c->node[i];
		if (n->role != NODE_WORKER || !n->up)
			continue;
		time[i] = ((double)n->size / n->pace + delay_of(c, n)) * noise(c);
		if (uniform(c) < c->shape->spike)
			time[i] += 3 * ITERATION;
		end[i] = fmax(c->now, n->free_at) + time[i];
		sorted[up++] = end[i];
	}
	qsort(sorted, up, sizeof *sorted, compare_reals);
	size_t backup = c->backup < up ? (size_t)c->backup : up - 1;
	c->now = sorted[up - 1 - backup];
	double applied = 0;
	for (size_t i = 0; i < c->nodes; i++) {
		struct node *n = &c->node[i];
		if (n->role != NODE_WORKER || !n->up)
			continue;
		if (end[i] <= c->now)
			applied += (double)n->size;
		else if (end[i] - time[i] >= c->now)
			continue; /* still at a batch of before */
		n->free_at = end[i];
		measure(c, n, time[i], (double)n->size);
	}
	c->now += serve(c);
	c->iteration++;
	c->all += applied;
	if (c->now < c->waits_until)
		c->now = c->waits_until;
	if (start >= c->shape->warm_up) {
		c->done += applied;
		c->bound += (c->now - start) * (double)c->batch / bound_now(c);
	}
}

static void come_up(struct course *c)
{
	for (size_t i = 0; i < c->nodes; i++) {
		struct node *n = &c->node[i];
		if (n->up || n->ready_at > c->now)
			continue;
		n->up = 1;
		n->report_at = c->now;
		event(c, n, "ready");
	}
}

static void begin(struct course *c, const struct shape *s, const char *solution, uint64_t seed)
{
	*c = (struct course){.shape = s, .random = seed * 0x9e3779b97f4a7c15u + 1, .period = -1};
	solution_options_init(&c->options);
	c->options.batch = c->batch = 512 * s->workers;
	c->options.lambda = s->lambda;
	solution_options_name(&c->options, solution);
	if (s->sync)
		assert_int_equal(solution_options_set(&c->options, s->sync, &err), 0);
	c->solution = solution_find(solution);
	assert_non_null(c->solution);
	assert_int_equal(monitor_new(&c->monitor, s->window_short, s->window_long, &err), 0);
	c->nodes = s->workers + s->servers;
	assert_true(c->nodes <= NODES_MAX);
	for (size_t i = 0; i < c->nodes; i++) {
		struct node *n = &c->node[i];
		n->role = i < s->workers ? NODE_WORKER : NODE_SERVER;
		snprintf(n->id, sizeof n->id, "%s%zu", n->role == NODE_WORKER ? "w" : "ps",
			 n->role == NODE_WORKER ? i : i - s->workers);
		n->pace = 512 / ITERATION * (s->pace && n->role == NODE_WORKER ? s->pace[i] : 1);
		n->size = 512;
		if ((n->role == NODE_WORKER && i < (size_t)s->persistent) ||
		    (i == s->workers && s->slow_server))
			n->delay = 4.0 / 60 * s->intensity;
		event(c, n, "start");
	}
	come_up(c);
}

/* Samples applied over those of the bound, from the warm-up on. */
static double run(struct course *c, const struct shape *s, const char *solution, uint64_t seed)
{
	double decide_at = s->every;
	begin(c, s, solution, seed);
	while (c->now < s->seconds) {
		draw(c);
		come_up(c);
		iterate(c);
		if (c->now < decide_at)
			continue;
		c->rate_at[c->rates % 16] = c->now;
		c->rate_samples[c->rates++ % 16] = c->all;
		decide(c);
		decide_at = c->now + s->every;
	}
	monitor_free(c->monitor);
	return c->done / c->bound;
}

/* ---- courses ---- */

static const double intensities[] = {0.1, 0.3, 0.5, 0.8};
static struct course c;

static struct shape cluster(void)
{
	return (struct shape){.workers = 20,
			      .servers = 8,
			      .persistent = 1,
			      .transient = 1,
			      .every = 0.5,
			      .window_short = 2,
			      .window_long = 10,
			      .lambda = 1.3,
			      .seconds = 150,
			      .warm_up = 30};
}

/* For each intensity: what AntDT-ND and pace must reach of the bound, and that they beat those who
 * do less. */
static void table(struct shape s, const char *what)
{
	for (size_t i = 0; i < sizeof intensities / sizeof *intensities; i++) {
		s.intensity = intensities[i];
		double none = run(&c, &s, "none", 1);
		double lb = run(&c, &s, "lb-bsp", 1);
		double nd = run(&c, &s, "antdt-nd", 1);
		double pace = run(&c, &s, "pace", 1);
		print_message("%s, intensity %g: none %.3f lb-bsp %.3f antdt-nd %.3f pace %.3f\n",
			      what, s.intensity, none, lb, nd, pace);
		if (nd < 0.85 || pace < 0.92 || pace < nd - NEAR || pace < lb - NEAR ||
		    nd < none - NEAR)
			fail_msg("too little");
	}
}

static void stragglers_among_workers(void **state)
{
	(void)state;
	table(cluster(), "workers");
}

static void a_slow_server_too(void **state)
{
	struct shape s = cluster();
	(void)state;
	s.slow_server = 1;
	table(s, "workers and a server");
}

static void a_small_cluster(void **state)
{
	struct shape s = cluster();
	(void)state;
	s.workers = 8;
	s.servers = 2;
	s.slow_server = 1;
	table(s, "8 workers, 2 servers");
}

/* No restart then; sizes and leaving out must do. */
static void a_busy_cluster(void **state)
{
	struct shape s = cluster();
	(void)state;
	s.pending = 100;
	s.slow_server = 1;
	for (size_t i = 0; i < sizeof intensities / sizeof *intensities; i++) {
		s.intensity = intensities[i];
		double nd = run(&c, &s, "antdt-nd", 1);
		assert_int_equal(c.kills[NODE_WORKER] + c.kills[NODE_SERVER], 0);
		double pace = run(&c, &s, "pace", 1);
		assert_int_equal(c.kills[NODE_WORKER] + c.kills[NODE_SERVER], 0);
		print_message("busy, intensity %g: antdt-nd %.3f pace %.3f\n", s.intensity, nd,
			      pace);
		assert_true(pace > nd - NEAR);
	}
}

/* Some last 3 iterations more, one in a hundred: sizes and restarts can't help, a backup can. */
static void single_spikes(void **state)
{
	struct shape s = cluster();
	(void)state;
	s.persistent = s.transient = 0;
	s.spike = 0.01;
	double none = run(&c, &s, "none", 1), pace = run(&c, &s, "pace", 1);
	print_message("spikes: none %.3f pace %.3f\n", none, pace);
	assert_true(pace > none + 0.1);
	assert_int_equal(c.backup, 1);
}

/* Slow by hardware: nothing changes any more once sizes fit. */
static void machines_that_differ(void **state)
{
	static const double pace_of[] = {1, 1, 1, 1, 0.5, 0.2};
	static const char *const name[] = {"lb-bsp", "antdt-nd", "pace"};
	struct shape s = cluster();
	(void)state;
	s.workers = 6;
	s.servers = 1;
	s.pace = pace_of;
	s.persistent = s.transient = 0;
	s.window_short = 1;
	s.window_long = 600;
	for (size_t k = 0; k < 3; k++) {
		double reached = run(&c, &s, name[k], 1);
		print_message("machines that differ: %s %.3f, %u sizes given\n", name[k], reached,
			      c.adjusts);
		assert_true(reached > 0.96);
	}
	assert_true(c.adjusts < 200);
	assert_true(c.kills[NODE_WORKER] <= 2);
}

static void asp_only_restarts(void **state)
{
	static const char *const name[] = {"antdt-nd", "pace"};
	struct shape s = cluster();
	(void)state;
	s.sync = "sync=asp";
	s.intensity = 0.8;
	s.slow_server = 1;
	s.seconds = 60;
	for (size_t k = 0; k < 2; k++) {
		run(&c, &s, name[k], 1);
		assert_int_equal(c.adjusts + c.backups, 0);
		assert_true(c.kills[NODE_WORKER] >= 1);
		assert_int_equal(c.kills[NODE_SERVER], 1);
	}
}

static void nothing_but_noise(void **state)
{
	static const char *const name[] = {"antdt-nd", "pace"};
	struct shape s = cluster();
	(void)state;
	s.persistent = s.transient = 0;
	s.seconds = 60;
	for (size_t k = 0; k < 2; k++) {
		run(&c, &s, name[k], 1);
		assert_int_equal(c.kills[NODE_WORKER] + c.kills[NODE_SERVER] + c.backups, 0);
		assert_true(c.adjusts <= (k ? 40 : 0));
	}
}

static void the_same_course_twice(void **state)
{
	struct shape s = cluster();
	(void)state;
	s.intensity = 0.5;
	s.seconds = 60;
	double once = run(&c, &s, "pace", 7);
	assert_true(run(&c, &s, "pace", 7) == once);
	assert_true(run(&c, &s, "pace", 8) != once);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stragglers_among_workers),
		cmocka_unit_test(a_slow_server_too),
		cmocka_unit_test(a_small_cluster),
		cmocka_unit_test(a_busy_cluster),
		cmocka_unit_test(single_spikes),
		cmocka_unit_test(machines_that_differ),
		cmocka_unit_test(asp_only_restarts),
		cmocka_unit_test(nothing_but_noise),
		cmocka_unit_test(the_same_course_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
