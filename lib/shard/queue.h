/*
 * queue: which samples are to be trained, by whom, and which are in the model.  (AntDT, section
 * V-C, calls this the stateful dynamic data sharding service; DLRover has a data shard manager.) It
 * is a pure state machine: no clock, no file, no socket.  The same calls give the same state;
 * replay needs that.
 *
 * In each epoch, N samples are cut into K = ceil(N / (B*M)) shards.  A shard that nobody has asked
 * for yet is not an object: a cursor over all epochs stands for those that are left.  So 3,000,000
 * of them cost nothing (4 bytes each if they are shuffled).  A PIECE is a shard, or a part of one,
 * that is in a worker's hand, has come back, is held, or is the rest of a shard that was cut.  When
 * all its samples are in the model, a piece is done, and only the counts remember it.
 *
 * Ids: the k-th shard that is handed out of epoch e (both from 0) has the id e*K + k.  Parts that
 * are cut off have ids from E*K on.  No id is given twice.
 *
 * Rows and positions: a piece has a frame (begin, length) and a seed.  Position p of it is row
 * begin + p, or in --shuffle samples the p-th row of its shuffled order.  Ranges are given as
 * "begin + p".  Positions [lo, hi) of it are not yet in the model.
 *
 * Order: the oldest epoch that has something to hand out comes first.  Within it, the rest of a cut
 * piece comes first, and what a rollback or a worker that left (bye front=1) took out of hands, by
 * shard and row; then shards that were not handed out yet; then what else came back, in the order
 * in which it came.  So a job of one worker that is stopped and goes on trains its rows in the
 * order of one that was never stopped.
 * With epochs that are kept apart, only the epoch of the pieces in hand has something to hand out.
 *
 * Partitions (LB-BSP, section 3.5): if the parameters have some, each worker gets rows of its own
 * partition only, over and over, until EPOCHS * N rows are in the model; see partition/partition.h.
 *
 * Each kind of change is a row of a table (change.c): what a client says, what happens, and the
 * line about it, which goes to the log (queue_set_log()). queue_loader_line() makes the same change
 * of that line in another queue.  A change is made as a whole or not at all.
 */
#ifndef PACELINE_SHARD_QUEUE_H
#define PACELINE_SHARD_QUEUE_H

#include "base/error.h"
#include "base/option.h"
#include "partition/partition.h"
#include "record/fields.h"

#include <stddef.h>
#include <stdint.h>

struct queue;

enum queue_shuffle { QUEUE_SHUFFLE_NONE, QUEUE_SHUFFLE_SHARDS, QUEUE_SHUFFLE_SAMPLES };

/* What identifies a queue. A journal with other parameters is of another job. */
struct queue_parameters {
	uint64_t samples; /* N > 0 */
	uint64_t batch;   /* B > 0, samples */
	uint64_t batches; /* M > 0, batches a shard */
	uint64_t epochs;  /* E > 0 */
	enum queue_shuffle shuffle;
	uint64_t seed;
	uint64_t apart;   /* 1: all pieces in workers' hands are of one epoch */
	const struct partition_own *partition; /* copied; the samples are all of their rows */
	size_t partitions;                     /* 0: none, and everybody gets everything */
};

enum queue_result {
	QUEUE_OK,       /* done as asked, now or before */
	QUEUE_WAIT,     /* nothing to hand out now, as others have it */
	QUEUE_END,      /* all done or held */
	QUEUE_REPEATED, /* it was the last settle, again */
	QUEUE_FENCED, /* its generation, incarnation or term is not in force */
	QUEUE_BAD, /* a request that makes no sense */
	QUEUE_UNKNOWN_WORKER,
	QUEUE_UNKNOWN_SHARD, /* no such shard was handed out */
	QUEUE_NOT_YOURS, /* it is in another's hand, or in none */
	QUEUE_MEMORY /* out of memory */
};
/* "fenced", "bad-request", ...: the code= of an err answer. */
const char *queue_result_code(enum queue_result result);
const char *queue_shuffle_name(enum queue_shuffle shuffle);
int queue_shuffle_of(const char *name, enum queue_shuffle *out); /* -1: none of them */

enum queue_state { QUEUE_TODO, QUEUE_DOING, QUEUE_DONE, QUEUE_HELD, QUEUE_STATES };
const char *queue_state_name(enum queue_state state);

/* ERROR_CONFIG: too large or zero; ERROR_OS: out of memory. */
int queue_new(struct queue **out, const struct queue_parameters *p, struct error *err);
void queue_free(struct queue *q); /* NULL is fine */
const struct queue_parameters *queue_parameters(const struct queue *q);

/* Sets the time of what follows: `at`, seconds since 1970, for ages; `mono`, monotonic seconds, for
 * leases. */
void queue_clock(struct queue *q, double at, double mono);

uint64_t queue_retries(const struct queue *q); /* deaths until a piece is held; 0: never */
double queue_lease(const struct queue *q); /* seconds; 0: leases do not end */
/* The boot of this machine in which lines may be lost; "": none may be lost. */
const char *queue_loose(const struct queue *q);

