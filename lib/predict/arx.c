/*
 * arx: the speed before, moved by what has changed since: a straight line in the changes of
 * speed and load, learnt with every observation (recursive least squares).  It can express much
 * less than a net, but learns from some tens of batches instead of hundreds: on a node whose load
 * is seen, what others take is what this worker lacks.
 *
 * With v the speed over its mean, c and m the loads, and v~, c~, m~ moving averages of them:
 *
 *     v[k] - v[k-1] = a0 (v[k-1] - v[k-2]) + a1 (v~ - v[k-1])
 *                   + b0 (c[k] - c[k-1]) + b1 (c[k-1] - c[k-2]) + b2 (c~ - c[k-1])
 *                   + d0 (m[k] - m[k-1]) + d1 (m[k-1] - m[k-2]) + d2 (m~ - m[k-1])
 *
 * All start from zero: then it is `last`.  A jump that is further off the prediction than usual
 * teaches only as much as one at the edge of the usual, because no load shows a spike.  k counts
 * observations: loads seen between two of them are forgotten.
 */
#include "predict/rls.h"

#include <math.h>

#define TERMS 8
#define AVERAGE 0.2    /* weight of the newest in the moving averages */
#define MEAN_OF 1000.0 /* observations in the mean speed */
#define ERROR_MIN 1e-3 /* mean square of the errors in the beginning */
#define ELSEWHERE 8.0  /* times the variance, on another node */
#define FROM 8         /* observations; until then the speed before */

/* Two terms of speeds, then those of loads. */
static const struct rls_shape shape = {
	.terms = TERMS,
	.memory = 0.998,
	.error_min = ERROR_MIN,
	.unsure = {100, 100, 1000, 1000, 1000, 1000, 1000, 1000},
	.most = {1e4, 1e4, 1e4, 1e4, 1e4, 1e4, 1e4, 1e4},
};

struct arx {
	double speed[2], mean, average; /* newest first */
	double low, high;               /* so far */
	double c[3], m[3], c_average, m_average;
	double said;
	struct rls rls;
	uint64_t seen;    /* speeds in the mean */
	uint64_t waiting; /* predicted, and not yet observed */
};

static int arx_init(void *state, const struct predict_config *c, struct error *err)
{
	struct arx *a = state;
	(void)c, (void)err;
	a->speed[0] = a->speed[1] = a->average = a->said = a->low = a->high = NAN;
	for (int i = 0; i < 3; i++)
		a->c[i] = a->m[i] = NAN;
	a->c_average = a->m_average = NAN;
	rls_init(&a->rls, &shape, ERROR_MIN);
	return 0;
}

static double or_zero(double x)
{
	return isnan(x) ? 0 : x;
}

static void arx_shift(double *load, double *average)
{
	if (!isnan(load[0]))
		*average = isnan(*average) ? load[0] : *average + AVERAGE * (load[0] - *average);
	for (int i = 2; i > 0; i--)
		load[i] = load[i - 1];
}

static double arx_predict(void *state, double cpu, double mem)
{
	struct arx *a = state;
	double *x = a->rls.x;
	if (!a->waiting) {
		arx_shift(a->c, &a->c_average);
		arx_shift(a->m, &a->m_average);
	}
	a->waiting = 1;
	if (!isnan(cpu)) /* else it is as it was */
		a->c[0] = cpu;
	if (!isnan(mem))
		a->m[0] = mem;
	a->said = a->speed[0];
	if (isnan(a->speed[1]))
		return a->said;
	double v0 = a->speed[0] / a->mean;
	x[0] = v0 - a->speed[1] / a->mean;
	x[1] = a->average / a->mean - v0;
	x[2] = or_zero(a->c[0] - a->c[1]);
	x[3] = or_zero(a->c[1] - a->c[2]);
	x[4] = or_zero(a->c_average - a->c[1]);
	x[5] = or_zero(a->m[0] - a->m[1]);
	x[6] = or_zero(a->m[1] - a->m[2]);
	x[7] = or_zero(a->m_average - a->m[1]);
	double change = rls_value(&a->rls, &shape);
	/* Far from all speeds that were seen the sum means nothing. */
	a->said = fmin(fmax((v0 + change) * a->mean, a->low / 2), a->high * 2);
	return a->rls.count < FROM ? a->speed[0] : a->said;
}

/* wrong: speed less what was said. jump: speed less the one before. */
static void arx_learn(struct arx *a, double wrong, double jump)
{
	double usual = rls_usual(&a->rls, &shape, 1);
	if (isinf(usual))
		return;
	/* Where the speed was far off without a jump, the terms are wrong, and nothing is spared.
	 */
	if (fabs(wrong) < 2 * fabs(jump))
		wrong = fmin(fmax(wrong, -usual), usual);
	rls_learn(&a->rls, &shape, 1, wrong);
}

static void arx_observe(void *state, double speed)
{
	struct arx *a = state;
	if (!isnan(a->speed[1]))
		arx_learn(a, (speed - a->said) / a->mean, (speed - a->speed[0]) / a->mean);
	a->waiting = 0;
	a->mean += (speed - a->mean) / fmin((double)++a->seen, MEAN_OF);
	a->low = fmin(a->low, speed);
	a->high = fmax(a->high, speed);
	a->average = isnan(a->average) ? speed : a->average + AVERAGE * (speed - a->average);
	a->speed[1] = a->speed[0];
	a->speed[0] = speed;
}

static void arx_walk(void *state, struct predict_state *f)
{
	struct arx *a = state;
	predict_state_reals(f, "speeds", a->speed, 2);
	predict_state_reals(f, "mean", &a->mean, 1);
	predict_state_reals(f, "average", &a->average, 1);
	predict_state_reals(f, "low", &a->low, 1);
	predict_state_reals(f, "high", &a->high, 1);
	predict_state_reals(f, "cpu", a->c, 3);
	predict_state_reals(f, "mem", a->m, 3);
	predict_state_reals(f, "cpu-average", &a->c_average, 1);
	predict_state_reals(f, "mem-average", &a->m_average, 1);
	predict_state_reals(f, "said", &a->said, 1);
	rls_walk(&a->rls, &shape, f);
	predict_state_u64(f, "seen", &a->seen, UINT64_MAX / 2);
	predict_state_u64(f, "waiting", &a->waiting, 1);
}

/* The terms are those of a node like this one, less sure; the speed itself is found anew. */
static int arx_reuse(void *state, const void *from, struct error *err)
{
	struct arx *a = state;
	const struct arx *b = from;
	(void)err;
	rls_reuse(&a->rls, &shape, &b->rls, ELSEWHERE);
	return 0;
}

const struct predict_kind predict_arx = {.name = "arx",
					 .bytes = sizeof(struct arx),
					 .init = arx_init,
					 .predict = arx_predict,
					 .observe = arx_observe,
					 .walk = arx_walk,
					 .reuse = arx_reuse};
