/* The brain of a job: what run/brain.c does, with planned times: measures a round, asks, and carries out the
 * answer. */
#include "sim/sim_internal.h"

#include "solve/decision.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_SECONDS 1.0     /* as a supervisor takes snapshots */
#define CHANGE_SECONDS 600.0 /* a change counts as done then, however far it came */

int resources_is_there(const struct sim *s)
{
	return s->brain.program[0] != '\0';
}

/* ---- cores ---- */

static enum plan_role resources_role(const struct sim_node *n)
{
	return n->role == NODE_WORKER ? PLAN_WORKER : PLAN_SERVER;
}

static double resources_useful(const struct sim *s, enum plan_role role, double cores)
{
	double most = s->brain.most[role];
	return most > 0 ? fmin(cores, most) : cores;
}

double resources_busy_cores(const struct sim *s, const struct sim_node *n)
{
	return resources_useful(s, resources_role(n), n->cores);
}

void resources_started(struct sim *s, struct sim_node *n)
{
	enum plan_role role = resources_role(n);
	if (!resources_is_there(s))
		return;
	n->pace = resources_useful(s, role, (double)s->brain.first[role]) / resources_busy_cores(s, n);
	resources_step(s);
}

void resources_size(struct sim *s, struct sim_node *n)
{
	n->cores = (double)s->brain.size[resources_role(n)].cores;
}

static void resources_sizes(const struct sim *s, struct plan_role_size size[PLAN_ROLES])
{
	const uint64_t count[PLAN_ROLES] = {s->job.workers, s->job.servers};
	for (int i = 0; i < PLAN_ROLES; i++)
		size[i] = (struct plan_role_size){.count = count[i], .cores = s->brain.size[i].cores};
}

int resources_ready(struct sim *s, struct error *err)
{
	struct sim_brain *b = &s->brain;
	struct argv words = {0};
	if (!resources_is_there(s))
		return 0;
	uint64_t share = brain_limits_share(&b->limits, s->job.workers + s->job.servers);
	for (int i = 0; i < PLAN_ROLES; i++) {
		b->first[i] = b->first[i] > 0 ? b->first[i] : share;
		b->size[i].cores = b->first[i];
	}
	for (size_t i = 0; i < s->places; i++)
		resources_size(s, &s->node[i]);
	b->past.changed = NAN;
	if (!(b->seen = calloc(s->places, sizeof *b->seen)))
		return error_set(err, ERROR_OS, NULL, "out of memory");
	int result = brain_words(&words, b->program, &b->limits, NULL, err);
	argv_free(&words);
	sim_plan(s, LOOK_SECONDS, EVENT_BRAIN, NULL);
	return result;
}

void resources_free(struct sim *s)
{
	rounds_clear(&s->brain.rounds);
	measure_free(&s->brain.measure);
	snapshot_clear(&s->brain.snapshot);
	free(s->brain.seen);
}

/* ---- measuring ---- */

static void resources_take(const char *text, size_t len, void *arg)
{
	struct sim *s = arg;
	struct record r;
	struct error err;
	if (record_parse(&r, text, len - 1, &err) != 0 || snapshot_add(&s->brain.snapshot, &r, &err) != 0)
		sim_fail(s, &err);
}

static void resources_snapshot(struct sim *s)
{
	struct sim_brain *b = &s->brain;
	struct error err;
	snapshot_clear(&b->snapshot);
	memset(b->seen, 0, s->places * sizeof *b->seen);
	if (monitor_snapshot(s->monitor, SIM_EPOCH + s->now, resources_take, s, &err) != 0)
		sim_fail(s, &err);
	for (size_t i = 0; i < b->snapshot.node_count; i++)
		b->seen[sim_find(s, b->snapshot.node[i].id) - s->node] = &b->snapshot.node[i];
}

static int resources_is_up(const struct sim_node *n)
{
	return n->state != SIM_STARTING && (n->role == NODE_SERVER || n->state != SIM_OFF);
}

