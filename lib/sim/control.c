/* The supervisor: takes reports to the monitor, asks the solution, carries out what it says. */
#include "sim/sim_internal.h"

#include "base/fs.h"
#include "base/grow.h"
#include "job/solver.h"
#include "monitor/series.h"
#include "proc/again.h"
#include "proc/child.h"
#include "solve/facts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCALE_AGAIN_SECONDS 1.0 /* one change waits for another */
#define FIRST_SECONDS 0.1 /* until each worker has reported once */

int control_ready(struct sim *s, struct error *err)
{
	if (!solution_find(s->job.solution) && !balance_is(s->job.solution) &&
	    !fs_is_program(s->job.solution))
		return error_set(err, ERROR_DATA, NULL,
				 "solution=%.200s: no built-in solution, and no executable",
				 s->job.solution);
	if (monitor_new(&s->monitor, s->job.window_short, s->job.window_long, err) != 0)
		return -1;
	monitor_limit(s->monitor, s->places, 0);
	if (strcmp(s->job.solution, "none") != 0 && !s->balance)
		sim_plan(s, FIRST_SECONDS, EVENT_LOOK, NULL);
	if (s->job.checkpoint > 0)
		sim_plan(s, s->job.checkpoint, EVENT_SAVE, NULL);
	if (!s->options.is_brief)
		sim_plan(s, 0, EVENT_SERIES, NULL);
	return 0;
}

/* ---- to the monitor ---- */

static void control_to_monitor(struct sim *s, struct record_out *o)
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

/* is_meant: of a restart: somebody decided on it. */
static void control_put_event(struct sim *s, const struct sim_node *n, const char *kind, int is_meant)
{
	control_to_monitor(s, RECORD("event", F("role", n->role == NODE_WORKER ? "worker" : "server"),
			     F("id", n->id), F("kind", kind), F("life", (uint64_t)n->life),
			     is_meant ? F("meant", 1) : F_NONE,
			     strcmp(kind, "exit") == 0 && n->role == NODE_WORKER ? F("signal", 9) : F_NONE, F_SECONDS("at", SIM_EPOCH + s->now)));
}

void control_event(struct sim *s, const struct sim_node *n, const char *kind)
{
	control_put_event(s, n, kind, 0);
}

void control_report(struct sim *s, struct sim_node *n)
{
	struct tally_batch mean;
	double since = n->tally.since;
	uint64_t count = tally_take(&n->tally, s->now, &mean);
	if (count == 0)
		return;
	struct report p = {.at = SIM_EPOCH + s->now, .time = mean.time, .iter = n->iteration,
			   .size = mean.samples, .count = count};
	struct error err;
	for (int i = 0; i < REPORT_MORES; i++)
		p.more[i] = NAN;
	if (n->role == NODE_WORKER) {
		p.accum = n->actions.accum;
		p.more[REPORT_COMPUTE] = mean.compute;
		p.more[REPORT_COMM] = mean.comm;
		p.more[REPORT_WAIT] = mean.wait;
	}
	if (resources_is_there(s) && s->now > since)
		p.more[REPORT_OWN_CPU] = /* a process is never quite idle */
			fmax(resources_busy_cores(s, n) * fmin(mean.compute * (double)count / (s->now - since), 1),
			     1e-6);
	if (monitor_report(s->monitor, n->role, n->id, (size_t)(n - s->node), &p, p.at, &err) != 0)
		sim_fail(s, &err);
}

/* Where the cluster says how fast its device is. */
void control_device(struct sim *s, struct sim_node *n)
{
	const struct drag *d = cluster_drag(s, n);
	uint64_t most = d->memory > 0 ? (uint64_t)device_samples((double)d->memory) : NODE_BATCH_MAX;
	if (!s->job.profile || !(d->speed > 0))
		return;
	control_to_monitor(s, RECORD("device", F("role", "worker"), F("id", (const char *)n->id),
			     F("type", d->type[0] ? (const char *)d->type : "device"), F_BRIEF("launch", d->launch),
			     F_BRIEF("speed", d->speed), F("saturation", d->saturation > 0 ? d->saturation : 1),
			     F("max", most), F_SECONDS("at", SIM_EPOCH + s->now)));
}

/* ---- the course of the job, for its log ---- */

static void control_put_series(const char *text, size_t len, void *arg)
{
	struct sim *s = arg;
	struct record r;
	struct error err;
	if (record_parse(&r, text, len - 1, &err) != 0 || !record_is(&r, "node"))
		return;
	struct record_out *o = RECORD_BARE("series");
	series_fields(o, &r);
	sim_log(s, o);
}

