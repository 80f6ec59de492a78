/*
 * series: the course of the nodes in STATE/job.log, for who looks at a job later (trainctl report):
 * a `series` record a node now and then, out of the monitor's snapshots.  Its numbers are sums
 * since the node began, so that what lies between two records is known, however far apart they are.
 *
 * The log must not grow without end: the longer a job has run, and the more nodes it has, the less
 * often: less than 32 MiB in a week for up to 300 nodes, some 220 bytes a record.
 */
#ifndef PACELINE_RUN_SERIES_H
#define PACELINE_RUN_SERIES_H

#include <stddef.h>

struct supervisor;

struct sup_series {
	double at; /* clock_mono(): written last; 0: not yet */
	int phase; /* then */
};

/* Seconds between two of them, so long after the start, with so many nodes. Pure. */
double series_seconds(double elapsed, size_t nodes);

/* Whether the next snapshot is to be written. */
int sup_series_due(const struct supervisor *s);
/* There is a new snapshot: writes it, if it is time. */
void sup_series(struct supervisor *s);

#endif
