/* The supervisor: takes reports to the monitor, asks the solution, carries out what it says. */
#include "sim/sim_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FIRST_SECONDS 0.1 /* until each worker has reported once */

int control_ready(struct sim *s, struct error *err)
{
	if (!solution_find(s->job.solution_text) && !balance_is(s->job.solution_text))
		return error_set(err, ERROR_DATA, NULL, "solution=%s: no built-in solution",
				 s->job.solution_text);
	if (monitor_new(&s->monitor, s->job.window_short, s->job.window_long, err) != 0)
		return -1;
	s->backup = s->job.backup;
	s->restarted = -INFINITY;
	if (strcmp(s->job.solution_text, "none") != 0 && !s->balance)
		sim_plan(s, FIRST_SECONDS, EVENT_LOOK, NULL);
	if (s->job.checkpoint > 0)
		sim_plan(s, s->job.checkpoint, EVENT_SAVE, NULL);
	return 0;
}

/* ---- to the monitor ---- */

static void to_monitor(struct sim *s, struct record_out *o)
{
	struct record r;
	struct error err;
	size_t len = record_end(o, NULL);
	if (record_parse(&r, o->data, len - 1, &err) != 0 ||
	    monitor_add(s->monitor, &r, SIM_EPOCH + s->now, NULL, &err) < 0) {
		sim_fail(s, &err);
		return;
	}
	sim_log_text(s, o->data, len);
}

void control_event(struct sim *s, const struct sim_node *n, const char *kind)
{
	to_monitor(s, RECORD("event", F("role", n->role == NODE_WORKER ? "worker" : "server"),
			     F("id", n->id), F("kind", kind), F("life", (uint64_t)n->life),
			     F_SECONDS("at", SIM_EPOCH + s->now)));
}

void control_report(struct sim *s, struct sim_node *n)
{
	struct tally_batch mean;
	uint64_t count = tally_take(&n->tally, s->now, &mean);
	if (count == 0)
		return;
	struct record_out *o =
		RECORD("bpt", F("role", n->role == NODE_WORKER ? "worker" : "server"), F("id", n->id),
		       F("iter", n->iteration), F_SECONDS("time", mean.time), F("size", mean.samples),
		       F_SECONDS("at", SIM_EPOCH + s->now));
	if (n->role == NODE_WORKER)
		record_add_u64(o, "accum", n->accum);
	record_add_u64(o, "count", count);
	if (n->role == NODE_WORKER) {
		record_add_seconds(o, "compute", mean.compute);
		record_add_seconds(o, "comm", mean.comm);
		record_add_seconds(o, "wait", mean.wait);
	}
	to_monitor(s, o);
}

/* ---- a decision ---- */

struct look {
	struct sim *sim;
	struct snapshot snapshot;
	char *text;
	int failed;
	struct error err;
};

static void look_put(const char *text, size_t len, void *arg)
{
	struct look *l = arg;
	struct record r;
	if (l->failed)
		return;
	if (record_parse(&r, text, len - 1, &l->err) != 0 ||
	    snapshot_add(&l->snapshot, &r, &l->err) != 0)
		l->failed = 1;
}

static void add_info(struct look *l, const char *name, double value)
{
	char text[40];
	if (isnan(value))
		return;
	snprintf(text, sizeof text, "%.6g", value);
	struct record_out *o = RECORD("info", F("name", name), F("value", (const char *)text), F("age", "0"));
	size_t len = record_end(o, NULL);
	look_put(o->data, len, l);
}

static void add_sync(struct look *l)
{
	struct record_out *o = RECORD("info", F("name", "sync"),
				      F("value", (const char *)l->sim->job.sync_text), F("age", "0"));
	size_t len = record_end(o, NULL);
	look_put(o->data, len, l);
}

/* As the supervisor adds it (lib/run/decide.c). */
static void add_own(struct look *l)
{
	struct sim *s = l->sim;
	double total = (double)(s->job.samples * s->job.epochs), done = (double)s->result.samples;
	add_info(l, "samples-left", total > done ? total - done : 0);
	add_info(l, "rate", s->now > 0 ? done / s->now : NAN);
	add_info(l, "backup-workers", (double)s->backup);
	if (s->restart_count > 0)
		add_info(l, "restart-worker", s->restart_sum / (double)s->restart_count);
	add_sync(l);
}