static void control_row(struct sim *s)
{
	const struct sim_job *j = &s->job;
	struct queue_stat now;
	queue_stat(s->queue, &now);
	sim_log(s, RECORD("row", F("iteration", gate_iteration(s->gate)),
			  F("epoch", now.epoch < j->epochs ? now.epoch + 1 : j->epochs),
			  F("epochs", j->epochs), F("samples-done", now.samples_done),
			  F("samples", j->samples * j->epochs), F("members", gate_active(s->gate))));
}

void control_series(struct sim *s)
{
	struct error err;
	if (s->first_at >= 0) {
		if (monitor_snapshot(s->monitor, SIM_EPOCH + s->now, control_put_series, s, &err) != 0)
			sim_fail(s, &err);
		control_row(s);
	}
	sim_plan(s, s->now + series_seconds(s->now, s->nodes), EVENT_SERIES, NULL);
}

/* ---- a decision ---- */

struct look {
	struct sim *sim;
	struct snapshot snapshot;
	const struct solution *solution; /* NULL: an executable, which gets the text */
	char *text;
	size_t len, room;
	struct decision decision;
	char why[CHILD_WHY_MAX + 64]; /* the executable failed; "": it has not */
};

static void look_put(const char *text, size_t len, void *arg)
{
	struct look *l = arg;
	struct record r;
	struct error err;
	sim_log_text(l->sim, text, len);
	if (!l->solution && GROW(l->text, l->room, l->len + len) != 0) {
		sim_fail_memory(l->sim);
		return;
	}
	if (!l->solution) {
		memcpy(l->text + l->len, text, len);
		l->len += len;
		return;
	}
	if (record_parse(&r, text, len - 1, &err) != 0 || snapshot_add(&l->snapshot, &r, &err) != 0)
		sim_fail(l->sim, &err);
}

static void look_put_fact(const char *name, const char *value, void *arg)
{
	struct record_out *o = RECORD("info", F("name", name), F("value", value), F("age", "0"));
	size_t len = record_end(o, NULL);
	look_put(o->data, len, arg);
}

static void look_add_facts(struct look *l)
{
	const struct sim *s = l->sim;
	const struct facts f = {.samples = s->job.samples * s->job.epochs,
				.done = s->result.samples,
				.rate = s->now > 0 ? (double)s->result.samples / s->now : NAN,
				.pending = s->scale.under_way ? s->now - s->scale.began : NAN,
				.may_leave = 1,
				.backup = s->job.backup,
				.restart_worker = s->cost.start,
				.restart_server = s->job.servers > 0 ? s->cost.start_server : NAN,
				.sync = s->job.sync};
	facts_put(&f, look_put_fact, l);
}

static int control_all_reported(const struct sim *s)
{
	for (size_t i = 0; i < s->job.workers; i++)
		if (s->node[i].tally.total == 0)
			return 0;
	return 1;
}

static void control_begin_process(struct sim *s, struct sim_node *n, double at)
{
	n->state = SIM_STARTING;
	pulse_begin(&n->pulse);
	n->ready_at = -1;
	n->owes = at;
	sim_plan(s, at + s->cost.start, EVENT_START, n);
	hung_plan_if_long(s, n, at + s->cost.start);
}

void control_start(struct sim *s, struct sim_node *n, const char *kind, double after)
{
	control_event(s, n, kind);
	control_begin_process(s, n, s->now + after);
}

static int control_is_up(const struct sim_node *n)
{
	return n->role == NODE_SERVER ? n->state == SIM_IDLE || n->state == SIM_OFF
				      : n->state != SIM_STARTING && n->state != SIM_OFF;
}

/* A worker is killed and started again; a server gives its part to its next process, for which
 * pulls wait. */
static void control_begin_restart(struct sim *s, struct sim_node *n, const char *reason)
{
	n->past.count++;
	n->past.last = s->restarted = SIM_EPOCH + s->now;
	s->result.restarts++;
	sim_log(s, RECORD("restart", F("id", (const char *)n->id), F("reason", reason)));
	if (n->role == NODE_SERVER) {
		n->state = SIM_STARTING;
		sim_plan(s, s->now + s->cost.start_server, EVENT_START, n);
		return;
	}
	control_event(s, n, "exit");
	worker_dies(s, n);
	control_put_event(s, n, "restart", 1);
	control_begin_process(s, n, s->now);
}

/* A server's next process is there, and then it has the part. */
static void control_hand_over(struct sim *s, struct sim_node *n)
{
	control_event(s, n, "exit");
	n->life++;
	control_put_event(s, n, "restart", 1);
	leading_busy(s, n, s->cost.hand_over);
	n->state = SIM_JOINING;
	sim_plan(s, s->now + s->cost.hand_over, EVENT_START, n);
}