/* Workers, then servers. */
static struct sim_node *resources_next(struct sim *s, struct sim_node *n)
{
	struct sim_node *end = s->node + s->nodes, *servers = s->node + s->workers;
	n = n ? n + 1 : s->node;
	if (n < servers && (size_t)(n - s->node) >= s->job.workers)
		n = servers;
	return n < end ? n : NULL;
}

static int resources_is_settled(struct sim *s, uint64_t *which)
{
	*which = s->nodes;
	if (s->scale.under_way)
		return 0;
	for (struct sim_node *n = resources_next(s, NULL); n; n = resources_next(s, n)) {
		const struct snapshot_node *m = s->brain.seen[n - s->node];
		if (!resources_is_up(n) || !m || m->state != NODE_UP || m->size == 0 ||
		    !snapshot_known(m->total.batches) || !snapshot_known(m->last))
			return 0;
		*which = *which * 31 + n->life;
	}
	return 1;
}

static void resources_begin_round(struct sim *s, uint64_t which)
{
	struct sim_brain *b = &s->brain;
	b->measure.count = 0;
	b->since = s->now;
	b->which = which;
	b->is_measuring = 1;
	for (struct sim_node *n = resources_next(s, NULL); n; n = resources_next(s, n))
		if (measure_add(&b->measure, resources_role(n), n->id, b->seen[n - s->node]) != 0)
			sim_fail_memory(s);
}

static void resources_look(struct sim *s)
{
	struct measure_node *k = s->brain.measure.node;
	for (struct sim_node *n = resources_next(s, NULL); n; n = resources_next(s, n), k++) {
		k->now = s->brain.seen[n - s->node];
		k->cores = n->cores;
		k->bytes = n->role == NODE_WORKER ? s->brain.uses[PLAN_WORKER]
						  : s->brain.uses[PLAN_SERVER] / (double)s->job.servers;
	}
}

/* ---- carrying out ---- */

/* A brain asks for the same in every round. */
static void resources_tell_once(struct sim *s, const char *id, const char *why)
{
	char text[sizeof s->brain.told];
	snprintf(text, sizeof text, "%.64s is not started anew: %.150s", id, why);
	if (strcmp(text, s->brain.told) == 0)
		return;
	snprintf(s->brain.told, sizeof s->brain.told, "%s", text);
	sim_note(s, "warning", "brain: %s", text);
}

static int resources_make_smaller(struct sim *s, const struct sim_node *n, const struct answer_node *k,
			      const char *reason, struct error *err)
{
	struct action action = {.kind = ACTION_ADJUST_BS, .role = NODE_WORKER, .accum = 1};
	struct decision list = {0};
	action.size = n->actions.size * n->actions.accum * k->batch / s->job.batch;
	if (action.size < s->job.options.least)
		action.size = s->job.options.least;
	snprintf(action.id, sizeof action.id, "%s", n->id);
	snprintf(action.reason, sizeof action.reason, "%s", reason);
	int result = decision_add(&list, &action, 0, err);
	if (result == 0)
		result = control_carry(s, &list, err);
	decision_free(&list);
	return result;
}

/* Returns whether something was done. */
static int resources_change_node(struct sim *s, const struct answer_node *k)
{
	struct sim_node *n = sim_find(s, k->id);
	char reason[ANSWER_WORD_MAX + 16];
	struct error err;
	const char *why = NULL;
	snprintf(reason, sizeof reason, "brain: %s", k->reason);
	if (!n || !sim_has(s, n) || resources_role(n) != k->role)
		why = "there is no such node";
	else if (k->what == PLAN_REBALANCE)
		why = "servers can't divide their parameters anew here";
	else if (k->batch > 0 && k->role == PLAN_WORKER)
		why = resources_make_smaller(s, n, k, reason, &err) == 0 ? NULL : err.text;
	else if (!(why = want_node_refusal(k, n->cores, 0, s->brain.limits.node_cores))) {
		double cores = k->what == PLAN_REPLACE && k->cores > 0 ? (double)k->cores : n->cores;
		why = control_restart(s, n, k->what == PLAN_REPLACE, reason);
		n->cores = why ? n->cores : cores;
	}
	if (why)
		resources_tell_once(s, k->id, why);
	return why == NULL;
}

