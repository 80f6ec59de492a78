/*
 * predict_auto: all models side by side, each scored on the stream; what it says is their mean,
 * weighed by exp(-L/2), L the squared error in units of the best one's, newer ones counting more
 * (memory of 1/FORGET observations).  One that does better for a while soon has all the weight:
 * an advantage of 5 % in squared error gives odds of 10 to 1.  A mean of several good ones is better
 * than each of them, as long as their errors differ.
 */
#include "stats/predict_parts.h"

#include <math.h>

#define EXPERTS 8
#define FORGET 0.01

struct auto_state {
	struct predictor *expert[EXPERTS];
	double said[EXPERTS], loss[EXPERTS];
	uint64_t count;
};

/* ema as asked for comes first: it stands in when nobody else knows anything. */
static void set_up(size_t i, const struct predict_config *own, struct predict_config *c)
{
	static const enum predict_model model[EXPERTS] = {
		PREDICT_EMA,   PREDICT_LAST, PREDICT_EMA,  PREDICT_EMA,
		PREDICT_ARIMA, PREDICT_RNN,  PREDICT_LSTM, PREDICT_NARX};
	*c = *own;
	c->model = model[i];
	c->by_aic = 1;
	c->warmup = 0; /* who says nonsense is not followed: no need to wait with listening */
	if (i == 2)
		c->alpha = 0.5;
	if (i == 3)
		c->alpha = 0.05;
}

static void auto_free(void *state)
{
	struct auto_state *a = state;
	for (size_t i = 0; i < EXPERTS; i++)
		predictor_free(a->expert[i]);
}

static int auto_init(void *state, const struct predict_config *c, struct error *err)
{
	struct auto_state *a = state;
	for (size_t i = 0; i < EXPERTS; i++) {
		struct predict_config own;
		set_up(i, c, &own);
		a->said[i] = NAN;
		if (predictor_new(&a->expert[i], &own, err) != 0)
			return -1;
	}
	return 0;
}

static double auto_predict(void *state, double cpu, double mem)
{
	struct auto_state *a = state;
	double best = INFINITY, sum = 0, weights = 0;
	for (size_t i = 0; i < EXPERTS; i++) {
		a->said[i] = predictor_predict(a->expert[i], cpu, mem);
		if (a->loss[i] < best)
			best = a->loss[i];
	}
	/* The best one's mean squared error, over as many observations as are in the sums. */
	double held = (1 - pow(1 - FORGET, fmin((double)a->count, 1e6))) / FORGET;
	double unit = best / fmax(held, 1);
	for (size_t i = 0; i < EXPERTS; i++) {
		double worse = a->loss[i] - best;
		double weight = worse > 0 ? exp(-worse / (2 * unit)) : 1;
		if (isnan(a->said[i]))
			continue;
		sum += weight * a->said[i];
		weights += weight;
	}
	return weights > 0 ? sum / weights : NAN;
}

static void auto_observe(void *state, double speed)
{
	struct auto_state *a = state;
	for (size_t i = 0; i < EXPERTS; i++) {
		double d = isnan(a->said[i]) ? 0 : a->said[i] - speed;
		a->loss[i] = (1 - FORGET) * a->loss[i] + d * d;
		predictor_observe(a->expert[i], speed);
	}
	a->count += isnan(a->said[0]) ? 0 : 1;
}

static void auto_walk(void *state, struct predict_walk *w)
{
	struct auto_state *a = state;
	predict_walk_reals(w, "said", a->said, EXPERTS);
	predict_walk_reals(w, "loss", a->loss, EXPERTS);
	predict_walk_u64(w, "scored", &a->count, UINT64_MAX / 2);
	for (size_t i = 0; i < EXPERTS; i++)
		predictor_walk(a->expert[i], w);
}

static int auto_reuse(void *state, const void *from, struct error *err)
{
	struct auto_state *a = state;
	const struct auto_state *b = from;
	for (size_t i = 0; i < EXPERTS; i++) {
		predictor_free(a->expert[i]);
		a->expert[i] = NULL;
		if (predictor_reuse(&a->expert[i], b->expert[i], err) != 0)
			return -1;
	}
	return 0;
}

const struct predict_kind predict_auto = {.name = "auto",
					  .bytes = sizeof(struct auto_state),
					  .init = auto_init,
					  .free = auto_free,
					  .predict = auto_predict,
					  .observe = auto_observe,
					  .walk = auto_walk,
					  .reuse = auto_reuse};
