/* copy: see copy.h. */
#include "sim/copy.h"

#include "account/cost.h"
#include "base/grow.h"
#include "base/number.h"
#include "base/reals.h"
#include "job/kind.h"
#include "solve/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOWS 400 /* at most */
#define NODES_MAX 1000000
#define SAME 0.01   /* a speed that differs by less is the same */

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
	record_add(o, "predict", job->predict);
	record_add_brief(o, "every", job->every);
	record_add_brief(o, "short", job->shorter);
	record_add_brief(o, "long", job->longer);
	record_add_brief(o, "checkpoint", job->checkpoint_every);
	record_add_u64(o, "restart-limit", job->heavy_limit);
	record_add_brief(o, "restart-window", job->heavy_window);
	record_add_brief(o, "restart-cooldown", job->heavy_cooldown);
	if (job->hung[0])
		record_add(o, "hung", job->hung);
	record_add_u64(o, "restarts", job->restarts);
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

/* The least wait for a batch of any worker, over all windows. */
static double copy_barrier(const struct copy *c, const struct account *a, double begin,
			   struct account_point *did)
{
	struct means least = {0};
	for (size_t k = 0; k < c->windows; k++) {
		double from = begin + c->length * (double)k, batches = 0;
		size_t count = 0;
		for (size_t n = 0; n < a->nodes; n++)
			if (account_is_worker(&a->node[n])) {
				did[count] = account_between(&a->node[n], from, from + c->length);
				batches += did[count++].batches;
			}
		means_add(&least, cost_barrier(did, count), batches);
	}
	return means_of(&least);
}

static void copy_starts(const struct account *a, struct copy_cost *out)
{
	struct means again = {0};
	double least = INFINITY, most = -INFINITY, workers = 0;
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_node *n = &a->node[i];
		for (size_t k = 0; account_is_worker(n) && k < n->spans.count; k++) {
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
	out->start = again.count > 0 ? means_of(&again) : workers > 0 ? least : NAN;
	out->stagger = workers > 1 ? (most - least) / (workers - 1) : NAN;
}

static void copy_checkpoints(const struct account *a, struct copy_cost *out)
{
	struct means save = {0};
	for (size_t i = 0; i < a->marks; i++)
		if (a->mark[i].kind == ACCOUNT_CHECKPOINT)
			means_add(&save, a->mark[i].seconds, 1);
	out->save = means_of(&save);
}

/* ---- nodes ---- */

static long copy_number_of(const char *id, const char *prefix)
{
	size_t len = strlen(prefix);
	uint64_t number;
	return strncmp(id, prefix, len) == 0 &&
			       number_u64(id + len, 0, NODES_MAX - 1, &number, NULL, NULL) == 0
		       ? (long)number : -1;
}

/* The number of worker w3, of server ps1; -1: it is none, or has another name. */
static long copy_worker_of(const struct account_node *n)
{
	return account_is_worker(n) ? copy_number_of(n->id, "w") : -1;
}

static long copy_server_of(const struct account_node *n)
{
	return account_is_server(n) ? copy_number_of(n->id, "ps") : -1;
}

static double copy_begin(const struct account *a)
{
	for (size_t i = 0; i < a->phase_spans.count; i++)
		if (account_is_training(a, a->phase_spans.span[i].what))
			return a->phase_spans.span[i].from;
	return a->first_at;
}

static void copy_count(struct copy *c, const struct account *a, double begin)
{
	size_t points = 1;
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_node *n = &a->node[i];
		if (copy_server_of(n) >= (long)c->servers)
			c->servers = (size_t)copy_server_of(n) + 1;
		if (copy_worker_of(n) < 0 || n->points < 2)
			continue;
		if (copy_worker_of(n) >= (long)c->workers)
			c->workers = (size_t)copy_worker_of(n) + 1;
		points = n->points > points ? n->points : points;
		c->seconds = fmax(c->seconds, n->point[n->points - 1].at - begin);
	}
	c->windows = points < WINDOWS ? points : WINDOWS;
	c->length = c->seconds / (double)c->windows;
}

