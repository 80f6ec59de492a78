/* copy: see copy.h. */
#include "sim/copy.h"

#include "account/cost.h"
#include "base/grow.h"
#include "base/number.h"
#include "base/reals.h"
#include "job/kind.h"
#include "meter/device.h"
#include "record/drag.h"
#include "solve/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOWS 400 /* at most */
#define CELLS 1e7   /* windows of all workers together, at most */
#define NODES_MAX 1000000
#define SAME 0.01   /* a speed that differs by less is the same */
#define LEAST_OF 10 /* of so many windows, one in which something is least */
#define CHANGE 0.1    /* of a size, from which on it says how long smaller batches take */
#define CHANGES 0.05  /* sum of the squares of such changes, from which on that is known */
#define CLEARLY 4     /* so many times less wrong the second model must be */
#define SAMPLES_LEAST 1e-3 /* of a batch */

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
	if (strcmp(job->batch_scaling, "none") != 0)
		record_add(o, "scaling", job->batch_scaling);
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
	if (job_bounds_delay(job) || job_overlaps(job))
		record_add_u64(o, "delay", job->delay_max);
	if (job->late > 0)
		record_add_brief(o, "late", job->late);
	if (strcmp(job->fabric, "mlfabric") == 0)
		record_add(o, "fabric", "mlfabric");
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

static void copy_add_mean(struct means *m, double value, double weight)
{
	if (weight > 0 && isfinite(value)) {
		m->sum += value * weight;
		m->count += weight;
	}
}

static double copy_mean(const struct means *m)
{
	return m->count > 0 ? m->sum / m->count : NAN;
}

/* ---- time ---- */

/* Seconds of training, and when they were. */
struct copy_span {
	double from, to; /* of the log */
	double before;   /* seconds of all spans before it */
};

struct copy_clock {
	struct copy_span *span;
	size_t count, room;
	double begin; /* seconds that are left out */
};

static int copy_add_span(struct copy_clock *c, double from, double to)
{
	if (!(to > from))
		return 0;
	if (GROW(c->span, c->room, c->count + 1) != 0)
		return -1;
	const struct copy_span *last = c->count > 0 ? &c->span[c->count - 1] : NULL;
	c->span[c->count++] = (struct copy_span){from, to, last ? last->before + (last->to - last->from) : 0};
	return 0;
}

/* Training, without what stood still. */
static int copy_clock_of(struct copy_clock *c, const struct account *a)
{
	size_t mark = 0;
	for (size_t i = 0; i < a->phase_spans.count; i++) {
		const struct account_span *p = &a->phase_spans.span[i];
		double from = p->from;
		if (!account_is_training(a, p->what))
			continue;
		for (; mark < a->marks && a->mark[mark].at < p->to; mark++) {
			const struct account_mark *m = &a->mark[mark];
			double end = m->at + m->seconds;
			if (m->kind != ACCOUNT_STOOD || !(end > from))
				continue;
			if (copy_add_span(c, from, m->at) != 0)
				return -1;
			from = end;
		}
		if (copy_add_span(c, from, p->to) != 0)
			return -1;
	}
	return 0;
}

/* Seconds of training until then. */
static double copy_trained(const struct copy_clock *c, double at)
{
	size_t low = 0, high = c->count;
	while (low < high) { /* the first span that begins behind it */
		size_t middle = low + (high - low) / 2;
		if (c->span[middle].from <= at)
			low = middle + 1;
		else
			high = middle;
	}
	const struct copy_span *s = low > 0 ? &c->span[low - 1] : NULL;
	return (s ? s->before + fmin(at, s->to) - s->from : 0) - c->begin;
}

