/* rls: see rls.h. */
#include "predict/rls.h"

#include <math.h>

#define USUAL 3.0    /* errors' deviations */
#define ERRORS 100.0 /* in their mean square */
#define FROM 8

static void unsure(struct rls *r, const struct rls_shape *shape)
{
	size_t n = shape->terms;
	for (size_t i = 0; i < n * n; i++)
		r->spread[i] = 0;
	for (size_t i = 0; i < n; i++)
		r->spread[i * n + i] = shape->unsure[i];
}

void rls_init(struct rls *r, const struct rls_shape *shape, double error)
{
	r->error = error;
	unsure(r, shape);
}

double rls_value(const struct rls *r, const struct rls_shape *shape)
{
	double sum = 0;
	for (size_t i = 0; i < shape->terms; i++)
		sum += r->term[i] * r->x[i];
	return sum;
}

double rls_usual(struct rls *r, const struct rls_shape *shape, double weight)
{
	size_t n = shape->terms;
	double memory = shape->memory;
	r->whole = memory;
	for (size_t i = 0; i < n; i++) {
		r->gain[i] = 0;
		for (size_t j = 0; j < n; j++)
			r->gain[i] += r->spread[i * n + j] * r->x[j];
		r->whole += weight * r->gain[i] * r->x[i];
	}
	if (!(r->whole >= memory / 2)) { /* no variance is less than 0 */
		unsure(r, shape);
		return INFINITY;
	}
	return USUAL *
	       sqrt(r->error * memory + fmax(r->error, shape->error_min) * (r->whole - memory));
}

/* No term is less known than `most` says. */
static void rls_bound(struct rls *r, const struct rls_shape *shape)
{
	size_t n = shape->terms;
	for (size_t i = 0; i < n; i++) {
		double over = r->spread[i * n + i] / shape->most[i];
		for (size_t j = 0; j < n && over > 1; j++) {
			r->spread[i * n + j] /= sqrt(over);
			r->spread[j * n + i] /= sqrt(over);
		}
	}
}

void rls_learn(struct rls *r, const struct rls_shape *shape, double weight, double wrong)
{
	size_t n = shape->terms;
	r->error +=
		(wrong * wrong / r->whole - r->error) / fmin((double)(FROM + ++r->count), ERRORS);
	for (size_t i = 0; i < n; i++)
		r->term[i] += weight * r->gain[i] / r->whole * wrong;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			r->spread[i * n + j] = (r->spread[i * n + j] -
						weight * r->gain[i] * r->gain[j] / r->whole) /
					       shape->memory;
	rls_bound(r, shape);
}

void rls_reuse(struct rls *r, const struct rls_shape *shape, const struct rls *from, double less)
{
	for (size_t i = 0; i < shape->terms; i++)
		r->term[i] = from->term[i];
	for (size_t i = 0; i < shape->terms * shape->terms; i++)
		r->spread[i] = less * from->spread[i];
	rls_bound(r, shape);
	r->error = from->error;
	r->count = from->count;
}

void rls_walk(struct rls *r, const struct rls_shape *shape, struct predict_state *f)
{
	predict_state_reals(f, "terms", r->term, shape->terms);
	predict_state_reals(f, "spread", r->spread, shape->terms * shape->terms);
	predict_state_reals(f, "inputs", r->x, shape->terms);
	predict_state_reals(f, "error", &r->error, 1);
	predict_state_u64(f, "learnt", &r->count, UINT64_MAX / 2);
}
