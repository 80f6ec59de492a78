/*
 * foretell: how fast this worker will be in its next batch (LB-BSP 3.2), from the speeds that it had
 * and the load of its node.  Each worker foretells its own speed and sends it with its push, so that
 * the predictions of all cost the lead nothing.
 *
 * What was learnt can be kept in a file, for this worker's next life or for another one: the records
 * of predictor_save() (lib/predict).  It is written new and renamed, and not flushed to disk: what a
 * power cut takes is learnt again.
 */
#ifndef PACELINE_WORK_FORETELL_H
#define PACELINE_WORK_FORETELL_H

#include "base/error.h"
#include "predict/predict.h"

struct foretell;

struct foretell_options {
	int predict; /* 0: only the memory in use is looked at */
	enum predict_model model;
	const char *load;      /* file to start from; NULL or not there: from nothing */
	const char *save;      /* NULL: nowhere */
	const char *load_root; /* see load_new() */
};

/* A file that can't be used is said to the log, and started without. */
int foretell_new(struct foretell **out, const struct foretell_options *options, struct error *err);
void foretell_free(struct foretell *f); /* NULL is fine */

/* A batch of so many samples took so long; 0 samples: it says nothing about the speed. now:
 * clock_mono(). */
void foretell_batch(struct foretell *f, uint64_t samples, double seconds, double now);
/* Samples a second of the next batch, 0: not known. */
double foretell_speed(const struct foretell *f);
double foretell_mem(const struct foretell *f); /* 0..1; 0: not known */

/* Writes the file when that is due, or, with now NAN, at once. */
void foretell_keep(struct foretell *f, double now);

#endif
