/*
 * spent: where a worker's time went, in seconds by kind, so that what sharding and synchronisation
 * cost can be added up over a job.
 */
#ifndef PACELINE_METER_SPENT_H
#define PACELINE_METER_SPENT_H

#include <stddef.h>
#include <stdint.h>

enum spent_kind {
	SPENT_COMPUTE, /* gradients; a drag's pause too */
	SPENT_COMM,    /* pulling and pushing */
	SPENT_WAIT,    /* for others: at the barrier, for a server's iteration, for something to do */
	SPENT_SHARDS,  /* asking shardd, and blocked on its answer while there is work */
	SPENT_ACTIONS, /* taking and obeying them */
	SPENT_REPORT,  /* to the monitor, measuring the load included */
	SPENT_ROWS,    /* blocked on the reading thread */
	SPENT_PROFILE, /* measuring the device */
	SPENT_PREDICT, /* foretelling the speed of the next batch, its load included */
	SPENT_KINDS
};

struct spent {
	double began;
	double seconds[SPENT_KINDS];
	uint64_t iterations;
};

/* A `spent` record; total= is the time since began, the parts of which need not make it up. */
size_t spent_record(const struct spent *s, const char *id, double now, double epoch, char *line,
		    size_t max);

#endif
