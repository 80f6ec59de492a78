/* net: see net.h. */
#include "predict/net.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

#define TRAIN_FROM 64    /* observations; until then the scale is being found */
#define REUSE_SETTLED 64 /* the same, when the weights came from another run */
#define STEPS 4          /* of Adam an observation */
#define DRAWS 32         /* samples a step */
#define CHECK_EVERY 16   /* observations between two looks at the validation samples */
#define RATE 0.01        /* of Adam; its other numbers are those of the paper */
#define RATE_MIN 0.001   /* halved no further */
#define AVERAGE 0.02     /* weight of the newest step in the mean of the weights */

int net_init(struct net *n, const struct net_shape *shape, const struct predict_config *c)
{
	n->shape = shape;
	n->seed = c->seed;
	n->warmup = c->warmup;
	n->alpha = c->alpha;
	n->scale = n->ema = n->base = n->low = n->high = NAN;
	for (int i = 0; i < 3; i++)
		n->c[i] = n->m[i] = NAN;
	n->v[0] = n->v[1] = NAN;
	n->rate = RATE;
	shape->init(n->work, &n->seed);
	memcpy(n->best, n->work, sizeof n->best);
	memcpy(n->mean, n->work, sizeof n->mean);
	return 0;
}

static double net_load_of(double in_use)
{
	return isnan(in_use) ? 0 : 2 * in_use - 1;
}

static void fill_inputs(const struct net *n, double *x)
{
	for (int i = 0; i < 2; i++)
		x[NET_V1 + i] = n->v[i] / n->scale - 1;
	for (int i = 0; i < 3; i++) {
		x[NET_C0 + i] = net_load_of(n->c[i]);
		x[NET_M0 + i] = net_load_of(n->m[i]);
	}
	x[NET_BASE] = (isnan(n->base) ? n->ema : n->base) / n->scale - 1;
}

static int speaks(const struct net *n)
{
	return !isnan(n->v[1]) && n->count >= (n->reused ? PREDICT_REUSE_MIN : n->warmup) &&
	       (n->reused || n->count > TRAIN_FROM);
}

double net_predict(void *state, double cpu, double mem)
{
	struct net *n = state;
	double x[PREDICT_NET_INPUTS];
	for (int i = 2; i > 0 && !n->waiting; i--) { /* else there is no speed beside them */
		n->c[i] = n->c[i - 1];
		n->m[i] = n->m[i - 1];
	}
	n->waiting = 1;
	if (!isnan(cpu)) /* else it is as it was */
		n->c[0] = cpu;
	if (!isnan(mem))
		n->m[0] = mem;
	if (!speaks(n))
		return n->ema;
	fill_inputs(n, x);
	double speed = (n->shape->value(n->best, x) + 1) * n->scale;
	/* Far from all speeds that were seen the net's answer means nothing. */
	return isfinite(speed) ? fmin(fmax(speed, n->low / 2), n->high * 2) : n->ema;
}

/* ---- memory ---- */

/* A sample in units of a scale that is `ratio` times smaller. */
static void to_scale(struct net_sample *s, double ratio)
{
	static const int of_speed[] = {NET_V1, NET_V2, NET_BASE};
	for (int k = 0; k < 3; k++)
		s->x[of_speed[k]] = (s->x[of_speed[k]] + 1) * ratio - 1;
	s->target = (s->target + 1) * ratio - 1;
}

/* Stored samples are in units of the scale; when it is set anew they follow. */
static void rescale(struct net *n, double scale)
{
	double ratio = n->scale / scale;
	size_t held = n->recents < PREDICT_NET_RECENT ? (size_t)n->recents : PREDICT_NET_RECENT;
	size_t checks = n->checks < PREDICT_NET_CHECK ? (size_t)n->checks : PREDICT_NET_CHECK;
	for (size_t i = 0; i < held; i++)
		to_scale(&n->recent[i], ratio);
	for (size_t i = 0; i < checks; i++)
		to_scale(&n->check[i], ratio);
	n->scale = scale;
}

static void net_remember(struct net *n, const struct net_sample *s)
{
	if ((n->recents + n->checks) % 8 == 7) {
		n->check[n->checks++ % PREDICT_NET_CHECK] = *s;
		return;
	}
	struct net_sample *slot = &n->recent[n->recents % PREDICT_NET_RECENT];
	if (n->recents++ >=
	    PREDICT_NET_RECENT) { /* the one that leaves the ring is an old one now */
		uint64_t place =
			n->olds < PREDICT_NET_OLD ? n->olds : random_next(&n->seed) % (n->olds + 1);
		n->olds++;
		if (place < PREDICT_NET_OLD)
			n->old[place] = *slot;
	}
	*slot = *s;
}

