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
#define WORKERS 4  /* suspects among them, at most */
#define TOLD 0.05  /* of the job, from which on a suspect is told first */
#define WRONG 0.05 /* of a figure, by which it may be wrong */

const char *const advise_name[ADVISE_KINDS] = {
	"worker", "host", "workers", "server", "servers", "barrier", "data", "restarts", "checkpoints",
	"solution", "sync", "workers", "batch", "checkpoint"};

/* What is simulated: the job with all that is known of it, some of it changed. */
struct what {
	struct job job; /* not its own: names are another's */
	struct copy copy; /* arrays: its own */
};

struct adviser {
	const struct account *a;
	const struct job *job;
	struct copy copy; /* as it was */
	double *median;   /* speed in each window */
	double *slowness; /* how many times the median time each worker takes for a sample, in the mean */
	const char **host; /* of each worker; "": not known */
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
	struct record_out *o = RECORD_BARE("job");
	job.epochs = 1;
	job.predict = "none"; /* a copy's speeds change too seldom for a predictor to learn from them */
	copy_job(o, &job, w->copy.samples, v->a->replicas > 0 ? v->a->replicas : 1);
	size_t len = record_end(o, NULL);
	return advise_put(o->data, len, s, v->err) != 0 || copy_put(&w->copy, advise_put, s, v->err) != 0
		       ? -1 : 0;
}

static double *copied(const double *from, size_t count)
{
	double *to = malloc((count + 1) * sizeof *to);
	if (to)
		memcpy(to, from, count * sizeof *to);
	return to;
}