/* When that was. */
static double copy_when(const struct copy_clock *c, double trained)
{
	size_t low = 0, high = c->count;
	trained += c->begin;
	while (low < high) { /* the first span that begins later */
		size_t middle = low + (high - low) / 2;
		if (c->span[middle].before <= trained)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 ? c->span[low - 1].from + (trained - c->span[low - 1].before) : 0;
}

static double copy_edge(const struct copy *c, const struct copy_clock *clock, size_t window)
{
	return copy_when(clock, c->length * (double)window);
}

/* ---- costs, of all that was trained ---- */

/* What may have held up all workers in a window: then they waited for more than the commit. */
enum copy_held {
	HELD_NOT,
	HELD_SAVING, /* a checkpoint was written */
	HELD         /* a server was handed over, or the first checkpoint was made */
};

static void copy_held_up(const struct copy *c, const struct account *a, const struct copy_clock *clock, char *held)
{
	for (size_t i = 0; i < a->marks; i++) {
		const struct account_mark *m = &a->mark[i];
		int is_server = m->kind == ACCOUNT_RESTART && m->node != ACCOUNT_NOBODY &&
				account_is_server(&a->node[m->node]);
		char how = is_server || m->at <= clock->span[0].from ? HELD : HELD_SAVING;
		double from = copy_trained(clock, m->at - (m->written > 0 ? m->written : 0)) / c->length;
		double to = copy_trained(clock, m->at + fmax(m->seconds, 0)) / c->length + 1; /* its batch ends */
		for (double k = floor(fmax(from, 0));
		     (is_server || m->kind == ACCOUNT_CHECKPOINT) && k <= to && k < (double)c->windows; k++)
			held[(size_t)k] = how > held[(size_t)k] ? how : held[(size_t)k];
	}
}

/* What a value is in the windows next to k in which nothing was held up; NAN: there are none. */
static double copy_beside(const double *value, const char *held, size_t windows, size_t k)
{
	struct means beside = {0};
	size_t i = k;
	while (i > 0 && held[i])
		i--;
	copy_add_mean(&beside, value[i], held[i] == HELD_NOT);
	for (i = k; i < windows && held[i];)
		i++;
	if (i < windows)
		copy_add_mean(&beside, value[i], 1);
	return copy_mean(&beside);
}

/* What a checkpoint costs in waiting. barrier: a batch, in each window. */
static double copy_waits_for_save(const struct copy *c, const struct account *a, const struct copy_clock *clock,
				  const double *barrier, const double *batches, const char *held)
{
	double waits = 0, saves = 0;
	for (size_t k = 0; k < c->windows; k++) {
		double more = held[k] == HELD_SAVING ? barrier[k] - copy_beside(barrier, held, c->windows, k) : NAN;
		waits += isfinite(more) ? more * batches[k] : 0;
	}
	for (size_t i = 0; i < a->marks; i++)
		saves += a->mark[i].kind == ACCOUNT_CHECKPOINT && a->mark[i].at > clock->span[0].from;
	return saves > 0 ? waits / saves : 0;
}

double copy_even(const struct copy *c, size_t worker, size_t window)
{
	size_t i = worker * c->windows + window;
	return c->fixed[i] + c->even / c->speed[i];
}

/* How much slower workers are while one is written. */
static double copy_slower_by_save(const struct copy *c, double *each)
{
	double saving = 0, beside = 0;
	for (size_t i = 0; i < c->workers; i++) {
		for (size_t k = 0; k < c->windows; k++)
			each[k] = copy_even(c, i, k);
		for (size_t k = 0; k < c->windows; k++) {
			double other = c->saving[k] == HELD_SAVING ? copy_beside(each, c->saving, c->windows, k) : NAN;
			saving += isfinite(other) ? each[k] : 0;
			beside += isfinite(other) ? other : 0;
		}
	}
	return beside > 0 ? fmax(saving / beside, 1) : 1;
}

/* How much the time of a worker's batches changes from window to window: with, and without, its wait for rows. */
struct copy_change {
	double with, without;
};

static void copy_add_change(struct copy_change *change, const struct account_point *did,
			    const struct account_point *before)
{
	double now = did->time / did->batches, then = before->time / before->batches;
	double rows = account_rows(did) / did->batches, were = account_rows(before) / before->batches;
	if (!isfinite(now - then) || !isfinite(rows - were))
		return;
	change->with += pow(now - then, 2);
	change->without += pow((now - rows) - (then - were), 2);
}

/* Of the barrier: where workers wait for their rows in turn, each waits for those of others, too. It is at least what
 * it is in the windows in which it is least; of the rest, as much as it changes less without rows. */
static double copy_rows_of_others(const struct copy_change *change, double barrier, double *sorted, size_t known)
{
	if (known == 0 || !(change->with > change->without))
		return 0;
	reals_sort(sorted, known);
	return fmax(barrier - sorted[known / LEAST_OF], 0) * (1 - sqrt(change->without / change->with));
}

/* The least wait for a batch of any worker, over all windows. each: two numbers for each window. */
static double copy_barrier(struct copy *c, const struct account *a, const struct copy_clock *clock,
			   struct account_point *did, double *each)
{
	struct means least = {0}, all = {0};
	struct copy_change change = {0};
	struct account_point *before = did + a->nodes;
	double *barrier = each, *batches = each + c->windows;
	copy_held_up(c, a, clock, c->saving);
	for (size_t k = 0; k < c->windows; k++) {
		double from = copy_edge(c, clock, k), to = copy_edge(c, clock, k + 1), workers = 0;
		size_t count = 0;
		batches[k] = 0;
		for (size_t n = 0; n < a->nodes; n++)
			if (account_is_worker(&a->node[n])) {
				did[count] = account_between(&a->node[n], from, to);
				if (k > 0)
					copy_add_change(&change, &did[count], &before[count]);
				before[count] = did[count];
				workers += did[count].batches > 0;
				batches[k] += did[count++].batches;
			}
		barrier[k] = cost_barrier(did, count);
		copy_add_mean(&all, barrier[k], batches[k]);
		copy_add_mean(&least, barrier[k], c->saving[k] ? 0 : batches[k]);
		batches[k] /= fmax(workers, 1);
	}
	double mean = copy_mean(least.count > 0 ? &least : &all);
	c->cost.save = copy_waits_for_save(c, a, clock, barrier, batches, c->saving);
	size_t known = 0;
	for (size_t k = 0; k < c->windows; k++)
		if (isfinite(barrier[k]) && batches[k] > 0)
			barrier[known++] = barrier[k];
	c->commit_rows = copy_rows_of_others(&change, mean, barrier, known);
	return mean;
}

/* Of the workers that were there at the beginning: from when training began until they were ready. */
static void copy_first_starts(const struct copy *c, const struct account *a, const struct copy_clock *clock,
			      struct copy_cost *out)
{
	double least = INFINITY, most = -INFINITY, workers = 0;
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_spans *s = &a->node[i].spans;
		long worker = copy_worker_of(&a->node[i]);
		size_t k = 0;
		while (k < s->count && s->span[k].what != ACCOUNT_UP)
			k++;
		if (worker < 0 || worker >= (long)c->first_workers || k == s->count)
			continue;
		double ready = fmax(copy_trained(clock, s->span[k].from), 0);
		least = fmin(least, ready);
		most = fmax(most, ready);
		workers++;
	}
	out->start = workers > 0 ? least : NAN;
	out->stagger = workers > 1 ? (most - least) / (workers - 1) : NAN;
}