static const struct net_sample *net_draw(struct net *n)
{
	size_t recents = n->recents < PREDICT_NET_RECENT ? (size_t)n->recents : PREDICT_NET_RECENT;
	size_t olds = n->olds < PREDICT_NET_OLD ? (size_t)n->olds : PREDICT_NET_OLD;
	size_t i = (size_t)(random_next(&n->seed) % (recents + olds));
	return i < recents ? &n->recent[i] : &n->old[i - recents];
}

/* ---- learning ---- */
static void net_step(struct net *n)
{
	double g[PREDICT_NET_WEIGHTS] = {0};
	for (int i = 0; i < DRAWS; i++) {
		const struct net_sample *s = net_draw(n);
		n->shape->gradient(n->work, s->x, s->target, g);
	}
	n->steps++;
	double far = fmin((double)n->steps, 1e6); /* from there on both corrections are 1 */
	double rate = n->rate * sqrt(1 - pow(0.999, far)) / (1 - pow(0.9, far));
	for (size_t i = 0; i < n->shape->weights; i++) {
		double slope = g[i] / DRAWS;
		n->first[i] = 0.9 * n->first[i] + 0.1 * slope;
		n->second[i] = 0.999 * n->second[i] + 0.001 * slope * slope;
		n->work[i] -= rate * n->first[i] / (sqrt(n->second[i]) + 1e-8);
		n->mean[i] += AVERAGE * (n->work[i] - n->mean[i]);
	}
}

static double error_of(const struct net *n, const double *weights)
{
	size_t checks = n->checks < PREDICT_NET_CHECK ? (size_t)n->checks : PREDICT_NET_CHECK;
	double sum = 0;
	for (size_t i = 0; i < checks; i++) {
		double d = n->shape->value(weights, n->check[i].x) - n->check[i].target;
		sum += d * d;
	}
	return sum;
}

/* Both are measured on the samples of now: what was best a while ago may not be any more. */
static void net_compare(struct net *n)
{
	if (error_of(n, n->mean) < error_of(n, n->best)) {
		memcpy(n->best, n->mean, sizeof n->best);
		n->misses = 0;
		return;
	}
	if (++n->misses < PREDICT_NET_PATIENCE)
		return;
	memcpy(n->work, n->best, sizeof n->work);
	memcpy(n->mean, n->best, sizeof n->mean);
	memset(n->first, 0, sizeof n->first);
	memset(n->second, 0, sizeof n->second);
	n->steps = n->misses = 0;
	n->rate = fmax(n->rate / 2, RATE_MIN);
}

/* How badly weights of another run fit the samples kept, if this worker is `scale` fast.
 * Logarithms, clipped: a spike is one sample only. */
static double misfit(const struct net *n, double scale)
{
	double sum = 0;
	for (size_t i = 0; i < n->recents; i++) {
		struct net_sample s = n->recent[i];
		to_scale(&s, 1 / scale);
		double said = n->shape->value(n->best, s.x) + 1, was = s.target + 1;
		sum += said > 0 ? fmin(fabs(log(was / said)), 1) : 1;
	}
	return sum;
}

/* The same weights serve a worker that is faster or slower throughout. By how much is looked for on
 * a grid, each time that twice as many samples are there a finer one, at about the same cost. */
static void find_scale(struct net *n)
{
	static const struct {
		uint64_t count;
		double width; /* of the search, a logarithm */
		int steps;
	} search[] = {
		{PREDICT_REUSE_MIN, 4, 40}, {16, 0.5, 20}, {32, 0.2, 8}, {REUSE_SETTLED, 0.1, 4}};
	for (size_t i = 0; i < sizeof search / sizeof *search; i++) {
		if (n->count != search[i].count)
			continue;
		double mean = n->sum / (double)n->count;
		if (i == 0 && fabs(log(mean / n->scale)) > search[i].width / 2)
			n->scale = mean; /* far from the other one */
		double middle = n->scale, least = misfit(n, middle);
		for (int k = -search[i].steps; k <= search[i].steps; k++) {
			double scale = middle * exp(search[i].width * k / search[i].steps);
			double fit = misfit(n, scale);
			if (fit < least) {
				least = fit;
				n->scale = scale;
			}
		}
	}
}