/* advise_run() ends it. */
static int what_begin(const struct adviser *v, struct what *w)
{
	const struct copy *c = &v->copy;
	*w = (struct what){.job = *v->job, .copy = *c};
	w->copy.speed = copied(c->speed, c->workers * c->windows);
	w->copy.rows = copied(c->rows, c->workers * c->windows);
	w->copy.delay = copied(c->delay, c->servers);
	w->copy.kill = malloc((c->kills + 1) * sizeof *w->copy.kill);
	if (!w->copy.speed || !w->copy.rows || !w->copy.delay || !w->copy.kill) {
		copy_free(&w->copy);
		return error_set(v->err, ERROR_OS, NULL, "out of memory");
	}
	if (c->kills > 0)
		memcpy(w->copy.kill, c->kill, c->kills * sizeof *c->kill);
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

static void what_without_rows(struct copy *c)
{
	for (size_t i = 0; i < c->workers * c->windows; i++) {
		double each = 1 / c->speed[i] - c->rows[i];
		if (c->rows[i] > 0 && each > 0)
			c->speed[i] = 1 / each;
		c->rows[i] = 0;
	}
}

static int advise_is_named(const char *what, const char *prefix, size_t number)
{
	char id[OPTION_ID_MAX];
	snprintf(id, sizeof id, "%s%zu", prefix, number);
	return strcmp(id, what) == 0;
}

static int is_suspected(const struct adviser *v, enum advise_kind kind, const char *what, size_t worker)
{
	return kind == ADVISE_WORKERS || (kind == ADVISE_WORKER && advise_is_named(what, "w", worker)) ||
	       (kind == ADVISE_HOST && strcmp(v->host[worker], what) == 0);
}

static int is_suspected_server(enum advise_kind kind, const char *what, size_t server)
{
	return kind == ADVISE_SERVERS || (kind == ADVISE_SERVER && advise_is_named(what, "ps", server));
}

/* From now on no slower than the median worker. */
static void what_at_pace(const struct adviser *v, struct copy *c, size_t worker)
{
	double *speed = c->speed + worker * c->windows;
	for (size_t k = 0; k < c->windows; k++)
		speed[k] = fmax(speed[k], v->median[k]);
}

/* The job without one suspect; or, all_others: without any suspect but this one. kind ADVISE_KINDS is
 * none of them. */
static double run_without(const struct adviser *v, enum advise_kind kind, const char *what,
			  int all_others)
{
	struct what w;
	if (what_begin(v, &w) != 0)
		return NAN;
	struct copy *c = &w.copy;
	for (size_t i = 0; i < c->workers; i++)
		if (is_suspected(v, kind, what, i) != all_others)
			what_at_pace(v, c, i);
	for (size_t i = 0; i < c->servers; i++)
		if (is_suspected_server(kind, what, i) != all_others)
			c->delay[i] = 0;
	if ((kind == ADVISE_BARRIER) != all_others)
		c->cost.pull = c->cost.push = c->cost.commit = c->cost.apply = 0;
	if ((kind == ADVISE_DATA) != all_others)
		what_without_rows(c);
	if ((kind == ADVISE_RESTARTS) != all_others) {
		c->kills = 0;
		w.job.heavy_limit = 0;
	}
	if ((kind == ADVISE_CHECKPOINTS) != all_others)
		w.job.checkpoint_every = 0;
	return advise_run(v, &w);
}

/* ---- the list ---- */

static int advise_add_one(struct adviser *v, enum advise_kind kind, const char *what, double seconds,
			  double only)
{
	struct advice_list *l = v->list;
	if (isnan(seconds))
		return 0;
	if (GROW(l->advice, l->room, l->count + 1) != 0)
		return error_set(v->err, ERROR_OS, NULL, "out of memory");
	struct advice *a = &l->advice[l->count++];
	*a = (struct advice){.kind = kind, .saves = l->simulated - seconds, .only = only};
	a->error = advise_error(l) + fabs(a->saves) * (WRONG + (kind == ADVISE_NODES ? v->spread : 0));
	snprintf(a->what, sizeof a->what, "%s", what);
	return 0;
}

static int suspect(struct adviser *v, enum advise_kind kind, const char *what)
{
	return advise_add_one(v, kind, what, run_without(v, kind, what, 0),
			      run_without(v, kind, what, 1) - v->list->ideal);
}

/* The slowest. */
static int suspect_workers(struct adviser *v)
{
	for (int n = 0; n < WORKERS; n++) {
		size_t slowest = 0;
		char id[OPTION_ID_MAX];
		for (size_t i = 1; i < v->copy.workers; i++)
			if (v->slowness[i] > v->slowness[slowest])
				slowest = i;
		if (!(v->slowness[slowest] > SLOW))
			return 0;
		v->slowness[slowest] = 0; /* it is a suspect already */
		snprintf(id, sizeof id, "w%zu", slowest);
		if (suspect(v, ADVISE_WORKER, id) != 0)
			return -1;
	}
	return 0;
}

static int suspect_hosts(struct adviser *v)
{
	size_t workers = v->copy.workers;
	for (size_t i = 0; i < workers; i++) {
		const char *host = v->host[i];
		size_t on = 0, before = 0;
		for (size_t k = 0; host[0] && k < workers; k++) {
			int is_on = strcmp(v->host[k], host) == 0;
			on += (size_t)is_on;
			before += (size_t)(is_on && k < i);
		}
		if (before == 0 && on > 1 && on < workers && suspect(v, ADVISE_HOST, host) != 0)
			return -1;
	}
	return 0;
}

static int suspect_server(struct adviser *v)
{
	size_t slowest = 0;
	char id[OPTION_ID_MAX];
	for (size_t i = 0; i < v->copy.servers; i++)
		if (v->copy.delay[i] > v->copy.delay[slowest])
			slowest = i;
	if (v->copy.servers < 2)
		return 0;
	snprintf(id, sizeof id, "ps%zu", slowest);
	return suspect(v, ADVISE_SERVER, id);
}

static int advise_suspects(struct adviser *v)
{
	if (suspect_workers(v) != 0 || suspect_hosts(v) != 0 || suspect_server(v) != 0 ||
	    suspect(v, ADVISE_WORKERS, "") != 0 ||
	    (v->copy.servers > 1 && suspect(v, ADVISE_SERVERS, "") != 0))
		return -1;
	for (int k = ADVISE_BARRIER; k < ADVISE_SUSPECTS; k++)
		if (suspect(v, (enum advise_kind)k, "") != 0)
			return -1;
	return 0;
}

/* ---- options ---- */

/* Workers that come are as fast as the median one. */
static int what_with_workers(const struct adviser *v, struct what *w, size_t workers)
{
	struct copy *c = &w->copy;
	double *speed = realloc(c->speed, (workers + c->workers) * c->windows * sizeof *speed);
	if (!speed) {
		copy_free(c);
		return error_set(v->err, ERROR_OS, NULL, "out of memory");
	}
	c->speed = speed;
	for (size_t i = c->workers; i < workers; i++)
		memcpy(speed + i * c->windows, v->median, c->windows * sizeof *speed);
	size_t kept = 0;
	for (size_t i = 0; i < c->kills; i++)
		if (c->kill[i].worker < workers)
			c->kill[kept++] = c->kill[i];
	c->kills = kept;
	w->job.workers = c->workers = workers;
	return 0;
}

/* value: NULL: the number. */
static int advise_option(struct adviser *v, enum advise_kind kind, const char *value, double number)
{
	struct what w;
	char text[OPTION_ID_MAX];
	if (value)
		snprintf(text, sizeof text, "%s", value);
	else
		snprintf(text, sizeof text, "%.12g", number);
	if (what_begin(v, &w) != 0 ||
	    (kind == ADVISE_NODES && what_with_workers(v, &w, (size_t)number) != 0))
		return -1;
	if (kind == ADVISE_SOLUTION)
		w.job.solution = text;
	else if (kind == ADVISE_SYNC)
		w.job.sync = text;
	else if (kind == ADVISE_BATCH)
		w.job.batch = (uint64_t)number;
	else if (kind == ADVISE_CHECKPOINT)
		w.job.checkpoint_every = number;
	return advise_add_one(v, kind, text, advise_run(v, &w), NAN);
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
		       {ADVISE_SOLUTION, "pace", 0, 1},
		       {ADVISE_SYNC, "ssp:3", 0, at_servers},
		       {ADVISE_SYNC, "asp", 0, at_servers},
		       {ADVISE_NODES, NULL, workers - 1, workers > 1},
		       {ADVISE_NODES, NULL, workers + 1, workers > 1}, /* else it is twice as many */
		       {ADVISE_NODES, NULL, 2 * workers, 1},
		       {ADVISE_BATCH, NULL, half, half >= workers},
		       {ADVISE_BATCH, NULL, 2 * batch, 1},
		       {ADVISE_CHECKPOINT, NULL, every / 2, every > 0},
		       {ADVISE_CHECKPOINT, NULL, every * 2, every > 0}};
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		int is_so = options[i].kind == ADVISE_SOLUTION &&
			    strcmp(options[i].value, job->solution) == 0;
		int is_more = options[i].kind == ADVISE_NODES && options[i].number > batch;
		if (options[i].can && !is_so && !is_more &&
		    advise_option(v, options[i].kind, options[i].value, options[i].number) != 0)
			return -1;
	}
	return 0;
}

