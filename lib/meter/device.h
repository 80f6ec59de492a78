/*
 * device: measures what a node's device is like: the time of a step over sizes 1, 2, 4, ..., and
 * what fits its memory.  Whoever trains says how a step is made.  A drag's launch, speed and
 * saturation count, its delay does not.
 */
#ifndef PACELINE_METER_DEVICE_H
#define PACELINE_METER_DEVICE_H

#include "base/error.h"
#include "base/option.h"
#include "meter/load.h"
#include "meter/profile.h"
#include "record/drag.h"

#define DEVICE_MEMORY_PART 0.95 /* of the memory is used at most (LB-BSP 4.2) */

struct device_options {
	/* 0 or -1. The steps that follow are of `size` samples; *sample_bytes: what each of them
	 * takes in memory at least. */
	int (*prepare)(void *owner, uint64_t size, double *sample_bytes, struct error *err);
	int (*step)(void *owner, struct error *err);
	void *owner;
	uint64_t size_max; /* samples: no step is tried beyond */
	uint64_t most;     /* no more are said to fit */
	const struct drag *drag;
	struct load *load;
	const char *name; /* of the type, where the drag says none; NULL: the processor's */
	const volatile int *stop;
};

struct device {
	struct profile profile;
	uint64_t max; /* samples of a step that fit */
	char type[OPTION_ID_MAX];
};

/* 0; 1: *stop was set; -1: a step failed. */
int device_measure(struct device *d, const struct device_options *options, struct error *err);

#endif
