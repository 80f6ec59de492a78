/*
 * What the files of the queue share, and nobody else uses: queue.c (workers, telling), change.c
 * (what changes it), settle.c, source.c (what is handed out next), piece.c (pieces and their rows),
 * state.c (the state as text, and back) and follow.c (makes changes again from their lines).
 */
#ifndef PACELINE_SHARD_QUEUE_INTERNAL_H
#define PACELINE_SHARD_QUEUE_INTERNAL_H

#include "base/pool.h"
#include "base/u64map.h"
#include "shard/queue.h"

/* A shard that was cut: it is done when the last of its samples is. */
struct whole {
	uint64_t id;
	uint64_t left; /* samples not in the model */
	int is_uncut;  /* there is one all the same, while a state is read */
};

/* The order of shards in one epoch. It is made when it is needed, which takes K random accesses.
 * There are two: around the end of an epoch, workers hold shards of two epochs, and a state that is
 * read mixes them. */
#define SHARD_ORDERS 2
struct shard_order {
	uint64_t epoch; /* UINT64_MAX: none yet */
	uint32_t *at;   /* NULL: none yet, or not shuffled */
};

struct worker;
struct lane;

/* Its lines of the cache, 64 bytes each: what a settle judges; what else taking, applying and finishing touch; and
 * the rest. */
struct piece {
	uint64_t id;
	uint64_t begin, length; /* frame */
	uint64_t lo, hi;        /* positions that remain; lo < hi */
	/* More runs of positions that remain, rising. They have no id yet. Each gets one when the
	 * piece comes back; room for it is reserved, so coming back needs no memory. */
	struct piece *more;
	struct worker *worker; /* QUEUE_DOING only */
	uint32_t named;        /* by a claim of this settle; see claim_make() */
	enum queue_state state;

	struct whole *whole; /* NULL: the shard was never cut */
	struct lane *lane;   /* where it will wait if it comes back */
	/* Of the list it is in: a hand, a lane's list, or held. */
	struct piece *prev, *next;
	struct piece *lease_prev, *lease_next; /* QUEUE_DOING only */
	/* A run from which the next walk may begin, or NULL: the run before the last one that was
	 * carved out, or the last one that was loaded. A settle carves, and a loader loads, in
	 * rising order; so neither need walk over all runs each time. */
	struct piece *last_cut;
	/* Since when it is in this state; seconds since 1970. */
	double at;

	uint64_t origin; /* id of the whole shard of which it is a part */
	uint64_t seed;
	double lease_from; /* monotonic */
	uint32_t deaths;
	uint32_t returns;
	int is_first; /* it is in its lane's `first` */
};

struct piece_list {
	struct piece *head, *tail;
	uint64_t count;
};

/* Pieces of one epoch, or of one partition, that wait to be handed out. */
struct lane {
	uint64_t number;        /* the epoch; of a partition, how many passes are over */
	/* Handed out before fresh shards: the rests of cut pieces, and what a worker that left or a
	 * rollback took out of hands; in the order of the shards and their rows. */
	struct piece_list first;
	struct piece_list todo; /* what came back: handed out after fresh shards */
};

/* An epoch that has begun and is not finished. */
struct epoch {
	struct lane lane; /* must be first: epoch_of() casts */
	uint64_t left;    /* shards that are not done, begun or not */
	struct epoch *prev, *next;
};

struct worker {
	uint64_t generation;    /* in force; 0: none */
	struct piece_list hand; /* oldest first */
	/* The lease of its oldest piece has ended, and it has given no sign of life since. Its
	 * other pieces expire without blame. */
	int is_blamed;
	int is_refused; /* while a settle is judged: its gradient is refused */
	uint64_t last; /* the newest generation ever given */
	uint64_t asks; /* see queue_asked() */
	size_t seat;   /* queue_seat() */
	struct worker *same_hash;
	struct worker *next; /* all, in order of their first hello */
	char id[OPTION_ID_MAX];
};