/* ---- all ---- */

static int advise_order(const void *x, const void *y)
{
	const struct advice *a = x, *b = y;
	int option_a = a->kind >= ADVISE_SUSPECTS, option_b = b->kind >= ADVISE_SUSPECTS;
	int nothing_a = advise_is_nothing(a), nothing_b = advise_is_nothing(b);
	return option_a != option_b     ? option_a - option_b
	       : nothing_a != nothing_b ? nothing_a - nothing_b
					: (a->saves < b->saves) - (a->saves > b->saves);
}

static const char *advise_host_of(const struct account *a, size_t worker)
{
	for (size_t i = 0; i < a->nodes; i++)
		if (advise_is_named(a->node[i].id, "w", worker))
			return a->node[i].host;
	return "";
}

static int advise_workers_were(struct adviser *v)
{
	const struct copy *c = &v->copy;
	double *sorted = calloc(c->workers, sizeof *sorted);
	v->median = calloc(c->windows, sizeof *v->median);
	v->slowness = calloc(c->workers, sizeof *v->slowness);
	v->host = calloc(c->workers, sizeof *v->host);
	if (!v->median || !v->slowness || !v->host || !sorted) {
		free(sorted);
		return error_set(v->err, ERROR_OS, NULL, "out of memory");
	}
	for (size_t i = 0; i < c->workers; i++)
		v->host[i] = advise_host_of(v->a, i);
	for (size_t k = 0; k < c->windows; k++) {
		for (size_t i = 0; i < c->workers; i++)
			sorted[i] = c->speed[i * c->windows + k];
		v->median[k] = reals_median(sorted, c->workers);
		v->spread += (sorted[3 * c->workers / 4] - sorted[c->workers / 4]) / v->median[k] /
			     (double)c->windows;
		for (size_t i = 0; i < c->workers; i++)
			v->slowness[i] += v->median[k] / c->speed[i * c->windows + k] /
					  (double)c->windows;
	}
	free(sorted);
	return 0;
}

static int advise_all(struct adviser *v)
{
	struct advice_list *l = v->list;
	struct what w;
	if (advise_workers_were(v) != 0 || what_begin(v, &w) != 0)
		return -1;
	l->real = v->copy.seconds;
	l->simulated = advise_run(v, &w);
	if (isnan(l->simulated)) {
		struct error why = *v->err;
		return error_set(v->err, ERROR_UNAVAILABLE, NULL, "this job can't be simulated: %.200s",
				 why.text);
	}
	l->ideal = run_without(v, ADVISE_KINDS, "", 1);
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
	if (copy_of(&v.copy, a, err) != 0)
		return -1;
	int result = advise_all(&v);
	copy_free(&v.copy);
	free(v.median);
	free(v.slowness);
	free(v.host);
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
	return fabs(a->saves) <= a->error;
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
