/*
 * rnn: a simple recurrent net of look-back 2, h = tanh(w x + W h + b) over the last two
 * speeds, then a straight output (LB-BSP Table 3, SimpleRNN). It sees no load.
 */
#include "base/random.h"
#include "predict/net.h"

#include <math.h>

#define HIDDEN 8

struct weights {
	double in[HIDDEN], again[HIDDEN][HIDDEN], bias[HIDDEN], out[HIDDEN], constant;
};
_Static_assert(sizeof(struct weights) <= PREDICT_NET_WEIGHTS * sizeof(double), "room for weights");

static void rnn_weights(double *weights, uint64_t *seed)
{
	struct weights *w = (struct weights *)weights;
	*w = (struct weights){0};
	for (int h = 0; h < HIDDEN; h++) {
		w->in[h] = 2 * random_uniform(seed) - 1;
		w->out[h] = (2 * random_uniform(seed) - 1) / 2;
		for (int j = 0; j < HIDDEN; j++)
			w->again[h][j] = (2 * random_uniform(seed) - 1) / 2;
	}
}

static double rnn_forward(const struct weights *w, const double *x, double *before, double *after)
{
	double value = w->constant;
	for (int h = 0; h < HIDDEN; h++)
		before[h] = tanh(w->in[h] * x[NET_V2] + w->bias[h]);
	for (int h = 0; h < HIDDEN; h++) {
		double sum = w->in[h] * x[NET_V1] + w->bias[h];
		for (int j = 0; j < HIDDEN; j++)
			sum += w->again[h][j] * before[j];
		after[h] = tanh(sum);
		value += w->out[h] * after[h];
	}
	return value;
}

static double rnn_value(const double *weights, const double *x)
{
	double before[HIDDEN], after[HIDDEN];
	return rnn_forward((const struct weights *)weights, x, before, after);
}

static double rnn_gradient(const double *weights, const double *x, double target, double *gradient)
{
	const struct weights *w = (const struct weights *)weights;
	struct weights *g = (struct weights *)gradient;
	double before[HIDDEN], after[HIDDEN], earlier[HIDDEN] = {0};
	double value = rnn_forward(w, x, before, after), d = value - target;
	g->constant += d;
	for (int h = 0; h < HIDDEN; h++) {
		double back = d * w->out[h] * (1 - after[h] * after[h]);
		g->out[h] += d * after[h];
		g->in[h] += back * x[NET_V1];
		g->bias[h] += back;
		for (int j = 0; j < HIDDEN; j++) {
			g->again[h][j] += back * before[j];
			earlier[j] += back * w->again[h][j];
		}
	}
	for (int h = 0; h < HIDDEN; h++) {
		double back = earlier[h] * (1 - before[h] * before[h]);
		g->in[h] += back * x[NET_V2];
		g->bias[h] += back;
	}
	return value;
}

const struct net_shape net_rnn = {.weights = sizeof(struct weights) / sizeof(double),
				  .init = rnn_weights,
				  .value = rnn_value,
				  .gradient = rnn_gradient};

static int rnn_init(void *state, const struct predict_config *c, struct error *err)
{
	(void)err;
	return net_init(state, &net_rnn, c);
}

const struct predict_kind predict_rnn = {.name = "rnn",
					 .bytes = sizeof(struct net),
					 .init = rnn_init,
					 .predict = net_predict,
					 .observe = net_observe,
					 .walk = net_walk,
					 .reuse = net_reuse};
