/*
 * speed: how fast this worker will be in its next batch (LB-BSP 3.2), from the speeds that it had
 * and the load of its node.  Each worker foretells its own speed and sends it with its push, so that
 * the predictions of all cost the lead nothing.
 *
 * What was learnt can be kept in a file, for this worker's next life or for another one: the records
 * of predictor_save() (lib/predict).  It is written new and renamed, and not flushed to disk: what a
 * power cut takes is learnt again.
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

/* A file that can't be used is said to the log, and started without. */
int speed_new(struct speed **out, const struct speed_options *options, struct error *err);
void speed_free(struct speed *s); /* NULL is fine */

/* A batch of so many samples took so long; 0 samples: it says nothing about the speed. load: as the
 * next one begins. */
void speed_batch(struct speed *s, uint64_t samples, double seconds, const struct load_values *load);
/* Samples a second of the next batch, 0: not known. */
double speed_next(const struct speed *s);

/* Writes the file when that is due, or, with now NAN, at once. now: clock_mono(). */
void speed_keep(struct speed *s, double now);

#endif
