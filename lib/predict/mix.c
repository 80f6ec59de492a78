/*
 * mix: all models side by side, each scored on the stream; what it says is their mean,
 * weighed by exp(-L/2), L the squared error in units of the best one's, newer ones counting more
 * (memory of 1/FORGET observations).  One that does better for a while soon has all the weight:
 * an advantage of 5 % in squared error gives odds of 10 to 1.  A mean of several good ones is
 * better than each of them, as long as their errors differ.
 *
 * If a few errors are large, that is slow: the model that was least wrong about one jump is
 * followed for long, even if it has been wrong ever since.  So there are two such means.  The
 * nimble one counts no error for more than CLIP units and lets no model fall behind by more than
 * CAP: a model that is better now has the weight after a few observations (the fixed share of
 * Herbster and Warmuth).  A model that is that far behind is left out: a thousandth of a very wrong
 * prediction may be much.  Which of the two is followed is found in the same way, from the squared
 * errors as they are.
 */
#include "predict/predict_internal.h"

#include <math.h>

#define EXPERTS 10
#define FORGET 0.01
#define CLIP 16.0
#define CAP 14.0
#define HEARD 13.0      /* no more units behind the best; others may say anything */
#define REUSED 25       /* errors of another run count as so many */
#define LEVEL_OF 1000.0 /* speeds */

enum { STEADY, NIMBLE, MEANS };

struct mix_state {
	struct predictor *expert[EXPERTS];
	double said[EXPERTS], mean[MEANS];
	double loss[MEANS][EXPERTS]; /* of the experts, as each mean counts them */
	double of_mean[MEANS];       /* of the means */
	double level;                /* mean speed: errors are counted in units of it */
	uint64_t count, seen; /* errors, in this run or the one before; speeds in the level */
};

/* ema as asked for comes first: it stands in when nobody else knows anything. */
static void mix_set_up(size_t i, const struct predict_config *own, struct predict_config *c)
{
	static const enum predict_model model[EXPERTS] = {PREDICT_EMA,  PREDICT_LAST,  PREDICT_EMA,
							  PREDICT_EMA,  PREDICT_ARIMA, PREDICT_RNN,
							  PREDICT_LSTM, PREDICT_NARX,  PREDICT_ARX, PREDICT_GAM};
	*c = *own;
	c->model = model[i];
	c->by_aic = 1;
	c->warmup = 0; /* who says nonsense is not followed: no need to wait with listening */
	if (i == 2)
		c->alpha = 0.5;
	if (i == 3)
		c->alpha = 0.05;
}

static void mix_free(void *state)
{
	struct mix_state *a = state;
	for (size_t i = 0; i < EXPERTS; i++)
		predictor_free(a->expert[i]);
}

static int mix_init(void *state, const struct predict_config *c, struct error *err)
{
	struct mix_state *a = state;
	for (size_t i = 0; i < EXPERTS; i++) {
		struct predict_config own;
		mix_set_up(i, c, &own);
		a->said[i] = NAN;
		if (predictor_new(&a->expert[i], &own, err) != 0)
			return -1;
	}
	return 0;
}

/* So many observations are in the sums, in effect. */
static double mix_held(uint64_t count)
{
	return (1 - pow(1 - FORGET, fmin((double)count, 1e6))) / FORGET;
}

/* The best one's mean squared error, over as many observations as are in the sums. */
static double mix_unit(const struct mix_state *a, const double *loss)
{
	double best = INFINITY;
	for (size_t i = 0; i < EXPERTS; i++)
		best = fmin(best, loss[i]);
	return best / fmax(mix_held(a->count), 1);
}

/* The mean of n that said something, by what they have lost, in units of `one`. */
static double mix_weigh(const double *said, const double *loss, size_t n, double one)
{
	double sum = 0, weights = 0, best = INFINITY;
	for (size_t i = 0; i < n; i++)
		best = isnan(said[i]) ? best : fmin(best, loss[i]);
	for (size_t i = 0; i < n; i++) {
		double worse = loss[i] - best;
		double weight = worse > 0 ? exp(-worse / (2 * one)) : 1;
		if (isnan(said[i]) || worse > HEARD * one)
			continue;
		sum += weight * said[i];
		weights += weight;
	}
	return weights > 0 ? sum / weights : NAN;
}

