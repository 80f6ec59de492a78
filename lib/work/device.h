/*
 * device: measures what this worker's device is like, before it joins: the time of a step over sizes
 * 1, 2, 4, ..., and what fits its memory.  Gradients are thrown away; a drag's launch, pace and
 * saturation count, its delay does not.
 */
#ifndef PACELINE_WORK_DEVICE_H
#define PACELINE_WORK_DEVICE_H

#include "data/dataset.h"
#include "model/model.h"
#include "monitor/node.h"
#include "record/drag.h"
#include "meter/load.h"
#include "meter/profile.h"

#define DEVICE_MEMORY_PART 0.95 /* of the memory is used at most (LB-BSP 4.2) */

struct device_options {
	struct model *model;
	const struct model_spec *spec;
	struct dataset *dataset; /* the caller's thread's alone meanwhile */
	int unit_weights;
	uint64_t size_max; /* samples: no step is tried beyond */
	struct drag_file *drag;
	struct load *load;
	const char *name; /* of the type, where the drag says none; NULL: the processor's */
	const volatile int *stop;
};

struct device {
	struct profile profile;
	uint64_t max; /* samples of a step that fit */
	char type[OPTION_ID_MAX];
};

/* WORK_OK, WORK_STOP, or -1: ERROR_DATA for a bad row, ERROR_OS without memory. */
int device_measure(struct device *d, const struct device_options *options, struct error *err);

#endif
