/*
 * lstm: a long short-term memory of look-back 2 over the last two speeds, then a straight
 * output (LB-BSP Table 3; Hochreiter and Schmidhuber 1997, with forget gates). It sees no load.
 *
 *   i, f, o = sigmoid(w x + W h + b), z = tanh(w x + W h + b), s = f s' + i z, h = o tanh(s)
 */
#include "base/random.h"
#include "predict/net.h"

#include <math.h>

#define HIDDEN 8
#define STEPS 2

enum { GATE_IN, GATE_FORGET, GATE_OUT, GATE_CELL, GATES };

struct weights {
	double in[GATES][HIDDEN], again[GATES][HIDDEN][HIDDEN], bias[GATES][HIDDEN];
	double out[HIDDEN], constant;
};
_Static_assert(sizeof(struct weights) <= PREDICT_NET_WEIGHTS * sizeof(double), "room for weights");

/* One step's numbers. s and h have the state before the first step in front. */
struct pass {
	double gate[STEPS][GATES][HIDDEN], squashed[STEPS][HIDDEN];
	double s[STEPS + 1][HIDDEN], h[STEPS + 1][HIDDEN];
};

static const int input_of[STEPS] = {NET_V2, NET_V1};

static void lstm_weights(double *weights, uint64_t *seed)
{
	struct weights *w = (struct weights *)weights;
	*w = (struct weights){0};
	for (int h = 0; h < HIDDEN; h++) {
		w->out[h] = (2 * random_uniform(seed) - 1) / 2;
		w->bias[GATE_FORGET][h] = 1; /* what is not forgotten can be learnt from */
		for (int gate = 0; gate < GATES; gate++) {
			w->in[gate][h] = 2 * random_uniform(seed) - 1;
			for (int j = 0; j < HIDDEN; j++)
				w->again[gate][h][j] = (2 * random_uniform(seed) - 1) / 2;
		}
	}
}

static double lstm_forward(const struct weights *w, const double *x, struct pass *p)
{
	double value = w->constant;
	for (int h = 0; h < HIDDEN; h++)
		p->s[0][h] = p->h[0][h] = 0;
	for (int t = 0; t < STEPS; t++) {
		for (int gate = 0; gate < GATES; gate++)
			for (int h = 0; h < HIDDEN; h++) {
				double sum = w->in[gate][h] * x[input_of[t]] + w->bias[gate][h];
				for (int j = 0; j < HIDDEN; j++)
					sum += w->again[gate][h][j] * p->h[t][j];
				p->gate[t][gate][h] =
					gate == GATE_CELL ? tanh(sum) : 1 / (1 + exp(-sum));
			}
		for (int h = 0; h < HIDDEN; h++) {
			p->s[t + 1][h] = p->gate[t][GATE_FORGET][h] * p->s[t][h] +
					 p->gate[t][GATE_IN][h] * p->gate[t][GATE_CELL][h];
			p->squashed[t][h] = tanh(p->s[t + 1][h]);
			p->h[t + 1][h] = p->gate[t][GATE_OUT][h] * p->squashed[t][h];
		}
	}
	for (int h = 0; h < HIDDEN; h++)
		value += w->out[h] * p->h[STEPS][h];
	return value;
}

static double lstm_value(const double *weights, const double *x)
{
	struct pass p;
	return lstm_forward((const struct weights *)weights, x, &p);
}

/* Slopes by what went into the gates of step t, from those by h and s after it; ds becomes the
 * slope by s before it. */
static void gate_slopes(const struct pass *p, int t, const double *dh, double *ds,
			double slope[GATES][HIDDEN])
{
	for (int h = 0; h < HIDDEN; h++) {
		double in = p->gate[t][GATE_IN][h], forget = p->gate[t][GATE_FORGET][h];
		double out = p->gate[t][GATE_OUT][h], cell = p->gate[t][GATE_CELL][h];
		double squashed = p->squashed[t][h];
		ds[h] += dh[h] * out * (1 - squashed * squashed);
		slope[GATE_OUT][h] = dh[h] * squashed * out * (1 - out);
		slope[GATE_IN][h] = ds[h] * cell * in * (1 - in);
		slope[GATE_FORGET][h] = ds[h] * p->s[t][h] * forget * (1 - forget);
		slope[GATE_CELL][h] = ds[h] * in * (1 - cell * cell);
		ds[h] *= forget;
	}
}

static double lstm_gradient(const double *weights, const double *x, double target, double *gradient)
{
	const struct weights *w = (const struct weights *)weights;
	struct weights *g = (struct weights *)gradient;
	struct pass p;
	double slope[GATES][HIDDEN], dh[HIDDEN], ds[HIDDEN] = {0};
	double value = lstm_forward(w, x, &p), d = value - target;
	g->constant += d;
	for (int h = 0; h < HIDDEN; h++) {
		g->out[h] += d * p.h[STEPS][h];
		dh[h] = d * w->out[h];
	}
	for (int t = STEPS - 1; t >= 0; t--) {
		double before[HIDDEN] = {0};
		gate_slopes(&p, t, dh, ds, slope);
		for (int gate = 0; gate < GATES; gate++)
			for (int h = 0; h < HIDDEN; h++) {
				g->in[gate][h] += slope[gate][h] * x[input_of[t]];
				g->bias[gate][h] += slope[gate][h];
				for (int j = 0; j < HIDDEN; j++) {
					g->again[gate][h][j] += slope[gate][h] * p.h[t][j];
					before[j] += slope[gate][h] * w->again[gate][h][j];
				}
			}
		for (int h = 0; h < HIDDEN; h++)
			dh[h] = before[h];
	}
	return value;
}

const struct net_shape net_lstm = {.weights = sizeof(struct weights) / sizeof(double),
				   .init = lstm_weights,
				   .value = lstm_value,
				   .gradient = lstm_gradient};

static int lstm_init(void *state, const struct predict_config *c, struct error *err)
{
	(void)err;
	return net_init(state, &net_lstm, c);
}

const struct predict_kind predict_lstm = {.name = "lstm",
					  .bytes = sizeof(struct net),
					  .init = lstm_init,
					  .predict = net_predict,
					  .observe = net_observe,
					  .walk = net_walk,
					  .reuse = net_reuse};
