/* advise: see advise.h. */
#include "sim/advise.h"

#include "base/grow.h"
#include "base/reals.h"
#include "job/kind.h"
#include "sim/sim.h"
#include "solve/solution.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW 1.03  /* times the median: who is faster is no suspect */
#define SLOWEST 4  /* workers, and hosts, that are suspects, at most */
#define TOLD 0.05  /* of the job, from which on a suspect is told first */
#define WRONG 0.05 /* of a figure, by which it may be wrong */
#define BESIDE 0.1 /* of a batch, which it may take however small it is, where that is not known */

const char *const advise_name[ADVISE_KINDS] = {
	"worker", "host", "workers", "server", "servers", "barrier", "data", "restarts", "checkpoints",
	"solution", "sync", "workers", "batch", "checkpoint"};

/* What is simulated: the job with all that is known of it, some of it changed. */
struct what {
	struct job job; /* not its own: names are another's */
	struct copy copy; /* arrays: its own */
};

struct housed {
	const char *host;
	size_t worker;
	int is_suspect; /* of the first: its host is one already */
};

struct adviser {
	const struct account *a;
	const struct job *job;
	struct copy copy; /* as it was */
	double *median, *fixed; /* of workers in each window: speed, and seconds of each batch beside it */
	double *slowness; /* how many times the median time each worker takes for an even batch, in the mean */
	int is_unsure; /* it is not known how long smaller batches would take a worker, or one that is not restarted */
	const char **host; /* of each worker; "": not known */
	struct housed *by_host; /* workers, those of one host together */
	double spread; /* of the workers' speeds, the middle half of them, by the median */
	const volatile sig_atomic_t *stop;
	struct advice_list *list;
	struct error *err;
};

/* ---- a simulation ---- */

static int advise_put(const char *line, size_t len, void *sim, struct error *err)
{
	static struct record r; /* large */
	return record_parse(&r, line, len - 1, err) != 0 || sim_add(sim, &r, err) != 0 ? -1 : 0;
}

/* All in one epoch: the log need not have reached its last. */
static int advise_add(struct sim *s, const struct adviser *v, const struct what *w)
{
	struct job job = w->job;
	job.epochs = 1;
	job.hung = "never"; /* who ended, and when, is known */
	job.restarts = UINT32_MAX;
	job.predict = "none"; /* a copy's speeds change too seldom for a predictor to learn from them */
	return copy_put(&w->copy, &job, w->copy.samples, v->a->replicas > 0 ? v->a->replicas : 1, advise_put, s,
			v->err);
}

static void *advise_copied(const void *from, size_t count, size_t size)
{
	void *to = malloc((count + 1) * size);
	if (to && count > 0)
		memcpy(to, from, count * size);
	return to;
}

/* advise_run() ends it. */
static int advise_begin(const struct adviser *v, struct what *w)
{
	const struct copy *c = &v->copy;
	*w = (struct what){.job = *v->job, .copy = *c};
	w->copy.speed = advise_copied(c->speed, c->workers * c->windows, sizeof *c->speed);
	w->copy.rows = advise_copied(c->rows, c->workers * c->windows, sizeof *c->rows);
	w->copy.fixed = advise_copied(c->fixed, c->workers * c->windows, sizeof *c->fixed);
	w->copy.is_fixed = advise_copied(c->is_fixed, c->workers, sizeof *c->is_fixed);
	w->copy.delay = advise_copied(c->delay, c->servers, sizeof *c->delay);
	w->copy.event = advise_copied(c->event, c->events, sizeof *c->event);
	w->copy.scale = advise_copied(c->scale, c->scales, sizeof *c->scale);
	w->copy.saving = advise_copied(c->saving, c->windows, sizeof *c->saving);
	w->copy.device = c->device ? advise_copied(c->device, c->workers, sizeof *c->device) : NULL;
	if (!w->copy.speed || !w->copy.rows || !w->copy.fixed || !w->copy.is_fixed || !w->copy.delay || !w->copy.event || !w->copy.scale ||
	    !w->copy.saving ||
	    (c->device && !w->copy.device)) {
		copy_free(&w->copy);
		return error_set(v->err, ERROR_OS, NULL, "out of memory");
	}
	copy_first(c, &w->job);
	return 0;
}

