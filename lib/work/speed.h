/*
 * speed: how fast this worker will be in its next batch (LB-BSP 3.2), from its earlier speeds and
 * the load of its node.  Each worker predicts its own speed and sends it with its push, so that the
 * predictions of all cost the lead nothing.
 *
 * What was learnt can be kept in a file, for this worker's next life or for another worker: the
 * records of predictor_save() (lib/predict).  The file is written new and renamed, and not flushed
 * to disk: what a power cut loses is learnt again.
 */
#ifndef PACELINE_WORK_SPEED_H
#define PACELINE_WORK_SPEED_H

#include "base/error.h"
#include "meter/meter.h"
#include "predict/predict.h"

struct speed;
struct exchange_push;

struct speed_options {
	enum predict_model model;
	const char *load; /* file to start from; NULL or not there: from nothing */
	const char *save; /* NULL: nowhere */
};

/* If the file can't be used, the log says so, and the speed starts without it. */
int speed_new(struct speed **out, const struct speed_options *options, struct error *err);
void speed_free(struct speed *s); /* NULL is fine */

/* Completes what a push says of the node: how much of its memory is in use (push->mem, if that is
 * less), and how fast the next batch will be. push->time is known; samples: of this batch, 0: it
 * says nothing about the speed. s NULL: speeds are not predicted. */
void speed_foretell(struct speed *s, struct meter *m, uint64_t samples, struct exchange_push *push);
/* Samples a second of the next batch, 0: not known, or s is NULL. */
double speed_next(const struct speed *s);

/* Writes the file when it is due; with now NAN, at once. now: clock_mono(). s NULL: nothing. */
void speed_keep(struct speed *s, double now);

#endif
