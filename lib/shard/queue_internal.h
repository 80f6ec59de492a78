/*
 * What the files of the queue share, and nobody else: queue.c and hand.c (requests), settle.c,
 * piece.c (pieces and their rows), state.c and loader*.c (the state as text, and back), follow.c
 * (changes, read), tell.c and division.c.
 */
#ifndef PACELINE_SHARD_QUEUE_INTERNAL_H
#define PACELINE_SHARD_QUEUE_INTERNAL_H

#include "record/sealed.h"
#include "partition/partition.h"
#include "shard/queue.h"
#include "shard/table.h"

/* A shard that was cut: it is done when the last of its samples is. */
struct whole {
	uint64_t id;
	uint64_t left;      /* samples not in the model */
	struct whole *next; /* while it is a spare */
};

/* The order of shards in one epoch, made when it is needed. */
struct shard_order {
	uint64_t epoch; /* UINT64_MAX: none yet */
	uint32_t *at;   /* NULL: not shuffled */
};

struct worker;
struct epoch;

struct piece {
	uint64_t id;
	uint64_t origin;        /* the whole shard it is of */
	uint64_t begin, length; /* frame */
	uint64_t lo, hi;        /* positions that remain; lo < hi */
	uint64_t seed;
	/* Further runs of positions that remain, rising. They are pieces without an id yet: each
	 * gets one when the piece comes back, so that coming back needs no memory. */
	struct piece *more;
	/* A run that the next walk may begin with, or NULL: the one before what was carved out last,
	 * or was loaded last. Who carves or loads in rising order, as a settle does, need not walk
	 * over all runs each time. */
	struct piece *last_cut;
	struct whole *whole; /* NULL: nothing of the shard is elsewhere or done apart from this */
	struct epoch *epoch;
	struct worker *worker;                 /* QUEUE_DOING only */
	struct piece *prev, *next;             /* in a hand, in an epoch's todo, or held */
	struct piece *lease_prev, *lease_next; /* QUEUE_DOING only */
	double lease_from;                     /* monotonic */
	double at;                             /* epoch seconds: in this state since */
	uint32_t deaths;
	uint32_t returns;
	enum queue_state state;
};

struct piece_list {
	struct piece *head, *tail;
	uint64_t count;
};

/* An epoch that was begun and is not finished. */
struct epoch {
	uint64_t number;
	uint64_t left;       /* shards begun or not, that are not done */
	struct piece *front; /* rest of a cut piece: handed out before all others of this epoch */
	struct piece_list todo; /* came back */
	struct epoch *prev, *next;
	struct part *part; /* NULL; else this is no epoch but what came back to a partition */
};

struct worker {
	uint64_t generation;    /* in force; 0: none */
	uint64_t last;          /* the newest ever given */
	struct piece_list hand; /* oldest first */
	/* The lease of the piece in work ended, and since then there was no sign of life: what else
	 * it holds expires without blame. */
	int is_blamed;
	int is_refused; /* while a settle is judged: its gradient is */
	uint64_t asks; /* see queue_asked() */
	struct worker *same_hash;
	struct worker *next; /* all, in order of their first hello */
	char id[];
};

#define QUEUE_SPARES_MAX 1024

struct queue {
	struct queue_parameters p;
	uint64_t shard_rows; /* B*M */
	uint64_t shards;     /* K */
	uint64_t total;      /* K*E */
	uint64_t retries;
	double lease;
	double at, mono;

	uint64_t cursor;           /* shards handed out at least once */
	uint64_t next_id;          /* >= total */
	struct shard_order *order; /* of the epoch asked for last */

	struct parts *parts; /* NULL: no partitions. Then total is 0: all ids are next_id's */
	struct epoch *lines; /* one a partition */
	uint64_t begun;      /* shards that were, of partitions */

	struct table pieces; /* by id */
	uint64_t runs;       /* struct piece in some `more`: ids they will need */
	struct epoch *first_epoch, *last_epoch;
	struct piece_list held;
	struct piece *lease_head, *lease_tail;
	struct piece *spare; /* chained by next */
	size_t spares;
	struct whole *spare_whole;
	size_t spare_wholes;

	struct table workers; /* by hash of the id */
	struct worker *first_worker, *last_worker;
	uint64_t worker_count;

	char loose[OPTION_ID_MAX]; /* see queue_set_loose() */
	uint64_t incarnation;
	uint64_t todo, doing; /* pieces (objects only) */
	uint64_t pieces_done, shards_done, samples_done, samples_repeated;
	double first_at, last_at;

	int has_settled;
	uint64_t settle_number;
	uint64_t iteration;
	struct queue_refusal *refusal; /* of the last settle */
	size_t refusals;

