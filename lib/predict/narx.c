/*
 * narx: v[k] = F(v[k-1..k-2], c[k..k-2], m[k..k-2]), one hidden layer of tanh (LB-BSP Eq. 4).
 *
 * Beside the published form, F is written as base + u.x + w.tanh(W x + b), where base is what gam
 * says, or ema if no load is known: a net whose new weights are zeros says the same.  So it is no
 * worse before it has learnt, and it goes on in a curve for loads that were not seen yet.
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
	double sum[HIDDEN], value = x[NET_BASE] + w->constant;
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

struct narx {
	struct net net;
	struct predictor *base; /* gam */
	uint64_t loads;         /* one was ever known */
};

static int narx_init(void *state, const struct predict_config *c, struct error *err)
{
	struct narx *n = state;
	struct predict_config own = *c;
	own.model = PREDICT_GAM;
	if (predictor_new(&n->base, &own, err) != 0)
		return -1;
	return net_init(&n->net, &net_narx, c);
}

static void narx_free(void *state)
{
	struct narx *n = state;
	predictor_free(n->base);
}

/* Where no load is shown, gam has nothing to say. */
static double narx_predict(void *state, double cpu, double mem)
{
	struct narx *n = state;
	double said = predictor_predict(n->base, cpu, mem);
	n->loads |= !isnan(cpu) || !isnan(mem);
	n->net.base = n->loads ? said : NAN;
	return net_predict(&n->net, cpu, mem);
}

static void narx_observe(void *state, double speed)
{
	struct narx *n = state;
	net_observe(&n->net, speed);
	predictor_observe(n->base, speed);
}

static void narx_walk(void *state, struct predict_state *f)
{
	struct narx *n = state;
	net_walk(&n->net, f);
	predict_state_u64(f, "loads", &n->loads, 1);
	predictor_walk(n->base, f);
}

static int narx_reuse(void *state, const void *from, struct error *err)
{
	struct narx *n = state;
	const struct narx *b = from;
	predictor_free(n->base);
	n->base = NULL;
	if (predictor_reuse(&n->base, b->base, err) != 0)
		return -1;
	return net_reuse(&n->net, &b->net, err);
}

const struct predict_kind predict_narx = {.name = "narx",
					  .bytes = sizeof(struct narx),
					  .init = narx_init,
					  .free = narx_free,
					  .predict = narx_predict,
					  .observe = narx_observe,
					  .walk = narx_walk,
					  .reuse = narx_reuse};