static void copy_starts(struct copy *c, const struct account *a, const struct copy_clock *clock)
{
	struct means worker = {0}, server = {0}, hand_over = {0};
	for (size_t i = 0; i < a->marks; i++) {
		const struct account_mark *m = &a->mark[i];
		if (m->kind != ACCOUNT_RESTART || m->node == ACCOUNT_NOBODY)
			continue;
		if (account_is_worker(&a->node[m->node]))
			copy_add_mean(&worker, m->seconds, 1);
		else if (strcmp(m->what, "kill-restart") == 0) {
			copy_add_mean(&server, m->seconds - m->down, 1);
			copy_add_mean(&hand_over, m->down, 1);
		}
	}
	copy_first_starts(c, a, clock, &c->cost);
	c->cost.start = worker.count > 0 ? copy_mean(&worker) : c->cost.start;
	c->cost.start_server = copy_mean(&server);
	c->cost.hand_over = copy_mean(&hand_over);
}

static void copy_checkpoints(struct copy *c, const struct account *a)
{
	struct means save = {0}, written = {0};
	for (size_t i = 0; i < a->marks; i++)
		if (a->mark[i].kind == ACCOUNT_CHECKPOINT) {
			copy_add_mean(&save, a->mark[i].seconds, 1);
			copy_add_mean(&written, a->mark[i].written, 1);
		}
	c->cost.save = save.count > 0 ? fmax(copy_mean(&save), c->cost.save) : NAN;
	c->written = written.count > 0 ? fmax(copy_mean(&written) - c->cost.save, 0) : 0;
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

long copy_worker_of(const struct account_node *n)
{
	return account_is_worker(n) ? copy_number_of(n->id, "w") : -1;
}

static long copy_server_of(const struct account_node *n)
{
	return account_is_server(n) ? copy_number_of(n->id, "ps") : -1;
}

/* The workers and servers at the beginning, and most of them. A log may say anything, and each costs memory:
 * who is not named in it was not there. */
static int copy_count(struct copy *c, const struct account *a, const struct job *job, struct error *err)
{
	size_t named = 0;
	c->first_workers = (size_t)job->workers;
	c->first_servers = job_kind(job)->holds == HOLD_SERVERS ? (size_t)job->servers : 0;
	c->is_paced = job->drag && job->drag[0];
	for (size_t i = 0; i < a->nodes; i++)
		named += copy_worker_of(&a->node[i]) >= 0 || copy_server_of(&a->node[i]) >= 0;
	c->workers = c->first_workers;
	c->servers = c->first_servers;
	for (size_t i = 0; i < c->scales; i++) {
		const struct copy_scale *s = &c->scale[i];
		if (s->workers > named || s->servers > named)
			return error_set(err, ERROR_UNAVAILABLE, NULL,
					 "this job can't be simulated: the log says that it was scaled to %llu workers "
					 "and %llu servers, and names %zu nodes", (unsigned long long)s->workers,
					 (unsigned long long)s->servers, named);
		c->workers = s->workers > c->workers ? (size_t)s->workers : c->workers;
		c->servers = s->servers > c->servers ? (size_t)s->servers : c->servers;
	}
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_node *n = &a->node[i];
		if (n->points > 1 && (copy_worker_of(n) >= (long)c->workers || copy_server_of(n) >= (long)c->servers))
			return error_set(err, ERROR_UNAVAILABLE, NULL,
					 "this job can't be simulated: the log has batches of %s, and the job %zu workers "
					 "and %zu servers", n->id, c->workers, c->servers);
	}
	return 0;
}