struct queue {
	struct queue_parameters p;
	uint64_t shard_rows; /* B*M */
	uint64_t shards;     /* K */
	uint64_t total;      /* K*E; with partitions 0, as all ids come from next_id */
	uint64_t retries;
	double lease;
	double at, mono;

	/* Where shards come from (source.c): epochs, or partitions of the workers' own rows. */
	uint64_t cursor;          /* shards handed out at least once */
	uint64_t next_id;         /* >= total */
	/* Ids that a rollback skipped; seeds are computed as if it had not. */
	uint64_t skipped;
	struct shard_order order[SHARD_ORDERS]; /* the one that was used last comes first */
	struct epoch *first_epoch, *last_epoch;
	struct partitions *own; /* NULL: epochs */
	struct lane *lanes;     /* one for each partition */

	struct u64map pieces; /* by id */
	uint64_t runs;       /* runs in all `more` lists: so many ids will be needed */
	struct piece_list held;
	struct piece *lease_head, *lease_tail;
	struct pool piece, whole; /* memory of all of them */

	struct u64map workers; /* by hash of the id */
	struct pool worker;    /* memory of all of them */
	struct worker *first_worker, *last_worker;
	struct worker **seat; /* worker_count of them */
	size_t seats;
	uint64_t worker_count;

	char loose[OPTION_ID_MAX]; /* see queue_loose() */
	uint64_t incarnation;
	uint64_t todo, doing; /* pieces (objects only) */
	uint64_t pieces_done, shards_done, samples_done, samples_repeated;
	double first_at, last_at;

	int has_settled;
	uint32_t judged; /* so many settles were */
	uint64_t settle_number;
	uint64_t iteration;
	struct queue_refusal *refusal; /* of the last settle */
	size_t refusals;
	uint64_t is_whole; /* the last settle had is_whole */
	uint64_t term;     /* the newest that a lead has taken; 0: none */
	uint64_t committed; /* see queue_committed() */
	char note[OPTION_ID_MAX];

	void (*log)(void *arg, const char *line, size_t len);
	void *log_arg;
	void (*change)(void *arg, uint64_t id, enum queue_state state, const char *worker);
	void *change_arg;
};

/* ---- queue.c ---- */
extern const char *const queue_state_names[], *const queue_shuffle_names[]; /* end with NULL */
struct worker *queue_worker(const struct queue *q, const char *id);
/* The same, by its seat, if that is not 0. */
static inline struct worker *queue_worker_at(const struct queue *q, const char *id, size_t seat)
{
	return seat > 0 && seat <= q->worker_count ? q->seat[seat - 1] : queue_worker(q, id);
}
/* Finds or makes a worker; NULL: out of memory. */
struct worker *queue_worker_make(struct queue *q, const char *id);
/* Finds a worker with this generation in force. Otherwise: QUEUE_UNKNOWN_WORKER or QUEUE_FENCED. */
enum queue_result queue_grip(const struct queue *q, const char *worker, size_t seat, uint64_t generation,
			     struct worker **w, struct error *err);
/* Fills err and returns result. `why` has one %llu, for the number. */
enum queue_result queue_no(enum queue_result result, struct error *err, const char *why,
			   uint64_t number);
enum queue_result queue_no_memory(struct error *err);

/* ---- change.c ---- */
void queue_log_line(struct queue *q, const char *type, const struct field *fields, const void *from);
/* Gives the log, if there is one, a line of this type with these fields of `from`. */
static inline void queue_log(struct queue *q, const char *type, const struct field *fields, const void *from)
{
	if (q->log)
		queue_log_line(q, type, fields, from);
}

/* ---- settle.c ---- */
extern const struct field range_fields[];   /* of struct queue_range, without its generation */
extern const struct field refusal_fields[]; /* of struct queue_refusal */
/* Makes a settle again from its lines, in their order; its number is not judged. */
enum queue_result queue_settle_again(struct queue *q, const struct queue_settlement *s,
				     struct queue_range *ranges, size_t count, struct error *err);

