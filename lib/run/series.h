/*
 * series: the course of the nodes in STATE/job.log, for a later look at the job (trainctl report).
 * Now and then a `series` record is written for each node, from the monitor's snapshots.  Its
 * numbers are sums since the node began: so it is known what was done between two records, however
 * far apart they are.
 */
#ifndef PACELINE_RUN_SERIES_H
#define PACELINE_RUN_SERIES_H

struct supervisor;

struct sup_series {
	double at; /* clock_mono(): last written; 0: not yet */
	int phase; /* then */
};

/* Whether the next snapshot is to be written. */
int sup_series_due(const struct supervisor *s);
/* Call when there is a new snapshot: writes records if it is time. */
void sup_series(struct supervisor *s);

#endif