void control_server_started(struct sim *s, struct sim_node *n)
{
	int is_new = (size_t)(n - s->node) >= s->nodes;
	if (!is_new && n->state == SIM_STARTING) {
		control_hand_over(s, n);
		resources_started(s, n);
		return;
	}
	n->state = SIM_IDLE;
	control_event(s, n, "ready");
	if (!is_new)
		return;
	scale_step(s);
	resources_started(s, n);
}

const char *control_restart(struct sim *s, struct sim_node *n, int force, const char *reason)
{
	const struct restart_rules rules = {.window = s->job.restart_window,
					    .cooldown = s->job.restart_cooldown,
					    .limit = s->job.restart_limit};
	const char *refused = NULL;
	if (!control_is_up(n))
		refused = "not-up";
	else if (!force)
		refused = restart_guard_word(
			restart_guard(&rules, &n->past, s->restarted, SIM_EPOCH + s->now));
	if (!refused)
		control_begin_restart(s, n, reason);
	return refused;
}

static void control_obey_restart(struct sim *s, const struct action *a)
{
	struct sim_node *n = sim_find(s, a->id);
	const char *refused = control_restart(s, n, 0, a->reason);
	if (refused)
		sim_log(s, RECORD("refused", F("kind", action_kind_name(a->kind)),
				  F("id", (const char *)a->id), F("reason", refused)));
}

static int look_add_action(const struct action *a, void *arg, struct error *err)
{
	return decision_add(arg, a, 0, err);
}

static int control_is_known(struct sim *s, const struct action *a)
{
	const struct sim_node *n = action_id(a)[0] ? sim_find(s, a->id) : NULL;
	return n && sim_has(s, n) && n->role == (a->kind == ACTION_KILL_RESTART ? a->role : NODE_WORKER);
}

static int control_check(struct sim *s, const struct decision *d, struct error *err)
{
	const struct decision_rules rules = {
		.has_rate = 1,
		.no_backup = strcmp(s->job.sync, "bsp") == 0 || leading_has_replicas(s) ? NULL : "no-barrier",
		.workers = (size_t)s->job.workers};
	for (size_t i = 0; i < d->count; i++) {
		const struct action *a = &d->item[i];
		const char *why = action_nonsense(a, &rules, control_is_known(s, a));
		if (why)
			return error_set(err, ERROR_DATA, NULL, "%s %s: %s (%s)", action_kind_name(a->kind),
					 action_id(a), why, action_nonsense_words(why));
	}
	return 0;
}

int control_carry(struct sim *s, const struct decision *d, struct error *err)
{
	char line[RECORD_LINE_MAX], *lines;
	size_t count;
	if (control_check(s, d, err) != 0 ||
	    !(lines = decision_lead_lines(d, SIM_ACTIONS_BYTES_MAX, &count, err)))
		return -1;
	int result = count == 0 ? 0 : gate_act(s->gate, lines, strlen(lines), 0, SIM_NODES_MAX + 2, err);
	free(lines);
	for (size_t i = 0; i < d->count && result == 0; i++) {
		const struct action *a = &d->item[i];
		if (!s->options.is_brief)
			sim_log_text(s, line, action_format(a, line, sizeof line));
		if (a->kind == ACTION_BACKUP_WORKERS)
			s->job.backup = a->count;
		if (a->kind == ACTION_ADJUST_BS)
			sim_find(s, a->id)->in_force = a->size * a->accum;
	}
	leading_obey(s);
	for (size_t i = 0; i < d->count && result == 0; i++)
		if (d->item[i].kind == ACTION_KILL_RESTART)
			control_obey_restart(s, &d->item[i]);
	return result;
}

static void look_on_end(const struct child_end *e, void *arg)
{
	struct look *l = arg;
	char text[CHILD_WHY_MAX];
	struct error err;
	if (child_failure(e, text))
		snprintf(l->why, sizeof l->why, "%s", text);
	else if (decision_parse(&l->decision, e->output, e->bytes, &err) != 0)
		snprintf(l->why, sizeof l->why, "%.180s", err.text);
}

static int look_ask_outside(struct look *l, struct error *err)
{
	struct solver v;
	struct child_options options = solver_child(&v, l->sim->job.solution, &l->sim->job.options,
						    l->text, l->len);
	options.done = look_on_end;
	options.arg = l;
	if (child_run(&options, err) != 0)
		return -1;
	return l->why[0] ? error_set(err, ERROR_DATA, NULL, "%s", l->why) : 0;
}

