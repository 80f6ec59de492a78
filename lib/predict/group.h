/*
 * group: the speeds of all workers of a job together, with one aim: batches in proportion to
 * them are finished soon (LB-BSP Eq. 3).
 *
 * With batches in proportion to predictions p, an iteration lasts max(p_i/v_i) / sum(p), beside the
 * oracle's 1 / sum(v).  That cost is one-sided: a worker predicted too fast delays everybody, one
 * predicted too slow costs its own share at most.  By log p_i its slope is
 *
 *     [i was the straggler] - p_i / sum(p)
 *
 * so at the best predictions each worker is the straggler just as often as its share of the batch
 * says.  No worker can learn that alone; the lead can, from nothing but times it has anyway.
 *
 * Each worker's log time is said by experts (moving averages, quantiles of windows, and what the
 * worker itself says, if it does), the same for all workers.  The ways to go are each expert alone,
 * and a mean of all whose weights follow the slope above (exponentiated gradient).  Along each way a
 * worker has an offset of its own that follows the slope too.  What is predicted is a mean of the
 * ways, each weighed by what it would have cost lately: the best one is followed, and several good
 * ones are better than one.  In slopes the straggler is taken softly, in units of the usual error,
 * so that the second slowest teaches too.
 *
 * A factor common to all changes no batch; it is taken such that predictions are of the level of
 * those of the workers themselves (or of an average).
 *
 * A round: predict and observe for each worker, in any order and for any of them, then close.
 */
#ifndef PACELINE_PREDICT_GROUP_H
#define PACELINE_PREDICT_GROUP_H

#include "predict/predict.h"

#define PREDICT_GROUP_MAX 65536 /* workers */

struct predict_group;

int predict_group_new(struct predict_group **out, struct error *err);
void predict_group_free(struct predict_group *g); /* NULL is fine */
/* A new worker; its number counts from 0. */
int predict_group_add(struct predict_group *g, size_t *worker, struct error *err);
/* That worker begins anew, as one that was just added; what was learnt about the experts stays. */
void predict_group_renew(struct predict_group *g, size_t worker);
size_t predict_group_count(const struct predict_group *g);

enum predict_loss {
	PREDICT_LOSS_MAX,  /* the time of an iteration: the group's prediction */
	PREDICT_LOSS_BOTH, /* it and the error: between own and the group's */
};
/* own: the worker's own prediction, NAN for none. NAN: nothing is known about it. */
double predict_group_predict(struct predict_group *g, size_t worker, double own,
			     enum predict_loss loss);
/* The speed of the round predicted last, PREDICT_SPEED_MIN..MAX. */
void predict_group_observe(struct predict_group *g, size_t worker, double speed);
/* The round is over: learn from those that were predicted and observed. */
void predict_group_close(struct predict_group *g);

/* Like predictor_save and predictor_load; head is a `group` record. */
int predict_group_save(struct predict_group *g, predict_put_fn *put, void *arg, struct error *err);
int predict_group_load(struct predict_group **out, const struct record *head,
		       predict_take_fn *take, void *arg, struct error *err);

#endif
