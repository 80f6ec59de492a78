/*
 * The optimisers as loops that compilers vectorise: one kernel an optimiser, used for long ranges
 * and for rows.  No state, no allocation, no failure but an unknown name.
 */
#include "opt/opt.h"

#include <math.h>
#include <string.h>

#define ADAGRAD_EPSILON 1e-10f
#define ADAM_BETA1 0.9f
#define ADAM_BETA2 0.999f
#define ADAM_EPSILON 1e-8f
#define FTRL_BETA 1.0f

static const struct {
	const char *name;
	size_t slots;
} opt_table[] = {
	[OPT_SGD] = {"sgd", 0},   [OPT_MOMENTUM] = {"momentum", 1}, [OPT_ADAGRAD] = {"adagrad", 1},
	[OPT_ADAM] = {"adam", 2}, [OPT_FTRL] = {"ftrl", 2},         [OPT_ADD] = {"add", 0},
};

int opt_by_name(struct opt *o, const char *name, struct error *err)
{
	for (size_t i = 0; i < sizeof opt_table / sizeof *opt_table; i++) {
		if (strcmp(opt_table[i].name, name) == 0) {
			memset(o, 0, sizeof *o);
			o->kind = (enum opt_kind)i;
			o->momentum = 0.9f;
			return 0;
		}
	}
	return error_set(err, ERROR_CONFIG, "optimizer", "unknown: %s (" OPT_NAMES ")", name);
}

const char *opt_name(const struct opt *o)
{
	return opt_table[o->kind].name;
}

size_t opt_slots(const struct opt *o)
{
	return opt_table[o->kind].slots;
}

void opt_init(const struct opt *o, const float *p, float *const *slots, size_t n)
{
	for (size_t k = 0; k < opt_slots(o); k++)
		memset(slots[k], 0, n * sizeof *p);
	if (o->kind == OPT_ADAGRAD)
		for (size_t i = 0; i < n; i++)
			slots[0][i] = OPT_ADAGRAD_START;
	if (o->kind != OPT_FTRL)
		return;
	/* ftrl computes p from z and n alone: start z where the proximal step gives p back. */
	for (size_t i = 0; i < n; i++) {
		float sign = p[i] > 0.0f ? 1.0f : p[i] < 0.0f ? -1.0f : 0.0f;
		slots[0][i] = -p[i] * (FTRL_BETA / o->lr + o->l2) - sign * o->l1;
	}
}

void opt_step_begin(struct opt_step *s, const struct opt *o, double factor, uint64_t t)
{
	double steps = (double)(t ? t : 1);

	s->opt = *o;
	s->factor = o->kind == OPT_ADD ? 1.0f : (float)factor;
	s->adam_lr = (float)((double)o->lr / (1.0 - pow((double)ADAM_BETA1, steps)));
	s->adam_bias = (float)(1.0 / sqrt(1.0 - pow((double)ADAM_BETA2, steps)));
}

/* ---- kernels: n elements each ---- */

static inline void sgd(const struct opt_step *s, float *restrict p, const float *restrict g,
		       size_t n)
{
	float step = s->opt.lr * s->factor, decay = s->opt.lr * s->opt.l2;

	if (decay == 0.0f) {
		for (size_t i = 0; i < n; i++)
			p[i] -= step * g[i];
		return;
	}
	for (size_t i = 0; i < n; i++)
		p[i] -= step * g[i] + decay * p[i];
}

static inline void momentum(const struct opt_step *s, float *restrict p, float *restrict v,
			    const float *restrict g, size_t n)
{
	float factor = s->factor, l2 = s->opt.l2, lr = s->opt.lr, mu = s->opt.momentum;

	for (size_t i = 0; i < n; i++) {
		v[i] = mu * v[i] + (factor * g[i] + l2 * p[i]);
		p[i] -= lr * v[i];
	}
}

static inline void adagrad(const struct opt_step *s, float *restrict p, float *restrict sum,
			   const float *restrict g, size_t n)
{
	float factor = s->factor, l2 = s->opt.l2, lr = s->opt.lr;

	for (size_t i = 0; i < n; i++) {
		float d = factor * g[i] + l2 * p[i];
		sum[i] += d * d;
		p[i] -= lr * d / (sqrtf(sum[i]) + ADAGRAD_EPSILON);
	}
}

static inline void adam(const struct opt_step *s, float *restrict p, float *restrict m,
			float *restrict v, const float *restrict g, size_t n)
{
	float factor = s->factor, l2 = s->opt.l2, lr = s->adam_lr, bias = s->adam_bias;

	for (size_t i = 0; i < n; i++) {
		float d = factor * g[i] + l2 * p[i];
		m[i] = ADAM_BETA1 * m[i] + (1.0f - ADAM_BETA1) * d;
		v[i] = ADAM_BETA2 * v[i] + (1.0f - ADAM_BETA2) * d * d;
		p[i] -= lr * m[i] / (sqrtf(v[i]) * bias + ADAM_EPSILON);
	}
}

