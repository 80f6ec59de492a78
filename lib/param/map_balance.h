/*
 * map_balance: bounds that give all parts the same work, computed from the load of each range of
 * places: a part whose keys are in demand gets fewer of them.
 *
 * Pure: the same input gives the same map.  Loads are in floats touched a unit, or any other measure
 * that is the same for all.  Within a range the load is assumed to be even; a smaller part has
 * smaller ranges, so the next time is more exact.  A single key in demand stays whole.
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
	double before, after; /* the work of the busiest part, by the mean of all */
	uint32_t busiest;     /* part of the map that is */
};

/* The map `now`, with other bounds and the next version, into *out; ranges are in order, and of
 * each place at most one. element: the load of one element of the dense vector. 1: the work of the
 * busiest part goes down by `gain` of itself or more; 0: *out is now. */
int map_balance(struct map *out, const struct map *now, double element,
		const struct map_load *range, size_t ranges, double gain,
		struct map_balance *result);

#endif
