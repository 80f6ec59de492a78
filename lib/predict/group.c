/* group: see group.h. Times are logarithms of seconds a sample throughout. */
#include "predict/group.h"

#include "predict/lean.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AVERAGES 4
#define WINDOWS 4
#define QUANTILES 7
#define EXPERTS (AVERAGES + QUANTILES + 1) /* the last one: what the worker says */
#define OWN (EXPERTS - 1)
#define WAYS (EXPERTS + 1) /* each expert alone, and the mean of all */
#define MEAN EXPERTS
#define LEVEL 2 /* the average that says the level where the worker itself says nothing */

/* None is critical: on four traces of a shared cluster and three made ones, half or twice as much
 * changes an iteration by less than 0.3 %. */
#define WEIGHT_RATE 0.6
#define OFFSET_RATE 0.1
#define SOFTNESS 0.33      /* of the straggler, in usual errors */
#define FORGET 0.02        /* of what a way has cost, a round */
#define SHARP 0.3          /* how much a difference in cost counts */
#define SLOPE_MAX 5.0      /* of one round: a worker that stood still for an hour is one round only */
#define WEIGHT_LOG_MIN 8.0 /* an expert is never so far behind that it can't come back */
#define OFFSET_MAX 1.0
#define ERROR_FORGET 0.02
#define ERROR_MIN 1e-4
#define COST_MIN 1e-6

static const double averages[AVERAGES] = {1, 0.5, 0.2, 0.05};
static const size_t windows[WINDOWS] = {4, 8, 16, 32};
static const struct {
	size_t window; /* which one */
	double quantile;
} quantiles[QUANTILES] = {{0, 1}, {1, 0.5}, {1, 0.75}, {2, 0.5}, {2, 0.75}, {3, 0.5}, {3, 0.75}};

struct member {
	double average[AVERAGES];
	struct predict_times times; /* seconds: the order of their logarithms is the same */
	double offset[WAYS];
	struct predict_lean lean;
	/* this round; said and seen are NAN for none */
	double expert[EXPERTS], way[WAYS], said, seen;
};

struct predict_group {
	struct member *member;
	uint64_t count;
	size_t room;
	double weight_log[EXPERTS]; /* in the mean of all */
	double cost[WAYS], held;    /* forgetful sums: what each way has cost, over how many rounds */
	double level; /* of log times, common to all: experts that are quantiles say too much */
	double error; /* the usual one: mean of |seen - said| over workers, moving; NAN at first */
};

int predict_group_new(struct predict_group **out, struct error *err)
{
	struct predict_group *g = calloc(1, sizeof *g);
	if (!g)
		return error_set(err, ERROR_OS, NULL, "out of memory for a group of predictors");
	g->error = NAN;
	*out = g;
	return 0;
}

void predict_group_free(struct predict_group *g)
{
	if (!g)
		return;
	free(g->member);
	free(g);
}

void predict_group_renew(struct predict_group *g, size_t worker)
{
	struct member *m = &g->member[worker];
	*m = (struct member){.said = NAN, .seen = NAN};
	predict_lean_init(&m->lean);
}

int predict_group_add(struct predict_group *g, size_t *worker, struct error *err)
{
	if (g->count == PREDICT_GROUP_MAX)
		return error_set(err, ERROR_DATA, NULL, "more than %d workers", PREDICT_GROUP_MAX);
	if (g->count == g->room) {
		size_t room = g->room ? 2 * g->room : 16;
		struct member *m = reallocarray(g->member, room, sizeof *m);
		if (!m)
			return error_set(err, ERROR_OS, NULL, "out of memory for %zu workers", room);
		g->member = m;
		g->room = room;
	}
	*worker = (size_t)g->count++;
	predict_group_renew(g, *worker);
	return 0;
}

size_t predict_group_count(const struct predict_group *g)
{
	return (size_t)g->count;
}

static void ask_experts(struct member *m, double own)
{
	double sorted[WINDOWS][PREDICT_WINDOW_MAX];
	size_t n[WINDOWS];
	memcpy(m->expert, m->average, sizeof m->average);
	for (size_t i = 0; i < WINDOWS; i++)
		n[i] = predict_times_sort(&m->times, windows[i], sorted[i]);
	for (size_t i = 0; i < QUANTILES; i++) {
		size_t window = quantiles[i].window;
		m->expert[AVERAGES + i] =
			log(predict_times_place(sorted[window], n[window], quantiles[i].quantile));
	}
	m->expert[OWN] = -log(own);
}

/* Weights of the experts that said something, of sum 1. */
static void weigh(const struct predict_group *g, const struct member *m, double *weight)
{
	double sum = 0;
	for (size_t i = 0; i < EXPERTS; i++) {
		weight[i] = isfinite(m->expert[i]) ? exp(g->weight_log[i]) : 0;
		sum += weight[i];
	}
	for (size_t i = 0; i < EXPERTS; i++)
		weight[i] /= sum;
}