void net_observe(void *state, double speed)
{
	struct net *n = state;
	uint64_t settled = n->reused ? REUSE_SETTLED : TRAIN_FROM;
	n->waiting = 0;
	n->count++;
	n->sum += speed;
	n->low = fmin(n->low, speed);
	n->high = fmax(n->high, speed);
	if (isnan(n->scale))
		n->scale = speed;
	if (!isnan(n->v[1])) {
		struct net_sample s;
		fill_inputs(n, s.x);
		s.target = speed / n->scale - 1;
		if (n->count <= settled && n->reused) {
			to_scale(&s, n->scale); /* kept as speeds while the scale is looked for */
			n->recent[n->recents++] = s;
		} else {
			net_remember(n, &s);
		}
	}
	if (n->reused && n->count <= settled)
		find_scale(n);
	if (n->reused && n->count == settled) { /* the samples kept are in its units from now on */
		double scale = n->scale;
		n->scale = 1;
		rescale(n, scale);
	}
	n->v[1] = n->v[0];
	n->v[0] = speed;
	n->ema = isnan(n->ema) ? speed : (1 - n->alpha) * n->ema + n->alpha * speed;
	if (n->count == TRAIN_FROM && !n->reused)
		rescale(n, n->sum / (double)n->count);
	if (n->count < settled || n->recents == 0)
		return;
	for (int i = 0; i < STEPS; i++)
		net_step(n);
	if (n->count % CHECK_EVERY == 0 && n->checks > 0)
		net_compare(n);
}

int net_reuse(void *state, const void *other, struct error *err)
{
	struct net *n = state;
	const struct net *from = other;
	(void)err;
	memcpy(n->best, from->best, sizeof n->best);
	memcpy(n->work, from->best, sizeof n->work);
	memcpy(n->mean, from->best, sizeof n->mean);
	n->rate = fmin(from->rate, RATE / 4);
	n->scale = from->scale;
	n->reused = from->reused || from->count >= from->warmup;
	if (!n->reused)
		n->rate = from->rate;
	return 0;
}

/* ---- files ---- */
static void walk_samples(struct net_sample *s, size_t room, uint64_t *ever, const char *name,
			 struct predict_state *f)
{
	char label[16];
	size_t len = strlen(name);
	memcpy(label, name, len);
	memcpy(label + len, "-n", 3);
	predict_state_u64(f, label, ever, UINT64_MAX / 2);
	size_t held = *ever < room ? (size_t)*ever : room;
	predict_state_reals(f, name, (double *)s, held * (sizeof *s / sizeof(double)));
}

void net_walk(void *state, struct predict_state *f)
{
	struct net *n = state;
	size_t weights = n->shape->weights;
	predict_state_reals(f, "best", n->best, weights);
	predict_state_reals(f, "work", n->work, weights);
	predict_state_reals(f, "mean", n->mean, weights);
	predict_state_reals(f, "first", n->first, weights);
	predict_state_reals(f, "second", n->second, weights);
	predict_state_reals(f, "rate", &n->rate, 1);
	predict_state_u64(f, "steps", &n->steps, UINT64_MAX / 2);
	predict_state_u64(f, "misses", &n->misses, PREDICT_NET_PATIENCE);
	predict_state_reals(f, "scale", &n->scale, 1);
	predict_state_reals(f, "sum", &n->sum, 1);
	predict_state_reals(f, "speeds", n->v, 2);
	predict_state_reals(f, "cpu", n->c, 3);
	predict_state_reals(f, "mem", n->m, 3);
	predict_state_reals(f, "ema", &n->ema, 1);
	predict_state_reals(f, "base", &n->base, 1);
	predict_state_reals(f, "low", &n->low, 1);
	predict_state_reals(f, "high", &n->high, 1);
	predict_state_u64(f, "count", &n->count, UINT64_MAX / 2);
	predict_state_u64(f, "random", &n->seed, UINT64_MAX);
	predict_state_u64(f, "reused", &n->reused, 1);
	predict_state_u64(f, "waiting", &n->waiting, 1);
	walk_samples(n->recent, PREDICT_NET_RECENT, &n->recents, "recent", f);
	walk_samples(n->old, PREDICT_NET_OLD, &n->olds, "old", f);
	walk_samples(n->check, PREDICT_NET_CHECK, &n->checks, "check", f);
	if (n->recents + n->checks > n->count)
		predict_state_refuse(f, "more samples than speeds");
}
