/* group: see group.h. Times are logarithms of seconds a sample throughout. */
#include "predict/group.h"

#include "base/grow.h"
#include "predict/predict_internal.h"

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
#define SOFTNESS 0.33 /* of the straggler, in usual errors */
#define FORGET 0.02   /* of what a way has cost, a round */
#define SHARP 0.3     /* how much a difference in cost counts */
#define SLOPE_MAX 5.0 /* of one round: a worker that stood still for an hour is one round only */
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

/* ---- between the two errors ---- */

/*
 * Leaning: a compromise between two predictions of one worker's speed: the one with the smallest
 * error, and the one that makes iterations of all short.
 *
 * The second one leans away from the truth, as errors of the two kinds cost differently.  A little
 * of that lean costs next to nothing in error (squares), and brings most of the possible gain:
 * on a shared cluster's hardest job 1.138 of the oracle's time becomes 1.125 for 1 % of
 * error, 1.117 at full lean for 14 %.  So: own^(1-x) group^x, with the largest x up to LEAN_MAX at
 * which the squared error so far (newer ones counting more) has been at most LEAN_COST more than
 * own's, and LEAN_EMA_COST more than that of an ema.
 */
#define LEAN_MAX 0.5
#define LEAN_COST 0.04     /* of the squared error: 2 % of its root */
#define LEAN_EMA_COST 0.02 /* the same of an ema's */
#define LEAN_FORGET 0.005
#define LEAN_FROM 5 /* observations before errors are trusted, and anything leans */
#define LEAN_EMA 0.2
#define LEAN_STEPS 5

struct lean {
	double said[LEAN_STEPS]; /* by x; NAN: none */
	double error[LEAN_STEPS];
	double ema, ema_error;
	uint64_t count;
};

static void lean_init(struct lean *l)
{
	*l = (struct lean){.ema = NAN};
	for (int i = 0; i < LEAN_STEPS; i++)
		l->said[i] = NAN;
}

static double lean_predict(struct lean *l, double own, double group)
{
	double away = isnan(own) || isnan(group) ? 0 : log(group / own);
	double from = isnan(own) ? group : own;
	int step = 0;
	for (int i = 0; i < LEAN_STEPS; i++)
		l->said[i] = from * exp(away * LEAN_MAX * i / (LEAN_STEPS - 1));
	if (l->count < LEAN_FROM)
		return l->said[0];
	double most = fmin((1 + LEAN_COST) * l->error[0], (1 + LEAN_EMA_COST) * l->ema_error);
	while (step + 1 < LEAN_STEPS && l->error[step + 1] <= most)
		step++;
	return l->said[step];
}

static double lean_sum(double sum, double said, double speed)
{
	return (1 - LEAN_FORGET) * sum + (said - speed) * (said - speed);
}

static void lean_observe(struct lean *l, double speed)
{
	if (!isnan(l->said[0]) && !isnan(l->ema)) {
		for (int i = 0; i < LEAN_STEPS; i++)
			l->error[i] = lean_sum(l->error[i], l->said[i], speed);
		l->ema_error = lean_sum(l->ema_error, l->ema, speed);
		l->count++;
	}
	l->ema = isnan(l->ema) ? speed : (1 - LEAN_EMA) * l->ema + LEAN_EMA * speed;
}

static void lean_walk(struct lean *l, struct predict_state *f)
{
	predict_state_reals(f, "lean-said", l->said, LEAN_STEPS);
	predict_state_reals(f, "lean-error", l->error, LEAN_STEPS);
	predict_state_reals(f, "lean-ema", &l->ema, 1);
	predict_state_reals(f, "lean-ema-error", &l->ema_error, 1);
	predict_state_u64(f, "lean-count", &l->count, UINT64_MAX / 2);
}

/* ---- the group ---- */

struct member {
	double average[AVERAGES];
	struct predict_times times; /* seconds: the order of their logarithms is the same */
	double offset[WAYS];
	struct lean lean;
	/* this round; said and seen are NAN for none */
	double expert[EXPERTS], way[WAYS], said, seen;
};

struct predict_group {
	struct member *member;
	uint64_t count;
	size_t room;
	double weight_log[EXPERTS]; /* in the mean of all */
	double cost[WAYS], held; /* forgetful sums: what each way has cost, over how many rounds */
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
	lean_init(&m->lean);
}