/* Workers get their new size at once; servers one after the other, as a hand-over waits for the one before.
 * Returns whether anything was done. */
static int resources_resize(struct sim *s)
{
	struct sim_brain *b = &s->brain;
	int some = 0, waits = 0;
	for (struct sim_node *n = resources_next(s, NULL); n; n = resources_next(s, n)) {
		enum plan_role role = resources_role(n);
		waits |= role == PLAN_SERVER && n->state == SIM_STARTING;
		if (!(b->resizing >> role & 1) || n->cores == (double)b->size[role].cores || waits)
			continue;
		const char *why = control_restart(s, n, 1, b->reason);
		if (!why || n->state == SIM_OFF)
			resources_size(s, n); /* one that is off has it from its next start on */
		else if (n->state != SIM_STARTING)
			resources_tell_once(s, n->id, why);
		some |= !why;
		waits |= role == PLAN_SERVER;
	}
	if (!waits)
		b->resizing = 0;
	return some;
}

static const char *resources_change(struct sim *s, const struct answer *a, const struct want *w)
{
	struct sim_brain *b = &s->brain;
	int some = w->counts;
	int is_too_early = s->now < b->past.changed - SIM_EPOCH + b->limits.every;
	const char *refused = want_refusal(w, a, b->past.changes >= b->limit, is_too_early);
	if (refused)
		return refused;
	snprintf(b->reason, sizeof b->reason, "brain: %s", a->reason);
	b->changing = 1;
	b->began = s->now;
	b->before = measure_rate(&b->measure, s->job.batch) * (double)s->job.batch;
	b->samples = s->result.samples;
	for (int i = 0; i < PLAN_ROLES; i++) {
		if (w->role[i].cores != w->now[i].cores)
			b->resizing |= 1u << i;
		b->size[i] = w->role[i];
	}
	if (w->counts)
		scale_want(s, w->role[PLAN_WORKER].count, w->role[PLAN_SERVER].count, b->reason);
	else
		some |= resources_resize(s);
	for (size_t i = 0; i < a->count; i++)
		some |= resources_change_node(s, &a->node[i]);
	b->changing = some;
	return some ? NULL : "nodes";
}

static void resources_skip(struct sim *s, const char *why)
{
	struct sim_brain *b = &s->brain;
	if (strcmp(why, b->fails) != 0)
		sim_note(s, "warning", "brain %.200s: %.600s; skipped", b->program, why);
	snprintf(b->fails, sizeof b->fails, "%s", why);
	sim_log(s, RECORD("brain-done", F("skipped", 1)));
}

static void resources_put_line(const char *line, size_t len, void *sim)
{
	sim_log_text(sim, line, len);
}

static void resources_carry(struct sim *s, const struct answer *a)
{
	struct sim_brain *b = &s->brain;
	const struct want_rules rules = {.most = {scale_workers_most(s), s->job.server_places},
					 .cores = b->limits.cores,
					 .node_cores = b->limits.node_cores};
	struct plan_role_size now[PLAN_ROLES];
	struct want w;
	char text[256];
	const char *refused = NULL;
	resources_sizes(s, now);
	want_of(&w, a, now, &rules);
	if (want_is_beyond(&w, &rules, text, sizeof text)) {
		resources_skip(s, text);
		return;
	}
	b->fails[0] = '\0';
	double rate = measure_rate(&b->measure, s->job.batch);
	if (want_anything(&w, a)) {
		want_text(&w, a, text, sizeof text);
		refused = resources_change(s, a, &w);
		if (!refused)
			sim_note(s, "brain", "%s", text);
	} else if (answer_changes(a))
		refused = "same";
	struct record_out *o = RECORD_BARE("brain-done");
	want_add_done(o, a, &w, refused, rate, s->job.batch);
	sim_log(s, o);
	resources_step(s);
}

