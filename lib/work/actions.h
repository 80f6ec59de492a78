/*
 * actions: what a controller tells a worker (AntDT's Agent): taken when it comes, and obeyed from
 * the next batch on.
 */
#ifndef PACELINE_WORK_ACTIONS_H
#define PACELINE_WORK_ACTIONS_H

#include "base/error.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

struct actions {
	uint64_t size, accum; /* in force: samples in a step, steps in a batch */
	double scale;         /* of the learning rate, as last told; 1 at first */
	int news;             /* something was taken and is not yet obeyed */
	/* `applied` records, one line each; may be NULL. */
	void (*log)(const char *line, size_t len, void *owner);
	void *owner;
	const char *worker;

	/* private */
	uint64_t new_size, new_accum; /* from the next batch on */
};

/* batch: samples, until an action says another number. */
void actions_start(struct actions *a, const char *worker, uint64_t batch);

/* An `action` record, which comes before its iteration is known. One for another node, or of a kind
 * that is not a worker's, is skipped; a wrong one is logged and not obeyed. */
void actions_take(struct actions *a, const struct record *r);
/* Whether what was taken changes the size of batches, and not only for the next barrier. */
int actions_resize(const struct actions *a);
/* What was taken holds from this iteration on. 1: the batch has changed. */
int actions_obey(struct actions *a, uint64_t iteration);

/* How many rows to request while so many are in hand, 0: none. Never more than whole batches that
 * are half of the most that may be held: what is requested when depends on how fast answers come,
 * but how shards are cut, and so which rows are shuffled among each other, must not. */
uint64_t actions_rows_to_ask(uint64_t batch, uint64_t ahead, uint64_t held);

#endif
