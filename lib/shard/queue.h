/*
 * queue: which samples are to be trained, by whom, and which are in the model: AntDT's stateful
 * dynamic data sharding service (AntDT V-C), DLRover's data shard manager.  A pure state machine:
 * no clock, no file, no socket.  The same calls give the same state, which is what replay needs.
 *
 * N samples are cut into K = ceil(N / (B*M)) shards an epoch.  A shard that nobody has asked for
 * yet is no object: a cursor over all epochs stands for those that are left, so 3,000,000 of them
 * cost nothing (4 bytes each when shuffled).  A PIECE is a shard, or a part of one, that is in a
 * worker's hand, came back, is held, or is the rest of one that was cut.  A piece all of whose
 * samples are in the model is done and forgotten but for the counts.
 *
 * Ids: the k-th shard handed out of epoch e (both from 0) is e*K + k; parts that are cut off get
 * numbers from E*K on.  No id is given twice.
 *
 * Rows and positions: a piece has a frame (begin, length) and a seed.  Position p of it is row
 * begin + p, or in --shuffle samples the p-th row of its shuffled order.  Ranges are given as
 * "begin + p".  Positions [lo, hi) remain.
 *
 * Order: the oldest epoch that has something to hand out comes first; in it the rest of a cut
 * piece, then shards not handed out yet, then what came back, in the order in which it came.
 *
 * Partitions (LB-BSP 3.5): with parameters that name some, each worker is handed rows of its own
 * partition only, over and over, until EPOCHS * N rows are in the model; see partition/partition.h.
 *
 * Every function that changes something either does all of it or nothing.  What it did it says
 * in lines (queue_set_log), which queue_loader_line() of another queue follows.
 */
#ifndef PACELINE_SHARD_QUEUE_H
#define PACELINE_SHARD_QUEUE_H

#include "base/error.h"
#include "base/option.h"

#include <stddef.h>
#include <stdint.h>

struct queue;

enum queue_shuffle { QUEUE_SHUFFLE_NONE, QUEUE_SHUFFLE_SHARDS, QUEUE_SHUFFLE_SAMPLES };

/* A worker's own rows: partitions stand one behind the other in the numbering of rows. */
struct queue_partition {
	char worker[OPTION_ID_MAX];
	uint64_t rows;
};

/* What makes a queue this one: a journal of others is another job's. */
struct queue_parameters {
	uint64_t samples; /* N > 0 */
	uint64_t batch;   /* B > 0, samples */
	uint64_t batches; /* M > 0, batches a shard */
	uint64_t epochs;  /* E > 0 */
	enum queue_shuffle shuffle;
	uint64_t seed;
	const struct queue_partition *partition; /* copied; all of their rows are the samples */
	size_t partitions;                       /* 0: everybody is handed everything */
};

enum queue_result {
	QUEUE_OK,       /* as asked, now or before */
	QUEUE_WAIT,     /* nothing to hand out now, some are in others' hands */
	QUEUE_END,      /* all done or held */
	QUEUE_REPEATED, /* the last settle again */
	QUEUE_FENCED,
	QUEUE_BAD,
	QUEUE_UNKNOWN_WORKER,
	QUEUE_UNKNOWN_SHARD,
	QUEUE_NOT_YOURS,
	QUEUE_MEMORY
};
/* "fenced", "bad-request", ... as err code= says it. */
const char *queue_result_code(enum queue_result result);
const char *queue_shuffle_name(enum queue_shuffle shuffle);
int queue_shuffle_of(const char *name, enum queue_shuffle *out); /* -1: none of them */

enum queue_state { QUEUE_TODO, QUEUE_DOING, QUEUE_DONE, QUEUE_HELD, QUEUE_STATES };
const char *queue_state_name(enum queue_state state);

/* ERROR_CONFIG: too large or zero; ERROR_OS: no memory. */
int queue_new(struct queue **out, const struct queue_parameters *p, struct error *err);
void queue_free(struct queue *q); /* NULL is fine */
const struct queue_parameters *queue_parameters(const struct queue *q);

/* The time of what follows: epoch seconds for ages, monotonic seconds for leases. */
void queue_clock(struct queue *q, double at, double mono);

/* Deaths after which a shard is held (0: never), and seconds of a lease (0: none). Logged. */
void queue_set(struct queue *q, uint64_t retries, double lease);
uint64_t queue_retries(const struct queue *q);
double queue_lease(const struct queue *q);

/* From here on lines may be lost if the machine is started anew: that of this boot id. "": none may.
 * Part of the state, until it is said again or the queue is rolled back. Logged. */
void queue_set_loose(struct queue *q, const char *boot);
const char *queue_loose(const struct queue *q);

/* Where the lines go; NULL (the default) is nowhere. Lines stay queue's own. A settle is several
 * lines, given one after the other. */
void queue_set_log(struct queue *q, void (*log)(void *arg, const char *line, size_t len),
		   void *arg);
/* Told of each transition of a piece; worker is "" where nobody holds it. */
void queue_set_watch(struct queue *q,
		     void (*change)(void *arg, uint64_t id, enum queue_state state,
				    const char *worker),
		     void *arg);

