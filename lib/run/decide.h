/*
 * decide: asks the solution what to do about a snapshot: as soon as every worker has reported once,
 * then as often as SOLUTION every says.  The decision itself is a pure function (lib/solve) or a person's
 * executable; here it is only asked, and written to the log with what it saw, so that
 * `trainctl solve --log` can ask again.  action.c carries out the answer.  If a solution fails, is
 * late or talks nonsense, the round is skipped and the next one asks again.  The log says when this
 * begins, when its reason changes, and when it is over.
 */
#ifndef PACELINE_RUN_DECIDE_H
#define PACELINE_RUN_DECIDE_H

#include "solve/snapshot.h"

#include <stdint.h>

struct child;
struct supervisor;

struct sup_decisions {
	double at; /* clock_mono(): the last one began */
	int once;  /* there was one */
	int under_way;
	uint64_t changes; /* of the roster (scale.h), when the snapshot was asked for */
	struct child *solver;
	uint64_t asked, skipped;             /* rounds of this supervisor */
	uint64_t failed;                     /* rounds in a row */
	char fails[1024];                    /* why the last round failed */
	char info_wrong[SNAPSHOT_VALUE_MAX]; /* the last bad value that was reported */
};

void sup_decide_init(struct supervisor *s);
void sup_decide_periodic(struct supervisor *s);
/* For the first decision: called more often, until every worker has reported once. */
void sup_decide_first(struct supervisor *s);
/* There is a new snapshot: decides on it, if it is time. */
void sup_decide(struct supervisor *s);
void sup_decide_stop(struct supervisor *s);

#endif
