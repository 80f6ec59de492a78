/*
 * partition: which worker has which rows, if each worker reads only its own file (LB-BSP, section
 * 3.5), and which rows move to another worker.  It knows only rows and their text; pieces,
 * generations and the journal are in lib/shard.
 *
 * A partition is a ring of runs of rows.  Rows are handed out from its front and go to its end,
 * with `times` one higher.  When all rows were handed out, a pass is over and the next one begins.
 * So no worker waits for others.  `times` does not count a row that comes back and is handed out
 * again: once all that was handed out is in the model, it says how often the row is in the model.
 *
 * The budget is EPOCHS * N rows in all.  One of them is reserved for each row that was never handed
 * out.  So at the end exactly EPOCHS * N rows are in the model, and each row at least once.
 *
 * A move gives runs of one partition to another, in one step.  Rows that the giver had not yet
 * handed out in its pass are handed out by the receiver in its current one; the others wait for its
 * next pass.  So no row is left out or comes twice because of a move.  The rows that come are
 * spread evenly among those that are there; as one block, they would fill whole batches.  (Only the
 * last pass of a job is not whole: near the end of the budget, rows that were handed out before are
 * skipped.)
 */
#ifndef PACELINE_PARTITION_PARTITION_H
#define PACELINE_PARTITION_PARTITION_H

#include "base/error.h"
#include "base/option.h"
#include "record/fields.h"

#include <stddef.h>
#include <stdint.h>

/* A worker's own file, as the options say. Rows are numbered through all files, in this order. */
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
	struct partition_run *run; /* the ring; its first `left` rows are still of this pass */
	size_t count, room;
	uint64_t rows, left; /* 0 < left <= rows */
	uint64_t passes; /* passes that are over */
	uint64_t given;      /* rows handed out since the counts were reset */
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
	uint64_t grain; /* rows that a move brings are spread in runs of so many, or longer */
	double migrate;
	uint64_t begun; /* how many times a run was handed out */
	struct partition_move *move;
	size_t moves, move_room;
	uint64_t next_move, moves_done, rows_moved;
	struct partition *reading; /* the one whose `rows` lines are being read */
};

/* ---- what the options say ---- */

/* Reads "w0:500,w1:250" into *out, to be freed. ERROR_USAGE: the text is wrong. */
int partitions_option(const char *text, struct partition_own **out, size_t *count,
		      struct error *err);
/* Checks them; if they can't be used: ERROR_CONFIG. */
int partitions_check(const struct partition_own *own, size_t count, uint64_t samples,
		     struct error *err);
/* Whether both are the same, in the same order. */
int partitions_same(const struct partition_own *a, size_t count_a, const struct partition_own *b,
		    size_t count_b);

/* Makes partitions with the rows of their own files (own is copied), none handed out. The budget is
 * passes * all rows. batch: samples in a batch of all workers together. NULL: out of memory. */
struct partitions *partitions_new(const struct partition_own *own, size_t count, uint64_t batch,
				  uint64_t epochs);
void partitions_free(struct partitions *p); /* NULL is fine */
/* The number of a worker's partition; p->count: it has none. */
size_t partitions_find(const struct partitions *p, const char *worker);

/* How many rows of the partition can be handed out in one run, max at most. 0: none, as the budget
 * is used up or reserved. */
uint64_t partition_offer(const struct partitions *p, const struct partition *part, uint64_t max);
/* Reserves room for any one change of it; -1: out of memory. */
int partition_prepare(struct partition *part);
/* Hands out n rows, no more than partition_offer() said. Returns the first of them. Needs
 * partition_prepare(). */
uint64_t partition_take(struct partitions *p, struct partition *part, uint64_t n);
/* Appends a run to the ring, for reading a file. -1: out of memory. */
int partition_append(struct partition *part, uint64_t begin, uint64_t length, uint64_t times);

/* The move `id`, or NULL. */
struct partition_move *partitions_move(const struct partitions *p, uint64_t id);
/* Whether the giver has all of these rows, and no other move takes any. */
int partitions_may_move(const struct partitions *p, const struct partition_move *move);
/* Adds a move, copied. -1: out of memory. */
int partitions_plan(struct partitions *p, const struct partition_move *move);
/* Makes the move. After the last one, `given` counts anew. -1: out of memory, and nothing has
 * changed. */
int partitions_commit(struct partitions *p, struct partition_move *move);
/* Removes a move that was not made. */
void partitions_drop(struct partitions *p, struct partition_move *move);

/* p was read from a file: it takes over from `replaced` what must not go back. */
void partitions_roll_back(struct partitions *p, const struct partitions *replaced);

/* Whether each of the rows 0..samples-1 is in exactly one partition, and the rows of each move are
 * in its giver's. -1: out of memory. */
int partitions_are_whole(const struct partitions *p, uint64_t samples);

/* ---- as text (paceline-journal(5)) ---- */

extern const struct field partitions_fields[];     /* of struct partitions, in the state line */
extern const struct field partition_own_fields[];  /* `partition` */
/* Gives each line, not ended yet, to `line`. */
void partitions_write(const struct partitions *p,
		      void (*line)(void *arg, const struct record_out *line), void *arg);
/* Forgets all rows: the lines that follow say where they are. */
void partitions_forget(struct partitions *p);
/* Takes one of those lines. 1: it is another kind of line. -1: it is refused (ERROR_DATA,
 * ERROR_OS). */
int partitions_read(struct partitions *p, const struct record *r, struct error *err);
/* To be called when all lines were read. `used` rows of the budget are used up. -1: the numbers do
 * not fit together. */
int partitions_read_all(struct partitions *p, uint64_t samples, uint64_t all, uint64_t used,
			struct error *err);

/* ---- decisions: pure ---- */

/* How many rows each of count partitions should have, so that all passes take the same time: in
 * proportion to given; at least floor_rows each, or what it has if that is less; with the same
 * sum. */
void partitions_shares(const uint64_t *rows, const uint64_t *given, size_t count,
		       uint64_t floor_rows, uint64_t *share);
/* The moves that lead to those shares, if they are due; otherwise none. They take the ends of the
 * giver's longest stretches of consecutive rows, so that there are few moves; those so small that
 * nobody would notice them are left out. *moves is to be freed; ids begin with next_move. -1: out
 * of memory. */
int partitions_due(const struct partitions *p, uint64_t floor_rows, struct partition_move **moves,
		   size_t *count);

#endif