/* Seconds from the first start to the last commit; NAN: why not is in v->err. */
static double advise_run(const struct adviser *v, struct what *w)
{
	struct sim_options o = {.seed = 1, .until = 100 * v->copy.seconds, .is_brief = 1, .stop = v->stop};
	struct sim_result result;
	struct sim *s = NULL;
	double seconds = NAN;
	if (sim_new(&s, &o, v->err) == 0 && advise_add(s, v, w) == 0 && sim_run(s, &result, v->err) == 0) {
		if (result.is_done)
			seconds = result.time;
		else
			error_set(v->err, ERROR_UNAVAILABLE, NULL, "%s",
				  v->stop && *v->stop ? "interrupted" : "it does not end");
	}
	sim_free(s);
	copy_free(&w->copy);
	return seconds;
}

/* ---- without a suspect ---- */

static void advise_without_rows(struct copy *c)
{
	for (size_t i = 0; i < c->workers * c->windows; i++) {
		double each = 1 / c->speed[i] - c->rows[i];
		if (c->rows[i] > 0 && each > 0)
			c->speed[i] = 1 / each;
		c->rows[i] = 0;
	}
	c->cost.commit = fmax(c->cost.commit - c->commit_rows, 0);
}

/* every: seconds; 0: there are none. Batches take longer only while one is written. */
static void advise_with_checkpoints(const struct adviser *v, struct what *w, double every)
{
	struct copy *c = &w->copy;
	double before = v->job->checkpoint_every, kept = before > 0 && every > 0 ? before / every : 0;
	for (size_t i = 0; i < c->workers; i++)
		for (size_t k = 0; k < c->windows; k++)
			if (c->saving[k]) {
				double times = c->slower / (1 + (c->slower - 1) * kept);
				c->speed[i * c->windows + k] *= times;
				c->fixed[i * c->windows + k] /= times;
			}
	w->job.checkpoint_every = every;
}

static int advise_is_named(const char *what, const char *prefix, size_t number)
{
	char id[OPTION_ID_MAX];
	snprintf(id, sizeof id, "%s%zu", prefix, number);
	return strcmp(id, what) == 0;
}

static int advise_is_suspected(const struct adviser *v, enum advise_kind kind, const char *what, size_t worker)
{
	return kind == ADVISE_WORKERS || (kind == ADVISE_WORKER && advise_is_named(what, "w", worker)) ||
	       (kind == ADVISE_HOST && strcmp(v->host[worker], what) == 0);
}

static int advise_is_suspected_server(enum advise_kind kind, const char *what, size_t server)
{
	return kind == ADVISE_SERVERS || (kind == ADVISE_SERVER && advise_is_named(what, "ps", server));
}

/* No slower than that in this window. */
static void advise_at_least(struct copy *c, size_t worker, size_t window, double speed, double fixed)
{
	size_t i = worker * c->windows + window;
	c->speed[i] = fmax(c->speed[i], speed);
	c->fixed[i] = fmin(c->fixed[i], fixed);
}

/* Of the workers that are not suspected. sorted: memory. */
static double advise_median(const struct adviser *v, const double *of, size_t window, enum advise_kind kind,
			    const char *what, double *sorted, double none)
{
	size_t others = 0;
	for (size_t i = 0; i < v->copy.workers; i++)
		if (!advise_is_suspected(v, kind, what, i))
			sorted[others++] = of[i * v->copy.windows + window];
	return others > 0 ? reals_median(sorted, others) : none;
}

