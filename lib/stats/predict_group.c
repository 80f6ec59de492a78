/* predict_group: see predict_group.h. Times are logarithms of seconds a sample throughout. */
#include "stats/predict_group.h"

#include "stats/predict_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AVERAGES 4
#define QUANTILES 7
#define EXPERTS (AVERAGES + QUANTILES + 1) /* the last one: what the worker says */
#define OWN (EXPERTS - 1)

/* Chosen on the first halves of four traces of a shared cluster, and not critical: half or three
 * times as much changes an iteration by less than 0.2 %. */
#define WEIGHT_RATE 0.6
#define OFFSET_RATE 0.1
#define SOFTNESS 0.33      /* of the straggler, in usual errors */
#define SLOPE_MAX 5.0      /* of one round; a worker that stood still for an hour is one round only */
#define WEIGHT_LOG_MIN 8.0 /* an expert is never so far behind that it can't come back */
#define OFFSET_MAX 1.0
#define ERROR_FORGET 0.02
#define ERROR_MIN 1e-4

static const double averages[AVERAGES] = {1, 0.5, 0.2, 0.05};
static const struct {
	size_t window;
	double quantile;
} quantiles[QUANTILES] = {{4, 1},	{8, 0.5},  {8, 0.75}, {16, 0.5},
			  {16, 0.75}, {32, 0.5}, {32, 0.75}};

struct member {
	double average[AVERAGES];
	struct predict_times times; /* logarithms' order is that of the times */
	double offset;
	/* this round */
	double expert[EXPERTS], said, seen; /* NAN: none */
};

struct predict_group {
	struct member *member;
	uint64_t count;
	size_t room;
	double weight_log[EXPERTS];
	double error; /* the usual one: mean of |seen - said| over workers, moving; NAN at first */
};

