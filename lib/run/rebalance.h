/*
 * rebalance: a server that has more to do than the others gives some of its keys away while the job
 * trains.  Servers always count the requests for their keys.  The lead compares these counts
 * (lead_rebalance.c), and moves parameters if the busiest server has less to do afterwards.  The
 * supervisor asks the lead for this
 *
 * - if REBALANCE=on: every so many seconds, and soon after the number of servers changed or all
 *   went back; parameters only move for a gain of REBALANCE gain;
 * - if a brain wants it.  With those above there are at most REBALANCE limit such moves in all
 *   starts of the job together;
 * - if a person wants it (`trainctl rebalance`).
 *
 * With REBALANCE=on, a brain that would give a hot server more cores waits until a rebalance was
 * tried: a server that gives keys away may need no more cores.
 *
 * The lead is not asked while the job is scaled or makes a checkpoint, or while a server hands over
 * or is to be restarted.  Scaling and hand-overs wait until parameters have moved.  Checkpoints do
 * not wait: one is made between two pieces.
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
	struct request *rq; /* the client that waits for it; NULL: none */
	char reason[REBALANCE_REASON_MAX]; /* why it is wanted */
	double not_before;  /* clock_mono(): the lead is not asked before */
	uint64_t done;      /* moves, in all starts of the job together (STATE/kept) */
	uint64_t moved;     /* moves done by this supervisor */
	int is_even;        /* there was nothing to gain when the lead was asked last */
	double even_at;     /* clock_mono(): when that was */
	int limit_told;
	char failed[512];   /* why it could not be done last; "": it could */
};

/* Asks for a rebalance; reason is copied. rq (may be NULL) is answered when it is done or refused.
 * -1: it is refused at once, and rq was answered. */
int sup_rebalance_want(struct supervisor *s, const char *reason, struct request *rq);
/* In PHASE_RUNNING: carries out what is wanted. */
void sup_rebalance_step(struct supervisor *s);
/* The client that waits is told that the job is over. */
void sup_rebalance_over(struct supervisor *s);
void sup_rebalance_periodic(struct supervisor *s);
/* There are other servers now, or they have other parts: what was known of them no longer holds. */
void sup_rebalance_soon(struct supervisor *s);
/* Whether a brain may ask for it: there are servers, moves are left, and the last look found the
 * load uneven or was long ago. */
int sup_rebalance_is_offered(const struct supervisor *s);
/* A brain would give this hot server more cores. 1: a rebalance is tried first, and was asked for
 * here. 0: it is off, or was tried in vain. */
int sup_rebalance_helps(struct sup_node *n);

#endif
