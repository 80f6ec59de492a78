/*
 * newest: finds the checkpoint that a job goes on from.  It is the newest that is whole: this is
 * the only rule, at a start and at a rollback.  A damaged one is passed over, and the event
 * `damaged` says so, once.
 *
 * Most damage is quickly seen here (MANIFEST, lengths, sums of the indexes and of the queue).  The
 * node that restores the checkpoint sees the rest (sup_pass_over()).
 */
#ifndef PACELINE_RUN_NEWEST_H
#define PACELINE_RUN_NEWEST_H

#include "base/error.h"

#include <stddef.h>

#define SUP_DAMAGED_MAX 32

struct supervisor;

struct sup_newest {
	char damaged[SUP_DAMAGED_MAX][256]; /* names of checkpoints to pass over */
	size_t damaged_count;
	int unread; /* at the start the newest could not be read; it may be whole */
};

/* Sets s->checkpoint.latest; "" when there is no checkpoint at all. -1: no checkpoint is whole, or
 * they can't be looked at or read; *err is about the newest. */
int sup_newest_find(struct supervisor *s, struct error *err);
/* The same at a start, where damage is no error: nodes that run may need no checkpoint. -1: they
 * can't be looked at. */
int sup_newest_begin(struct supervisor *s, struct error *err);
/* Whether servers and shardd can go back to this cut, as far as a quick look tells: servers check
 * the sums of their parts themselves. */
int sup_cut_is_whole(const struct supervisor *s, const char *cut, struct error *err);

/* This checkpoint is damaged: nobody goes back to it from now on. */
void sup_pass_over(struct supervisor *s, const char *cut, const char *why);
int sup_is_passed_over(const struct supervisor *s, const char *cut);

#endif
