/*
 * The optimisers as loops that compilers vectorise: one kernel an optimiser, used for long ranges
 * and for rows.  No state, no allocation, no failure but an unknown name.
 *
 * It must never store a value that is not finite, whatever the gradient is.  Each kernel has one
 * bound, and the others follow from it.  If a step is at most 1e24, or a square at most 1e30, then
 * the float to which it is added needs no bound: it stops growing below 4e37, because there the
 * rounded sum is the old value.
 */
#include "param/opt.h"

#include "base/option.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define ADAGRAD_EPSILON 1e-10f
#define ADAM_BETA1 0.9f
#define ADAM_BETA2 0.999f
#define ADAM_EPSILON 1e-8f
#define FTRL_BETA 1.0f

#define STEP_MAX 1e15f /* of the gradient that a step is made with */
#define OUTLIER 1e3f   /* times what was usual before; see opt.h */
/* The bound of a first moment that comes from a file or another process. A larger one, divided by
 * the root of a second moment that does not fit it, could be an infinite step. */
#define MOMENT_MAX 1e18f

#define NO_SLOT OPT_SLOTS_MAX

static const struct {
	const char *name;
	size_t slots;
	size_t squares; /* the slot that is a sum or a mean of squares; its roots are taken */
	double usual_lr;
} opt_table[] = {
	[OPT_SGD] = {"sgd", 0, NO_SLOT, 0.1},
	[OPT_MOMENTUM] = {"momentum", 1, NO_SLOT, 0.01},
	[OPT_ADAGRAD] = {"adagrad", 1, 0, 0.05},
	[OPT_ADAM] = {"adam", 2, 1, 0.001},
	[OPT_FTRL] = {"ftrl", 2, 1, 0.1},
	[OPT_ADD] = {"add", 0, NO_SLOT, 0},
};
const size_t opt_kinds = sizeof opt_table / sizeof *opt_table;

/* Holds x within +-most; a NaN becomes one of the two. It is written so that a vector needs only a
 * few logical operations and one minimum, as smaller() does; with a maximum of two minima,
 * compilers make masks. */
static inline float opt_within(float x, float most)
{
	float size = fabsf(x);

	return copysignf(size < most ? size : most, x);
}

/* 1 where opt_within() would change x. */
static inline unsigned opt_beyond(float x, float most)
{
	return (unsigned)!(fabsf(x) <= most);
}

static inline float smaller(float a, float b)
{
	return a < b ? a : b; /* b where a is a NaN */
}

int opt_by_name(struct opt *o, const char *name, struct error *err)
{
	for (size_t i = 0; i < opt_kinds; i++) {
		if (strcmp(opt_table[i].name, name) == 0) {
			*o = (struct opt){.kind = (enum opt_kind)i, .momentum = 0.9f};
			return 0;
		}
	}
	return error_set(err, ERROR_CONFIG, "optimizer", "unknown: %s (" OPT_NAMES ")", name);
}

/* What only some schedules have. */
static int check_fields(enum opt_schedule schedule, const struct opt_rate *r, struct error *err)
{
	int has_root = schedule == OPT_SQRT || schedule == OPT_ADADELAY;
	int has_steps = schedule == OPT_STAIRS || schedule == OPT_COSINE;

	if (!has_root && r->beta > 0.0)
		return error_set(err, ERROR_CONFIG, "beta", "is for the schedules sqrt and adadelay");
	if (has_steps && r->steps == 0)
		return error_set(err, ERROR_CONFIG, "schedule", "%s needs steps: how many",
				 r->schedule);
	if (!has_steps && r->steps > 0)
		return error_set(err, ERROR_CONFIG, "steps", "is for the schedules step and cosine");
	if (!has_steps && !isnan(r->factor))
		return error_set(err, ERROR_CONFIG, "factor", "is for the schedules step and cosine");
	return 0;
}

