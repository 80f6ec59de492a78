/*
 * rows: when a watcher of the training gets its next row, and what is in it.  Pure: time is told.
 *
 * Early rows come at iterations 1, 2, 4, 8, ...: a job that diverges or does not learn shows it
 * within seconds.  After the first interval rows come by time.
 */
#ifndef PACELINE_LEAD_ROWS_H
#define PACELINE_LEAD_ROWS_H

#include <stdint.h>

/* A unit that was applied, or several: how far the parameters are now, and the samples with the sum
 * of their losses before the update (progressive validation). */
struct rows_unit {
	uint64_t iteration, samples;
	double loss;
};

struct rows {
	double every;       /* seconds; 0: only the early rows, for ever */
	double until, next; /* early rows until; next row by time */
	uint64_t power;     /* next early iteration */
	/* Since the last row. No sum of all there ever was: after one loss of 1e30 that would stand
	 * still. */
	uint64_t samples;
	double loss;
};

void rows_start(struct rows *w, double every, uint64_t iteration, double now);
/* Whether a row is due after a unit. When it is: *mean is the mean loss since the last row (0 when
 * no sample came), and the next row is set. */
int rows_due(struct rows *w, const struct rows_unit *unit, double now, double *mean);

#endif