/* The suspected workers are no slower than the median of the others. */
static int advise_like_others(const struct adviser *v, struct copy *c, enum advise_kind kind, const char *what)
{
	double *sorted = malloc((c->workers + 1) * sizeof *sorted);
	if (!sorted)
		return error_set(v->err, ERROR_OS, NULL, "out of memory");
	for (size_t k = 0; k < c->windows; k++) {
		double speed = advise_median(v, v->copy.speed, k, kind, what, sorted, v->median[k]);
		double fixed = advise_median(v, v->copy.fixed, k, kind, what, sorted, v->fixed[k]);
		for (size_t i = 0; i < c->workers; i++)
			if (advise_is_suspected(v, kind, what, i))
				advise_at_least(c, i, k, speed, fixed);
	}
	free(sorted);
	return 0;
}

/* Where it is not known what a worker takes for a batch however small it is: a tenth of the median worker's batch, and
 * all that it takes longer than that one. */
static void advise_fix(const struct adviser *v, struct copy *c)
{
	for (size_t i = 0; i < v->copy.workers; i++)
		for (size_t k = 0; k < c->windows && !c->is_fixed[i]; k++) {
			size_t at = i * c->windows + k;
			double all = c->even / c->speed[at], median = c->even / v->median[k];
			double samples = (1 - BESIDE) * fmin(all, median);
			c->fixed[at] += all - samples;
			c->speed[at] = c->even / samples;
		}
}

/* The job without one suspect; or, all_others: without any suspect but this one. kind ADVISE_KINDS is
 * none of them. */
static double advise_run_without(const struct adviser *v, enum advise_kind kind, const char *what,
			  int all_others)
{
	struct what w;
	if (advise_begin(v, &w) != 0)
		return NAN;
	struct copy *c = &w.copy;
	for (size_t i = 0; i < c->workers && all_others; i++)
		for (size_t k = 0; k < c->windows && !advise_is_suspected(v, kind, what, i); k++)
			advise_at_least(c, i, k, v->median[k], v->fixed[k]);
	if (!all_others && advise_like_others(v, c, kind, what) != 0) {
		copy_free(c);
		return NAN;
	}
	for (size_t i = 0; i < c->servers; i++)
		if (advise_is_suspected_server(kind, what, i) != all_others)
			c->delay[i] = 0;
	if ((kind == ADVISE_BARRIER) != all_others)
		c->cost.pull = c->cost.push = c->cost.commit = c->cost.apply = 0;
	if ((kind == ADVISE_DATA) != all_others)
		advise_without_rows(c);
	if ((kind == ADVISE_RESTARTS) != all_others)
		c->events = 0;
	if ((kind == ADVISE_CHECKPOINTS) != all_others)
		advise_with_checkpoints(v, &w, 0);
	return advise_run(v, &w);
}

/* ---- the list ---- */

static int advise_add_one(struct adviser *v, enum advise_kind kind, const char *what, double seconds,
			  double only)
{
	struct advice_list *l = v->list;
	if (GROW(l->advice, l->room, l->count + 1) != 0)
		return error_set(v->err, ERROR_OS, NULL, "out of memory");
	struct advice *a = &l->advice[l->count++];
	*a = (struct advice){.kind = kind, .saves = l->simulated - seconds, .only = only};
	a->error = advise_error(l) + fabs(a->saves) * (WRONG + (kind == ADVISE_NODES ? v->spread : 0));
	snprintf(a->what, sizeof a->what, "%s", what);
	return 0;
}

static int advise_suspect(struct adviser *v, enum advise_kind kind, const char *what)
{
	double seconds = advise_run_without(v, kind, what, 0);
	return isnan(seconds) ? 0 : advise_add_one(v, kind, what, seconds,
						   advise_run_without(v, kind, what, 1) - v->list->ideal);
}

/* The slowest. */
static int advise_suspect_workers(struct adviser *v)
{
	for (int n = 0; n < SLOWEST; n++) {
		size_t slowest = 0;
		char id[OPTION_ID_MAX];
		for (size_t i = 1; i < v->copy.workers; i++)
			if (v->slowness[i] > v->slowness[slowest])
				slowest = i;
		if (!(v->slowness[slowest] > SLOW))
			return 0;
		v->slowness[slowest] = 0; /* it is a suspect already */
		snprintf(id, sizeof id, "w%zu", slowest);
		if (advise_suspect(v, ADVISE_WORKER, id) != 0)
			return -1;
	}
	return 0;
}

