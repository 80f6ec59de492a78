/*
 * rebalance: a server that has more to do than the others gives some of its keys away while the job
 * trains (REBALANCE=on).  Servers count what is asked of which keys in any case; every
 * REBALANCE_EVERY seconds, and soon after the number of servers changed or all went back, the lead is
 * asked to compare (lead_rebalance.c).  It moves parameters only if the busiest server has less to do
 * then, by REBALANCE_GAIN; REBALANCE_LIMIT such moves are made at most, all starts of the job together.
 *
 * A brain that would give a hot server more cores waits until that was tried: a server that is split
 * needs no larger one.
 *
 * One thing at a time: not while the job is scaled, makes a checkpoint, or a server hands over; those
 * wait until parameters have moved.
 */
#ifndef PACELINE_RUN_REBALANCE_H
#define PACELINE_RUN_REBALANCE_H

#include "run/talk.h"

#include <stdint.h>

struct sup_node;
struct supervisor;

struct sup_rebalance {
	struct question ask;
	int open;           /* asked, and not answered */
	int hot;            /* a brain has asked for it: it is the reason */
	double next;        /* clock_mono(): not before */
	uint64_t done;      /* moves, all starts of the job together (STATE/scale) */
	uint64_t moved;     /* by this supervisor, and done */
	int is_even;        /* there was nothing to gain when the lead was asked last */
	int limit_told;
	char failed[512];   /* why it could not be done last; "": it could */
};

void sup_rebalance_periodic(struct supervisor *s);
/* Servers are others than before, or have other parts: what was known of them is of no use. */
void sup_rebalance_soon(struct supervisor *s);
/* A brain finds this server hot. 1: its keys are to be shared out first; 0: that is off, or has been
 * tried in vain. */
int sup_rebalance_helps(struct sup_node *n);
/* The lead compares, or parameters move. */
int sup_rebalance_is_under_way(const struct supervisor *s);
/* It is, or is about to be, because somebody wants it. */
int sup_rebalance_is_due(const struct supervisor *s);

#endif
