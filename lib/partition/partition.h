/*
 * partition: which rows are whose, when each worker reads its own file only (LB-BSP 3.5), and which
 * of them are to go to another.  Rows and their text only: pieces, generations and the journal are
 * shard's.
 *
 * A partition is a ring of runs of rows.  Rows are handed out from its front and go to its end,
 * with `times` one higher; when all were, a pass is over and the next one begins.  So nobody
 * waits for others, and `times` is how often a row was handed out first-hand, which is how often it
 * is in the model once all that was handed out is.
 *
 * Budget: EPOCHS * N rows in all.  A row that was never handed out has one of them reserved.  So at
 * the end exactly EPOCHS * N rows are in the model, each row at least once.
 *
 * A move gives runs of one partition to another, in one step: what the giver had not yet handed out
 * in its pass, the receiver hands out in its own current one; the rest waits for the next.
 * They are spread evenly among the rows that are there: in one block, a batch would hold nothing
 * else.  So no row is left out or comes twice because of a move.  (Only the last pass of a job
 * is not whole: where the budget ends, rows that were handed out before are skipped.)
 */
#ifndef PACELINE_PARTITION_PARTITION_H
#define PACELINE_PARTITION_PARTITION_H

#include "base/error.h"
#include "base/option.h"
#include "record/fields.h"

#include <stddef.h>
#include <stdint.h>

/* A worker's own file, as the options say: they stand one behind the other in the numbering of
 * rows. */
struct partition_own {
	char worker[OPTION_ID_MAX];
	uint64_t rows;
};

struct partition_run {
	uint64_t begin, length, times;
};

struct partition {
	char worker[OPTION_ID_MAX];
	uint64_t begin, samples; /* of its own file */
	struct partition_run *run; /* the ring: the first `left` rows are still of this pass */
	size_t count, room;
	uint64_t rows, left; /* 0 < left <= rows */
	uint64_t passes; /* that are over */
	uint64_t given;  /* rows handed out since the counts were reset */
};

struct partition_move {
	uint64_t id;
	size_t from, to;
	uint64_t begin, length;
};

struct partitions {
	struct partition_own *own;
	struct partition *partition;
	struct partition **by_name; /* sorted by worker */
	size_t count;               /* of all three */
	uint64_t budget, unseen;
	uint64_t grain; /* rows that come to a ring are spread over it in such runs, or longer */
	double migrate;
	uint64_t begun; /* times that rows were handed out */
	struct partition_move *move;
	size_t moves, move_room;
	uint64_t next_move, moves_done, rows_moved;
	struct partition *reading; /* its `rows` lines are read */
};

/* ---- what the options say ---- */

/* "w0:500,w1:250" -> *out, to be freed. ERROR_USAGE: it is none. */
int partitions_option(const char *text, struct partition_own **out, size_t *count,
		      struct error *err);
/* Whether they can be: ERROR_CONFIG. */
int partitions_check(const struct partition_own *own, size_t count, uint64_t samples,
		     struct error *err);
int partitions_same(const struct partition_own *a, size_t count_a, const struct partition_own *b,
		    size_t count_b);

/* Each has the rows of its own file (copied), never handed out; epochs * all rows are the budget,
 * and batch samples a batch of all workers together. NULL: out of memory. */
struct partitions *partitions_new(const struct partition_own *own, size_t count, uint64_t batch,
				  uint64_t epochs);
void partitions_free(struct partitions *p); /* NULL is fine */
/* Its number, or p->count. */
size_t partitions_find(const struct partitions *p, const char *worker);

/* How many rows, at most max, the partition can be handed out in one run; 0: none, as the budget is
 * used up or reserved. */
uint64_t partition_offer(const struct partitions *p, const struct partition *part, uint64_t max);
/* Room for any one change of it; -1: out of memory. */
int partition_prepare(struct partition *part);
/* Hands out n rows, no more than were offered; the first of them. Needs partition_prepare(). */
uint64_t partition_take(struct partitions *p, struct partition *part, uint64_t n);
/* A run at the end of the ring, as a file says. -1: out of memory. */
int partition_append(struct partition *part, uint64_t begin, uint64_t length, uint64_t times);

/* The move `id`, or NULL. */
struct partition_move *partitions_move(const struct partitions *p, uint64_t id);
/* Whether the giver has all of these rows, and no other move takes any. */
int partitions_may_move(const struct partitions *p, const struct partition_move *move);
/* A move more. -1: out of memory. */
int partitions_plan(struct partitions *p, const struct partition_move *move);
/* Does it; with the last one the counts begin anew. -1: out of memory, and nothing happened. */
int partitions_commit(struct partitions *p, struct partition_move *move);
void partitions_drop(struct partitions *p, struct partition_move *move);

/* What p, read from a file, takes over from the one that it replaces. */
void partitions_roll_back(struct partitions *p, const struct partitions *replaced);

/* Whether each of the rows 0..samples-1 is in one partition, once, and each move's in its giver's.
 * -1: out of memory. */
int partitions_are_whole(const struct partitions *p, uint64_t samples);

/* ---- as text (paceline-journal(5)) ---- */

extern const struct field partitions_fields[];     /* of struct partitions, in the state line */
extern const struct field partition_own_fields[];  /* `partition` */
/* Gives each line, but for its end, to `line`. */
void partitions_write(const struct partitions *p,
		      void (*line)(void *arg, const struct record_out *line), void *arg);
/* From here on the lines say what is where. */
void partitions_forget(struct partitions *p);
/* One of those lines. 1: it is none of them. -1: it can't be (ERROR_DATA, ERROR_OS). */
int partitions_read(struct partitions *p, const struct record *r, struct error *err);
/* All of them were read, and `used` rows of the budget are gone. -1: they do not fit together. */
int partitions_read_all(struct partitions *p, uint64_t samples, uint64_t all, uint64_t used,
			struct error *err);

/* ---- decisions: pure ---- */

/* How far passes since the reset are apart: the greatest difference of given / rows. */
double partitions_gap(const struct partitions *p);
/* Rows that each of count partitions should have, so that a pass over each takes the same time: in
 * proportion to given, floor_rows each at least (or what it has), their sum unchanged. */
void partitions_shares(const uint64_t *rows, const uint64_t *given, size_t count,
		       uint64_t floor_rows, uint64_t *share);
/* The moves that lead there: *moves is the caller's to free, ids from next_move. The ends of the
 * giver's longest rows of numbers go, so that they are few. -1: out of memory. */
int partitions_moves(const struct partitions *p, uint64_t floor_rows, struct partition_move **moves,
		     size_t *count);
/* The same when they are due; else none. Moves that nobody would notice any more are not. */
int partitions_due(const struct partitions *p, uint64_t floor_rows, struct partition_move **moves,
		   size_t *count);

#endif
