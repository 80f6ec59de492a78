/*
 * behind: a standby that lacks gradients of units that its part has applied.
 *
 * The standby has the names of all pushes, and every order, in the part's sequence.  An apply that
 * names a push whose gradients are not here is carried out later, and so are those after it; but
 * what is staged, and the number of units, are from then on as at the part.  The units go when a
 * merged difference brings the parameters past them (standby.h), or when their gradients have come.
 *
 * If the part dies, the standby is the part now.  The workers that keep the gradients see that it
 * is behind, and send them (`kept`).  Until all have come, pulls wait, and no copy and no
 * checkpoint is made; pushes and orders are answered as ever.  If nothing comes for a while, the
 * gradients are nowhere, and the server ends: all go back to a checkpoint.
 */
#ifndef PACELINE_PS_BEHIND_H
#define PACELINE_PS_BEHIND_H

#include "ps/ps_internal.h"

void behind_start(struct behind *b);
void behind_free(struct behind *b);
/* This is the part from now on. */
int behind_wait(struct ps *p, struct error *err);

static inline int behind_is(const struct behind *b)
{
	return b->first != NULL;
}

/* The units that are in the parameters. */
static inline uint64_t behind_reached(const struct ps *p)
{
	return p->applied - p->behind.units;
}

/* Whether gradients are absent, of units that are applied or only staged. */
int behind_lacks(const struct ps *p);

/* Whether this apply has to wait. */
int behind_holds_up(const struct ps *p, const struct order *o);
/* Notes one of its units. *missing counts pushes that are not even staged here. -1: no memory. */
int behind_add(struct ps *p, const struct order_push *push, size_t pushes, size_t *missing,
	       struct error *err);
/* Takes the gradients that were absent. 1: s is taken. 0: they are not needed here. */
int behind_fill(struct ps *p, struct staged *s);
/* The parameters are those of this unit. */
void behind_skip(struct ps *p, uint64_t unit);
/* Applies the units whose gradients are here. */
void behind_run(struct ps *p);

void behind_on_kept(struct request *rq, void *ps);

#endif