/* Where lines go; NULL (at first): nowhere. Lines belong to the queue. A settle is several lines,
 * given one after the other. */
void queue_set_log(struct queue *q, void (*log)(void *arg, const char *line, size_t len),
		   void *arg);
/* Called at each transition of a piece; worker is "" when nobody holds it. */
void queue_set_watch(struct queue *q,
		     void (*change)(void *arg, uint64_t id, enum queue_state state,
				    const char *worker),
		     void *arg);

/* A piece, as others are told of it. */
struct queue_piece {
	uint64_t id;
	uint64_t epoch;
	enum queue_state state;
	uint64_t begin, length; /* frame */
	uint64_t skip, take;    /* positions that remain; skip 0 and take == length: all */
	uint64_t upto;          /* so many positions from begin are in the model */
	uint64_t seed;          /* 0 unless samples are shuffled */
	const char *worker;     /* "": in nobody's hand; the text is the queue's */
	uint64_t returns;       /* times it came back */
	double age;             /* seconds in this state; 0: never handed out */
};

/* ---- changes: err (may be NULL) says why one is refused, for people ---- */

#define QUEUE_UNSAID UINT64_MAX /* no begin was given: all of the piece */

/* What a client asks for, and what a line of the journal says. Texts are borrowed. What a change
 * does not need is NULL or 0. */
struct queue_change {
	const char *worker, *from, *to, *boot;
	uint64_t generation, id, begin, length, upto, max, retries, blamed, term;
	double lease, threshold, at;
	int failed, hold; /* of back: failed: it counts as a death; hold: it is held */
	int front;        /* of bye: pieces are handed out before fresh shards */
	size_t seat;      /* as queue_seat() said of the worker, which is found by it alone; 0: by its name */
	/* Results. */
	int is_made;              /* 0: nothing has changed, and there is no line */
	uint64_t shards;          /* how many came back */
	struct queue_piece piece; /* the one that the worker has now */
};

enum queue_kind_flags {
	/* A worker says it, with a generation in force; the first field is its name. */
	QUEUE_BY_WORKER = 1,
	QUEUE_COUNTS = 2,    /* it says that rows are in the model */
	QUEUE_FENCES = 4,    /* a generation may end */
	QUEUE_TELLS = 8      /* the client hears how many shards came back */
};

struct queue_kind {
	const char *type; /* of the line */
	int flags;        /* enum queue_kind_flags */
	enum queue_result (*make)(struct queue *q, struct queue_change *c, struct error *err);
	const struct field *fields; /* of struct queue_change: of the line, and of the request */
};

/* hello, get, done, progress, back, bye, fail, release, expire, set, migrate, move, moved, drop,
 * loose, time, term; NULL: there is no such kind. */
const struct queue_kind *queue_kind(const char *type);
/* QUEUE_OK: the change holds now; the log got a line if it is new. Else nothing changed. */
enum queue_result queue_make(struct queue *q, const struct queue_kind *kind, struct queue_change *c,
			     struct error *err);

/* A worker that has said hello has a number for good, from 1 on; 0: it has not. */
size_t queue_seat(const struct queue *q, const char *worker);
/* It will soon say something: its memory is fetched meanwhile, in three steps, the last one being 0: where it is, itself,
 * the newest piece in its hand. Seat 0 is fine. */
void queue_fetch(const struct queue *q, size_t seat, int steps);
/* Whether this generation of the worker is in force. */
enum queue_result queue_in_force(const struct queue *q, const char *worker, uint64_t generation,
				 struct error *err);
/* The lease begins again. This is not part of the state, as leases end with the process. */
enum queue_result queue_renew(struct queue *q, const char *worker, uint64_t generation, uint64_t id,
			      struct error *err);
/* Notes that the worker itself has asked for something: queue_workers() shows thereby that it
 * lives. This is not part of the state: it is counted since the start of the process. */
void queue_asked(struct queue *q, const char *worker);
struct queue_worker_stat {
	const char *worker;
	uint64_t generation; /* in force; 0: none */
	uint64_t asks;
	uint64_t pieces; /* in its hand */
};
/* Gives all workers that ever said hello, in that order. */
void queue_workers(const struct queue *q,
		   void (*give)(void *arg, const struct queue_worker_stat *worker), void *arg);

/* ---- settle ---- */
/* What a settle says besides its ranges. */
struct queue_settlement {
	uint64_t number, iteration, incarnation;
	uint64_t term;    /* the lead's term; 0: it has none */
	int is_whole;     /* 1: if a range to be applied is refused, none is carried out */
	/* A word that the lead chooses, an id; NULL: none. See queue_committed(). */
	const char *note;
};
struct queue_range {
	int is_back;
	const char *worker;
	uint64_t generation, id, begin, length;
	size_t seat; /* as in struct queue_change */
	int refused; /* set by queue_settle() */
};
struct queue_refusal {
	char worker[OPTION_ID_MAX];
	uint64_t generation, id;
};
/* Judges a settle by its number. QUEUE_OK: it is a new one. QUEUE_REPEATED: it is the last one
 * again; queue_refusals() has its answer. QUEUE_FENCED: there is a later incarnation or term.
 * QUEUE_BAD: its number is lower than that of the last one: such a late duplicate would replace the
 * answer that the lead may still ask for. */
