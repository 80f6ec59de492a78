/*
 * tally: which batches a report covers (AntDT VI-A: an agent reports every r iterations).  A report
 * is the mean over the batches since the one before; it is due after `every` of them or `seconds`,
 * and besides at the worker's first, second, fourth and eighth, so that a decision need not wait.
 *
 * Pure: it is told the time.
 */
#ifndef PACELINE_METER_TALLY_H
#define PACELINE_METER_TALLY_H

#include <stdint.h>

struct tally_batch {
	double time;                /* seconds without waiting for others */
	double compute, comm, wait; /* seconds; wait is not part of time */
	uint64_t samples;
};

struct tally {
	uint64_t every;
	double seconds;
	uint64_t total; /* batches, ever */
	double since;   /* when the last report was taken */
	uint64_t count; /* batches since */
	struct tally_batch sum;
};

/* every 1 or more. */
void tally_start(struct tally *t, uint64_t every, double seconds, double now);
/* Whether a report is due with this batch, which ended now. */
int tally_add(struct tally *t, const struct tally_batch *b, double now);
/* The mean of what was added since the last call, samples rounded; returns how many batches that
 * is, 0: none, and *mean is not touched. */
uint64_t tally_take(struct tally *t, double now, struct tally_batch *mean);

#endif
