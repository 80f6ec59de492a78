/*
 * gam: what the load means, as a curve of each of its two kinds (a generalised additive model:
 * Hastie and Tibshirani 1986), learnt with every observation.
 *
 *     log v[k] = mean of log v + f(c[k]) - mean of f(c) + g(m[k]) - mean of g(m)
 *
 * The means are moving averages of the same length.  f and g are lines with bends at fixed places;
 * logarithms, because what a load takes is a part of the speed: a power of what is free, a half
 * beyond a threshold.  So it learns from some hundred batches what a net learns from thousands, and
 * for loads that were not seen yet it goes on in a straight line.
 *
 * A speed that is further off the prediction than usual is a spike that no load shows: it counts as
 * one at the edge of the usual, in the terms and in the means.  The second one in a row is no
 * spike: the speed has changed, and the means begin anew there.
 */
#include "predict/rls.h"

#include <math.h>

#define CPU_BENDS 3  /* at 1/4, 1/2, 3/4 */
#define MEM_BENDS 10 /* from MEM_FROM on: memory has thresholds, where swapping begins */
#define MEM_FROM 0.4
#define TERMS (1 + CPU_BENDS + 1 + MEM_BENDS)
#define AVERAGE 0.1      /* weight of the newest in the means */
#define CHANGED 2        /* unusual errors in a row, of the same sign */
#define AFTER_CHANGE 3.0 /* times the usual: what a step that is no spike may teach */
#define UNSURE 3000.0
#define MEAN_OF 1000.0 /* observations in the mean speed */
#define WEIGHT_MAX 4.0 /* of a fast iteration: its error is large in samples a second */
#define ELSEWHERE 8.0  /* times the variance, on another node */

_Static_assert(TERMS == 15, "a number for each in the shape");
static const struct rls_shape shape = {
	.terms = TERMS,
	.memory = 0.999,
	.error_min = 1e-4,
	.unsure = {UNSURE, UNSURE, UNSURE, UNSURE, UNSURE, UNSURE, UNSURE, UNSURE, UNSURE, UNSURE,
		   UNSURE, UNSURE, UNSURE, UNSURE, UNSURE},
	.most = {UNSURE, UNSURE, UNSURE, UNSURE, UNSURE, UNSURE, UNSURE, UNSURE, UNSURE, UNSURE,
		 UNSURE, UNSURE, UNSURE, UNSURE, UNSURE},
};

struct gam {
	double c, m;
	double basis[TERMS], basis_mean[TERMS];
	double log_mean, said; /* of speeds */
	double low, high;      /* so far */
	double mean;
	struct rls rls;
	double odd;     /* unusual errors in a row; less than 0: it was slower than said */
	uint64_t since; /* observations in the means */
	uint64_t seen;  /* in the mean speed */
};

static int gam_init(void *state, const struct predict_config *c, struct error *err)
{
	struct gam *g = state;
	(void)c, (void)err;
	g->c = g->m = 0.5;
	g->log_mean = g->said = g->low = g->high = NAN;
	rls_init(&g->rls, &shape, 1e-3);
	return 0;
}

static void fill_basis(struct gam *g)
{
	double *b = g->basis;
	*b++ = g->c;
	for (int i = 0; i < CPU_BENDS; i++)
		*b++ = fmax(g->c - (i + 1.0) / (CPU_BENDS + 1), 0);
	*b++ = g->m;
	for (int i = 0; i < MEM_BENDS; i++)
		*b++ = fmax(g->m - (MEM_FROM + (1 - MEM_FROM) * i / MEM_BENDS), 0);
}

static double gam_predict(void *state, double cpu, double mem)
{
	struct gam *g = state;
	if (!isnan(cpu)) /* else it is as it was */
		g->c = cpu;
	if (!isnan(mem))
		g->m = mem;
	fill_basis(g);
	if (g->seen == 0)
		return NAN;
	for (int i = 0; i < TERMS; i++)
		g->rls.x[i] = g->basis[i] - g->basis_mean[i];
	g->said = g->log_mean + rls_value(&g->rls, &shape);
	/* Far from all speeds that were seen the sum means nothing. */
	g->said = fmin(fmax(g->said, log(g->low / 2)), log(g->high * 2));
	return exp(g->said);
}

/* The speed, or what it counts as. Logarithms. */
static double gam_learn(struct gam *g, double speed)
{
	double ratio = exp(g->said) / g->mean, weight = fmin(ratio * ratio, WEIGHT_MAX);
	double wrong = speed - g->said, usual = rls_usual(&g->rls, &shape, weight);
	if (isinf(usual))
		return speed;
	double most = usual;
	if (fabs(wrong) <= usual)
		g->odd = 0;
	else
		g->odd = wrong > 0 ? fmax(g->odd, 0) + 1 : fmin(g->odd, 0) - 1;
	if (fabs(g->odd) >= CHANGED)
		most = AFTER_CHANGE * usual;
	wrong = fmin(fmax(wrong, -most), most);
	rls_learn(&g->rls, &shape, weight, wrong);
	return fabs(g->odd) < CHANGED ? g->said + wrong : speed;
}

static void gam_observe(void *state, double speed)
{
	struct gam *g = state;
	double held = log(speed);
	if (g->seen > 0 && !isnan(g->said))
		held = gam_learn(g, held);
	g->mean += (speed - g->mean) / fmin((double)++g->seen, MEAN_OF);
	g->low = fmin(g->low, speed);
	g->high = fmax(g->high, speed);
	if (fabs(g->odd) == CHANGED)
		g->since = 1; /* the one before was the first of it */
	double part = g->since == 0 ? 1 : fmax(AVERAGE, 1 / (1.0 + (double)g->since));
	g->since++;
	g->log_mean = isnan(g->log_mean) ? held : g->log_mean + part * (held - g->log_mean);
	for (int i = 0; i < TERMS; i++)
		g->basis_mean[i] += part * (g->basis[i] - g->basis_mean[i]);
}

static void gam_walk(void *state, struct predict_state *f)
{
	struct gam *g = state;
	predict_state_reals(f, "load", &g->c, 1);
	predict_state_reals(f, "memory", &g->m, 1);
	predict_state_reals(f, "basis", g->basis, TERMS);
	predict_state_reals(f, "basis-mean", g->basis_mean, TERMS);
	predict_state_reals(f, "log-mean", &g->log_mean, 1);
	predict_state_reals(f, "said", &g->said, 1);
	predict_state_reals(f, "low", &g->low, 1);
	predict_state_reals(f, "high", &g->high, 1);
	predict_state_reals(f, "mean", &g->mean, 1);
	predict_state_reals(f, "odd", &g->odd, 1);
	rls_walk(&g->rls, &shape, f);
	predict_state_u64(f, "since", &g->since, UINT64_MAX / 2);
	predict_state_u64(f, "seen", &g->seen, UINT64_MAX / 2);
}

/* The curves are those of a node like this one, less sure; the speed itself is found anew. */
static int gam_reuse(void *state, const void *from, struct error *err)
{
	struct gam *g = state;
	const struct gam *b = from;
	(void)err;
	rls_reuse(&g->rls, &shape, &b->rls, ELSEWHERE);
	return 0;
}

const struct predict_kind predict_gam = {.name = "gam",
					 .bytes = sizeof(struct gam),
					 .init = gam_init,
					 .predict = gam_predict,
					 .observe = gam_observe,
					 .walk = gam_walk,
					 .reuse = gam_reuse};
