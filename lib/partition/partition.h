/*
 * partition: which rows are whose, when each worker reads its own file only (LB-BSP 3.5).  Numbers only:
 * pieces, journal and workers are queue's.
 *
 * A partition is a ring of runs of rows.  Rows are handed out from its front and go to its end, with
 * `times` one higher; when all were, a traversal is over and the next one begins.  So nobody waits
 * for others, and `times` is how often a row was handed out first-hand, which is how often it is in
 * the model once all that was handed out is.
 *
 * Budget: EPOCHS * N rows in all.  A row that was never handed out has one of them reserved.  So at
 * the end exactly EPOCHS * N rows are in the model, each row at least once.
 *
 * A move gives runs of one partition to another, in one step: what the giver had not yet handed out
 * in its traversal, the receiver hands out in its own current one; the rest waits for the next.  They
 * are spread evenly among the rows that are there: in one block, a batch would hold nothing else.  So
 * no row is left out or comes twice because of a move.  (Only the last traversal of a job is not
 * whole: where the budget ends, rows that were handed out before are passed over.)
 */
#ifndef PACELINE_PARTITION_PARTITION_H
#define PACELINE_PARTITION_PARTITION_H

#include "base/error.h"
#include "base/option.h"

#include <stddef.h>
#include <stdint.h>

struct run {
	uint64_t begin, length, times;
};

struct part {
	char worker[OPTION_ID_MAX];
	uint64_t begin, samples; /* of its own file */
	struct run *run;         /* the ring: the first `left` rows are still of this traversal */
	size_t count, room;
	uint64_t rows, left; /* 0 < left <= rows */
	uint64_t traversals; /* that are over */
	uint64_t given;      /* rows handed out since the counts were reset */
};

struct part_move {
	uint64_t id;
	size_t from, to;
	uint64_t begin, length;
};

struct parts {
	struct part *part;
	size_t count;
	uint64_t budget, unseen;
	uint64_t grain; /* rows that come to a ring are spread over it in runs of so many, or more */
	double migrate;
	struct part_move *move;
	size_t moves, move_room;
	uint64_t next_move, moves_done, rows_moved;
};

/* One partition more, behind the last one. -1: no memory. */
int parts_add(struct parts *p, const char *worker, uint64_t rows);
void parts_free(struct parts *p); /* what is in it */
/* Its number, or parts->count. */
size_t parts_find(const struct parts *p, const char *worker);

/* How many rows, at most max, the partition can be handed out in one run; 0: none, as the budget is
 * used up or reserved. */
uint64_t part_offer(const struct parts *p, const struct part *part, uint64_t max);
/* Room for any one change of it; -1: no memory. */
int part_prepare(struct part *part);
/* Hands out n rows, no more than were offered; the first of them. Needs part_prepare(). */
uint64_t part_take(struct parts *p, struct part *part, uint64_t n);
/* A run at the end of the ring, as a file says. -1: no memory. */
int part_append(struct part *part, uint64_t begin, uint64_t length, uint64_t times);

/* The move `id`, or NULL. */
struct part_move *parts_move(const struct parts *p, uint64_t id);
/* A move more. -1: no memory. */
int parts_plan(struct parts *p, const struct part_move *move);
/* Does it; with the last one the counts begin anew. -1: no memory, and nothing happened. */
int parts_commit(struct parts *p, struct part_move *move);
void parts_drop(struct parts *p, struct part_move *move);

/* Whether each of the rows 0..samples-1 is in one partition, once, and each move's in its giver's.
 * -1: no memory. */
int parts_are_whole(const struct parts *p, uint64_t samples);

/* ---- decisions: pure ---- */

/* How far traversals since the reset are apart: the greatest difference of given / rows. */
double parts_gap(const struct parts *p);
/* Rows that each of count partitions should have, so that all are traversed in the same time: in
 * proportion to given, floor_rows each at least (or what it has), their sum unchanged. */
void parts_shares(const uint64_t *rows, const uint64_t *given, size_t count, uint64_t floor_rows,
		  uint64_t *share);
/* The moves that lead there: *moves is the caller's to free, ids from next_move. The ends of the giver's
 * longest rows of numbers go, so that they are few. -1: no memory. */
int parts_moves(const struct parts *p, uint64_t floor_rows, struct part_move **moves, size_t *count);

#endif