int predict_group_new(struct predict_group **out, struct error *err)
{
	struct predict_group *g = calloc(1, sizeof *g);
	if (!g)
		return error_set(err, ERROR_OS, NULL, "no memory for a group of predictors");
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

int predict_group_reuse(struct predict_group **out, const struct predict_group *g,
			struct error *err)
{
	if (predict_group_new(out, err) != 0)
		return -1;
	memcpy((*out)->weight_log, g->weight_log, sizeof g->weight_log);
	(*out)->error = g->error;
	return 0;
}

int predict_group_add(struct predict_group *g, size_t *worker, struct error *err)
{
	if (g->count == PREDICT_GROUP_MAX)
		return error_set(err, ERROR_DATA, NULL, "more than %d workers", PREDICT_GROUP_MAX);
	if (g->count == g->room) {
		size_t room = g->room ? 2 * g->room : 16;
		struct member *m = reallocarray(g->member, room, sizeof *m);
		if (!m)
			return error_set(err, ERROR_OS, NULL, "no memory for %zu workers", room);
		g->member = m;
		g->room = room;
	}
	struct member *m = &g->member[g->count];
	*m = (struct member){.said = NAN, .seen = NAN};
	*worker = (size_t)g->count++;
	return 0;
}

size_t predict_group_count(const struct predict_group *g)
{
	return (size_t)g->count;
}

static void ask_experts(struct member *m, double own)
{
	memcpy(m->expert, m->average, sizeof m->average);
	for (size_t i = 0; i < QUANTILES; i++)
		m->expert[AVERAGES + i] = log(predict_times_quantile(
			&m->times, quantiles[i].window, quantiles[i].quantile));
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

double predict_group_predict(struct predict_group *g, size_t worker, double own)
{
	struct member *m = &g->member[worker];
	double weight[EXPERTS];
	m->said = m->seen = NAN;
	if (m->times.count == 0)
		return NAN;
	ask_experts(m, own);
	weigh(g, m, weight);
	m->said = m->offset;
	for (size_t i = 0; i < EXPERTS; i++)
		if (weight[i] > 0)
			m->said += weight[i] * m->expert[i];
	return fmin(fmax(exp(-m->said), PREDICT_SPEED_MIN), PREDICT_SPEED_MAX);
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
}

static int took_part(const struct member *m)
{
	return !isnan(m->said) && !isnan(m->seen);
}

/* The usual error, and of this round: how late the latest was, over how many. */
static size_t look(struct predict_group *g, double *latest)
{
	double sum = 0;
	size_t n = 0;
	*latest = -INFINITY;
	for (size_t i = 0; i < g->count; i++) {
		const struct member *m = &g->member[i];
		if (!took_part(m))
			continue;
		*latest = fmax(*latest, m->seen - m->said);
		sum += fabs(m->seen - m->said);
		n++;
	}
	if (n < 2) /* alone, any batch is in proportion */
		return n;
	double mean = sum / (double)n;
	g->error = isnan(g->error) ? mean : g->error + ERROR_FORGET * (mean - g->error);
	return n;
}

/* The slope of the cost by the member's log time: its share of the batch less its part in being the
 * straggler. */
static double slope_of(const struct member *m, double latest, double soft, double late_sum,
		       double speed_sum)
{
	return exp(-m->said) / speed_sum - exp((m->seen - m->said - latest) / soft) / late_sum;
}

static void learn_weights(struct predict_group *g, const double *slope)
{
	double highest = -INFINITY;
	for (size_t i = 0; i < EXPERTS; i++) {
		g->weight_log[i] -= WEIGHT_RATE * fmin(fmax(slope[i], -SLOPE_MAX), SLOPE_MAX);
		highest = fmax(highest, g->weight_log[i]);
	}
	for (size_t i = 0; i < EXPERTS; i++)
		g->weight_log[i] = fmax(g->weight_log[i] - highest, -WEIGHT_LOG_MIN);
}

static void end_round(struct predict_group *g)
{
	for (size_t i = 0; i < g->count; i++)
		g->member[i].said = g->member[i].seen = NAN;
}

void predict_group_close(struct predict_group *g)
{
	double latest, late_sum = 0, speed_sum = 0, slope[EXPERTS] = {0}, weight[EXPERTS];
	if (look(g, &latest) < 2) {
		end_round(g);
		return;
	}
	double unit = fmax(g->error, ERROR_MIN), soft = SOFTNESS * unit;
	for (size_t i = 0; i < g->count; i++) {
		const struct member *m = &g->member[i];
		if (!took_part(m))
			continue;
		late_sum += exp((m->seen - m->said - latest) / soft);
		speed_sum += exp(-m->said);
	}
	double offsets = 0;
	for (size_t i = 0; i < g->count; i++) {
		struct member *m = &g->member[i];
		if (!took_part(m)) {
			offsets += m->offset;
			continue;
		}
		double own = slope_of(m, latest, soft, late_sum, speed_sum);
		weigh(g, m, weight);
		for (size_t e = 0; e < EXPERTS; e++)
			if (weight[e] > 0)
				slope[e] += weight[e] * own * (m->expert[e] + m->offset - m->said) /
					    unit;
		m->offset = fmin(fmax(m->offset - OFFSET_RATE * unit * own, -OFFSET_MAX), OFFSET_MAX);
		offsets += m->offset;
	}
	/* The same for all changes no batch. */
	for (size_t i = 0; i < g->count; i++)
		g->member[i].offset -= offsets / (double)g->count;
	learn_weights(g, slope);
	end_round(g);
}

/* ---- files ---- */
static void walk(struct predict_group *g, struct predict_walk *w)
{
	predict_walk_reals(w, "weights", g->weight_log, EXPERTS);
	predict_walk_reals(w, "error", &g->error, 1);
	for (size_t i = 0; i < g->count && !w->failed; i++) {
		struct member *m = &g->member[i];
		predict_walk_reals(w, "average", m->average, AVERAGES);
		predict_times_walk(&m->times, w);
		predict_walk_reals(w, "offset", &m->offset, 1);
		predict_walk_reals(w, "expert", m->expert, EXPERTS);
		predict_walk_reals(w, "said", &m->said, 1);
		predict_walk_reals(w, "seen", &m->seen, 1);
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
		return error_set(w->err, ERROR_OS, NULL, "no memory for a record");
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
