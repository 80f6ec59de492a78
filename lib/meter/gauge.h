/*
 * gauge: measures the device of a trainer that is not ours by the batches that it trains anyway:
 * the first ones differ in size.  It says how many rows the next batch is to have, is told how long
 * that took, and at the end knows what device.h measures: launch cost, speed, saturation, and how
 * many rows fit the memory.
 *
 * Sizes go from a sixteenth of a usual batch up to twice a usual one: how much memory a batch took
 * is often known only as the most so far.  Each size is trained twice, and the shorter time counts.
 * The trainer's very first batch does not count: libraries are loaded in it.
 *
 * Pure.
 */
#ifndef PACELINE_METER_GAUGE_H
#define PACELINE_METER_GAUGE_H

#include "meter/device.h"

#define GAUGE_SIZES_MAX 6

/* All zero: there is nothing to measure. */
struct gauge {
	struct profile_point point[GAUGE_SIZES_MAX]; /* seconds 0: not yet */
	double mem[GAUGE_SIZES_MAX];                 /* part of the memory in use; 0: not known */
	size_t count, at;                            /* sizes; which one is next */
	unsigned tries, misses;                      /* batches of this size, and of another one */
	uint64_t first;                              /* rows of the first batch; 0: it is trained */
};

/* rows: of a usual batch; least: none is to be smaller. */
void gauge_begin(struct gauge *g, uint64_t rows, uint64_t least);
/* Rows of the next batch; 0: nothing is measured, or all is. */
uint64_t gauge_size(const struct gauge *g);
/* A batch took so long. If it had not gauge_size() rows, it does not count; if that happens again
 * and again, nothing more is measured. mem: the most of the device's memory in use so far, 0..1. */
void gauge_take(struct gauge *g, uint64_t rows, double seconds, double mem);
/* Batches can't be of that size, nor larger: nothing more is measured. */
void gauge_end(struct gauge *g);
/* Once gauge_size() is 0: the profile, and max. level: the part of the memory that is in use with
 * the largest size, 0: not known, and `most` fit; most: no more rows are said to fit. -1: too
 * little was measured. */
int gauge_fit(const struct gauge *g, double level, uint64_t most, struct device *d);

#endif