int predict_group_add(struct predict_group *g, size_t *worker, struct error *err)
{
	if (g->count == PREDICT_GROUP_MAX)
		return error_set(err, ERROR_DATA, NULL, "more than %d workers", PREDICT_GROUP_MAX);
	if (GROW(g->member, g->room, g->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for a worker");
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
static void predict_group_weigh(const struct predict_group *g, const struct member *m,
				double *weight)
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

static double predict_group_within(double speed)
{
	return fmin(fmax(speed, PREDICT_SPEED_MIN), PREDICT_SPEED_MAX);
}

static double predict_member(struct predict_group *g, struct member *m, double own)
{
	double weight[EXPERTS], part[WAYS], mean = 0;
	m->said = m->seen = NAN;
	if (m->times.count == 0)
		return NAN;
	ask_experts(m, own);
	predict_group_weigh(g, m, weight);
	trust(g, part);
	for (size_t i = 0; i < EXPERTS; i++)
		if (weight[i] > 0)
			mean += weight[i] * m->expert[i];
	m->said = 0;
	for (size_t w = 0; w < WAYS; w++) {
		m->way[w] =
			m->offset[w] + (w != MEAN && isfinite(m->expert[w]) ? m->expert[w] : mean);
		m->said += part[w] * m->way[w];
	}
	return predict_group_within(exp(-m->said - g->level));
}

double predict_group_predict(struct predict_group *g, size_t worker, double own,
			     enum predict_loss loss)
{
	struct member *m = &g->member[worker];
	double said = predict_member(g, m, own), lean = lean_predict(&m->lean, own, said);
	return isnan(said) || loss == PREDICT_LOSS_MAX ? said : predict_group_within(lean);
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
	lean_observe(&m->lean, speed);
}

static int took_part(const struct member *m)
{
	return !isnan(m->said) && !isnan(m->seen);
}

/* The usual error, the level, and how many took part. */
static size_t look_at_round(struct predict_group *g)
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
	double latest;            /* how far the straggler's log time was beyond what was said */
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
static double predict_group_slope_of(const struct round *r, const struct member *m, size_t way)
{
	return exp(-m->way[way]) / r->speed -
	       exp((m->seen - m->way[way] - r->latest) / r->soft) / r->late;
}

static void learn_weights(struct predict_group *g, const struct round *r)
{
	double weight[EXPERTS], slope[EXPERTS] = {0}, highest = -INFINITY;
	for (size_t i = 0; i < g->count; i++) {
		const struct member *m = &g->member[i];
		if (!took_part(m))
			continue;
		double own = predict_group_slope_of(r, m, MEAN),
		       mean = m->way[MEAN] - m->offset[MEAN];
		predict_group_weigh(g, m, weight);
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
		double moved =
			m->offset[way] - OFFSET_RATE * r->unit * predict_group_slope_of(r, m, way);
		m->offset[way] = fmin(fmax(moved, -OFFSET_MAX), OFFSET_MAX);
	}
}

void predict_group_close(struct predict_group *g)
{
	if (look_at_round(g) >= 2) {
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
static void predict_group_walk(void *group, struct predict_state *f)
{
	struct predict_group *g = group;
	predict_state_reals(f, "weights", g->weight_log, EXPERTS);
	predict_state_reals(f, "cost", g->cost, WAYS);
	predict_state_reals(f, "held", &g->held, 1);
	predict_state_reals(f, "level", &g->level, 1);
	predict_state_reals(f, "error", &g->error, 1);
	for (size_t i = 0; i < g->count && !f->failed; i++) {
		struct member *m = &g->member[i];
		predict_state_reals(f, "average", m->average, AVERAGES);
		predict_times_walk(&m->times, f);
		predict_state_reals(f, "offset", m->offset, WAYS);
		predict_state_reals(f, "expert", m->expert, EXPERTS);
		predict_state_reals(f, "way", m->way, WAYS);
		predict_state_reals(f, "said", &m->said, 1);
		predict_state_reals(f, "seen", &m->seen, 1);
		lean_walk(&m->lean, f);
	}
}

int predict_group_save(struct predict_group *g, predict_put_fn *put, void *arg, struct error *err)
{
	return predict_state_save(RECORD("group", F("workers", g->count)), predict_group_walk, g,
				  put, arg, err);
}

static int predict_group_load_workers(struct predict_group *g, uint64_t workers,
				      predict_take_fn *take, void *arg, struct error *err)
{
	size_t worker;
	for (uint64_t i = 0; i < workers; i++)
		if (predict_group_add(g, &worker, err) != 0)
			return -1;
	return predict_state_load(predict_group_walk, g, "group", take, arg, err);
}

int predict_group_load(struct predict_group **out, const struct record *head, predict_take_fn *take,
		       void *arg, struct error *err)
{
	uint64_t workers;
	if (record_u64(head, "workers", 0, PREDICT_GROUP_MAX, &workers, err) != 0 ||
	    predict_group_new(out, err) != 0)
		return -1;
	if (predict_group_load_workers(*out, workers, take, arg, err) == 0)
		return 0;
	predict_group_free(*out);
	*out = NULL;
	return -1;
}