static void copy_worker(struct copy *c, const struct account_node *n, double begin)
{
	double *speed = c->speed + (size_t)copy_worker_of(n) * c->windows;
	double *rows = c->rows + (size_t)copy_worker_of(n) * c->windows;
	double push = c->cost.push > 0 ? c->cost.push : 0, now = 0;
	for (size_t k = 0; k < c->windows; k++) {
		double from = begin + c->length * (double)k;
		struct account_point did = account_between(n, from, from + c->length);
		double seconds = did.time - did.batches * push;
		if (did.samples > 0 && seconds > 0)
			speed[k] = did.samples / seconds;
		else if (k > 0)
			speed[k] = speed[k - 1];
		rows[k] = did.samples > 0 ? account_rows(&did) / did.samples : 0;
		if (!(now > 0) && speed[k] > 0) /* before its first batch, too */
			for (size_t i = 0; i < k; i++)
				speed[i] = speed[k];
		now = speed[k];
	}
}

static void copy_comm(struct copy *c, const struct account *a)
{
	struct means comm = {0};
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_node *n = &a->node[i];
		if (!account_is_worker(n) || n->points < 2)
			continue;
		const struct account_point *p = &n->point[n->points - 1], *q = &n->point[0];
		means_add(&comm, (p->comm - q->comm) / (p->batches - q->batches), p->batches - q->batches);
	}
	c->cost.pull = c->cost.push = means_of(&comm) / 2;
}

/* Returns how long the slowest takes. */
static double copy_servers(struct copy *c, const struct account *a, double *sorted)
{
	size_t known = 0;
	double most = 0;
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_node *n = &a->node[i];
		if (copy_server_of(n) < 0 || n->points < 2)
			continue;
		const struct account_point *p = &n->point[n->points - 1], *q = &n->point[0];
		double each = (p->time - q->time) / (p->batches - q->batches);
		if (!(each >= 0) || !isfinite(each))
			continue;
		c->delay[copy_server_of(n)] = each;
		most = fmax(most, each);
		sorted[known++] = each;
	}
	if (known == 0)
		return 0;
	reals_sort(sorted, known);
	c->cost.apply = sorted[(known - 1) / 2];
	for (size_t i = 0; i < c->servers; i++)
		c->delay[i] = fmax(c->delay[i] - c->cost.apply, 0);
	return most;
}

static int copy_kills(struct copy *c, const struct account *a, double begin)
{
	for (size_t i = 0; i < a->marks; i++) {
		const struct account_mark *m = &a->mark[i];
		const struct account_node *n = m->node == ACCOUNT_NOBODY ? NULL : &a->node[m->node];
		long worker = n ? copy_worker_of(n) : -1; /* one beyond c->workers never trained */
		if (m->kind != ACCOUNT_RESTART || m->reason || worker < 0 || worker >= (long)c->workers)
			continue;
		if (GROW(c->kill, c->kill_room, c->kills + 1) != 0)
			return -1;
		c->kill[c->kills++] = (struct copy_kill){
			(size_t)worker, fmax(m->at - fmax(m->seconds, 0) - begin, 0)};
	}
	return 0;
}

/* Before training nobody has a speed; who never trained is as fast as the median of those who did. */
static void copy_fill(struct copy *c, double *sorted)
{
	for (size_t k = 0; k < c->windows; k++) {
		size_t known = 0;
		for (size_t i = 0; i < c->workers; i++)
			if (c->speed[i * c->windows + k] > 0)
				sorted[known++] = c->speed[i * c->windows + k];
		double median = known > 0 ? reals_median(sorted, known) : 1;
		for (size_t i = 0; i < c->workers; i++)
			if (!(c->speed[i * c->windows + k] > 0))
				c->speed[i * c->windows + k] = median;
	}
}