/* How the number of nodes has changed. */
static int copy_scales(struct copy *c, const struct account *a, const struct copy_clock *clock)
{
	struct means pending = {0};
	struct record r;
	for (size_t i = 0; i < a->turns; i++) {
		const char *line = a->turn[i].line;
		uint64_t workers, servers = 0, before = 0;
		double seconds = 0;
		if (record_parse(&r, line, strcspn(line, "\n"), NULL) != 0 || !record_is(&r, "scaled") ||
		    record_get(&r, "failed") || record_u64(&r, "workers", 1, UINT64_MAX, &workers, NULL) != 0 ||
		    record_u64_opt(&r, "servers", 0, UINT64_MAX, &servers, NULL) != 0 ||
		    record_u64_opt(&r, "from-workers", 1, UINT64_MAX, &before, NULL) != 0 ||
		    record_real_opt(&r, "seconds", 0, 1e300, &seconds, NULL) != 0)
			continue;
		if (GROW(c->scale, c->scale_room, c->scales + 1) != 0)
			return -1;
		c->scale[c->scales++] = (struct copy_scale){
			copy_trained(clock, a->turn[i].at - seconds), workers, servers};
		if (workers > before)
			copy_add_mean(&pending, seconds, 1);
	}
	c->cost.pending = copy_mean(&pending);
	return 0;
}

/* What was before the copy begins. */
static void copy_begin(struct copy *c)
{
	size_t kept = 0;
	for (size_t i = 0; i < c->scales; i++) {
		if (c->scale[i].at >= 0) {
			c->scale[kept++] = c->scale[i];
			continue;
		}
		c->first_workers = (size_t)c->scale[i].workers;
		c->first_servers = (size_t)c->scale[i].servers;
	}
	c->scales = kept;
}

/* Samples that count, by then. */
static double copy_samples(const struct account *a, double at)
{
	double samples = 0;
	for (size_t i = 0; i < a->rows && a->row[i].at <= at; i++)
		samples = a->row[i].samples;
	return samples;
}

/* Which part of the training it is, in which windows. */
static void copy_windows(struct copy *c, const struct account *a, struct copy_clock *clock)
{
	double batches = 0, last = 0;
	size_t points = 1;
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_node *n = &a->node[i];
		if (copy_worker_of(n) < 0 || n->points < 2)
			continue;
		points = n->points > points ? n->points : points;
		batches += n->point[n->points - 1].batches - n->point[0].batches;
		last = fmax(last, n->point[n->points - 1].at);
	}
	c->seconds = copy_trained(clock, last);
	c->left_out = batches > COPY_BATCHES ? c->seconds * (1 - COPY_BATCHES / batches) : 0;
	c->seconds -= c->left_out;
	clock->begin = c->left_out;
	c->samples = a->rows > 0 ? (uint64_t)fmax(a->row[a->rows - 1].samples -
						  (c->left_out > 0 ? copy_samples(a, copy_when(clock, 0)) : 0), 0) : 0;
	c->windows = points < WINDOWS ? points : WINDOWS;
	if (CELLS / (double)c->workers < (double)c->windows)
		c->windows = (size_t)fmax(CELLS / (double)c->workers, 1);
	c->length = c->seconds / (double)c->windows;
}

/* What of a pull is not in the samples' time. */
static double copy_pull_beside(const struct copy *c)
{
	return c->cost.pull > 0 && !c->is_paced ? c->cost.pull : 0;
}

/* The device's speed with which its steps, besides their launches, take so long. */
static double copy_device_speed(const struct account_point *did, const struct account_device *d, double seconds)
{
	double least = fmax(did->samples / did->steps, (double)d->saturation);
	double computing = seconds - did->steps * d->launch;
	return computing > 0 ? did->steps * least / computing : d->speed;
}

/* What a batch of a worker took, besides its communication. */
struct copy_batch {
	double size, time; /* 0: there was none */
};

static struct copy_batch copy_batch_of(double batches, double samples, double seconds, double comm)
{
	double time = seconds / batches - comm;
	return batches > 0 && samples > 0 && time > 0 ? (struct copy_batch){samples / batches, time}
						      : (struct copy_batch){0};
}

/* The reports of a worker, and how it goes through them. */
struct copy_course {
	const struct copy *copy;
	const struct account_node *node;
	const struct copy_clock *clock;
	double comm;
};

/* A change of the size of one process's batches, from one report to the next in which it has some. */
struct copy_step {
	size_t report;  /* the later one */
	size_t since;   /* where the earlier one begins */
	struct copy_batch from, to;
};

