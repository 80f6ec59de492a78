/*
 * net: the tiny nets, and how one learns while the job runs.
 *
 * A net is a function of PREDICT_NET_INPUTS numbers and some weights.  The trainer keeps samples in
 * bounded memory: the newest ones in a ring, older ones in a reservoir (each old sample with the
 * same probability: Vitter 1985), one in eight for validation only.  With each observation it takes
 * a few steps of Adam (Kingma and Ba 2015) on small draws from both, so that an update costs the
 * same at all times and a load seen an hour ago is not forgotten.  Early stopping: the weights that
 * speak are those that were best on the validation samples; when the working copy (its moving mean
 * is compared: single steps are noisy) has not beaten them PREDICT_NET_PATIENCE times in a row it
 * goes back to them, with smaller steps.
 */
#ifndef PACELINE_PREDICT_NET_H
#define PACELINE_PREDICT_NET_H

#include "predict/predict_internal.h"

#define PREDICT_NET_INPUTS 9    /* v1 v2 c0 c1 c2 m0 m1 m2 base */
#define PREDICT_NET_WEIGHTS 384 /* at most */
#define PREDICT_NET_RECENT 512
#define PREDICT_NET_OLD 512
#define PREDICT_NET_CHECK 128 /* validation samples */
#define PREDICT_NET_PATIENCE 10

enum { NET_V1, NET_V2, NET_C0, NET_C1, NET_C2, NET_M0, NET_M1, NET_M2, NET_BASE };

/* Speeds are in units of the worker's own scale, less 1; loads from -1 to 1, 0 when not known. */
struct net_shape {
	size_t weights;
	void (*init)(double *w, uint64_t *seed);
	double (*value)(const double *w, const double *x);
	/* Adds the gradient of (value - target)^2 / 2 by w to g; returns value. */
	double (*gradient)(const double *w, const double *x, double target, double *g);
};

extern const struct net_shape net_narx, net_rnn, net_lstm;

struct net_sample {
	double x[PREDICT_NET_INPUTS];
	double target;
};

struct net {
	const struct net_shape *shape;
	/* what was learnt */
	double best[PREDICT_NET_WEIGHTS], work[PREDICT_NET_WEIGHTS], mean[PREDICT_NET_WEIGHTS];
	double first[PREDICT_NET_WEIGHTS], second[PREDICT_NET_WEIGHTS]; /* Adam's moments */
	double rate;
	uint64_t steps, misses;
	/* the run */
	double scale, sum;       /* samples per second; NAN until known */
	double v[2], c[3], m[3]; /* newest first; c[0], m[0]: this iteration */
	double ema, low, high;   /* of speeds; lowest and highest seen */
	double base; /* what a simpler model says of this iteration, for the net to start from; NAN:
			ema */
	double alpha;
	uint64_t count, warmup, seed, reused;
	uint64_t waiting; /* predicted, and not yet observed */
	struct net_sample recent[PREDICT_NET_RECENT], old[PREDICT_NET_OLD];
	struct net_sample check[PREDICT_NET_CHECK];
	uint64_t recents, olds, checks; /* ever put there */
};

int net_init(struct net *n, const struct net_shape *shape, const struct predict_config *c);
/* As struct predict_kind wants them; state is a struct net. */
double net_predict(void *state, double cpu, double mem);
void net_observe(void *state, double speed);
void net_walk(void *state, struct predict_state *f);
int net_reuse(void *state, const void *from, struct error *err);

#endif