int opt_set_rate(struct opt *o, const struct opt_rate *r, struct error *err)
{
	static const char *const schedules[] = {[OPT_CONSTANT] = "constant",
						[OPT_SQRT] = "sqrt",
						[OPT_ADADELAY] = "adadelay",
						[OPT_STAIRS] = "step",
						[OPT_COSINE] = "cosine"};
	size_t i = 0;

	while (i < sizeof schedules / sizeof *schedules && strcmp(schedules[i], r->schedule) != 0)
		i++;
	if (i == sizeof schedules / sizeof *schedules)
		return error_set(err, ERROR_CONFIG, "schedule", "unknown: %s (" OPT_SCHEDULES ")",
				 r->schedule);
	if (check_fields((enum opt_schedule)i, r, err) != 0)
		return -1;
	if (i != OPT_CONSTANT && !option_is_choice(OPT_RATED, opt_name(o->kind)))
		return error_set(err, ERROR_CONFIG, "schedule", "%s has only constant, not %s",
				 opt_name(o->kind), r->schedule);
	if ((i == OPT_SQRT || i == OPT_ADADELAY) &&
	    !option_is_choice(OPT_SCHEDULED, opt_name(o->kind)))
		return error_set(err, ERROR_CONFIG, "schedule", "%s has constant, step and cosine, not %s",
				 opt_name(o->kind), r->schedule);
	if (i == OPT_SQRT && o->kind == OPT_ADAGRAD)
		return error_set(err, ERROR_CONFIG, "schedule",
				 "adagrad's steps become smaller by themselves: constant or adadelay");
	if ((r->warmup > 0 || r->decay > 0) && !option_is_choice(OPT_RATED, opt_name(o->kind)))
		return error_set(err, ERROR_CONFIG, r->warmup > 0 ? "warmup" : "decay",
				 "is for " OPT_RATED ", not %s", opt_name(o->kind));
	o->schedule = (enum opt_schedule)i;
	o->beta = (float)r->beta;
	o->steps = (double)r->steps;
	o->factor = !isnan(r->factor) ? r->factor : i == OPT_STAIRS ? 0.1 : 0.0;
	o->warmup = (double)r->warmup;
	o->decay = (float)r->decay;
	return 0;
}

double opt_usual_lr(const char *name)
{
	struct opt o = {0};
	return opt_by_name(&o, name, NULL) == 0 ? opt_table[o.kind].usual_lr : 0;
}

const char *opt_name(size_t kind)
{
	return opt_table[kind].name;
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
	/* ftrl computes p from z and n alone. So z starts where the proximal step gives back p. */
	for (size_t i = 0; i < n; i++) {
		float sign = p[i] > 0.0f ? 1.0f : p[i] < 0.0f ? -1.0f : 0.0f;
		float z = -p[i] * (FTRL_BETA / o->lr + o->l2) - sign * o->l1;
		slots[0][i] = opt_within(z, OPT_VALUE_MAX);
	}
}

/* The first value that is not in low..high, or n. The first pass is one that compilers vectorise;
 * the second runs only if there is something to find. */
static size_t first_beyond(const float *x, size_t n, float low, float high)
{
	unsigned any = 0;

	for (size_t i = 0; i < n; i++)
		any |= !(x[i] >= low && x[i] <= high) ? 1u : 0u;
	for (size_t i = 0; any && i < n; i++) {
		if (!(x[i] >= low && x[i] <= high))
			return i;
	}
	return n;
}

size_t opt_bad_gradient(const float *g, size_t n)
{
	return first_beyond(g, n, -OPT_GRADIENT_MAX, OPT_GRADIENT_MAX);
}

size_t opt_bad_slot(const struct opt *o, size_t slot, const float *x, size_t n)
{
	float most = o->kind == OPT_ADAM && slot == 0 ? MOMENT_MAX : FLT_MAX;

	return first_beyond(x, n, opt_table[o->kind].squares == slot ? 0.0f : -most, most);
}

/* What the rate of step t is multiplied by. */
static double rate_part(const struct opt *o, double t)
{
	double part = 1.0;

	if (o->schedule == OPT_STAIRS)
		part = pow(o->factor, floor((t - 1.0) / o->steps));
	if (o->schedule == OPT_COSINE)
		part = o->factor + (1.0 - o->factor) *
					   (1.0 + cos(M_PI * fmin(1.0, (t - 1.0) / o->steps))) / 2.0;
	return t < o->warmup ? part * t / o->warmup : part;
}

