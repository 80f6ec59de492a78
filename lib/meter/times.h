/*
 * times: how the times of a node's batches add up.  `spent` is where all its time went, so that what
 * sharding and synchronisation cost can be added up over a job; `tally` is the mean of the batches
 * that a report covers (AntDT VI-A: an agent reports every r iterations).
 *
 * Pure: it is told the time.
 */
#ifndef PACELINE_METER_TIMES_H
#define PACELINE_METER_TIMES_H

#include <stddef.h>
#include <stdint.h>

/* ---- since the node began ---- */

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

/* ---- since the last report ---- */

struct tally_batch {
	/* Seconds; wait is not part of time, a trainer's comm neither. What is often written last stands apart from the
	 * others, which are then read as one. */
	double wait;
	uint64_t samples;
	double time; /* without waiting for others */
	double compute, comm;
};

/* A report is due after so many batches or seconds, and besides at the node's first, second,
 * fourth and eighth batch, so that a decision need not wait. */
struct tally_rules {
	uint64_t every; /* 1 or more */
	double seconds;
};

struct tally { /* one line of the cache: trainsim has a hundred thousand */
	uint64_t total; /* batches, ever */
	double since;   /* when the last report was taken */
	uint64_t count; /* batches since */
	struct tally_batch sum;
};

void tally_start(struct tally *t, double now);
/* Whether a report is due once so many more batches have been added. */
int tally_is_due(const struct tally *t, const struct tally_rules *r, uint64_t more, double now);
/* Whether a report is due with this batch, which ended now. */
int tally_add(struct tally *t, const struct tally_rules *r, const struct tally_batch *b, double now);
/* The mean of what was added since the last call, samples rounded; returns how many batches that
 * is, 0: none, and *mean is not touched. */
uint64_t tally_take(struct tally *t, double now, struct tally_batch *mean);

#endif