static int copy_measure(struct copy *c, const struct account *a, double begin)
{
	struct account_point *did = calloc(a->nodes + 1, sizeof *did);
	double *sorted = calloc(a->nodes + c->workers + 1, sizeof *sorted);
	c->speed = calloc(c->workers * c->windows, sizeof *c->speed);
	c->rows = calloc(c->workers * c->windows, sizeof *c->rows);
	c->delay = calloc(c->servers + 1, sizeof *c->delay);
	int result = did && sorted && c->speed && c->rows && c->delay ? copy_kills(c, a, begin) : -1;
	if (result == 0) {
		copy_comm(c, a);
		for (size_t i = 0; i < a->nodes; i++)
			if (copy_worker_of(&a->node[i]) >= 0 && a->node[i].points > 1)
				copy_worker(c, &a->node[i], begin);
		copy_fill(c, sorted);
		double slowest = copy_servers(c, a, sorted);
		c->cost.commit = fmax(copy_barrier(c, a, begin, did) - slowest, 0);
		copy_starts(a, &c->cost);
		copy_checkpoints(a, &c->cost);
	}
	free(did);
	free(sorted);
	return result;
}

int copy_of(struct copy *out, const struct account *a, struct error *err)
{
	double begin = copy_begin(a);
	*out = (struct copy){.cost = {NAN, NAN, NAN, NAN, NAN, NAN, NAN}};
	copy_count(out, a, begin);
	if (out->workers == 0 || !(out->length > 0))
		return error_set(err, ERROR_NEGATIVE, NULL, "the log has no measured batches of workers");
	out->samples = a->rows > 0 ? (uint64_t)a->row[a->rows - 1].samples : 0;
	if (copy_measure(out, a, begin) == 0)
		return 0;
	copy_free(out);
	return error_set(err, ERROR_OS, NULL, "out of memory");
}

void copy_free(struct copy *c)
{
	free(c->speed);
	free(c->rows);
	free(c->delay);
	free(c->kill);
	*c = (struct copy){0};
}

/* ---- records ---- */

static int copy_put_line(struct record_out *o, copy_put_fn *put, void *arg, struct error *err)
{
	size_t len = record_end(o, NULL);
	return put(o->data, len, arg, err);
}

static int copy_put_costs(const struct copy_cost *c, copy_put_fn *put, void *arg, struct error *err)
{
	struct record_out *o = RECORD_BARE("cost");
	const struct {
		const char *key;
		double value;
	} costs[] = {{"pull", c->pull},   {"push", c->push},   {"commit", c->commit},
		     {"apply", c->apply}, {"start", c->start}, {"stagger", c->stagger},
		     {"save", c->save}};
	for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
		if (isfinite(costs[i].value))
			record_add_seconds(o, costs[i].key, costs[i].value);
	return copy_put_line(o, put, arg, err);
}

static int copy_put_worker(const struct copy *c, size_t worker, copy_put_fn *put, void *arg,
		      struct error *err)
{
	const double *speed = c->speed + worker * c->windows;
	char id[OPTION_ID_MAX];
	double last = 0;
	snprintf(id, sizeof id, "w%zu", worker);
	for (size_t k = 0; k < c->windows; k++) {
		if (fabs(speed[k] - last) <= SAME * last)
			continue;
		if (copy_put_line(RECORD("node", F("id", (const char *)id),
					 F_SECONDS("at", (double)k * c->length),
					 F_BRIEF("speed", speed[k])), put, arg, err) != 0)
			return -1;
		last = speed[k];
	}
	return 0;
}

int copy_put(const struct copy *c, copy_put_fn *put, void *arg, struct error *err)
{
	char id[OPTION_ID_MAX];
	int result = copy_put_costs(&c->cost, put, arg, err);
	for (size_t i = 0; result == 0 && i < c->workers; i++)
		result = copy_put_worker(c, i, put, arg, err);
	for (size_t i = 0; result == 0 && i < c->servers; i++) {
		snprintf(id, sizeof id, "ps%zu", i);
		if (c->delay[i] > 0)
			result = copy_put_line(RECORD("node", F("id", (const char *)id),
						      F_BRIEF("delay", c->delay[i])), put, arg, err);
	}
	for (size_t i = 0; result == 0 && i < c->kills; i++) {
		snprintf(id, sizeof id, "w%zu", c->kill[i].worker);
		result = copy_put_line(RECORD("event", F("kind", "kill"), F("id", (const char *)id),
					      F_SECONDS("at", c->kill[i].at)), put, arg, err);
	}
	return result;
}
