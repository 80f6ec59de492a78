/*
 * trial: steps of the worker's model with rows of its data and all parameters zero, to measure its
 * device before it joins.  It must not touch a parameter of the job.
 */
#ifndef PACELINE_WORK_TRIAL_H
#define PACELINE_WORK_TRIAL_H

#include "data/dataset.h"
#include "model/model.h"

struct trial;

struct trial_options {
	struct model *model;
	const struct model_spec *spec;
	struct dataset *dataset; /* only the caller's thread's meanwhile */
	int unit_weights;
	uint64_t rows; /* this many are read, and used again and again */
};

/* ERROR_DATA: a bad row, or there is no row. */
int trial_new(struct trial **out, const struct trial_options *options, struct error *err);
void trial_free(struct trial *t); /* NULL is fine */

/* As in struct device_options; owner: a struct trial. */
int trial_prepare(void *trial, uint64_t size, double *sample_bytes, struct error *err);
int trial_step(void *trial, struct error *err);
size_t trial_left(void *trial);

#endif