static double mix_predict(void *state, double cpu, double mem)
{
	struct mix_state *a = state;
	for (size_t i = 0; i < EXPERTS; i++)
		a->said[i] = predictor_predict(a->expert[i], cpu, mem);
	for (int m = 0; m < MEANS; m++)
		a->mean[m] = mix_weigh(a->said, a->loss[m], EXPERTS, mix_unit(a, a->loss[m]));
	return mix_weigh(a->mean, a->of_mean, MEANS, mix_unit(a, a->loss[NIMBLE]));
}

/* Errors of this observation; none is counted for more than `most`. */
static void add_errors(double *loss, const double *said, size_t n, double speed, double level,
		       double most)
{
	for (size_t i = 0; i < n; i++) {
		double d = isnan(said[i]) ? 0 : (said[i] - speed) / level;
		loss[i] = (1 - FORGET) * loss[i] + fmin(d * d, most);
	}
}

/* No loss is more than `behind` above the least one. */
static void cap(double *loss, size_t n, double behind)
{
	double best = INFINITY;
	for (size_t i = 0; i < n; i++)
		best = fmin(best, loss[i]);
	for (size_t i = 0; i < n; i++)
		loss[i] = fmin(loss[i], best + behind);
}

static void mix_observe(void *state, double speed)
{
	struct mix_state *a = state;
	double one = mix_unit(a, a->loss[NIMBLE]);
	a->level += (speed - a->level) / fmin((double)++a->seen, LEVEL_OF);
	add_errors(a->of_mean, a->mean, MEANS, speed, a->level, INFINITY);
	add_errors(a->loss[STEADY], a->said, EXPERTS, speed, a->level, INFINITY);
	add_errors(a->loss[NIMBLE], a->said, EXPERTS, speed, a->level,
		   one > 0 ? CLIP * one : INFINITY);
	a->count += isnan(a->said[0]) ? 0 : 1;
	one = mix_unit(a, a->loss[NIMBLE]);
	cap(a->loss[NIMBLE], EXPERTS, CAP * one);
	cap(a->of_mean, MEANS, CAP * one);
	for (size_t i = 0; i < EXPERTS; i++)
		predictor_observe(a->expert[i], speed);
}

static void mix_walk(void *state, struct predict_state *f)
{
	struct mix_state *a = state;
	predict_state_reals(f, "said", a->said, EXPERTS);
	predict_state_reals(f, "means", a->mean, MEANS);
	predict_state_reals(f, "loss", a->loss[0], MEANS * EXPERTS);
	predict_state_reals(f, "loss-of-means", a->of_mean, MEANS);
	predict_state_reals(f, "level", &a->level, 1);
	predict_state_u64(f, "scored", &a->count, UINT64_MAX / 2);
	predict_state_u64(f, "seen", &a->seen, UINT64_MAX / 2);
	for (size_t i = 0; i < EXPERTS; i++)
		predictor_walk(a->expert[i], f);
}

static int mix_reuse(void *state, const void *from, struct error *err)
{
	struct mix_state *a = state;
	const struct mix_state *b = from;
	for (size_t i = 0; i < EXPERTS; i++) {
		predictor_free(a->expert[i]);
		a->expert[i] = NULL;
		if (predictor_reuse(&a->expert[i], b->expert[i], err) != 0)
			return -1;
	}
	/* Who was better before may be believed for a while. */
	a->count = b->count < REUSED ? b->count : REUSED;
	double part = b->count > 0 ? mix_held(a->count) / mix_held(b->count) : 0;
	for (int m = 0; m < MEANS; m++) {
		for (size_t i = 0; i < EXPERTS; i++)
			a->loss[m][i] = part * b->loss[m][i];
		a->of_mean[m] = part * b->of_mean[m];
	}
	return 0;
}

const struct predict_kind predict_mix = {.name = "mix",
					  .bytes = sizeof(struct mix_state),
					  .init = mix_init,
					  .free = mix_free,
					  .predict = mix_predict,
					  .observe = mix_observe,
					  .walk = mix_walk,
					  .reuse = mix_reuse};
