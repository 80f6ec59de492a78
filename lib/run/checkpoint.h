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
	char making[DIRS_PATH_MAX]; /* the one under way, or the last that was */
	char full[DIRS_PATH_MAX];   /* the last one with all rows, of servers that run; "": none */
	uint64_t since_full;        /* made since then, without the rows that have not changed */
	char cut_line[1024]; /* the lead's answer while parts are brought here; "": no parts are */
	double latest_at; /* clock_epoch(): latest was made; 0: not known */
	uint64_t latest_iteration, in_memory; /* in_memory: workers that held it when it was made */
	struct question cut;   /* to the lead, which makes it */
	uint64_t made, failed; /* by this supervisor */
	uint64_t given;        /* the greatest number that this supervisor gave to one */
	uint64_t iteration;    /* the greatest that one was made at; 0: not known */
	uint64_t samples; /* trained when the one under way was asked for: it has at least these */
	unsigned failures;  /* in a row */
	double at, retry_at;   /* clock_mono(): the last one; the next one not before this */
	double asked;          /* clock_mono(): for the one under way */
	struct aside *pruning; /* NULL: none are being removed */
	struct sup_waiters waiters;
};

/* From now on this one is the latest that can be used. */
void sup_checkpoint_use(struct supervisor *s, const char *path);
/* Asks for a checkpoint, if one may be made now. */
void sup_checkpoint_make(struct supervisor *s);
/* The time until the next one counts from now. */
void sup_checkpoint_begin(struct supervisor *s);
/* Makes one if it is time, or if somebody waits for one. */
void sup_checkpoint_periodic(struct supervisor *s);
/* Call when its parts are here, or (here 0) when one can't be brought. */
void sup_checkpoint_parts(struct supervisor *s, int here);
/* Call at a rollback: parts that are still on their way will not arrive. */
void sup_checkpoint_abandon(struct supervisor *s);
/* Answers the clients that wait for a checkpoint. */
void sup_checkpoint_answer(struct supervisor *s, int ok);
/* Waits until old ones are removed, but not for ever. */
void sup_checkpoint_prune_end(struct supervisor *s);

#endif