void opt_step_begin(struct opt_step *s, const struct opt *o, double factor, uint64_t t,
		    uint64_t delay)
{
	double steps = (double)(t ? t : 1);
	double stale = steps + (o->schedule == OPT_ADADELAY ? (double)delay : 0.0);

	s->opt = *o;
	double lr = (double)o->lr * rate_part(o, steps);
	if ((o->schedule == OPT_SQRT || o->schedule == OPT_ADADELAY) && o->kind != OPT_ADAGRAD)
		lr /= (double)o->beta + sqrt(stale);
	s->opt.lr = (float)lr;
	s->shrink = (float)fmax(0.0, 1.0 - lr * (double)o->decay);
	s->stale = (float)sqrt(stale / steps);
	s->beta = ADAGRAD_EPSILON + o->beta;
	s->factor = o->kind == OPT_ADD ? 1.0f : (float)factor;
	s->adam_lr = (float)(lr / (1.0 - pow((double)ADAM_BETA1, steps)));
	s->adam_bias = (float)(1.0 / sqrt(1.0 - pow((double)ADAM_BETA2, steps)));
}

/* ---- kernels: each does n elements and returns how many values were held at a bound ---- */

static inline unsigned sgd(const struct opt_step *s, float *restrict p, const float *restrict g,
			   size_t n)
{
	float factor = s->factor, l2 = s->opt.l2, lr = s->opt.lr, step = lr * factor;
	unsigned held = 0;

	if (l2 == 0.0f) {
		for (size_t i = 0; i < n; i++) {
			float x = p[i] - step * g[i];
			held += opt_beyond(x, OPT_VALUE_MAX);
			p[i] = opt_within(x, OPT_VALUE_MAX);
		}
		return held;
	}
	for (size_t i = 0; i < n; i++) {
		float d = factor * g[i] + l2 * p[i];
		held += opt_beyond(d, STEP_MAX);
		p[i] -= lr * opt_within(d, STEP_MAX);
	}
	return held;
}

static inline unsigned momentum(const struct opt_step *s, float *restrict p, float *restrict v,
				const float *restrict g, size_t n)
{
	float factor = s->factor, l2 = s->opt.l2, lr = s->opt.lr, mu = s->opt.momentum;
	unsigned held = 0;

	for (size_t i = 0; i < n; i++) {
		float x = mu * v[i] + (factor * g[i] + l2 * p[i]);
		held += opt_beyond(x, STEP_MAX);
		v[i] = opt_within(x, STEP_MAX);
		p[i] -= lr * v[i];
	}
	return held;
}

/* Only a part of an outlier is added to the sum. Its step is lr all the same, as it is for any
 * gradient that is large beside those before it. */
static inline unsigned adagrad(const struct opt_step *s, float *restrict p, float *restrict sum,
			       const float *restrict g, size_t n)
{
	float factor = s->factor, l2 = s->opt.l2, lr = s->opt.lr, stale = s->stale, beta = s->beta;
	unsigned held = 0;

	for (size_t i = 0; i < n; i++) {
		float d = factor * g[i] + l2 * p[i];
		float most = OUTLIER * OUTLIER * (1.0f + sum[i]);
		most = smaller(most, STEP_MAX * STEP_MAX);
		held += opt_beyond(d * d, most);
		sum[i] += smaller(d * d, most);
		p[i] -= lr * opt_within(d / (sqrtf(sum[i]) * stale + beta), 1.0f);
	}
	return held;
}

static inline unsigned adam(const struct opt_step *s, float *restrict p, float *restrict m,
			    float *restrict v, const float *restrict g, size_t n)
{
	float factor = s->factor, l2 = s->opt.l2, lr = s->adam_lr, bias = s->adam_bias;
	unsigned held = 0;

	for (size_t i = 0; i < n; i++) {
		/* The mean of squares itself, not its root: the root would cost more than all else
		 * here, and v forgets an outlier. */
		float most = smaller(OUTLIER * (1.0f + v[i]), STEP_MAX);
		float d = factor * g[i] + l2 * p[i];
		held += opt_beyond(d, most);
		d = opt_within(d, most);
		m[i] = ADAM_BETA1 * m[i] + (1.0f - ADAM_BETA1) * d;
		v[i] = ADAM_BETA2 * v[i] + (1.0f - ADAM_BETA2) * d * d;
		p[i] -= lr * m[i] / (sqrtf(v[i]) * bias + ADAM_EPSILON);
	}
	return held;
}