/* So many workers from by_host[i] on are on one host; how slow they are in the mean. */
static size_t advise_on_host(const struct adviser *v, size_t i, double *slowness)
{
	const struct housed *h = v->by_host + i;
	size_t on = 0;
	*slowness = 0;
	for (; i + on < v->copy.workers && strcmp(h[on].host, h->host) == 0; on++)
		*slowness += v->slowness[h[on].worker];
	*slowness /= (double)on;
	return on;
}

/* The slowest with several workers, not all. */
static int advise_suspect_hosts(struct adviser *v)
{
	for (int n = 0; n < SLOWEST; n++) {
		double most = SLOW, slowness;
		struct housed *slowest = NULL;
		for (size_t i = 0, on; i < v->copy.workers; i += on) {
			struct housed *h = &v->by_host[i];
			on = advise_on_host(v, i, &slowness);
			if (on == 1 || on == v->copy.workers || !h->host[0] || h->is_suspect || !(slowness > most))
				continue;
			most = slowness;
			slowest = h;
		}
		if (!slowest)
			return 0;
		slowest->is_suspect = 1;
		if (advise_suspect(v, ADVISE_HOST, slowest->host) != 0)
			return -1;
	}
	return 0;
}

static int advise_suspect_server(struct adviser *v)
{
	size_t slowest = 0;
	char id[OPTION_ID_MAX];
	for (size_t i = 0; i < v->copy.servers; i++)
		if (v->copy.delay[i] > v->copy.delay[slowest])
			slowest = i;
	if (v->copy.servers < 2)
		return 0;
	snprintf(id, sizeof id, "ps%zu", slowest);
	return advise_suspect(v, ADVISE_SERVER, id);
}

static int advise_suspects(struct adviser *v)
{
	if (advise_suspect_hosts(v) != 0 || advise_suspect_workers(v) != 0 || advise_suspect_server(v) != 0 ||
	    advise_suspect(v, ADVISE_WORKERS, "") != 0 ||
	    (v->copy.servers > 1 && advise_suspect(v, ADVISE_SERVERS, "") != 0))
		return -1;
	for (int k = ADVISE_BARRIER; k < ADVISE_SUSPECTS; k++)
		if (advise_suspect(v, (enum advise_kind)k, "") != 0)
			return -1;
	return 0;
}

/* ---- options ---- */

/* So many from the beginning, and always. Those that come are as fast as the median one. */
static int advise_with_workers(const struct adviser *v, struct what *w, size_t workers)
{
	struct copy *c = &w->copy;
	double *speed = realloc(c->speed, (workers + c->workers) * c->windows * sizeof *speed);
	double *fixed = realloc(c->fixed, (workers + c->workers) * c->windows * sizeof *fixed);
	struct account_device *device =
		c->device ? realloc(c->device, (workers + c->workers) * sizeof *device) : NULL;
	c->speed = speed ? speed : c->speed;
	c->fixed = fixed ? fixed : c->fixed;
	c->device = device ? device : c->device;
	if (!speed || !fixed || (c->device && !device)) {
		copy_free(c);
		return error_set(v->err, ERROR_OS, NULL, "out of memory");
	}
	for (size_t i = c->workers; i < workers; i++) {
		memcpy(speed + i * c->windows, v->median, c->windows * sizeof *speed);
		memcpy(fixed + i * c->windows, v->fixed, c->windows * sizeof *fixed);
		if (device)
			device[i] = device[i % c->workers];
	}
	size_t kept = 0;
	for (size_t i = 0; i < c->events; i++)
		if (c->event[i].is_server || c->event[i].node < workers)
			c->event[kept++] = c->event[i];
	c->events = kept;
	c->scales = 0;
	w->job.workers = c->workers = workers;
	return 0;
}