/* How far each way is followed, of sum 1. The unit is the mean cost of the best one. */
static void trust(const struct predict_group *g, double *part)
{
	double best = INFINITY, sum = 0;
	for (size_t w = 0; w < WAYS; w++)
		best = fmin(best, g->cost[w]);
	double unit = g->held > 0 ? fmax(best / g->held, COST_MIN) : 1;
	for (size_t w = 0; w < WAYS; w++)
		sum += part[w] = exp(-SHARP * (g->cost[w] - best) / unit);
	for (size_t w = 0; w < WAYS; w++)
		part[w] /= sum;
}

static double within(double speed)
{
	return fmin(fmax(speed, PREDICT_SPEED_MIN), PREDICT_SPEED_MAX);
}

static double say(struct predict_group *g, struct member *m, double own)
{
	double weight[EXPERTS], part[WAYS], mean = 0;
	m->said = m->seen = NAN;
	if (m->times.count == 0)
		return NAN;
	ask_experts(m, own);
	weigh(g, m, weight);
	trust(g, part);
	for (size_t i = 0; i < EXPERTS; i++)
		if (weight[i] > 0)
			mean += weight[i] * m->expert[i];
	m->said = 0;
	for (size_t w = 0; w < WAYS; w++) {
		m->way[w] = m->offset[w] +
			    (w != MEAN && isfinite(m->expert[w]) ? m->expert[w] : mean);
		m->said += part[w] * m->way[w];
	}
	return within(exp(-m->said - g->level));
}

double predict_group_predict(struct predict_group *g, size_t worker, double own,
			     enum predict_loss loss)
{
	struct member *m = &g->member[worker];
	double said = say(g, m, own), lean = predict_lean_predict(&m->lean, own, said);
	return isnan(said) || loss == PREDICT_LOSS_MAX ? said : within(lean);
}

void predict_group_observe(struct predict_group *g, size_t worker, double speed)
{
	struct member *m = &g->member[worker];
	m->seen = -log(speed);
	for (size_t i = 0; i < AVERAGES; i++)
		m->average[i] = m->times.count == 0
					? m->seen
					: m->average[i] + averages[i] * (m->seen - m->average[i]);
	predict_times_add(&m->times, speed);
	predict_lean_observe(&m->lean, speed);
}

static int took_part(const struct member *m)
{
	return !isnan(m->said) && !isnan(m->seen);
}

/* The usual error, the level, and how many took part. */
static size_t look(struct predict_group *g)
{
	double sum = 0, below = 0;
	size_t n = 0;
	for (size_t i = 0; i < g->count; i++) {
		const struct member *m = &g->member[i];
		if (!took_part(m))
			continue;
		sum += fabs(m->seen - m->said);
		below += (isfinite(m->expert[OWN]) ? m->expert[OWN] : m->expert[LEVEL]) - m->said;
		n++;
	}
	if (n < 2) /* alone, any batch is in proportion */
		return n;
	double mean = sum / (double)n;
	g->error = isnan(g->error) ? mean : g->error + ERROR_FORGET * (mean - g->error);
	g->held = (1 - FORGET) * g->held + 1;
	g->level += (below / (double)n - g->level) / g->held;
	return n;
}

/* A round along one way. */
struct round {
	double latest;         /* how far the straggler's log time was beyond what was said */
	double late, speed, real; /* sums: softly, how late; of speeds said; of speeds seen */
	double unit, soft;
};

static struct round round_of(const struct predict_group *g, size_t way)
{
	struct round r = {.latest = -INFINITY, .unit = fmax(g->error, ERROR_MIN)};
	r.soft = SOFTNESS * r.unit;
	for (size_t i = 0; i < g->count; i++)
		if (took_part(&g->member[i]))
			r.latest = fmax(r.latest, g->member[i].seen - g->member[i].way[way]);
	for (size_t i = 0; i < g->count; i++) {
		const struct member *m = &g->member[i];
		if (!took_part(m))
			continue;
		r.late += exp((m->seen - m->way[way] - r.latest) / r.soft);
		r.speed += exp(-m->way[way]);
		r.real += exp(-m->seen);
	}
	return r;
}

/* The slope of the cost by a member's log time: its share of the batch less its part in being the
 * straggler. */
static double slope_of(const struct round *r, const struct member *m, size_t way)
{
	return exp(-m->way[way]) / r->speed - exp((m->seen - m->way[way] - r->latest) / r->soft) / r->late;
}

