/*
 * lag: what a standby lacks of the pushes that its part has applied, where it may be behind.  Pure.
 *
 * The part adds the pushes of each unit that it applies, and is told which unit the standby has
 * reached.  A push of which the standby has only the name is `kept`: its worker keeps the gradients
 * until the standby is past that unit.  A merged difference brings the standby to the unit at which
 * it was sent.  All that comes behind it is answered after it, so what counts for the bound is what
 * the part has applied since it sent the last one.
 */
#ifndef PACELINE_PS_LAG_H
#define PACELINE_PS_LAG_H

#include "base/error.h"
#include "base/option.h"

#include <stddef.h>
#include <stdint.h>

struct lag_push {
	uint64_t unit; /* units that are applied with it */
	uint64_t generation, sequence;
	size_t bytes; /* of its gradients, if they are kept; otherwise 0 */
	int kept;
	char worker[OPTION_ID_MAX];
};

/* All zero at first. */
struct lag {
	struct lag_push *push; /* that the standby lacks, in order */
	size_t count, room;
	uint64_t merged; /* the unit of the last difference that was sent */
};

void lag_free(struct lag *l); /* what it points to */

/* -1: no memory. */
int lag_add(struct lag *l, const struct lag_push *push, struct error *err);
/* The standby has all units up to this one. */
void lag_reached(struct lag *l, uint64_t unit);
/* A difference up to this unit is on its way. */
void lag_merge(struct lag *l, uint64_t unit);

/* Pushes that no difference is under way for. 0 also if the standby has the gradients of all. */
size_t lag_ahead(const struct lag *l);
/* Whether the standby would be more than `bound` behind if so many more were applied: first a
 * difference must go. A unit that is larger than the bound waits for all before it. */
int lag_is_full(const struct lag *l, size_t bound, size_t pushes);
/* Whether half the bound is used up: a difference goes now, so that nothing has to wait for it. It
 * also goes when it has become large, as it is written and taken in one go. */
int lag_is_due(const struct lag *l, size_t bound, int is_large);

/* The first sequence of this worker's that the standby lacks, if it is below `sequence`. */
uint64_t lag_first(const struct lag *l, const char *worker, uint64_t generation, uint64_t sequence);
/* Whether the standby lacks something of this worker's, and no difference is under way for the
 * first of it: if the worker has no more room, one must go. */
int lag_binds(const struct lag *l, const char *worker, uint64_t generation);
/* Bytes that workers keep. */
size_t lag_bytes(const struct lag *l);

#endif
