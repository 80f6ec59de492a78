/*
 * decide: the solution sees a snapshot and says what to do: as soon as every worker has reported
 * once, then every EVERY seconds.  The decision itself is a pure function (lib/solve) or a person's
 * executable; here it is only asked, and written to the log with what it saw (so that
 * `trainctl solve --log` can ask again).  What it says is carried out by action.c.  A solution that
 * fails, is late or talks nonsense is skipped, and said so when that begins, has another reason and
 * is over: the job goes on, and the next round asks again.
 */
#ifndef PACELINE_RUN_DECIDE_H
#define PACELINE_RUN_DECIDE_H

#include "solve/snapshot.h"

#include <stdint.h>

struct child;
struct supervisor;

struct sup_decisions {
	double at; /* clock_mono(): of the last one */
	int once;
	int under_way;
	uint64_t changes; /* of the roster (scale.h), when it was asked for */
	struct child *solver;
	uint64_t asked, skipped;             /* rounds of this supervisor */
	uint64_t failed;                     /* rounds in a row */
	char fails[1024];                    /* why the last of them did */
	char info_wrong[SNAPSHOT_VALUE_MAX]; /* what was to be a number, and was told of */
};

void sup_decide_init(struct supervisor *s);
void sup_decide_periodic(struct supervisor *s);
/* More often than that: until every worker has reported once. */
void sup_decide_first(struct supervisor *s);
/* There is a new snapshot: decides on it, if it is time. */
void sup_decide(struct supervisor *s);
void sup_decide_stop(struct supervisor *s);

#endif
