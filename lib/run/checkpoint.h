/*
 * checkpoint: when checkpoints are made, under which name, and how many are kept.  The lead makes
 * them; a name is never used twice (renaming over an old one is slow and would lose it half-way).
 */
#ifndef PACELINE_RUN_CHECKPOINT_H
#define PACELINE_RUN_CHECKPOINT_H

#include "base/error.h"
#include "job/dirs.h"
#include "run/talk.h"
#include "run/verbs.h"

#include <stdint.h>

struct sup_checkpoints {
	char latest[DIRS_PATH_MAX]; /* whole (newest.h); "": none */
	char making[DIRS_PATH_MAX];
	char full[DIRS_PATH_MAX]; /* the last that has all rows, of servers that run; "": none */
	uint64_t since_full;      /* others since then */
	char cut_line[1024]; /* the lead's answer, while parts are brought here; "": none are */
	double latest_at; /* clock_epoch() of that; 0: not known */
	uint64_t latest_iteration;
	struct question cut;
	uint64_t made, failed; /* by this supervisor */
	uint64_t given;        /* the greatest number that it gave */
	uint64_t iteration; /* the greatest of any; 0: not known */
	uint64_t samples;   /* in the model when the one under way was asked for, at least */
	unsigned failures;  /* in a row */
	double at, again;   /* clock_mono(): of the last one; not before */
	struct aside *pruning; /* NULL: none are being removed */
	struct sup_waiters waiters;
};

/* This one is the latest that is of use. */
void sup_checkpoint_use(struct supervisor *s, const char *path);
/* Asks for one, if it may be made now. */
void sup_checkpoint_make(struct supervisor *s);
void sup_checkpoint_begin(struct supervisor *s);        /* CHECKPOINT counts from now */
void sup_checkpoint_periodic(struct supervisor *s);
void sup_checkpoint_parts(struct supervisor *s, int here); /* those that were away */
/* A rollback: what still travels does not come any more. */
void sup_checkpoint_abandon(struct supervisor *s);
void sup_checkpoint_answer(struct supervisor *s, int ok); /* those who wait for one */
void sup_checkpoint_prune_end(struct supervisor *s); /* waits for it, not for ever */

#endif
