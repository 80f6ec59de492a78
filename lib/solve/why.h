/*
 * why: why a worker's batches take longer than those of the others, in words for people.  It says
 * what was measured and decides nothing.  Pure.
 */
#ifndef PACELINE_SOLVE_WHY_H
#define PACELINE_SOLVE_WHY_H

#include "solve/snapshot.h"

#include <stddef.h>

#define WHY_MAX 96
#define WHY_RATIO                                                                                  \
	1.1 /* the time of a batch over the mean of all, from which on there is a reason to ask */

enum why_value {
	WHY_SIZE,
	WHY_SPEED,
	WHY_COMPUTE,
	WHY_COMM,
	WHY_CPU,
	WHY_THROTTLED,
	WHY_PSI_CPU,
	WHY_PSI_MEM,
	WHY_VALUES
};

/* What the nodes of a role that are up have measured, added up; count: of those that did. */
struct why {
	enum node_role role;
	double sum[WHY_VALUES];
	size_t count[WHY_VALUES];
};
void why_gather(struct why *w, const struct snapshot *s, enum node_role role);

/* n: one of those that were gathered. "computes 2.1x as long, its cpu limit holds it back". out is
 * "" when it is not slow, or nothing was measured that tells it from the others. */
void why_slow(const struct why *w, const struct snapshot_node *n, char out[WHY_MAX]);

#endif
