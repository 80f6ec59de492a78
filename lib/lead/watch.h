/*
 * watch: the clients that watch the training, when each gets its next row, and what is in the row.
 * The caller tells the time.
 *
 * Early rows come at iterations 1, 2, 4, 8, ...: a job that diverges or does not learn shows it
 * within seconds.  After the first interval rows come by time.  The last one is of the job's end.
 */
#ifndef PACELINE_LEAD_WATCH_H
#define PACELINE_LEAD_WATCH_H

#include "lead/delay.h"
#include "wire/server.h"

#include <stdint.h>

/* One or several units that were applied: the iteration of the parameters now, and the samples with
 * the sum of their losses before the update (progressive validation). */
struct rows_unit {
	uint64_t iteration, samples;
	double loss;
	uint64_t told; /* pushes so far that had a loss: trainers may have none */
};

struct rows {
	double every;       /* seconds; 0: only the early rows, for ever */
	double until, next; /* early rows come until then; the next row by time is due then */
	uint64_t power;     /* next early iteration */
	/* Since the last row. A sum since the start would not change any more after one loss of
	 * 1e30. */
	uint64_t samples;
	double loss;
	uint64_t told, told_before; /* of the last unit; of the last one that is in a row */
};

void rows_start(struct rows *w, double every, uint64_t iteration, double now);
/* Whether a row is due after a unit. If so, *mean is the mean loss since the last row (0: no sample
 * came; NAN: samples came, but no loss), and the time of the next row is set. */
int rows_due(struct rows *w, const struct rows_unit *unit, double now, double *mean);
/* No unit comes any more: whether some samples were in no row yet; *mean is their loss. */
int rows_last(struct rows *w, double *mean);

/* The requests of those who watch, until they go. NULL: nobody does. */
struct watcher;

/* Takes rq, whose rows begin after iteration. */
void watchers_add(struct watcher **all, struct request *rq, double every, uint64_t iteration,
		  double now);
/* What a row says besides: all samples, members, delays since the start; the time of day, seconds
 * since the start. */
struct rows_fields {
	uint64_t samples, members;
	const struct delays *delays;
	double at, time;
};
void watchers_row(struct watcher *all, const struct rows_unit *unit, const struct rows_fields *f,
		  double now);
/* Sends the last row to those that have not had all of it. */
void watchers_end(struct watcher *all, uint64_t iteration, const struct rows_fields *f);
void watchers_say(struct watcher *all, const char *line, size_t len); /* a record for all of them */

#endif