/* A worker that is not restarted stays as slow as it was. */
static void advise_not_restarted(struct copy *c, const struct copy_event *e)
{
	size_t from = (size_t)fmin(e->at / c->length, (double)c->windows);
	if (e->is_server || from == 0)
		return;
	size_t before = e->node * c->windows + from - 1;
	for (size_t k = 0; k < c->windows - from; k++) {
		size_t i = before + 1 + k;
		c->speed[i] = fmin(c->speed[i], c->speed[before]);
		c->fixed[i] = fmax(c->fixed[i], c->fixed[before]);
	}
}

static int advise_restarts(const char *solution)
{
	return strcmp(solution, "antdt-nd") == 0 || strcmp(solution, "pace") == 0;
}

/* It decides by itself, and nobody else. is_cured: who was restarted would have been as fast without that. */
static void advise_with_solution(const struct adviser *v, struct what *w, char *solution, int is_cured)
{
	struct copy *c = &w->copy;
	for (size_t i = 0; i < c->events; i++)
		if (c->event[i].what == COPY_RESTART && !is_cured && !advise_restarts(solution))
			advise_not_restarted(c, &c->event[i]);
	size_t kept = 0;
	for (size_t i = 0; i < c->events; i++)
		if (c->event[i].what != COPY_RESTART)
			c->event[kept++] = c->event[i];
	c->events = kept;
	w->job.solution = solution;
	w->job.heavy_limit = v->job->heavy_limit;
}

/* is_otherwise: what is not known is taken to be otherwise. NAN: why not is in v->err. */
static double advise_run_with(const struct adviser *v, enum advise_kind kind, char *text, double number, int is_otherwise)
{
	struct what w;
	if (advise_begin(v, &w) != 0)
		return NAN;
	if (is_otherwise)
		advise_fix(v, &w.copy);
	if (kind == ADVISE_NODES && advise_with_workers(v, &w, (size_t)number) != 0)
		return NAN;
	if (kind == ADVISE_SOLUTION)
		advise_with_solution(v, &w, text, is_otherwise);
	else if (kind == ADVISE_SYNC)
		w.job.sync = text;
	else if (kind == ADVISE_BATCH)
		w.job.batch = (uint64_t)number;
	else if (kind == ADVISE_CHECKPOINT)
		advise_with_checkpoints(v, &w, number);
	return advise_run(v, &w);
}

/* value: NULL: the number. */
static int advise_option(struct adviser *v, enum advise_kind kind, const char *value, double number)
{
	char text[OPTION_ID_MAX];
	int is_size = kind == ADVISE_SOLUTION || kind == ADVISE_NODES || kind == ADVISE_BATCH;
	if (value)
		snprintf(text, sizeof text, "%s", value);
	else
		snprintf(text, sizeof text, "%.12g", number);
	if (kind == ADVISE_SOLUTION && strcmp(text, "antdt-dd") == 0 && !v->copy.device)
		return advise_add_one(v, kind, text, NAN, NAN);
	double seconds = advise_run_with(v, kind, text, number, 0);
	double other = is_size && v->is_unsure && !isnan(seconds) ? advise_run_with(v, kind, text, number, 1) : seconds;
	if (isnan(seconds))
		return v->err->code == ERROR_OS ? -1 : 0;
	if (advise_add_one(v, kind, text, seconds, NAN) != 0)
		return -1;
	v->list->advice[v->list->count - 1].error += isnan(other) ? 0 : fabs(other - seconds);
	return 0;
}

/* The numbers that it had, one less, one more and twice as many than in the end. Of one that was not scaled the
 * first is no option. */
static int advise_workers(struct adviser *v)
{
	const struct copy *c = &v->copy;
	size_t first = c->first_workers, last = c->scales > 0 ? (size_t)c->scale[c->scales - 1].workers : first;
	const size_t number[] = {first, last, last - 1, last + 1, 2 * last};
	for (size_t i = c->scales > 0 ? 0 : 2; i < sizeof number / sizeof *number; i++) {
		int said = number[i] == 0 || number[i] > v->job->batch;
		for (size_t k = 0; k < i && (c->scales > 0 || k >= 2); k++)
			said |= number[k] == number[i];
		if (!said && advise_option(v, ADVISE_NODES, NULL, (double)number[i]) != 0)
			return -1;
	}
	return 0;
}

