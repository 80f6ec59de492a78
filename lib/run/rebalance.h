/*
 * rebalance: a server that has more to do than the others gives some of its keys away while the job
 * trains.  Servers count what is asked of which keys in any case; the lead compares
 * (lead_rebalance.c) and moves parameters if the busiest server has less to do then.  It is asked
 *
 * - with REBALANCE=on every so many seconds, and soon after the number of servers changed or
 *   all went back; parameters move for a gain of REBALANCE gain;
 * - by a brain: REBALANCE limit such moves are made at most, those above among them, all starts of the
 *   job together;
 * - by a person (`trainctl rebalance`).
 *
 * With REBALANCE=on a brain that would give a hot server more cores waits until that was tried: a
 * server that is split needs no larger one.
 *
 * The lead is not asked while the job is scaled, makes a checkpoint, or a server hands over or is to be
 * restarted. Scaling and hand-overs wait until parameters have moved; checkpoints do not, they go between
 * two pieces.
 */
#ifndef PACELINE_RUN_REBALANCE_H
#define PACELINE_RUN_REBALANCE_H

#include "run/talk.h"

#include <stdint.h>

struct request;
struct sup_node;
struct supervisor;

#define REBALANCE_REASON_MAX 32

struct sup_rebalance {
	struct question ask;
	int open;           /* asked, and not answered */
	int wanted;         /* by a brain or a person */
	struct request *rq; /* who waits for it; NULL: nobody */
	char reason[REBALANCE_REASON_MAX]; /* why it is wanted */
	double next;        /* clock_mono(): not before */
	uint64_t done;      /* moves, all starts of the job together (STATE/scale) */
	uint64_t moved;     /* by this supervisor, and done */
	int is_even;        /* there was nothing to gain when the lead was asked last, */
	double even_at;     /* clock_mono(): then */
	int limit_told;
	char failed[512];   /* why it could not be done last; "": it could */
};

/* Somebody wants it; reason is copied. rq (may be NULL) is answered when it is done, or refused. -1:
 * it is refused at once; rq was answered. */
int sup_rebalance_want(struct supervisor *s, const char *reason, struct request *rq);
/* In PHASE_RUNNING: what is wanted. */
void sup_rebalance_step(struct supervisor *s);
/* Whoever waits is told that the job is over. */
void sup_rebalance_over(struct supervisor *s);
void sup_rebalance_periodic(struct supervisor *s);
/* Servers are others than before, or have other parts: what was known of them is of no use. */
void sup_rebalance_soon(struct supervisor *s);
/* Whether a brain may say it: there are servers, moves are left, and the last look has not found them
 * even, or was long ago. */
int sup_rebalance_is_offered(const struct supervisor *s);
/* A brain finds this server hot, and would enlarge it. 1: its keys are to be shared out first; 0:
 * that is off, or has been tried in vain. */
int sup_rebalance_helps(struct sup_node *n);

#endif