/* ---- asking ---- */

static int resources_ask(struct sim *s, struct answer *a, struct error *err)
{
	struct sim_brain *b = &s->brain;
	const struct measure_job job = {.batch = s->job.batch, .sync = s->job.sync,
					.samples = s->job.samples * s->job.epochs,
					.done = s->result.samples,
					.at = SIM_EPOCH + s->now, .changed = b->past.changed};
	struct argv words = {0};
	size_t len, bytes;
	char *round = measure_text(&b->measure, &job, &len), *all = NULL, *text = NULL;
	int result = round ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
	struct record_out *o = RECORD("brain-asked", F("brain", (const char *)b->program));
	brain_limits_add(o, &b->limits);
	sim_log(s, o);
	if (result == 0) {
		want_lines(round, len, resources_put_line, s);
		result = rounds_add(&b->rounds, round, len, err);
	}
	if (result == 0 && !(all = rounds_text(&b->rounds, &bytes)))
		result = error_set(err, ERROR_OS, NULL, "out of memory");
	if (result == 0)
		result = brain_words(&words, b->program, &b->limits, NULL, err);
	if (result == 0)
		result = brain_ask_once(&words, all, bytes, &text, &len, err);
	if (result == 0)
		result = answer_parse(a, text, len, err);
	if (result == 0)
		want_lines(text, len, resources_put_line, s);
	free(round);
	free(all);
	free(text);
	return result;
}

void resources_look_at_job(struct sim *s)
{
	struct sim_brain *b = &s->brain;
	struct answer answer = {0};
	struct error err;
	uint64_t which;
	sim_plan(s, s->now + LOOK_SECONDS, EVENT_BRAIN, NULL);
	resources_step(s);
	if (b->changing)
		return;
	resources_snapshot(s);
	if (s->failed)
		return;
	if (!resources_is_settled(s, &which)) {
		b->is_measuring = 0;
		return;
	}
	if (!b->is_measuring || which != b->which) {
		resources_begin_round(s, which);
		return;
	}
	resources_look(s);
	measure_sample(&b->measure);
	if (s->now - b->since < measure_seconds(b->limits.every) || !measure_is_enough(&b->measure))
		return;
	b->limits.cost = want_cost_of_change(&b->past, s->cost.start > 0 ? s->cost.start : NAN);
	if (resources_ask(s, &answer, &err) == 0)
		resources_carry(s, &answer);
	else
		resources_skip(s, err.text);
	answer_clear(&answer);
	if (b->changing)
		b->is_measuring = 0;
	else
		resources_begin_round(s, which);
}

/* ---- a change, until it is done ---- */

void resources_log_known(struct sim *s, struct record_out *o)
{
	struct plan_role_size size[PLAN_ROLES];
	if (!resources_is_there(s))
		return;
	resources_sizes(s, size);
	want_add_known(o, size, &s->brain.past);
}

static void resources_end_change(struct sim *s)
{
	struct sim_brain *b = &s->brain;
	double took = s->now - b->began;
	double samples = (double)s->result.samples - (double)b->samples;
	double cost = want_changed(&b->past, took, samples, b->before, SIM_EPOCH + s->now);
	struct record_out *o = RECORD_BARE("brain-changed");
	b->changing = 0;
	resources_log_known(s, o);
	record_add_seconds(o, "took", took);
	record_add_seconds(o, "cost", cost);
	sim_log(s, o);
}

void resources_step(struct sim *s)
{
	struct sim_brain *b = &s->brain;
	if (!b->changing)
		return;
	if (b->resizing && !s->scale.under_way)
		resources_resize(s);
	int is_over = !s->scale.under_way && !b->resizing;
	for (struct sim_node *n = resources_next(s, NULL); n; n = resources_next(s, n))
		is_over &= resources_is_up(n);
	if (is_over || s->now - b->began > CHANGE_SECONDS)
		resources_end_change(s);
}
