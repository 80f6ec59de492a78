/*
 * rls: recursive least squares: the terms of a line, learnt with every observation, where some
 * observations are far off and teach nothing (spikes).
 *
 * Older observations count less (`memory`). An error that is larger than usual counts as one at the
 * edge of the usual; how much that is follows from the errors so far and from how well the terms
 * are known for these inputs.
 */
#ifndef PACELINE_PREDICT_RLS_H
#define PACELINE_PREDICT_RLS_H

#include "predict/predict_internal.h"

#define RLS_MAX 16

struct rls_shape {
	size_t terms;           /* RLS_MAX at most */
	double memory;          /* weight of an observation beside the one after it */
	double error_min;       /* of the mean square, where the terms are in doubt */
	double unsure[RLS_MAX]; /* variance of a term in the beginning, in units of the errors' */
	double most[RLS_MAX]; /* and at most: what has not moved for long is not known ever worse */
};

struct rls {
	double term[RLS_MAX], x[RLS_MAX]; /* x: the inputs of this iteration */
	double spread[RLS_MAX * RLS_MAX]; /* rows of `terms` */
	double error;                     /* mean square, as it was learnt from */
	uint64_t count;                   /* observations learnt from, in this run or one before */
	double gain[RLS_MAX], whole;      /* between rls_usual() and rls_learn() */
};

void rls_init(struct rls *r, const struct rls_shape *shape, double error);
/* term . x */
double rls_value(const struct rls *r, const struct rls_shape *shape);
/* An error up to this is usual for the inputs in x. weight: of this observation, 1 mostly.
 * INFINITY: rounding got the better of the spread; it begins anew, and nothing can be learnt this
 * time. */
double rls_usual(struct rls *r, const struct rls_shape *shape, double weight);
/* Then: the terms move by an error of `wrong`. Not after INFINITY. */
void rls_learn(struct rls *r, const struct rls_shape *shape, double weight, double wrong);
/* The terms of `from`, `less` times as unsure: another node. */
void rls_reuse(struct rls *r, const struct rls_shape *shape, const struct rls *from, double less);
void rls_walk(struct rls *r, const struct rls_shape *shape, struct predict_state *f);

#endif
