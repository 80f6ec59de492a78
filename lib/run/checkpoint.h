/*
 * checkpoint: when checkpoints are made, under which name, and how many are kept.  The lead makes
 * them.  A name is never used twice: to rename over an old one is slow, and a crash half-way would
 * lose it.
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
	char full[DIRS_PATH_MAX]; /* the last one with all rows, of servers that run; "": none */
	uint64_t since_full;      /* others since then */
	char cut_line[1024]; /* the lead's answer while parts are brought here; "": no parts are */
	double latest_at; /* clock_epoch(): latest was made; 0: not known */
	uint64_t latest_iteration;
	struct question cut;
	uint64_t made, failed; /* by this supervisor */
	uint64_t given;        /* the greatest number that this supervisor gave */
	uint64_t iteration; /* the greatest of any; 0: not known */
	uint64_t samples;   /* at least, in the model when the one under way was asked for */
	unsigned failures;  /* in a row */
	double at, retry_at;   /* clock_mono(): the last one; the next one not before this */
	struct aside *pruning; /* NULL: none are being removed */
	struct sup_waiters waiters;
};

/* This one is the latest that can be used. */
void sup_checkpoint_use(struct supervisor *s, const char *path);
/* Asks for a checkpoint, if one may be made now. */
void sup_checkpoint_make(struct supervisor *s);
void sup_checkpoint_begin(struct supervisor *s);        /* CHECKPOINT counts from now */
void sup_checkpoint_periodic(struct supervisor *s);
void sup_checkpoint_parts(struct supervisor *s, int here); /* its parts are here, or can't be */
/* At a rollback: parts that still travel will not arrive. */
void sup_checkpoint_abandon(struct supervisor *s);
void sup_checkpoint_answer(struct supervisor *s, int ok); /* those who wait for one */
void sup_checkpoint_prune_end(struct supervisor *s); /* waits for it, not for ever */

#endif