static int look_ask_inside(struct look *l, struct error *err)
{
	struct solution_options options = l->sim->job.options;
	solution_options_name(&options, l->sim->job.solution);
	return solution_decide(l->solution, &l->snapshot, &options, look_add_action, &l->decision, err);
}

static void look_decide(struct sim *s, struct look *l)
{
	struct error err = {0};
	int failed = (l->solution ? look_ask_inside(l, &err) : look_ask_outside(l, &err)) != 0 ||
		     control_carry(s, &l->decision, &err) != 0;
	if (failed && strcmp(err.text, s->fails) != 0)
		sim_note(s, "warning", "solution %.200s: %.600s; skipped", s->job.solution, err.text);
	snprintf(s->fails, sizeof s->fails, "%s", err.text);
	sim_log(s, RECORD("decided", F("actions", failed ? 0 : l->decision.count),
			  failed ? F("skipped", 1) : F_NONE));
}

void control_look(struct sim *s)
{
	struct look l = {.sim = s, .solution = solution_find(s->job.solution)};
	struct error err;
	double every = s->job.every;
	if (!facts_may_decide(s->decided_at, s->now, every, s->has_decided, control_all_reported(s))) {
		sim_plan(s, fmin(s->now + FIRST_SECONDS, s->decided_at + every), EVENT_LOOK, NULL);
		return;
	}
	s->decided_at = facts_decided(s->decided_at, s->now, every, s->has_decided);
	s->has_decided = 1;
	struct record_out *o = RECORD("decision", F("solution", (const char *)s->job.solution));
	solution_options_add(o, &s->job.options);
	sim_log(s, o);
	snapshot_init(&l.snapshot);
	if (monitor_snapshot(s->monitor, SIM_EPOCH + s->now, look_put, &l, &err) != 0)
		sim_fail(s, &err);
	look_add_facts(&l);
	if (!s->failed)
		look_decide(s, &l);
	snapshot_clear(&l.snapshot);
	decision_free(&l.decision);
	free(l.text);
	sim_plan(s, s->decided_at + every, EVENT_LOOK, NULL);
}

/* ---- what happens to nodes ---- */

/* An end that nobody wanted: the next process is started, or the job fails. */
static void control_starts_again(struct sim *s, struct sim_node *n)
{
	double ready = n->ready_at >= 0 ? s->now - n->ready_at : 0;
	if (again_did_well(ready, n->pulse.begun))
		n->in_a_row = 0;
	worker_dies(s, n);
	if (n->in_a_row++ < s->job.restarts) {
		control_start(s, n, "restart", 0);
		return;
	}
	sim_note(s, "error", "%s has ended %llu times in a row (RESTARTS)", n->id,
		 (unsigned long long)n->in_a_row);
	s->result.has_failed = 1;
}

void control_gives_up(struct sim *s, struct sim_node *n, const char *section, double silent, double limit)
{
	control_to_monitor(s, RECORD("event", F("role", "worker"), F("id", (const char *)n->id), F("kind", "hung"),
			     F("section", section), F_SECONDS("silent", silent), F_SECONDS("deadline", limit),
			     F("life", (uint64_t)n->life), F_SECONDS("at", SIM_EPOCH + s->now)));
	control_event(s, n, "exit");
	control_starts_again(s, n);
}

void control_happens(struct sim *s, uint32_t number)
{
	const struct sim_happening *h = &s->happening[number];
	struct sim_node *n = &s->node[h->node];
	switch (h->kind) {
	case HAPPENS_KILL:
		if (n->role == NODE_SERVER && sim_has(s, n))
			back_go(s);
		if (n->state == SIM_OFF || n->role == NODE_SERVER)
			break;
		control_event(s, n, "exit");
		control_starts_again(s, n);
		break;
	case HAPPENS_LEAVE:
		if (n->state == SIM_OFF)
			break;
		control_event(s, n, "left");
		worker_leaves_job(s, n);
		break;
	case HAPPENS_JOIN:
		if (n->state == SIM_OFF && sim_has(s, n))
			control_start(s, n, "start", 0);
		break;
	case HAPPENS_STOP:
		worker_stops(s, n);
		break;
	case HAPPENS_GO_ON:
		worker_goes_on(s, n);
		break;
	case HAPPENS_RESTART:
		if (sim_has(s, n))
			control_restart(s, n, 1, "asked for");
		break;
	case HAPPENS_SCALE:
		if (scale_want(s, h->workers, h->servers > 0 ? h->servers : s->job.servers, "asked for") != 0)
			sim_plan_as(s, s->now + SCALE_AGAIN_SECONDS, EVENT_HAPPENS, number, 0);
		break;
	}
}