static int advise_options(struct adviser *v)
{
	const struct job *job = v->job;
	double workers = (double)v->copy.workers, batch = (double)job->batch;
	double half = (double)(job->batch / 2), every = job->checkpoint_every;
	int meet = job_has_barrier(job), at_servers = meet && job_kind(job)->holds == HOLD_SERVERS;
	const struct {
		enum advise_kind kind;
		const char *value;
		double number;
		int can; /* it can be chosen */
	} options[] = {{ADVISE_SOLUTION, "none", 0, 1},
		       {ADVISE_SOLUTION, "even", 0, 1},
		       {ADVISE_SOLUTION, "backup:1", 0, meet},
		       {ADVISE_SOLUTION, "lb-bsp", 0, meet},
		       {ADVISE_SOLUTION, "antdt-nd", 0, 1},
		       {ADVISE_SOLUTION, "antdt-dd", 0, meet},
		       {ADVISE_SOLUTION, "pace", 0, 1},
		       {ADVISE_SYNC, "ssp:3", 0, at_servers},
		       {ADVISE_SYNC, "asp", 0, at_servers},
		       {ADVISE_BATCH, NULL, half, half >= workers},
		       {ADVISE_BATCH, NULL, 2 * batch, 1},
		       {ADVISE_CHECKPOINT, NULL, every / 2, every > 0},
		       {ADVISE_CHECKPOINT, NULL, every * 2, every > 0}};
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		int is_so = options[i].kind == ADVISE_SOLUTION &&
			    strcmp(options[i].value, job->solution) == 0;
		if (options[i].can && !is_so &&
		    advise_option(v, options[i].kind, options[i].value, options[i].number) != 0)
			return -1;
	}
	return advise_workers(v);
}

/* ---- all ---- */

static int advise_order(const void *x, const void *y)
{
	const struct advice *a = x, *b = y;
	int option_a = a->kind >= ADVISE_SUSPECTS, option_b = b->kind >= ADVISE_SUSPECTS;
	int nothing_a = advise_is_nothing(a), nothing_b = advise_is_nothing(b);
	double saves_a = isnan(a->saves) ? -INFINITY : a->saves, saves_b = isnan(b->saves) ? -INFINITY : b->saves;
	return option_a != option_b     ? option_a - option_b
	       : nothing_a != nothing_b ? nothing_a - nothing_b
					: (saves_a < saves_b) - (saves_a > saves_b);
}

static int advise_housed_order(const void *x, const void *y)
{
	const struct housed *a = x, *b = y;
	int differs = strcmp(a->host, b->host);
	return differs ? differs : (a->worker > b->worker) - (a->worker < b->worker);
}

static void advise_hosts_were(struct adviser *v)
{
	size_t workers = v->copy.workers;
	for (size_t i = 0; i < workers; i++)
		v->host[i] = "";
	for (size_t i = 0; i < v->a->nodes; i++) {
		long worker = copy_worker_of(&v->a->node[i]);
		if (worker >= 0 && worker < (long)workers)
			v->host[worker] = v->a->node[i].host;
	}
	for (size_t i = 0; i < workers; i++)
		v->by_host[i] = (struct housed){v->host[i], i, 0};
	qsort(v->by_host, workers, sizeof *v->by_host, advise_housed_order);
}

