/*
 * series: the course of the nodes in STATE/job.log, for a later look at the job (trainctl report).
 * Now and then a `series` record is written for each node, from the monitor's snapshots.  Its
 * numbers are sums since the node began: so it is known what was done between two records, however
 * far apart they are.
 *
 * The log must not grow without end.  The longer a job has run and the more nodes it has, the rarer
 * the records are: less than 32 MiB in a week for up to 300 nodes, with about 220 bytes a record.
 */
#ifndef PACELINE_RUN_SERIES_H
#define PACELINE_RUN_SERIES_H

#include <stddef.h>

struct supervisor;

struct sup_series {
	double at; /* clock_mono(): last written; 0: not yet */
	int phase; /* then */
};

/* Seconds between two records of a node, `elapsed` seconds after the start. Pure. */
double series_seconds(double elapsed, size_t nodes);

/* Whether the next snapshot is to be written. */
int sup_series_due(const struct supervisor *s);
/* Call when there is a new snapshot: writes records if it is time. */
void sup_series(struct supervisor *s);

#endif
