/* copy: see copy.h. */
#include "sim/copy.h"

#include "account/cost.h"
#include "base/reals.h"
#include "job/kind.h"
#include "solve/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAME 0.01 /* a speed that differs by less is the same */

/* ---- a job file ---- */

void copy_job(struct record_out *o, const struct job *job, uint64_t samples, uint64_t hosts)
{
	record_add(o, "job", job->name);
	record_add(o, "sync", job->sync);
	record_add_u64(o, "workers", job->workers);
	record_add_u64(o, "servers", job_kind(job)->holds == HOLD_SERVERS ? job->servers : 0);
	record_add_u64(o, "hosts", hosts);
	record_add_u64(o, "samples", samples);
	record_add_u64(o, "batch", job->batch);
	record_add_u64(o, "shard", job->batch * job->batches_per_shard);
	record_add_u64(o, "epochs", job->epochs);
	record_add_u64(o, "ahead", job->ahead);
	record_add_u64(o, "report", job->report_every);
	record_add(o, "solution", job->solution);
	record_add_brief(o, "every", job->every);
	record_add_brief(o, "short", job->shorter);
	record_add_brief(o, "long", job->longer);
	record_add_brief(o, "checkpoint", job->checkpoint_every);
	record_add_u64(o, "restart-limit", job->heavy_limit);
	record_add_brief(o, "restart-window", job->heavy_window);
	record_add_brief(o, "restart-cooldown", job->heavy_cooldown);
	record_add_u64(o, "profile", strcmp(job->profile, "on") == 0);
	struct solution_options options = job->options;
	options.batch = 0; /* these are said above */
	options.sync = SYNC_UNSAID;
	solution_options_add(o, &options);
}

/* ---- costs ---- */

struct means {
	double sum, count;
};

static void means_add(struct means *m, double value, double weight)
{
	if (weight > 0 && isfinite(value)) {
		m->sum += value * weight;
		m->count += weight;
	}
}

static double means_of(const struct means *m)
{
	return m->count > 0 ? m->sum / m->count : NAN;
}

/* All that a node did while the log goes. */
static struct account_point copy_all(const struct account_node *n)
{
	struct account_point none = {0};
	if (n->points < 2)
		return none;
	const struct account_point *p = &n->point[n->points - 1], *q = &n->point[0];
	return (struct account_point){.batches = p->batches - q->batches,
				      .samples = p->samples - q->samples,
				      .time = p->time - q->time,
				      .compute = p->compute - q->compute,
				      .comm = p->comm - q->comm,
				      .wait = p->wait - q->wait};
}

/* The least wait for a batch of any worker, over windows of time in which workers train. */
static double copy_barrier(const struct account *a, struct account_point *did)
{
	struct means least = {0};
	const struct account_spans *spans = &a->phase_spans;
	for (size_t i = 0; i < spans->count; i++) {
		double length = spans->span[i].to - spans->span[i].from;
		if (!account_is_training(a, spans->span[i].what) || !(length > 0))
			continue;
		size_t windows = 1 + (size_t)fmin(length, COST_WINDOWS);
		for (size_t k = 0; k < windows; k++) {
			double from = spans->span[i].from + length * (double)k / (double)windows;
			double batches = 0;
			size_t count = 0;
			for (size_t n = 0; n < a->nodes; n++)
				if (account_is_worker(&a->node[n])) {
					did[count] = account_between(&a->node[n], from, from + length / (double)windows);
					batches += did[count++].batches;
				}
			means_add(&least, cost_barrier(did, count), batches);
		}
	}
	return means_of(&least);
}

static void copy_nodes(const struct account *a, struct copy_cost *out)
{
	struct means comm = {0}, apply = {0}, again = {0};
	double least = INFINITY, most = -INFINITY, workers = 0;
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_node *n = &a->node[i];
		struct account_point did = copy_all(n);
		if (account_is_server(n))
			means_add(&apply, did.time / did.batches, did.batches);
		if (!account_is_worker(n))
			continue;
		means_add(&comm, did.comm / did.batches, did.batches);
		for (size_t k = 0; k < n->spans.count; k++) {
			const struct account_span *s = &n->spans.span[k];
			if (s->what == ACCOUNT_AGAIN)
				means_add(&again, s->to - s->from, 1);
			if (s->what != ACCOUNT_STARTING)
				continue;
			least = fmin(least, s->to - s->from);
			most = fmax(most, s->to - s->from);
			workers++;
		}
	}
	out->pull = out->push = means_of(&comm) / 2;
	out->apply = means_of(&apply);
	out->start = again.count > 0 ? means_of(&again) : workers > 0 ? least : NAN;
	out->stagger = workers > 1 ? (most - least) / (workers - 1) : NAN;
}