/* Whether a process of it ended between two reports: the next one may be as fast as no other. */
static int copy_is_cut(const struct copy_course *w, size_t from, size_t to)
{
	const struct account_point *p = w->node->point;
	double begin = copy_trained(w->clock, p[from].at), end = copy_trained(w->clock, p[to].at);
	int is_cut = 0;
	for (size_t i = 0; i < w->copy->events && !is_cut; i++) {
		const struct copy_event *e = &w->copy->event[i];
		is_cut = !e->is_server && (long)e->node == copy_worker_of(w->node) && e->at >= begin && e->at <= end;
	}
	return is_cut;
}

static int copy_next_step(const struct copy_course *w, struct copy_step *s)
{
	const struct account_point *p = w->node->point;
	for (size_t i = s->report + 1; i < w->node->points; i++) {
		struct copy_batch b = copy_batch_of(p[i].batches - p[i - 1].batches, p[i].samples - p[i - 1].samples,
						    p[i].time - p[i - 1].time, w->comm);
		if (!(b.time > 0))
			continue;
		size_t since = s->since;
		*s = (struct copy_step){i, i - 1, s->to, b};
		if (s->from.time > 0 && fabs(b.size / s->from.size - 1) >= CHANGE && !copy_is_cut(w, since, i))
			return 1;
	}
	return 0;
}

/* Models of a worker whose sizes change: a batch always has the same seconds a sample (`each`), and what it takes
 * beside changes; or the same seconds besides (`fixed`), and a sample's change. Least squares of the changes. Where both
 * say as much, it is the first: of a delay that ends it is right, and where a sample takes less later, too. */
struct copy_fit {
	int is_known, is_each;
	double each, fixed;
};

static struct copy_fit copy_fit_of(const struct copy_course *w)
{
	double each_1 = 0, each_2 = 0, fixed_1 = 0, fixed_2 = 0, changes = 0, wrong_each = 0, wrong_fixed = 0;
	for (struct copy_step s = {0}; copy_next_step(w, &s);) {
		double more = s.to.size - s.from.size, times = s.to.size / s.from.size;
		each_1 += more * (s.to.time - s.from.time);
		each_2 += more * more;
		fixed_1 += (1 - times) * (s.to.time - times * s.from.time);
		fixed_2 += (1 - times) * (1 - times);
		changes += pow(2 * more / (s.to.size + s.from.size), 2);
	}
	struct copy_fit fit = {.is_known = changes >= CHANGES};
	if (!fit.is_known)
		return fit;
	fit.each = fmax(each_1 / each_2, 0);
	fit.fixed = fmax(fixed_1 / fixed_2, 0);
	for (struct copy_step s = {0}; copy_next_step(w, &s);) {
		double times = s.to.size / s.from.size;
		wrong_each += pow(s.to.time - s.from.time - fit.each * (s.to.size - s.from.size), 2);
		wrong_fixed += pow(s.to.time - fit.fixed - times * (s.from.time - fit.fixed), 2);
	}
	fit.is_each = wrong_each < CLEARLY * wrong_fixed;
	return fit;
}

/* Returns its speed besides what is fixed. */
static double copy_speed(struct copy_batch b, const struct copy_fit *fit, double *fixed)
{
	if (!(b.time > 0))
		return 0;
	double samples = fit->is_each ? fmin(fit->each * b.size, b.time) : b.time - fit->fixed;
	samples = fmax(samples, SAMPLES_LEAST * b.time);
	*fixed = b.time - samples;
	return b.size / samples;
}

static void copy_worker(struct copy *c, const struct account_node *n, const struct copy_clock *clock)
{
	size_t worker = (size_t)copy_worker_of(n);
	const struct account_device *device = c->device ? &c->device[worker] : NULL;
	double *speed = c->speed + worker * c->windows, *rows = c->rows + worker * c->windows;
	double *fixed = c->fixed + worker * c->windows, now = 0;
	struct copy_course course = {c, n, clock, (c->cost.push > 0 ? c->cost.push : 0) + copy_pull_beside(c)};
	struct copy_fit fit = device ? (struct copy_fit){.is_known = 1} : copy_fit_of(&course);
	c->is_fixed[worker] = (char)fit.is_known;
	for (size_t k = 0; k < c->windows; k++) {
		struct account_point did = account_between(n, copy_edge(c, clock, k), copy_edge(c, clock, k + 1));
		struct copy_batch b = copy_batch_of(did.batches, did.samples, did.time, course.comm);
		rows[k] = did.samples > 0 ? account_rows(&did) / did.samples : 0;
		speed[k] = device && b.time > 0 ? copy_device_speed(&did, device, b.time * did.batches)
						: copy_speed(b, &fit, &fixed[k]);
		if (!(speed[k] > 0) && k > 0) {
			speed[k] = speed[k - 1];
			fixed[k] = fixed[k - 1];
		}
		if (!(now > 0) && speed[k] > 0) /* before its first batch, too */
			for (size_t i = 0; i < k; i++) {
				speed[i] = speed[k];
				fixed[i] = fixed[k];
			}
		now = speed[k];
	}
}

