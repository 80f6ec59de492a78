/*
 * rebalance: servers share out their parameters anew while the job trains, so that one of which more
 * is asked has less to do: a person asks (`trainctl rebalance`), or the brain.  The lead knows what is
 * asked of whom, and moves parameters (lead/lead_rebalance.c).
 *
 * Not beside a change of the number of nodes, a checkpoint or a hand-over: it waits for its turn, one
 * at a time.  As maps have moved from then on, that is on disk before (STATE/scale).
 */
#ifndef PACELINE_RUN_REBALANCE_H
#define PACELINE_RUN_REBALANCE_H

#include "run/talk.h"

#include <stdint.h>

struct request;
struct supervisor;

#define REBALANCE_REASON_MAX 120

struct sup_rebalance {
	struct question ask;
	int wanted;
	struct request *rq; /* who waits for the answer; NULL: nobody */
	char reason[REBALANCE_REASON_MAX];
	double in_vain;     /* clock_mono(): one moved nothing; 0: the last one did */
	uint64_t servers;   /* so many there were then */
};

/* reason is for people, and copied. rq (may be NULL) is answered when it is done, or refused. -1: it
 * is refused at once; rq was answered. */
int sup_rebalance_want(struct supervisor *s, const char *reason, struct request *rq);
/* One waits or is under way. */
int sup_rebalance_is_due(const struct supervisor *s);
/* Parameters may be moving. */
int sup_rebalance_moves(const struct supervisor *s);
/* Whether another one may bring something: not if the last one moved nothing, of as many servers, and
 * not long ago. */
int sup_rebalance_helps(const struct supervisor *s);
/* In PHASE_RUNNING. */
void sup_rebalance_step(struct supervisor *s);
/* Whoever waits is told that the job is over. */
void sup_rebalance_over(struct supervisor *s);

#endif