/* A piece as it is told. */
struct queue_piece {
	uint64_t id;
	uint64_t epoch;
	enum queue_state state;
	uint64_t begin, length; /* frame */
	uint64_t skip, take;    /* positions that remain: all when skip == 0 and take == length */
	uint64_t upto;          /* positions before it are in the model, counted from begin */
	uint64_t seed;          /* 0 unless samples are shuffled */
	const char *worker;     /* "" when in nobody's hand; queue's own */
	uint64_t returns;       /* times it came back */
	double age;             /* seconds in this state; 0 for one never handed out */
};

/* ---- requests: err (may be NULL) says why, for people ---- */

enum queue_result queue_hello(struct queue *q, const char *worker, uint64_t *generation,
			      struct error *err);
/* The worker itself has asked for something: that it lives is told by queue_workers(). No state:
 * counted from the start of the process. */
void queue_asked(struct queue *q, const char *worker);
struct queue_worker_told {
	const char *worker;
	uint64_t generation; /* in force; 0: none */
	uint64_t asks;
	uint64_t pieces; /* in its hand */
};
/* All that ever said hello, in that order. */
void queue_workers(const struct queue *q,
		   void (*give)(void *arg, const struct queue_worker_told *worker), void *arg);
/* Whether this generation of the worker is in force. */
enum queue_result queue_in_force(const struct queue *q, const char *worker, uint64_t generation,
				 struct error *err);
/* max 0: whatever it is. QUEUE_OK: *piece is the worker's. */
enum queue_result queue_get(struct queue *q, const char *worker, uint64_t generation, uint64_t max,
			    struct queue_piece *piece, struct error *err);
enum queue_result queue_progress(struct queue *q, const char *worker, uint64_t generation,
				 uint64_t id, uint64_t upto, struct error *err);
enum queue_result queue_done(struct queue *q, const char *worker, uint64_t generation, uint64_t id,
			     struct error *err);
enum queue_result queue_back(struct queue *q, const char *worker, uint64_t generation, uint64_t id,
			     struct error *err);
enum queue_result queue_back_range(struct queue *q, const char *worker, uint64_t generation,
				   uint64_t id, uint64_t begin, uint64_t length, struct error *err);
enum queue_result queue_renew(struct queue *q, const char *worker, uint64_t generation, uint64_t id,
			      struct error *err);
enum queue_result queue_bye(struct queue *q, const char *worker, uint64_t generation,
			    struct error *err);
enum queue_result queue_fail(struct queue *q, const char *worker, uint64_t *shards,
			     struct error *err);
enum queue_result queue_release(struct queue *q, uint64_t id, struct error *err);

/* ---- settle ---- */
struct queue_line {
	int is_back;
	const char *worker;
	uint64_t generation, id, begin, length;
	int refused; /* set by queue_settle() */
};
struct queue_refusal {
	char worker[OPTION_ID_MAX];
	uint64_t generation, id;
};
/* QUEUE_FENCED, QUEUE_REPEATED (queue_refusals() is the answer again), QUEUE_OK (a new one), or
 * QUEUE_BAD: lower than the last one's, a duplicate that comes late. Carried out, it would put its
 * own answer in the place of the one that the lead may still ask for. */
enum queue_result queue_settle_known(const struct queue *q, uint64_t number, uint64_t incarnation,
				     struct error *err);
/* The lines are judged together, before any of them changes anything. An apply line is refused, and
 * told by queue_refusals(), unless all of its rows are in this worker's hand, of this generation,
 * and named by no other line; it takes the other apply lines of that worker's generation with it,
 * as together they are one gradient. All other lines are carried out. A `back` line asks for what
 * may have happened already: what of it is no longer in the hand is passed over in silence. */
enum queue_result queue_settle(struct queue *q, uint64_t number, uint64_t iteration,
			       uint64_t incarnation, struct queue_line *lines, size_t count,
			       struct error *err);
/* The answer of the last settle; valid until the next. */
const struct queue_refusal *queue_refusals(const struct queue *q, size_t *count);

/* ---- partitions: all of them empty, or "no", without any ---- */
struct queue_share { /* a partition as it is told */
	const char *worker;      /* queue's own */
	uint64_t begin, samples; /* of its own file */
	uint64_t rows;           /* that it has now */
	uint64_t traversals;     /* times it was handed out whole */
	uint64_t left;           /* rows before the next time */
	uint64_t given;          /* rows handed out since the counts were reset */
};
struct queue_move { /* rows that are to go to another worker's partition */
	uint64_t id;
	const char *from, *to; /* queue's own */
	uint64_t begin, length;
};
struct queue_parts_stat {
	uint64_t budget;     /* rows to be handed out for the first time, whoever they are of */
	uint64_t unseen;     /* of them reserved for rows that were never handed out */
	uint64_t moves;      /* planned and not done */
	uint64_t moves_done, rows_moved;
};
int queue_same_partitions(const struct queue_parameters *a, const struct queue_parameters *b);
/* "w0:500,w1:250" -> *out, to be freed. ERROR_USAGE: it is none. */
int queue_partitions_read(const char *text, struct queue_partition **out, size_t *count,
			  struct error *err);
