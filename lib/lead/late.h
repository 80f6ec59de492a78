/*
 * late: which members the next sum of replicas goes on without, because their batch takes longer
 * than others need.  A member is late when its batch has taken so many times the median of the
 * members' last batches, and the sum before is over: the network has nothing to do then but to wait
 * for it (MLfabric bounds the delay and drops what is beyond it; this is the same for rounds).  Its
 * gradient would be too stale for the sum after.  Pure.
 *
 * - At most half of the members are left out of a sum.
 * - Nobody is left out of two sums in a row: one that is always slow needs smaller batches.
 * - Before half of the members have ever computed a batch, there is no median, and nobody is late.
 */
#ifndef PACELINE_LEAD_LATE_H
#define PACELINE_LEAD_LATE_H

#include <stddef.h>
#include <stdint.h>

#define LATE_TIMES_MAX 1e9

/* Of a member that is waited for. Times are ns of one clock. */
struct late_batch {
	enum { LATE_UNKNOWN, LATE_COMPUTES, LATE_READY } state; /* UNKNOWN: it has not begun */
	int64_t began;                                          /* COMPUTES */
	int64_t took; /* the last batch that it computed; 0: none */
	int was_late; /* the sum before goes on without it */
	int is_late;  /* this one does; also out */
};

/* Marks those that are late now. Returns when another one will be, if nothing else happens;
 * INT64_MAX: not before something happens. */
int64_t late_mark(struct late_batch *batch, size_t count, double times, int64_t now);

#endif