static void learn_weights(struct predict_group *g, const struct round *r)
{
	double weight[EXPERTS], slope[EXPERTS] = {0}, highest = -INFINITY;
	for (size_t i = 0; i < g->count; i++) {
		const struct member *m = &g->member[i];
		if (!took_part(m))
			continue;
		double own = slope_of(r, m, MEAN), mean = m->way[MEAN] - m->offset[MEAN];
		weigh(g, m, weight);
		for (size_t e = 0; e < EXPERTS; e++)
			if (weight[e] > 0)
				slope[e] += weight[e] * own * (m->expert[e] - mean) / r->unit;
	}
	for (size_t e = 0; e < EXPERTS; e++) {
		g->weight_log[e] -= WEIGHT_RATE * fmin(fmax(slope[e], -SLOPE_MAX), SLOPE_MAX);
		highest = fmax(highest, g->weight_log[e]);
	}
	for (size_t e = 0; e < EXPERTS; e++)
		g->weight_log[e] = fmax(g->weight_log[e] - highest, -WEIGHT_LOG_MIN);
}

/* Slopes sum to 0, and so do offsets, but for those at the bound: the same for all would change no
 * batch. */
static void learn_offsets(struct predict_group *g, const struct round *r, size_t way)
{
	for (size_t i = 0; i < g->count; i++) {
		struct member *m = &g->member[i];
		if (!took_part(m))
			continue;
		double moved = m->offset[way] - OFFSET_RATE * r->unit * slope_of(r, m, way);
		m->offset[way] = fmin(fmax(moved, -OFFSET_MAX), OFFSET_MAX);
	}
}

void predict_group_close(struct predict_group *g)
{
	if (look(g) >= 2) {
		for (size_t way = 0; way < WAYS; way++) {
			struct round r = round_of(g, way);
			double cost = exp(r.latest) * r.real / r.speed - 1;
			g->cost[way] = (1 - FORGET) * g->cost[way] + cost;
			if (way == MEAN)
				learn_weights(g, &r);
			learn_offsets(g, &r, way);
		}
	}
	for (size_t i = 0; i < g->count; i++)
		g->member[i].said = g->member[i].seen = NAN;
}

/* ---- files ---- */
static void walk(struct predict_group *g, struct predict_walk *w)
{
	predict_walk_reals(w, "weights", g->weight_log, EXPERTS);
	predict_walk_reals(w, "cost", g->cost, WAYS);
	predict_walk_reals(w, "held", &g->held, 1);
	predict_walk_reals(w, "level", &g->level, 1);
	predict_walk_reals(w, "error", &g->error, 1);
	for (size_t i = 0; i < g->count && !w->failed; i++) {
		struct member *m = &g->member[i];
		predict_walk_reals(w, "average", m->average, AVERAGES);
		predict_times_walk(&m->times, w);
		predict_walk_reals(w, "offset", m->offset, WAYS);
		predict_walk_reals(w, "expert", m->expert, EXPERTS);
		predict_walk_reals(w, "way", m->way, WAYS);
		predict_walk_reals(w, "said", &m->said, 1);
		predict_walk_reals(w, "seen", &m->seen, 1);
		predict_lean_walk(&m->lean, w);
	}
}

int predict_group_save(struct predict_group *g, predict_put_fn *put, void *arg, struct error *err)
{
	struct predict_walk w = {.put = put, .arg = arg, .err = err};
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "group");
	record_add_u64(&o, "workers", g->count);
	if (put(line, record_end(&o, NULL), arg, err) != 0)
		return -1;
	walk(g, &w);
	if (w.failed)
		return -1;
	record_begin(&o, line, sizeof line, "end");
	return put(line, record_end(&o, NULL), arg, err);
}

static int load(struct predict_group *g, uint64_t workers, struct predict_walk *w)
{
	size_t worker;
	for (uint64_t i = 0; i < workers; i++)
		if (predict_group_add(g, &worker, w->err) != 0)
			return -1;
	w->record = malloc(sizeof *w->record);
	if (!w->record)
		return error_set(w->err, ERROR_OS, NULL, "out of memory for a record");
	walk(g, w);
	int result = w->failed ? -1 : w->take(w->record, w->arg, w->err);
	if (result == 0 && !record_is(w->record, "end"))
		result = error_set(w->err, ERROR_DATA, NULL,
				   "the group's end expected, this is '%.40s'", w->record->type);
	free(w->record);
	return result;
}

int predict_group_load(struct predict_group **out, const struct record *head,
		       predict_take_fn *take, void *arg, struct error *err)
{
	uint64_t workers;
	struct predict_walk w = {.loading = 1, .take = take, .arg = arg, .err = err};
	if (record_u64(head, "workers", 0, PREDICT_GROUP_MAX, &workers, err) != 0 ||
	    predict_group_new(out, err) != 0)
		return -1;
	if (load(*out, workers, &w) == 0)
		return 0;
	predict_group_free(*out);
	*out = NULL;
	return -1;
}