enum queue_result queue_settle_known(const struct queue *q, const struct queue_settlement *s,
				     struct error *err);
/* The ranges are judged together, before any of them changes anything. A range to be applied is
 * accepted if all of its rows are in this worker's hand, in this generation, and in no other range.
 * Otherwise it is refused, and queue_refusals() lists it; then all ranges to be applied of the same
 * worker and generation are refused, as together they are one gradient. All other ranges are
 * carried out, unless is_whole. A range to go back may have gone back already: rows that are no
 * longer in the hand are ignored. */
enum queue_result queue_settle(struct queue *q, const struct queue_settlement *s,
			       struct queue_range *ranges, size_t count, struct error *err);
/* The answer of the last settle; valid until the next. */
const struct queue_refusal *queue_refusals(const struct queue *q, size_t *count);
/* Whether that settle had is_whole. */
int queue_settled_whole(const struct queue *q);
/* The newest term that a lead has taken; 0: none. Terms never go back, also not on a rollback. */
uint64_t queue_term(const struct queue *q);
/* About the last settle with a note that was carried out: returns how many units are in the model
 * since then (its iteration plus one), and *note. 0 and "": there was none, or a lead without a
 * term came later. This is part of the state. */
uint64_t queue_committed(const struct queue *q, const char **note);

/* ---- partitions ---- */
/* For reading; NULL: there are none. */
const struct partitions *queue_own(const struct queue *q);

/* ---- leases ---- */
/* Takes back pieces whose lease is over, at most `limit` (0: all of them). Returns how many. */
uint64_t queue_expire(struct queue *q, uint64_t limit);
/* All leases begin now. For a restart, as monotonic clocks end with the machine. */
void queue_restart_leases(struct queue *q);
/* 1: *mono is when the next lease ends (monotonic seconds); 0: there is no lease. */
int queue_next_expiry(const struct queue *q, double *mono);

/* ---- telling ---- */
struct queue_stat {
	/* The oldest that is not finished; if all are: their number. */
	uint64_t epoch;
	uint64_t todo, doing, done, held; /* pieces */
	uint64_t shards, shards_done;     /* whole shards, all epochs together */
	uint64_t samples_done;
	uint64_t samples_repeated; /* handed out again; each time counts */
	uint64_t incarnation;
	uint64_t iteration;       /* of the last settle */
	double first_at, last_at; /* first piece handed out, last samples done; 0: none yet */
	double at;                /* queue_clock() */
};
void queue_stat(const struct queue *q, struct queue_stat *out);
uint64_t queue_samples_done(const struct queue *q);
uint64_t queue_shards(const struct queue *q); /* K */
uint64_t queue_incarnation(const struct queue *q);
/* Whether nothing is left to hand out and nothing is in a hand. */
int queue_is_over(const struct queue *q);
/* Whether a get would be answered with a piece. */
int queue_has_todo(const struct queue *q);

/* Gives pieces with id >= from, in rising order, whose state is in the mask (bit 1 << state). give
 * returns nonzero to stop. Of done pieces only whole shards are given. -1: out of memory. */
int queue_list(const struct queue *q, unsigned states, uint64_t from,
	       int (*give)(void *arg, const struct queue_piece *piece), void *arg);
/* Gives the pieces in a worker's hand, the oldest first, with one call for each run of positions
 * that remains. *generation is the one in force (0: none), *last the newest there ever was. */
enum queue_result queue_who(const struct queue *q, const char *worker, uint64_t *generation,
			    uint64_t *last, int (*give)(void *arg, const struct queue_piece *piece),
			    void *arg, struct error *err);

/* ---- the state as lines, and back ---- */
/* The first line is `queue version=1 ...`, the last `end lines=`. */
void queue_write(const struct queue *q, void (*line)(void *arg, const char *line, size_t len),
		 void *arg);

struct queue_loader;
/* expected (may be NULL; copied): then a file of other parameters is ERROR_CONFIG. Returns NULL:
 * out of memory. */
struct queue_loader *queue_loader_new(const struct queue_parameters *expected);
/* Takes the next line. 0: taken. 1: taken, but the lines that follow must complete it. -1: refused
 * (ERROR_DATA, ERROR_OS). */
int queue_loader_line(struct queue_loader *l, const char *line, size_t len, struct error *err);
/* Whether the `end` line has come, so that changes follow. */
int queue_loader_ended(const struct queue_loader *l);
/* queue_loose() after the lines so far. */
const char *queue_loader_loose(const struct queue_loader *l);
/* Gives the queue to the caller and frees the loader. -1: the state has no `end` line. */
int queue_loader_finish(struct queue_loader *l, struct queue **out, struct error *err);
void queue_loader_free(struct queue_loader *l); /* NULL is fine */

/* q, which was loaded from a file, takes the place of `replaced`. All generations end and are never
 * used again; the incarnation is a new one; the last settle is forgotten; no line may be lost. This
 * is not logged. -1: out of memory. */
int queue_roll_back(struct queue *q, const struct queue *replaced, struct error *err);

#endif
