/*
 * feed: pieces in, batches out.  A thread of its own reads and parses while the trainer trains; it
 * talks to nobody.  All functions are for one other thread, the trainer's.
 *
 * A parsed piece stays in memory until its last row has been taken, so a new batch size (adjust-bs)
 * holds from the next batch on: batches cut ahead are cut again.
 */
#ifndef PACELINE_WORK_FEED_H
#define PACELINE_WORK_FEED_H

#include "base/error.h"
#include "data/dataset.h"
#include "work/batch.h"
#include "work/shards.h"

struct feed;

struct feed_options {
	struct dataset *dataset; /* the feed's alone from feed_new() to feed_free() */
	struct model_keys keys;
	uint64_t key_count;      /* keys are below it */
	const struct map *map;   /* of the servers; copied */
	uint64_t size;           /* rows in a batch */
	const char *spill;       /* has the rows that the dataset lacks; NULL: nothing has */
	int keeps;               /* a batch is the trainer's until the second feed_take() */
};

int feed_new(struct feed **out, const struct feed_options *options, struct error *err);
void feed_free(struct feed *f); /* NULL is fine */

/* Adds a piece, which is copied. ERROR_OS: no memory. */
int feed_add(struct feed *f, const struct piece *p, struct error *err);
/* Whether a piece with this id was added and has rows that were not taken. */
int feed_knows(struct feed *f, uint64_t id);
/* Rows added and not yet taken. */
uint64_t feed_held(struct feed *f);
/* From the next batch on, batches have this size. */
void feed_resize(struct feed *f, uint64_t size);
/* The servers have this map now: batches that are not ready yet follow it. */
void feed_follow(struct feed *f, const struct map *map);
/* The dataset's own rows are numbered from begin on. */
int feed_number(struct feed *f, uint64_t begin, struct error *err);
/* "FILE:LINE" of a row of the data, for a message. */
void feed_place(struct feed *f, uint64_t row, char *out, size_t max);
/* Forgets everything that was not taken. */
void feed_drop(struct feed *f);

/* The next batch in *out, which is the caller's until the next feed_take() or feed_drop(). A batch
 * shorter than size is given only when short_ok, or when more ranges would not fit a push. *out is
 * NULL when the rows held do not make a batch. Waits for the thread while that may still change.
 * -1: the data are bad (ERROR_DATA with file:line:column) or memory ran out. */
int feed_take(struct feed *f, int short_ok, struct batch **out, struct error *err);
/* Waits for what feed_take(), with this short_ok, will give next; that takes nothing. *out, and
 * errors: as for that. */
int feed_foresee(struct feed *f, int short_ok, const struct batch **out, struct error *err);
/* What feed_take() will give next, unless feed_resize() or feed_drop() comes first; valid until
 * then. NULL: not known yet. */
const struct batch *feed_next(struct feed *f);

#endif