/* When traversals since the last reset differ by more than so many, rows are to move; 0: never.
 * Logged. */
void queue_set_migrate(struct queue *q, double migrate);
double queue_migrate(const struct queue *q);
int queue_share(const struct queue *q, size_t i, struct queue_share *out); /* -1: no i-th one */
int queue_share_of(const struct queue *q, const char *worker, struct queue_share *out);
void queue_parts_stat(const struct queue *q, struct queue_parts_stat *out);
/* The i-th run of a partition's rows, in the order in which they come next; -1: there is none. */
int queue_rows(const struct queue *q, size_t partition, size_t i, uint64_t *begin, uint64_t *length,
	       uint64_t *times);
/* The i-th move that is planned; -1: there is none. */
int queue_move(const struct queue *q, size_t i, struct queue_move *out);
/* What should move now, as *count moves with ids, to be freed; nothing is changed. -1: no memory. */
int queue_plan(const struct queue *q, struct queue_move **moves, size_t *count);
enum queue_result queue_plan_take(struct queue *q, const struct queue_move *move,
				  struct error *err);
/* The worker has the text of the rows: they are its partition's from now on. */
enum queue_result queue_moved(struct queue *q, const char *worker, uint64_t id, struct error *err);
/* A planned move will not be. */
enum queue_result queue_drop_move(struct queue *q, uint64_t id, struct error *err);

/* ---- leases ---- */
/* Takes back every piece whose lease is over; how many. limit 0: all that are. */
uint64_t queue_expire(struct queue *q, uint64_t limit);
/* Every lease begins now: after a restart, as monotonic clocks end with the machine. */
void queue_restart_leases(struct queue *q);
/* Monotonic seconds of the next end of a lease; 0 when there is none, else *mono is set. */
int queue_next_expiry(const struct queue *q, double *mono);

/* ---- telling ---- */
struct queue_stat {
	uint64_t epoch;                   /* the oldest that is not finished; epochs when all are */
	uint64_t todo, doing, done, held; /* pieces */
	uint64_t shards, shards_done;     /* whole shards, all epochs together */
	uint64_t samples_done;
	uint64_t samples_repeated; /* handed out once more, each time counted */
	uint64_t incarnation;
	uint64_t iteration;       /* of the last settle */
	double first_at, last_at; /* first piece handed out, last samples done; 0: none yet */
	double at;                /* queue_clock() */
};
void queue_stat(const struct queue *q, struct queue_stat *out);
uint64_t queue_shards(const struct queue *q); /* K */
uint64_t queue_incarnation(const struct queue *q);
/* Nothing to hand out and nothing in a hand. */
int queue_is_over(const struct queue *q);
/* Whether a get would be answered with a piece. */
int queue_has_todo(const struct queue *q);

/* Pieces with id >= from in rising order, those of the states in the mask (bit 1 << state); give
 * returns nonzero to stop. Done pieces: whole shards only. -1: no memory. */
int queue_list(const struct queue *q, unsigned states, uint64_t from,
	       int (*give)(void *arg, const struct queue_piece *piece), void *arg);
/* The pieces in a worker's hand, oldest first, one call for each run of positions that remains;
 * *generation is the one in force (0: none), *last the newest ever. */
enum queue_result queue_who(const struct queue *q, const char *worker, uint64_t *generation,
			    uint64_t *last, int (*give)(void *arg, const struct queue_piece *piece),
			    void *arg, struct error *err);

/* ---- the state as lines, and back ---- */
/* The first line is `queue version=1 ...`, the last `end lines=`. */
void queue_write(const struct queue *q, void (*line)(void *arg, const char *line, size_t len),
		 void *arg);

struct queue_loader;
/* expected (may be NULL; copied): a file of other parameters is ERROR_CONFIG. NULL: no memory. */
struct queue_loader *queue_loader_new(const struct queue_parameters *expected);
/* One line, in order. 0: taken; 1: taken, and only the lines that follow complete it; -1: it
 * can't be (ERROR_DATA, ERROR_OS). */
int queue_loader_line(struct queue_loader *l, const char *line, size_t len, struct error *err);
/* Whether the `end` line has come, so that changes follow. */
int queue_loader_ended(const struct queue_loader *l);
/* queue_loose() so far. */
const char *queue_loader_loose(const struct queue_loader *l);
/* Gives the queue to the caller and frees the loader; -1 when the state has no end. */
int queue_loader_finish(struct queue_loader *l, struct queue **out, struct error *err);
void queue_loader_free(struct queue_loader *l); /* NULL is fine */

/* q, just loaded from a file, takes the place of `replaced`: every generation is fenced and none
 * comes again, the incarnation is a new one, the last settle is forgotten, no line may be lost. Not
 * logged. -1: no memory. */
int queue_roll_back(struct queue *q, const struct queue *replaced, struct error *err);

#endif