static inline unsigned ftrl(const struct opt_step *s, float *restrict p, float *restrict z,
			    float *restrict sum, const float *restrict g, size_t n)
{
	float factor = s->factor, rate = 1.0f / s->opt.lr, l1 = s->opt.l1, l2 = s->opt.l2;
	unsigned held = 0;

	for (size_t i = 0; i < n; i++) {
		float root = sqrtf(sum[i]), d = factor * g[i];
		float most = smaller(OUTLIER * (1.0f + root), STEP_MAX);
		held += opt_beyond(d, most);
		d = opt_within(d, most);
		sum[i] += d * d;
		float grown = sqrtf(sum[i]);
		/* The order matters: rate may be so large that p[i] * rate is infinite, and
		 * infinity times 0 is a NaN. */
		z[i] = opt_within(z[i] + d - (grown - root) * p[i] * rate, OPT_VALUE_MAX);
		float excess = fabsf(z[i]) - l1;
		float w = copysignf(excess, z[i]) / ((FTRL_BETA + grown) * rate + l2);
		p[i] = excess > 0.0f ? -w : 0.0f;
	}
	return held;
}

static inline unsigned opt_add(float *restrict p, const float *restrict g, size_t n)
{
	unsigned held = 0;

	for (size_t i = 0; i < n; i++) {
		float x = p[i] + g[i];
		held += opt_beyond(x, OPT_VALUE_MAX);
		p[i] = opt_within(x, OPT_VALUE_MAX);
	}
	return held;
}

static inline void opt_shrink(const struct opt_step *s, float *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] *= s->shrink;
}

size_t opt_apply(const struct opt_step *s, float *p, float *const *slots, const float *g, size_t n)
{
	if (s->shrink < 1.0f)
		opt_shrink(s, p, n);
	switch (s->opt.kind) {
	case OPT_SGD:
		return sgd(s, p, g, n);
	case OPT_MOMENTUM:
		return momentum(s, p, slots[0], g, n);
	case OPT_ADAGRAD:
		return adagrad(s, p, slots[0], g, n);
	case OPT_ADAM:
		return adam(s, p, slots[0], slots[1], g, n);
	case OPT_FTRL:
		return ftrl(s, p, slots[0], slots[1], g, n);
	case OPT_ADD:
		return opt_add(p, g, n);
	}
	return 0;
}

/* Rows are short. So the switch is outside of the loop over rows, and with a constant width the
 * compiler unrolls the inner loops. */
static inline size_t opt_rows(const struct opt_step *s, float *const *row, size_t count, size_t w,
			      const float *g)
{
	unsigned held = 0;

	switch (s->opt.kind) {
	case OPT_SGD:
		for (size_t i = 0; i < count; i++)
			held += sgd(s, row[i], g + i * w, w);
		break;
	case OPT_MOMENTUM:
		for (size_t i = 0; i < count; i++)
			held += momentum(s, row[i], row[i] + w, g + i * w, w);
		break;
	case OPT_ADAGRAD:
		for (size_t i = 0; i < count; i++)
			held += adagrad(s, row[i], row[i] + w, g + i * w, w);
		break;
	case OPT_ADAM:
		for (size_t i = 0; i < count; i++)
			held += adam(s, row[i], row[i] + w, row[i] + 2 * w, g + i * w, w);
		break;
	case OPT_FTRL:
		for (size_t i = 0; i < count; i++)
			held += ftrl(s, row[i], row[i] + w, row[i] + 2 * w, g + i * w, w);
		break;
	case OPT_ADD:
		for (size_t i = 0; i < count; i++)
			held += opt_add(row[i], g + i * w, w);
		break;
	}
	return held;
}

size_t opt_apply_rows(const struct opt_step *s, float *const *row, size_t count, size_t width,
		      const float *g)
{
	for (size_t i = 0; s->shrink < 1.0f && i < count; i++)
		opt_shrink(s, row[i], width);
	if (width == 1) /* logistic regression */
		return opt_rows(s, row, count, 1, g);
	if (width == 17) /* wide & deep: its default embedding */
		return opt_rows(s, row, count, 17, g);
	return opt_rows(s, row, count, width, g);
}