static inline void ftrl(const struct opt_step *s, float *restrict p, float *restrict z,
			float *restrict sum, const float *restrict g, size_t n)
{
	float factor = s->factor, rate = 1.0f / s->opt.lr, l1 = s->opt.l1, l2 = s->opt.l2;

	for (size_t i = 0; i < n; i++) {
		float d = factor * g[i];
		float root = sqrtf(sum[i]);
		sum[i] += d * d;
		float grown = sqrtf(sum[i]);
		z[i] += d - (grown - root) * rate * p[i];
		float excess = fabsf(z[i]) - l1;
		float w = copysignf(excess, z[i]) / ((FTRL_BETA + grown) * rate + l2);
		p[i] = excess > 0.0f ? -w : 0.0f;
	}
}

static inline void add(float *restrict p, const float *restrict g, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] += g[i];
}

void opt_apply(const struct opt_step *s, float *p, float *const *slots, const float *g, size_t n)
{
	switch (s->opt.kind) {
	case OPT_SGD:
		sgd(s, p, g, n);
		break;
	case OPT_MOMENTUM:
		momentum(s, p, slots[0], g, n);
		break;
	case OPT_ADAGRAD:
		adagrad(s, p, slots[0], g, n);
		break;
	case OPT_ADAM:
		adam(s, p, slots[0], slots[1], g, n);
		break;
	case OPT_FTRL:
		ftrl(s, p, slots[0], slots[1], g, n);
		break;
	case OPT_ADD:
		add(p, g, n);
		break;
	}
}

/* Rows are short: the switch is outside, and with a constant width the inner loops vanish. */
static inline void rows(const struct opt_step *s, float *const *row, size_t count, size_t w,
			const float *g)
{
	switch (s->opt.kind) {
	case OPT_SGD:
		for (size_t i = 0; i < count; i++)
			sgd(s, row[i], g + i * w, w);
		break;
	case OPT_MOMENTUM:
		for (size_t i = 0; i < count; i++)
			momentum(s, row[i], row[i] + w, g + i * w, w);
		break;
	case OPT_ADAGRAD:
		for (size_t i = 0; i < count; i++)
			adagrad(s, row[i], row[i] + w, g + i * w, w);
		break;
	case OPT_ADAM:
		for (size_t i = 0; i < count; i++)
			adam(s, row[i], row[i] + w, row[i] + 2 * w, g + i * w, w);
		break;
	case OPT_FTRL:
		for (size_t i = 0; i < count; i++)
			ftrl(s, row[i], row[i] + w, row[i] + 2 * w, g + i * w, w);
		break;
	case OPT_ADD:
		for (size_t i = 0; i < count; i++)
			add(row[i], g + i * w, w);
		break;
	}
}

void opt_apply_rows(const struct opt_step *s, float *const *row, size_t count, size_t width,
		    const float *g)
{
	if (width == 1) /* logistic regression */
		rows(s, row, count, 1, g);
	else if (width == 17) /* wide & deep: its default embedding */
		rows(s, row, count, 17, g);
	else
		rows(s, row, count, width, g);
}

void opt_sum(float *out, const float *const *g, const float *weight, size_t sources, size_t at,
	     size_t n)
{
	const float *restrict first = g[0] + at;
	float *restrict sum = out;
	float w = weight[0];

	for (size_t i = 0; i < n; i++)
		sum[i] = w * first[i];
	for (size_t k = 1; k < sources; k++) {
		const float *restrict next = g[k] + at;
		w = weight[k];
		for (size_t i = 0; i < n; i++)
			sum[i] += w * next[i];
	}
}

void opt_apply_sum(const struct opt_step *s, float *p, float *const *slots, const float *const *g,
		   const float *weight, size_t sources, size_t n)
{
	float sum[OPT_BLOCK];

	if (sources == 1 && weight[0] == 1.0f) {
		opt_apply(s, p, slots, g[0], n);
		return;
	}
	for (size_t at = 0; at < n; at += OPT_BLOCK) {
		size_t len = n - at < OPT_BLOCK ? n - at : OPT_BLOCK;
		float *slot[OPT_SLOTS_MAX] = {NULL, NULL};
		for (size_t k = 0; k < opt_slots(&s->opt); k++)
			slot[k] = slots[k] + at;
		opt_sum(sum, g, weight, sources, at, len);
		opt_apply(s, p + at, slot, sum, len);
	}
}