/* Each worker that has trained must have measured it; who has not is like the one before. */
static int copy_devices(struct copy *c, const struct account *a)
{
	struct account_device *device = calloc(c->workers, sizeof *device);
	const struct account_device *any = NULL;
	int all = 1;
	if (!device)
		return -1;
	for (size_t i = 0; i < a->nodes && all; i++) {
		const struct account_node *n = &a->node[i];
		if (copy_worker_of(n) < 0 || copy_worker_of(n) >= (long)c->workers || n->points < 2)
			continue;
		all = n->device.speed > 0;
		device[copy_worker_of(n)] = n->device;
		any = &n->device;
	}
	for (size_t i = 0; i < c->workers && any; i++)
		if (!(device[i].speed > 0))
			device[i] = i > 0 ? device[i - 1] : *any;
	if (all && any)
		c->device = device;
	else
		free(device);
	return 0;
}

static void copy_comm(struct copy *c, const struct account *a)
{
	struct means comm = {0};
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_node *n = &a->node[i];
		if (!account_is_worker(n) || n->points < 2)
			continue;
		const struct account_point *p = &n->point[n->points - 1], *q = &n->point[0];
		copy_add_mean(&comm, (p->comm - q->comm) / (p->batches - q->batches), p->batches - q->batches);
	}
	c->cost.pull = c->cost.push = copy_mean(&comm) / 2;
}

/* Returns how long the slowest takes for a unit. Each of its pushes costs a part of that. */
static double copy_servers(struct copy *c, const struct account *a, double *sorted)
{
	size_t known = 0;
	double most = 0, units = 0, pushes = 0;
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_node *n = &a->node[i];
		const struct account_point *q = n->point, *p = n->points > 1 ? &q[n->points - 1] : q;
		double batches = n->points > 1 ? p->batches - q->batches : 0;
		double each = batches > 0 ? (p->time - q->time) / batches : NAN;
		pushes += copy_worker_of(n) >= 0 ? batches : 0;
		if (copy_server_of(n) < 0 || !(each >= 0) || !isfinite(each))
			continue;
		units = fmax(units, batches);
		c->delay[copy_server_of(n)] = each;
		most = fmax(most, each);
		sorted[known++] = each;
	}
	if (known == 0)
		return 0;
	reals_sort(sorted, known);
	double median = sorted[(known - 1) / 2];
	for (size_t i = 0; i < c->servers; i++)
		c->delay[i] = fmax(c->delay[i] - median, 0);
	c->cost.apply = pushes > 0 ? median * units / pushes : median;
	return most;
}

static int copy_add_event(struct copy *c, double at, enum copy_what what, const struct account_node *n)
{
	int is_server = copy_server_of(n) >= 0;
	long node = is_server ? copy_server_of(n) : copy_worker_of(n);
	if (at < 0 || node < 0 || node >= (long)(is_server ? c->servers : c->workers)) /* it never trained */
		return 0;
	if (GROW(c->event, c->event_room, c->events + 1) != 0)
		return -1;
	c->event[c->events++] = (struct copy_event){at, what, is_server, (size_t)node};
	return 0;
}

/* Whether the last change of their number has it. */
static int copy_is_kept(const struct copy *c, const struct account_node *n)
{
	uint64_t workers = c->scales > 0 ? c->scale[c->scales - 1].workers : c->first_workers;
	return copy_worker_of(n) < (long)workers;
}

/* From then on it was no more: NAN if it was. */
static double copy_left(const struct copy *c, const struct account_node *n, const struct copy_clock *clock)
{
	const struct account_spans *s = &n->spans;
	double end = copy_when(clock, c->seconds - c->length);
	size_t last = s->count;
	while (last > 0 && s->span[last - 1].from >= end) /* the job is ending */
		last--;
	if (last == 0 || s->span[last - 1].what == ACCOUNT_UP || s->span[last - 1].to < end)
		return NAN;
	while (last > 1 && s->span[last - 2].what != ACCOUNT_UP)
		last--;
	return copy_trained(clock, s->span[last - 1].from);
}

