/*
 * effect: what the actions of a job did: the speed of the job before and after.
 *
 * Actions that follow each other closely are one effect (they can't be told apart); actions that
 * set what is set already are none.  Before: the speed since the previous effect, but only its last
 * part, which is recent enough to compare with.  After: the speed from the first action until the
 * next effect, so that the cost of an action (a restart) is included.  Other changes in that time
 * are included too, such as a straggler that came or went by itself.
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
	/* How many seconds longer the training after it would have taken at the speed before; below
	 * 0: shorter. NAN: not known. */
	double saved;
};

/* In order of time; the caller frees *out. */
int effect_list(const struct account *a, struct effect **out, size_t *count, struct error *err);

#endif
