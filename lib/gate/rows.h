/*
 * rows: when a watcher of the training gets its next row, and what is in it.  Pure: time is told.
 *
 * Early rows come at iterations 1, 2, 4, 8, ...: a job that diverges or does not learn shows it
 * within seconds.  After the first interval rows come by time.
 */
#ifndef PACELINE_GATE_ROWS_H
#define PACELINE_GATE_ROWS_H

#include <stdint.h>

/* Totals of all applied units; loss is summed before each update (progressive validation). */
struct rows_total {
	uint64_t iteration, samples;
	double loss;
};

struct rows {
	double every;           /* seconds; 0: only the early rows, for ever */
	double until, next;     /* early rows until; next row by time */
	uint64_t power;         /* next early iteration */
	struct rows_total last; /* at the last row */
};

void rows_start(struct rows *w, double every, const struct rows_total *total, double now);
/* Whether a row is due after a unit. When it is: *mean is the mean loss since the last row (0 when
 * no sample came), and the next row is set. */
int rows_due(struct rows *w, const struct rows_total *total, double now, double *mean);

#endif
