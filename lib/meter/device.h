/*
 * device: measures what a node's device is like: the time of a step over sizes 1, 2, 4, ..., and
 * what fits its memory.  Whoever trains says how a step is made.  A drag's launch, speed and
 * saturation count, its delay does not.  What was measured of a card can be kept in a file: a card
 * stays what it is, a processor is shared with others.
 */
#ifndef PACELINE_METER_DEVICE_H
#define PACELINE_METER_DEVICE_H

#include "base/error.h"
#include "base/option.h"
#include "meter/load.h"
#include "meter/profile.h"
#include "record/drag.h"
#include "record/record.h"

#define DEVICE_MEMORY_PART 0.95 /* of the memory is used at most (LB-BSP 4.2) */
/* Samples of a step where so many would fill the memory: one at least. */
double device_samples(double full);

/* For what is measured of a card and of a model of this sum: what it holds of these two is not
 * measured again, unless more of the card is free than then. path NULL: none. */
struct device_file {
	const char *path;
	uint64_t model;
};

struct device_options {
	/* 0 or -1. The steps that follow are of `size` samples; *sample_bytes: what each of them
	 * takes in memory at least. */
	int (*prepare)(void *owner, uint64_t size, double *sample_bytes, struct error *err);
	int (*step)(void *owner, struct error *err); /* 1: it does not fit the device's memory */
	/* Bytes of the device's own memory that nobody has. NULL: it has none. */
	size_t (*left)(void *owner);
	void *owner;
	uint64_t size_max; /* samples: no step is tried beyond */
	uint64_t most;     /* no more are said to fit */
	const struct drag *drag;
	struct load *load;
	const char *name; /* of the type, where the drag says none; NULL: the processor's */
	struct device_file keep;
	const volatile int *stop;
};

struct device {
	struct profile profile; /* speed 0: not measured, only max is known */
	uint64_t max; /* samples of a step that fit */
	uint64_t left; /* bytes of the card that nobody had then */
	char type[OPTION_ID_MAX];
};

/* 0; 1: *stop was set; -1: a step failed. */
int device_measure(struct device *d, const struct device_options *options, struct error *err);
/* Its type, of this name; NULL: the processor's. */
void device_name(struct device *d, const char *name);
/* What the file holds of a device of this type and of that model. 0: nothing, or it is damaged;
 * then only the type in *d is right. */
int device_recall(struct device *d, const struct device_file *keep, uint64_t most);
/* Its fields. */
void device_put(const struct device *d, struct record_out *o);
/* Into the file. The disk is not waited for: what is lost is measured again. */
int device_keep(const struct device *d, const struct device_file *keep, struct error *err);

#endif