/* ---- source.c: what is handed out next ---- */
int source_check(const struct queue_parameters *p, struct error *err); /* ERROR_CONFIG */
int source_new(struct queue *q); /* for q->p; -1: out of memory */
void source_free(struct queue *q);
/* Whether this worker can ever be handed anything. */
int source_knows(const struct queue *q, const char *worker);
/* What would be handed to this worker: a piece; or NULL with *is_fresh: a shard that was never
 * handed out; or NULL: nothing. */
struct piece *source_next(const struct queue *q, const struct worker *w, int *is_fresh);
/* Makes a piece of that fresh shard, which must exist, or of max rows of it. Needs
 * piece_prepare(1). NULL: out of memory. */
struct piece *source_fresh(struct queue *q, const struct worker *w, uint64_t max);
/* How many shards nobody has begun. With partitions it is an estimate until the budget is used
 * up. */
uint64_t source_left(const struct queue *q);
/* The first row and the number of samples of the whole shard `id`, which is of an epoch. */
void source_frame(const struct queue *q, uint64_t id, uint64_t *begin, uint64_t *length);
/* The seed of a piece with this id; 0: samples are not shuffled. */
uint64_t source_seed(const struct queue *q, uint64_t id);
/* A shard of this lane is done. */
void source_done(struct queue *q, struct lane *lane);
/* The lane of a piece that is being read, found by the worker of its partition, or by its shard.
 * NULL: there is none, or no memory. */
struct lane *source_lane(struct queue *q, const char *worker, uint64_t origin);
/* Another shard of this lane was read. */
void source_was_read(struct queue *q, struct lane *lane);
/* To be called when all lines of a state were read: so many samples of so many shards are neither
 * done nor fresh. -1: the numbers do not fit together. */
int source_read_all(struct queue *q, uint64_t samples, uint64_t shards, struct error *err);
/* The next lane; `lane` NULL: the first one. Returns NULL behind the last. */
const struct lane *source_lane_behind(const struct queue *q, const struct lane *lane);
/* The worker whose partition it is; NULL: it is an epoch. */
const char *lane_worker(const struct queue *q, const struct lane *lane);

/* ---- piece.c: pieces, their lists and their samples ---- */
void piece_append(struct piece_list *list, struct piece *p);
/* Puts p into its lane's `first`, at its place in the order. */
void piece_put_first(struct piece *p);
void piece_unlink(struct piece_list *list, struct piece *p);
/* Reserves memory. After this, piece_new() can be called count times, the table of ids has room for
 * those, and count shards can be cut. */
int piece_prepare(struct queue *q, size_t count);
/* A piece from the reserved memory, all zero. */
struct piece *piece_new(struct queue *q);
/* Puts p into the table of ids. */
void piece_enter(struct queue *q, struct piece *p);
uint64_t piece_left(const struct piece *p);
/* Notes that there will be other pieces of the same shard. Needs piece_prepare(1). */
void piece_share(struct queue *q, struct piece *p);
/* Positions [lo, hi) are in the model. p may be gone afterwards. Needs piece_prepare(3). */
void piece_apply(struct queue *q, struct piece *p, uint64_t lo, uint64_t hi);
/* All positions that remain are in the model; p is gone afterwards. */
void piece_finish(struct queue *q, struct piece *p);
/* Puts p into the worker's hand; its lease begins. */
void piece_take(struct queue *q, struct piece *p, struct worker *w);
/* Takes p out of the hand: to the end of the queue, or, with is_held, out of the queue. */
void piece_return(struct queue *q, struct piece *p, int is_held);
/* The same for only positions [lo, hi) of it. Needs piece_prepare(3). */
void piece_return_range(struct queue *q, struct piece *p, uint64_t lo, uint64_t hi);
/* Takes p out of the hand, and nothing is wrong with it: it is handed out before fresh shards. */
void piece_return_first(struct queue *q, struct piece *p);
void piece_describe(const struct queue *q, const struct piece *p, struct queue_piece *out);
/* Tells the watcher of the queue that p's state has changed. */
void piece_changed(const struct queue *q, const struct piece *p);
/* The lease of p begins again. */
void piece_renew(struct queue *q, struct piece *p);

#endif
