/* The number of workers and servers changes while the job trains: what run/scale.h does, with planned
 * times.  Nodes for all that may come are there from the beginning; the job has the first ones. */
#include "sim/sim_internal.h"

#include "base/random.h"
#include "solve/batch.h"
#include "solve/decision.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Until the scheduler has a place for a new node. */
static double scale_pending(struct sim *s)
{
	double more = s->cost.pending_more;
	return s->cost.pending - (more > 0 ? more * log(1 - random_uniform(&s->chance)) : 0);
}

uint64_t scale_workers_most(const struct sim *s)
{
	return s->job.grows || s->workers < s->job.batch ? s->workers : s->job.batch;
}

static uint64_t scale_batch(const struct sim *s)
{
	const struct sim_job *j = &s->job;
	return j->grows ? (uint64_t)llround((double)j->batch * (double)j->workers / (double)s->first_workers) : j->batch;
}

static struct sim_node *scale_server(struct sim *s, uint64_t i)
{
	return &s->node[s->workers + i];
}

static void scale_in(struct sim *s, struct sim_node *n)
{
	const struct sim_job *j = &s->job;
	uint64_t i = (uint64_t)(n - s->node), batch = scale_batch(s);
	double pending = scale_pending(s);
	if (n->role == NODE_WORKER)
		actions_start(&n->actions, n->id, batch / j->workers + (i < batch % j->workers));
	tally_start(&n->tally, s->now);
	n->in_force = 0;
	resources_size(s, n);
	if (n->role == NODE_WORKER) {
		control_start(s, n, "start", pending);
		return;
	}
	control_event(s, n, "start");
	n->state = SIM_STARTING;
	sim_plan(s, s->now + pending + s->cost.start_server, EVENT_START, n);
}

static void scale_out(struct sim *s, struct sim_node *n)
{
	control_event(s, n, "left");
	if (n->role == NODE_WORKER && n->state != SIM_OFF)
		worker_leaves_job(s, n);
	n->state = SIM_OFF;
}

/* ---- at the end of a change ---- */

static int scale_set_sizes(struct sim *s, struct decision *d, struct error *err)
{
	size_t n = (size_t)s->job.workers;
	double *weight = malloc(n * sizeof *weight);
	uint64_t *size = malloc(n * sizeof *size);
	int result = weight && size ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; i < n && result == 0; i++)
		weight[i] = s->node[i].in_force > 0 ? (double)s->node[i].in_force : NAN;
	if (result == 0)
		batch_scaled(weight, n, scale_batch(s), 1, size);
	for (size_t i = 0; i < n && result == 0; i++) {
		struct action set = {.kind = ACTION_ADJUST_BS, .size = size[i], .accum = 1, .reason = "scaled"};
		snprintf(set.id, sizeof set.id, "%s", s->node[i].id);
		result = decision_add(d, &set, 0, err);
	}
	free(weight);
	free(size);
	return result;
}

static void scale_share(struct sim *s)
{
	struct decision d = {0};
	struct action backup = {.kind = ACTION_BACKUP_WORKERS, .count = s->job.workers - 1, .reason = "scaled"};
	struct error err;
	int result = s->job.backup >= s->job.workers ? decision_add(&d, &backup, 0, &err) : 0;
	if (result == 0 && !s->balance)
		result = scale_set_sizes(s, &d, &err);
	if (result == 0 && d.count > 0) {
		sim_log(s, RECORD("by-hand", F("actions", d.count), F("by", "scale")));
		result = control_carry(s, &d, &err);
	}
	if (result != 0)
		sim_note(s, "warning", "workers do not get their shares: %s", err.text);
	decision_free(&d);
}

static void scale_log(struct sim *s, const char *type)
{
	const struct sim_scale *c = &s->scale;
	struct record_out *o = RECORD(type, F("workers", s->job.workers), F("servers", c->servers),
				      F("from-workers", c->from_workers), F("from-servers", c->from_servers));
	if (strcmp(type, "scaled") == 0)
		record_add_seconds(o, "seconds", s->now - c->began);
	record_add(o, "reason", c->reason);
	sim_log(s, o);
}

/* The servers' parts move. */
static void scale_move(struct sim *s)
{
	s->job.servers = s->scale.servers;
	s->nodes = s->workers + (size_t)s->job.servers;
	for (uint64_t i = s->job.servers; i < s->scale.from_servers; i++)
		scale_out(s, scale_server(s, i));
	for (uint64_t i = 0; i < s->job.servers; i++)
		leading_busy(s, scale_server(s, i), s->cost.hand_over);
}

void scale_step(struct sim *s)
{
	struct sim_scale *c = &s->scale;
	if (!c->under_way)
		return;
	for (uint64_t i = c->from_workers; i < s->job.workers; i++)
		if (s->node[i].state == SIM_STARTING)
			return;
	for (uint64_t i = c->from_servers; i < c->servers; i++)
		if (scale_server(s, i)->state == SIM_STARTING)
			return;
	c->under_way = 0;
	if (c->servers != c->from_servers)
		scale_move(s);
	scale_share(s);
	scale_log(s, "scaled");
}

int scale_want(struct sim *s, uint64_t workers, uint64_t servers, const char *reason)
{
	struct sim_scale *c = &s->scale;
	if (c->under_way)
		return -1;
	if (workers == s->job.workers && servers == s->job.servers)
		return 0;
	*c = (struct sim_scale){.under_way = 1, .began = s->now, .from_workers = s->job.workers,
				.from_servers = s->job.servers, .servers = servers};
	snprintf(c->reason, sizeof c->reason, "%s", reason);
	s->job.workers = workers;
	scale_log(s, "scale");
	for (uint64_t i = workers; i < c->from_workers; i++)
		scale_out(s, &s->node[i]);
	for (uint64_t i = c->from_workers; i < workers; i++)
		scale_in(s, &s->node[i]);
	for (uint64_t i = c->from_servers; i < servers; i++)
		scale_in(s, scale_server(s, i));
	scale_step(s);
	return 0;
}
