/* simple: the models without parameters to learn: last, ema, quantile. */
#include "predict/predict_internal.h"

#include <math.h>

/* ---- last ---- */
struct last {
	double speed;
};

static int last_init(void *state, const struct predict_config *c, struct error *err)
{
	(void)c, (void)err;
	((struct last *)state)->speed = NAN;
	return 0;
}

static double last_predict(void *state, double cpu, double mem)
{
	(void)cpu, (void)mem;
	return ((struct last *)state)->speed;
}

static void last_observe(void *state, double speed)
{
	((struct last *)state)->speed = speed;
}

static void last_walk(void *state, struct predict_state *f)
{
	predict_state_reals(f, "speed", &((struct last *)state)->speed, 1);
}

const struct predict_kind predict_last = {.name = "last",
					  .bytes = sizeof(struct last),
					  .init = last_init,
					  .predict = last_predict,
					  .observe = last_observe,
					  .walk = last_walk};

/* ---- ema: s = (1 - alpha) s + alpha v, from the first speed on ---- */
struct ema {
	double alpha, speed;
};

static int ema_init(void *state, const struct predict_config *c, struct error *err)
{
	(void)err;
	*(struct ema *)state = (struct ema){.alpha = c->alpha, .speed = NAN};
	return 0;
}

static double ema_predict(void *state, double cpu, double mem)
{
	(void)cpu, (void)mem;
	return ((struct ema *)state)->speed;
}

static void ema_observe(void *state, double speed)
{
	struct ema *e = state;
	e->speed = isnan(e->speed) ? speed : (1 - e->alpha) * e->speed + e->alpha * speed;
}

static void ema_walk(void *state, struct predict_state *f)
{
	predict_state_reals(f, "speed", &((struct ema *)state)->speed, 1);
}

const struct predict_kind predict_ema = {.name = "ema",
					 .bytes = sizeof(struct ema),
					 .init = ema_init,
					 .predict = ema_predict,
					 .observe = ema_observe,
					 .walk = ema_walk};

/* ---- quantile ---- */
struct quantile {
	struct predict_times times;
	double quantile;
	size_t window;
};

void predict_times_add(struct predict_times *t, double speed)
{
	t->time[t->count++ % PREDICT_WINDOW_MAX] = 1 / speed;
}

size_t predict_times_sort(const struct predict_times *t, size_t window, double *sorted)
{
	size_t n = t->count < window ? (size_t)t->count : window;
	for (size_t i = 0; i < n; i++) {
		double time = t->time[(t->count - 1 - i) % PREDICT_WINDOW_MAX];
		size_t at = i;
		for (; at > 0 && sorted[at - 1] > time; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = time;
	}
	return n;
}

double predict_times_place(const double *sorted, size_t n, double quantile)
{
	if (n == 0)
		return NAN;
	double place = quantile * (double)(n - 1), below = floor(place);
	size_t i = (size_t)below;
	return i + 1 < n ? sorted[i] + (sorted[i + 1] - sorted[i]) * (place - below) : sorted[i];
}

void predict_times_walk(struct predict_times *t, struct predict_state *f)
{
	predict_state_u64(f, "times", &t->count, UINT64_MAX - 1);
	predict_state_reals(f, "time", t->time, PREDICT_WINDOW_MAX);
}

static int quantile_init(void *state, const struct predict_config *c, struct error *err)
{
	struct quantile *q = state;
	(void)err;
	q->quantile = c->quantile;
	q->window = c->window;
	return 0;
}

static double quantile_predict(void *state, double cpu, double mem)
{
	const struct quantile *q = state;
	(void)cpu, (void)mem;
	double sorted[PREDICT_WINDOW_MAX];
	size_t n = predict_times_sort(&q->times, q->window, sorted);
	return 1 / predict_times_place(sorted, n, q->quantile);
}

static void quantile_observe(void *state, double speed)
{
	predict_times_add(&((struct quantile *)state)->times, speed);
}

static void quantile_walk(void *state, struct predict_state *f)
{
	predict_times_walk(&((struct quantile *)state)->times, f);
}

const struct predict_kind predict_quantile = {.name = "quantile",
					      .bytes = sizeof(struct quantile),
					      .init = quantile_init,
					      .predict = quantile_predict,
					      .observe = quantile_observe,
					      .walk = quantile_walk};
