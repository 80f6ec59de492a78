/*
 * newest: the checkpoint that a job goes on from: the newest that is whole.  There is no other rule,
 * at a start and at a rollback.  A damaged one is passed over, and the event `damaged` says so, once.
 *
 * Most damage is quickly seen (MANIFEST, lengths, sums of the indexes and of the queue); the rest is
 * seen by who restores it (sup_pass_over()).
 */
#ifndef PACELINE_RUN_NEWEST_H
#define PACELINE_RUN_NEWEST_H

#include "base/error.h"

#include <stddef.h>

#define SUP_DAMAGED_MAX 32

struct supervisor;

struct sup_newest {
	char damaged[SUP_DAMAGED_MAX][256]; /* names of checkpoints that are not gone back to */
	size_t damaged_count;
};

/* It becomes s->checkpoint.latest; "" when there is none at all. -1: none of them is whole, or they
 * can't be looked at; *err is about the newest. */
int sup_newest_find(struct supervisor *s, struct error *err);
/* The same at a start: nodes that run may need none. -1: they can't be looked at. */
int sup_newest_begin(struct supervisor *s, struct error *err);
/* Whether servers and shardd can go back to it, as far as that is quickly seen: servers look at the
 * sums of their parts themselves. */
int sup_cut_is_whole(const struct supervisor *s, const char *cut, struct error *err);

void sup_pass_over(struct supervisor *s, const char *cut, const char *why);
int sup_is_passed_over(const struct supervisor *s, const char *cut);

#endif