static int copy_events(struct copy *c, const struct account *a, const struct copy_clock *clock)
{
	for (size_t i = 0; i < a->marks; i++) {
		const struct account_mark *m = &a->mark[i];
		const struct account_node *n = m->node == ACCOUNT_NOBODY ? NULL : &a->node[m->node];
		int decided = strcmp(m->what, "kill-restart") == 0;
		if (m->kind != ACCOUNT_RESTART || !n || (copy_server_of(n) >= 0 && !decided))
			continue;
		if (copy_add_event(c, copy_trained(clock, m->at), decided ? COPY_RESTART : COPY_KILL, n) != 0)
			return -1;
	}
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_node *n = &a->node[i];
		double left = copy_worker_of(n) >= 0 && n->points > 1 && copy_is_kept(c, n)
				      ? copy_left(c, n, clock) : NAN;
		if (!isnan(left) && copy_add_event(c, left, COPY_LEAVE, n) != 0)
			return -1;
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
				sorted[known++] = c->even / copy_even(c, i, k);
		double median = known > 0 ? reals_median(sorted, known) : 1;
		for (size_t i = 0; i < c->workers; i++)
			if (!(c->speed[i * c->windows + k] > 0))
				c->speed[i * c->windows + k] = median;
	}
}

static int copy_measure(struct copy *c, const struct account *a, const struct job *job, const struct copy_clock *clock)
{
	struct account_point *did = calloc(2 * (a->nodes + 1), sizeof *did);
	double *sorted = calloc(a->nodes + c->workers + 1, sizeof *sorted);
	double *each = calloc(2 * c->windows, sizeof *each);
	c->saving = calloc(c->windows, 1);
	c->speed = calloc(c->workers * c->windows, sizeof *c->speed);
	c->rows = calloc(c->workers * c->windows, sizeof *c->rows);
	c->fixed = calloc(c->workers * c->windows, sizeof *c->fixed);
	c->is_fixed = calloc(c->workers, 1);
	c->even = (double)job->batch / (double)job->workers;
	c->delay = calloc(c->servers + 1, sizeof *c->delay);
	int result = did && sorted && each && c->saving && c->speed && c->rows && c->fixed && c->is_fixed && c->delay &&
				     copy_devices(c, a) == 0
			     ? copy_events(c, a, clock) : -1;
	if (result == 0) {
		copy_comm(c, a);
		for (size_t i = 0; i < a->nodes; i++)
			if (copy_worker_of(&a->node[i]) >= 0 && a->node[i].points > 1)
				copy_worker(c, &a->node[i], clock);
		copy_fill(c, sorted);
		double slowest = copy_servers(c, a, sorted);
		c->cost.commit = fmax(copy_barrier(c, a, clock, did, each) - slowest, 0);
		c->slower = copy_slower_by_save(c, each);
		for (size_t k = 0; k < c->windows; k++)
			c->saving[k] = c->saving[k] == HELD_SAVING;
		copy_starts(c, a, clock);
		copy_checkpoints(c, a);
		if (!isnan(c->cost.pending))
			c->cost.pending = fmax(c->cost.pending - c->cost.start, 0);
		if (c->left_out > 0)
			c->cost.stagger = 0;
	}
	free(did);
	free(sorted);
	free(each);
	return result;
}

static int copy_make(struct copy *c, const struct account *a, const struct job *job, struct copy_clock *clock,
		    struct error *err)
{
	if (copy_clock_of(clock, a) != 0 || copy_scales(c, a, clock) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	if (copy_count(c, a, job, err) != 0)
		return -1;
	copy_windows(c, a, clock);
	if (!(c->length > 0))
		return error_set(err, ERROR_NEGATIVE, NULL, "the log has no measured batches of workers");
	for (size_t i = 0; i < c->scales; i++)
		c->scale[i].at -= c->left_out;
	copy_begin(c);
	return copy_measure(c, a, job, clock) == 0 ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
}

int copy_of(struct copy *out, const struct account *a, const struct job *job, struct error *err)
{
	struct copy_clock clock = {0};
	*out = (struct copy){.cost = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}};
	int result = copy_make(out, a, job, &clock, err);
	free(clock.span);
	if (result != 0)
		copy_free(out);
	return result;
}

void copy_free(struct copy *c)
{
	free(c->speed);
	free(c->rows);
	free(c->fixed);
	free(c->is_fixed);
	free(c->delay);
	free(c->device);
	free(c->event);
	free(c->scale);
	free(c->saving);
	*c = (struct copy){0};
}

void copy_first(const struct copy *c, struct job *job)
{
	if (strcmp(job->batch_scaling, "none") != 0)
		job->batch = (uint64_t)llround((double)job->batch * (double)c->first_workers / (double)job->workers);
	job->workers = c->first_workers;
	job->servers = c->first_servers;
	job->heavy_limit = 0;
}

/* ---- records ---- */

static int copy_put_line(struct record_out *o, copy_put_fn *put, void *arg, struct error *err)
{
	size_t len = record_end(o, NULL);
	return put(o->data, len, arg, err);
}

