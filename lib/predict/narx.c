/*
 * narx: v[k] = F(v[k-1..k-2], c[k..k-2], m[k..k-2]), one hidden layer of tanh (LB-BSP Eq. 4).
 *
 * Beside the published form, F is written as ema + u.x + w.tanh(W x + b): a net whose new weights
 * are zeros says what ema says, so that without loads to see, or before it has learnt, it is no
 * worse than that.
 */
#include "base/random.h"
#include "predict/net.h"

#include <math.h>

#define HIDDEN 24
#define IN PREDICT_NET_INPUTS

struct weights {
	double in[IN][HIDDEN], bias[HIDDEN], out[HIDDEN], straight[IN], constant;
};
_Static_assert(sizeof(struct weights) <= PREDICT_NET_WEIGHTS * sizeof(double), "room for weights");

static void narx_weights(double *weights, uint64_t *seed)
{
	struct weights *w = (struct weights *)weights;
	*w = (struct weights){0};
	for (int i = 0; i < IN; i++)
		for (int h = 0; h < HIDDEN; h++)
			w->in[i][h] = 2 * random_uniform(seed) - 1;
	for (int h = 0; h < HIDDEN; h++)
		w->bias[h] = 2 * random_uniform(seed) - 1;
}

static double narx_forward(const struct weights *w, const double *x, double *hidden)
{
	double sum[HIDDEN], value = x[NET_EMA] + w->constant;
	for (int h = 0; h < HIDDEN; h++)
		sum[h] = w->bias[h];
	for (int i = 0; i < IN; i++) {
		for (int h = 0; h < HIDDEN; h++)
			sum[h] += w->in[i][h] * x[i];
		value += w->straight[i] * x[i];
	}
	for (int h = 0; h < HIDDEN; h++) {
		hidden[h] = tanh(sum[h]);
		value += w->out[h] * hidden[h];
	}
	return value;
}

static double narx_value(const double *weights, const double *x)
{
	double hidden[HIDDEN];
	return narx_forward((const struct weights *)weights, x, hidden);
}

static double narx_gradient(const double *weights, const double *x, double target, double *gradient)
{
	const struct weights *w = (const struct weights *)weights;
	struct weights *g = (struct weights *)gradient;
	double hidden[HIDDEN], back[HIDDEN];
	double value = narx_forward(w, x, hidden), d = value - target;
	g->constant += d;
	for (int h = 0; h < HIDDEN; h++) {
		g->out[h] += d * hidden[h];
		back[h] = d * w->out[h] * (1 - hidden[h] * hidden[h]);
		g->bias[h] += back[h];
	}
	for (int i = 0; i < IN; i++) {
		g->straight[i] += d * x[i];
		for (int h = 0; h < HIDDEN; h++)
			g->in[i][h] += back[h] * x[i];
	}
	return value;
}

const struct net_shape net_narx = {.weights = sizeof(struct weights) / sizeof(double),
				   .init = narx_weights,
				   .value = narx_value,
				   .gradient = narx_gradient};

static int narx_init(void *state, const struct predict_config *c, struct error *err)
{
	(void)err;
	return net_init(state, &net_narx, c);
}

const struct predict_kind predict_narx = {.name = "narx",
					  .bytes = sizeof(struct net),
					  .init = narx_init,
					  .predict = net_predict,
					  .observe = net_observe,
					  .walk = net_walk,
					  .reuse = net_reuse};