static int all_reported(const struct sim *s)
{
	for (size_t i = 0; i < s->workers; i++)
		if (s->node[i].state != SIM_DONE && s->node[i].tally.total == 0)
			return 0;
	return 1;
}

static int control_restart(struct sim *s, struct sim_node *n)
{
	const struct sim_job *j = &s->job;
	if (!n || n->role != NODE_WORKER || n->state == SIM_OFF || n->state == SIM_STARTING ||
	    n->restarts >= j->restart_limit || s->now - n->restarted < j->restart_window ||
	    s->now - s->restarted < j->restart_cooldown)
		return 0;
	n->restarts++;
	n->restarted = s->restarted = s->now;
	s->result.restarts++;
	s->restart_sum += s->cost.start;
	s->restart_count++;
	control_event(s, n, "restart");
	worker_dies(s, n);
	n->state = SIM_STARTING;
	sim_plan(s, s->now + s->cost.start, EVENT_START, n);
	return 1;
}

struct decision {
	struct sim *sim;
	char lines[RECORD_LINE_MAX]; /* of one action */
	uint64_t count;
};

static int take_action(const struct action *a, void *arg, struct error *err)
{
	struct decision *d = arg;
	struct sim *s = d->sim;
	size_t len = action_format(a, d->lines, sizeof d->lines);
	d->count++;
	sim_log_text(s, d->lines, len);
	if (a->kind == ACTION_NONE)
		return 0;
	if (a->kind == ACTION_KILL_RESTART) {
		control_restart(s, sim_find(s, a->id));
		return 0;
	}
	if (a->kind == ACTION_BACKUP_WORKERS)
		s->backup = a->count;
	int result = gate_act(s->gate, d->lines, len, 0, SIM_NODES_MAX + 2, err);
	leading_obey(s);
	return result;
}

static void decide(struct sim *s, struct look *l)
{
	struct solution_options options;
	struct decision d = {.sim = s};
	struct error err;
	solution_options_init(&options);
	options.batch = s->job.batch;
	solution_options_name(&options, s->job.solution_text);
	sim_log(s, RECORD("decision", F("solution", (const char *)s->job.solution_text),
			  F("batch", s->job.batch)));
	int result = solution_decide(solution_find(s->job.solution_text), &l->snapshot, &options,
				     take_action, &d, &err);
	sim_log(s, RECORD("decided", F("actions", d.count), result != 0 ? F("skipped", 1) : F_NONE));
	s->decided_at = s->now;
	s->has_decided = 1;
}

void control_look(struct sim *s)
{
	struct look l = {.sim = s};
	if (s->is_over)
		return;
	if (!s->has_decided && !all_reported(s)) {
		sim_plan(s, s->now + FIRST_SECONDS, EVENT_LOOK, NULL);
		return;
	}
	snapshot_init(&l.snapshot);
	if (monitor_snapshot(s->monitor, SIM_EPOCH + s->now, look_put, &l, &l.err) != 0)
		l.failed = 1;
	add_own(&l);
	if (l.failed)
		sim_fail(s, &l.err);
	else
		decide(s, &l);
	snapshot_clear(&l.snapshot);
	sim_plan(s, s->now + s->job.every, EVENT_LOOK, NULL);
}

/* ---- what happens to nodes ---- */

void control_happens(struct sim *s, const struct sim_happening *h)
{
	struct sim_node *n = sim_find(s, h->id);
	switch (h->kind) {
	case HAPPENS_KILL:
		if (n->role != NODE_WORKER || n->state == SIM_OFF)
			break;
		control_event(s, n, "exit");
		worker_dies(s, n);
		n->state = SIM_STARTING;
		control_event(s, n, "start");
		sim_plan(s, s->now + s->cost.start, EVENT_START, n);
		break;
	case HAPPENS_LEAVE:
		if (n->role == NODE_WORKER && n->state != SIM_OFF)
			worker_dies(s, n);
		break;
	case HAPPENS_JOIN:
		if (n->role == NODE_WORKER && n->state == SIM_OFF) {
			n->state = SIM_STARTING;
			sim_plan(s, s->now + s->cost.start, EVENT_START, n);
		}
		break;
	case HAPPENS_STOP:
	case HAPPENS_GO_ON:
		n->is_stopped = h->kind == HAPPENS_STOP;
		break;
	}
}
