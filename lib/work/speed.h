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
#include "meter/load.h"
#include "predict/predict.h"

struct speed;

struct speed_options {
	enum predict_model model;
	const char *load; /* file to start from; NULL or not there: from nothing */
	const char *save; /* NULL: nowhere */
};

/* If the file can't be used, the log says so, and the speed starts without it. */
int speed_new(struct speed **out, const struct speed_options *options, struct error *err);
void speed_free(struct speed *s); /* NULL is fine */

/* A batch with this many samples took this long; 0 samples: it says nothing about the speed. load:
 * as the next batch begins. */
void speed_batch(struct speed *s, uint64_t samples, double seconds, const struct load_values *load);
/* Samples a second of the next batch, 0: not known. */
double speed_next(const struct speed *s);

/* Writes the file when it is due; with now NAN, at once. now: clock_mono(). */
void speed_keep(struct speed *s, double now);

#endif
