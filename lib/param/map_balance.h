/*
 * map_balance: new bounds for a map, so that all parts have the same work.  They are computed from
 * the load of each range of places: a part whose keys are in demand gets fewer keys.
 *
 * Pure: the same input gives the same map.  A load is a number of floats touched in a unit, or any
 * other measure, as long as all loads use the same one.  Within a range the load is assumed to be
 * even.  A part with fewer places has smaller ranges, so the next time is more exact.  One key that
 * is in demand can't be divided.
 */
#ifndef PACELINE_PARAM_MAP_BALANCE_H
#define PACELINE_PARAM_MAP_BALANCE_H

#include "param/map.h"

#include <stddef.h>

/* Places begin .. begin + places - 1. */
struct map_load {
	uint64_t begin, places;
	double load;
};

struct map_balance {
	double before, after; /* the work of the busiest part, divided by the mean of all */
	uint32_t busiest;     /* number of that part, in the map `now` */
};

/* Writes to *out the map `now` with other bounds and the next version. The ranges are in order and
 * do not overlap. element is the load of one element of the dense vector. Returns 1 if the work of
 * the busiest part goes down by `gain` (a fraction) of itself or more; otherwise 0, and *out is
 * `now`. */
int map_balance(struct map *out, const struct map *now, double element,
		const struct map_load *range, size_t ranges, double gain,
		struct map_balance *result);

#endif
