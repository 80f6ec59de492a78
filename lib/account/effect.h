/*
 * effect: what the actions of a job did: the pace of the job before and after.
 *
 * Actions that follow each other closely are one effect (they can't be told apart), and those that
 * set what is set already are none.  Before: the pace since the effect before, for as long as the
 * last part of it may speak for now; after: from the first action on until the next effect, so that
 * what an action costs (a restart) is in it.  Whatever else changed in between is in it as well: a
 * straggler that came or went by itself.
 *
 * Pure.
 */
#ifndef PACELINE_ACCOUNT_EFFECT_H
#define PACELINE_ACCOUNT_EFFECT_H

#include "account/account.h"

struct effect {
	double from, last;              /* of the first and the last action */
	double until;                   /* the next effect, or the end */
	size_t mark_first, mark_last;   /* its marks are among these */
	size_t mark;                    /* its first restart, else its first action */
	size_t sizes, restarts, others; /* how many actions */
	double before, after;           /* samples a second; NAN: not known */
	/* Seconds that what was trained after would have taken longer at the pace of before; below
	 * 0: less long. NAN: not known. */
	double saved;
};

/* To be freed; in order of time. */
int effect_list(const struct account *a, struct effect **out, size_t *count, struct error *err);

#endif