void copy_costs(const struct account *a, struct copy_cost *out)
{
	struct account_point *did = calloc(a->nodes + 1, sizeof *did);
	struct means save = {0};
	*out = (struct copy_cost){.commit = NAN};
	copy_nodes(a, out);
	if (did)
		out->commit = copy_barrier(a, did);
	free(did);
	if (out->apply > 0 && out->commit > 0)
		out->commit = fmax(out->commit - out->apply, 0);
	for (size_t i = 0; i < a->marks; i++)
		if (a->mark[i].kind == ACCOUNT_CHECKPOINT)
			means_add(&save, a->mark[i].seconds, 1);
	out->save = means_of(&save);
}

/* ---- a log ---- */

static int copy_put(struct record_out *o, copy_put_fn *put, void *arg, struct error *err)
{
	size_t len = record_end(o, NULL);
	return put(o->data, len, arg, err);
}

static int put_costs(const struct copy_cost *c, copy_put_fn *put, void *arg, struct error *err)
{
	struct record_out *o = RECORD_BARE("cost");
	const struct {
		const char *key;
		double value;
	} costs[] = {{"pull", c->pull},   {"push", c->push},   {"commit", c->commit},
		     {"apply", c->apply}, {"start", c->start}, {"stagger", c->stagger}, {"save", c->save}};
	for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
		if (isfinite(costs[i].value))
			record_add_seconds(o, costs[i].key, costs[i].value);
	return copy_put(o, put, arg, err);
}

/* When workers were first started: the simulation's 0. */
static double copy_begin(const struct account *a)
{
	for (size_t i = 0; i < a->phase_spans.count; i++)
		if (account_is_training(a, a->phase_spans.span[i].what))
			return a->phase_spans.span[i].from;
	return a->first_at;
}

static int put_node(const struct account *a, const struct account_node *n, double push,
		    copy_put_fn *put, void *arg, struct error *err)
{
	double last = 0, begin = copy_begin(a);
	for (size_t i = 1; i < n->points; i++) {
		const struct account_point *p = &n->point[i], *q = &n->point[i - 1];
		double batches = p->batches - q->batches;
		double speed = (p->samples - q->samples) / (p->time - q->time - batches * push);
		if (!(speed > 0) || !isfinite(speed) || fabs(speed - last) <= SAME * last)
			continue;
		if (copy_put(RECORD("node", F("id", n->id),
				    F_SECONDS("at", last > 0 ? fmax(q->at - begin, 0) : 0),
				    F_REAL("speed", speed)), put, arg, err) != 0)
			return -1;
		last = speed;
	}
	return 0;
}

int copy_log(const struct account *a, copy_put_fn *put, void *arg, struct error *err)
{
	struct copy_cost c;
	copy_costs(a, &c);
	if (put_costs(&c, put, arg, err) != 0)
		return -1;
	for (size_t i = 0; i < a->nodes; i++)
		if (account_is_worker(&a->node[i]) &&
		    put_node(a, &a->node[i], c.push > 0 ? c.push : 0, put, arg, err) != 0)
			return -1;
	for (size_t i = 0; i < a->marks; i++) {
		const struct account_mark *m = &a->mark[i];
		if (m->kind != ACCOUNT_RESTART || m->node == ACCOUNT_NOBODY || m->by ||
		    !account_is_worker(&a->node[m->node]))
			continue;
		double at = m->at - (m->seconds > 0 ? m->seconds : 0) - copy_begin(a);
		if (copy_put(RECORD("event", F("kind", "kill"), F("id", a->node[m->node].id),
				    F_SECONDS("at", fmax(at, 0))), put, arg, err) != 0)
			return -1;
	}
	return 0;
}