static int copy_put_costs(const struct copy *all, copy_put_fn *put, void *arg, struct error *err)
{
	const struct copy_cost *c = &all->cost;
	struct record_out *o = RECORD_BARE("cost");
	const struct {
		const char *key;
		double value;
	} costs[] = {{"pull", all->is_paced ? c->pull : NAN}, {"push", c->push},   {"commit", c->commit},
		     {"apply", c->apply}, {"start", c->start}, {"stagger", c->stagger},
		     {"save", c->save},   {"start-server", c->start_server},
		     {"hand-over", c->hand_over}, {"pending", c->pending}};
	for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
		if (isfinite(costs[i].value))
			record_add_seconds(o, costs[i].key, costs[i].value);
	return copy_put_line(o, put, arg, err);
}

static int copy_put_worker(const struct copy *c, size_t worker, copy_put_fn *put, void *arg,
		      struct error *err)
{
	const double *speed = c->speed + worker * c->windows, *fixed = c->fixed + worker * c->windows;
	const struct account_device *device = c->device ? &c->device[worker] : NULL;
	double pull = copy_pull_beside(c);
	struct drag d = {0};
	char id[OPTION_ID_MAX];
	if (device) {
		d.launch = fmin(device->launch, DRAG_SECONDS_MAX);
		d.saturation = device->saturation < DRAG_SAMPLES_MAX ? device->saturation : DRAG_SAMPLES_MAX;
		d.memory = (uint64_t)ceil(fmin((double)device->max / DEVICE_MEMORY_PART, (double)DRAG_SAMPLES_MAX));
		snprintf(d.type, sizeof d.type, "%.*s", (int)sizeof d.type - 1, device->type);
	}
	snprintf(id, sizeof id, "w%zu", worker);
	for (size_t k = 0; k < c->windows; k++) {
		double delay = fmin(fixed[k] + pull, DRAG_SECONDS_MAX);
		if (fabs(speed[k] - d.speed) <= SAME * d.speed && fabs(delay - d.delay) <= SAME * d.delay)
			continue;
		d.speed = speed[k];
		d.delay = delay;
		struct record_out *o = RECORD("node", F("id", (const char *)id), F_SECONDS("at", (double)k * c->length));
		drag_add(o, &d);
		if (copy_put_line(o, put, arg, err) != 0)
			return -1;
	}
	return 0;
}

static int copy_put_event(const struct copy_event *e, copy_put_fn *put, void *arg, struct error *err)
{
	static const char *const kind[] = {
		[COPY_KILL] = "kill", [COPY_RESTART] = "restart", [COPY_LEAVE] = "leave"};
	char id[OPTION_ID_MAX];
	snprintf(id, sizeof id, "%s%zu", e->is_server ? "ps" : "w", e->node);
	return copy_put_line(RECORD("event", F("kind", kind[e->what]), F("id", (const char *)id),
				    F_SECONDS("at", e->at)), put, arg, err);
}

static int copy_put_job(const struct copy *c, const struct job *job, uint64_t samples, uint64_t hosts,
			copy_put_fn *put, void *arg, struct error *err)
{
	struct record_out *o = RECORD_BARE("job");
	struct job as = *job;
	if (job_overlaps(job)) { /* of a sum, the commit here, only what workers waited for is known: it comes after the batch */
		as.delay_max = 0;
		as.late = 0;
	}
	if (job->checkpoint_every > 0) /* the next one is due so long after one is written */
		as.checkpoint_every += c->written;
	copy_job(o, &as, samples, hosts);
	if (c->scales > 0)
		record_add_u64(o, "most-workers", c->workers);
	if (c->scales > 0 && c->servers > 0)
		record_add_u64(o, "most-servers", c->servers);
	return copy_put_line(o, put, arg, err);
}

int copy_put(const struct copy *c, const struct job *job, uint64_t samples, uint64_t hosts, copy_put_fn *put,
	     void *arg, struct error *err)
{
	char id[OPTION_ID_MAX];
	int result = copy_put_job(c, job, samples, hosts, put, arg, err);
	if (result == 0)
		result = copy_put_costs(c, put, arg, err);
	for (size_t i = 0; result == 0 && i < c->workers; i++)
		result = copy_put_worker(c, i, put, arg, err);
	for (size_t i = 0; result == 0 && i < c->servers; i++) {
		snprintf(id, sizeof id, "ps%zu", i);
		if (c->delay[i] > 0)
			result = copy_put_line(RECORD("node", F("id", (const char *)id),
						      F_BRIEF("delay", c->delay[i])), put, arg, err);
	}
	for (size_t i = 0; result == 0 && i < c->events; i++)
		result = copy_put_event(&c->event[i], put, arg, err);
	for (size_t i = 0; result == 0 && i < c->scales; i++)
		result = copy_put_line(RECORD("scale", F("workers", c->scale[i].workers),
					      c->scale[i].servers > 0 ? F("servers", c->scale[i].servers) : F_NONE,
					      F_SECONDS("at", c->scale[i].at)), put, arg, err);
	return result;
}