	void (*log)(void *arg, const char *line, size_t len);
	void *log_arg;
	void (*change)(void *arg, uint64_t id, enum queue_state state, const char *worker);
	void *change_arg;
};

/* ---- queue.c ---- */
struct worker *queue_worker(const struct queue *q, const char *id);
/* Finds or makes; NULL: no memory. */
struct worker *queue_worker_make(struct queue *q, const char *id);
enum queue_result queue_grip(const struct queue *q, const char *worker, uint64_t generation,
			     struct worker **w, struct error *err);
void queue_log_line(struct queue *q, const struct line *l);
/* Refuses; why holds one %llu, for the number. */
enum queue_result queue_no(enum queue_result result, struct error *err, const char *why,
			   uint64_t number);
enum queue_result queue_no_memory(struct error *err);

/* ---- division.c: partitions as the queue uses them ---- */
int queue_parts_check(const struct queue_parameters *p, struct error *err);
int queue_parts_new(struct queue *q, const struct queue_parameters *p); /* -1: no memory */
void queue_parts_free(struct queue *q);
/* The line of a worker's partition; NULL: it has none. */
struct epoch *queue_parts_line(const struct queue *q, const char *worker);
/* What would be handed to this worker: a piece, or (NULL with *is_fresh) rows of its ring. */
struct piece *queue_parts_next(const struct queue *q, const struct worker *w, int *is_fresh);
/* Needs piece_prepare(1). NULL: no memory. */
struct piece *queue_parts_fresh(struct queue *q, const struct worker *w, uint64_t max);
/* Shards not begun: an estimate until the budget is used up. */
uint64_t queue_parts_todo(const struct queue *q);

/* ---- hand.c ---- */
/* The piece, or why not; QUEUE_OK with *p NULL: that id is done. */
enum queue_result queue_find(const struct queue *q, uint64_t id, struct piece **p,
			     struct error *err);
/* Takes one piece back as its lease is over. */
void queue_expire_piece(struct queue *q, struct piece *p, int is_blamed);

/* ---- settle.c ---- */
/* What was written down, once more, in that order; its number is not judged. */
enum queue_result queue_settle_again(struct queue *q, uint64_t number, uint64_t iteration,
				     struct queue_line *lines, size_t count, struct error *err);

/* ---- piece.c: pieces, their lists and their samples ---- */
void piece_append(struct piece_list *list, struct piece *p);
void piece_unlink(struct piece_list *list, struct piece *p);
/* After it piece_new() gives count pieces, the id table takes them, and count shards can turn
 * into cut ones. */
int piece_prepare(struct queue *q, size_t count);
struct piece *piece_new(struct queue *q);
void piece_free(struct queue *q, struct piece *p);
uint64_t piece_left(const struct piece *p);
/* First row and samples of the whole shard `id`. */
void piece_frame(const struct queue *q, uint64_t id, uint64_t *begin, uint64_t *length);
/* The seed of a piece with this id; 0 when samples are not shuffled. */
uint64_t piece_seed(const struct queue *q, uint64_t id);
/* From now on other pieces are of the same shard. Needs piece_prepare(1). */
void piece_share(struct queue *q, struct piece *p);
/* Parts the runs at the edges of [lo, hi) and takes those inside out of p, as a chain by `more`.
 * All of p inside: NULL, and p stays as it is with *all set. Needs piece_prepare(3). */
struct piece *piece_carve(struct queue *q, struct piece *p, uint64_t lo, uint64_t hi, int *all);
/* Positions [lo, hi) are in the model. p may be gone afterwards. Needs piece_prepare(3). */
void piece_apply(struct queue *q, struct piece *p, uint64_t lo, uint64_t hi);
/* All that remains is in the model; p is gone afterwards. */
void piece_finish(struct queue *q, struct piece *p);
void piece_take(struct queue *q, struct piece *p, struct worker *w);
/* Out of the hand, to the end of the queue or, with is_held, out of it. */
void piece_return(struct queue *q, struct piece *p, int is_held);
/* The same for positions [lo, hi) of it only. Needs piece_prepare(3). */
void piece_return_range(struct queue *q, struct piece *p, uint64_t lo, uint64_t hi);
void piece_tell(const struct queue *q, const struct piece *p, struct queue_piece *out);
void piece_changed(const struct queue *q, const struct piece *p);
void piece_renew(struct queue *q, struct piece *p);
void piece_lease_end(struct queue *q, struct piece *p);
/* Begins the epoch if it must be, keeping the list in order; NULL: no memory. */
struct epoch *epoch_make(struct queue *q, uint64_t number);
void epoch_shard_done(struct queue *q, struct epoch *e);

#endif