static int advise_workers_were(struct adviser *v)
{
	const struct copy *c = &v->copy;
	double *sorted = calloc(c->workers, sizeof *sorted);
	v->median = calloc(c->windows, sizeof *v->median);
	v->fixed = calloc(c->windows, sizeof *v->fixed);
	v->slowness = calloc(c->workers, sizeof *v->slowness);
	v->host = calloc(c->workers, sizeof *v->host);
	v->by_host = calloc(c->workers, sizeof *v->by_host);
	if (!v->median || !v->fixed || !v->slowness || !v->host || !v->by_host || !sorted) {
		free(sorted);
		return error_set(v->err, ERROR_OS, NULL, "out of memory");
	}
	advise_hosts_were(v);
	for (size_t k = 0; k < c->windows; k++) {
		v->median[k] = advise_median(v, c->speed, k, ADVISE_KINDS, "", sorted, 0);
		v->fixed[k] = advise_median(v, c->fixed, k, ADVISE_KINDS, "", sorted, 0);
		for (size_t i = 0; i < c->workers; i++)
			sorted[i] = copy_even(c, i, k);
		double median = reals_median(sorted, c->workers);
		v->spread += (sorted[3 * c->workers / 4] - sorted[c->workers / 4]) / median / (double)c->windows;
		for (size_t i = 0; i < c->workers; i++)
			v->slowness[i] += copy_even(c, i, k) / median / (double)c->windows;
	}
	free(sorted);
	for (size_t i = 0; i < c->workers; i++)
		v->is_unsure |= !c->is_fixed[i];
	for (size_t i = 0; i < c->events; i++)
		v->is_unsure |= c->event[i].what == COPY_RESTART;
	return 0;
}

static int advise_all(struct adviser *v)
{
	struct advice_list *l = v->list;
	struct what w;
	if (advise_workers_were(v) != 0 || advise_begin(v, &w) != 0)
		return -1;
	l->real = v->copy.seconds;
	l->left_out = v->copy.left_out;
	l->simulated = advise_run(v, &w);
	if (isnan(l->simulated)) {
		struct error why = *v->err;
		return error_set(v->err, ERROR_UNAVAILABLE, NULL, "this job can't be simulated: %.200s",
				 why.text);
	}
	l->ideal = advise_run_without(v, ADVISE_KINDS, "", 1);
	if (advise_suspects(v) != 0)
		return -1;
	l->suspects = l->count;
	if (advise_options(v) != 0)
		return -1;
	qsort(l->advice, l->count, sizeof *l->advice, advise_order);
	return 0;
}

int advise(struct advice_list *out, const struct account *a, const struct job *job,
	   const volatile sig_atomic_t *stop, struct error *err)
{
	struct adviser v = {.a = a, .job = job, .stop = stop, .list = out, .err = err};
	*out = (struct advice_list){.real = NAN, .simulated = NAN, .ideal = NAN};
	if (copy_of(&v.copy, a, job, err) != 0)
		return -1;
	int result = advise_all(&v);
	copy_free(&v.copy);
	free(v.median);
	free(v.fixed);
	free(v.slowness);
	free(v.host);
	free(v.by_host);
	if (result != 0)
		advise_free(out);
	return result;
}

void advise_free(struct advice_list *l)
{
	free(l->advice);
	*l = (struct advice_list){0};
}

double advise_error(const struct advice_list *l)
{
	return fabs(l->simulated - l->real);
}

int advise_is_nothing(const struct advice *a)
{
	return !(fabs(a->saves) > a->error);
}

int advise_is_machine(enum advise_kind kind)
{
	return kind == ADVISE_WORKER || kind == ADVISE_HOST || kind == ADVISE_SERVER;
}

const struct advice *advise_first(const struct advice_list *l)
{
	const struct advice *first = NULL, *all = NULL;
	for (size_t i = 0; i < l->suspects; i++) {
		const struct advice *a = &l->advice[i];
		if (a->kind == ADVISE_WORKERS || a->kind == ADVISE_SERVERS)
			all = all && all->saves > a->saves ? all : a;
		else if (!first || a->saves > first->saves)
			first = a;
	}
	if (all && (!first || all->saves > 2 * fmax(first->saves, 0)))
		first = all;
	return first && !advise_is_nothing(first) && first->saves >= TOLD * l->real ? first : NULL;
}
