/* queue: the queue as a whole, its workers, and what it says of itself.  No clock, no file, no
 * socket. */
#include "shard/queue_internal.h"

#include "base/fetch.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SHUFFLED_MAX 0xffffffffu

static const char *const result_code[] = {
	[QUEUE_OK] = "ok",
	[QUEUE_WAIT] = "wait",
	[QUEUE_END] = "end",
	[QUEUE_REPEATED] = "repeated",
	[QUEUE_FENCED] = "fenced",
	[QUEUE_BAD] = "bad-request",
	[QUEUE_UNKNOWN_WORKER] = "unknown-worker",
	[QUEUE_UNKNOWN_SHARD] = "unknown-shard",
	[QUEUE_NOT_YOURS] = "not-yours",
	[QUEUE_MEMORY] = "no-memory",
};
const char *const queue_state_names[] = {
	[QUEUE_TODO] = "todo",
	[QUEUE_DOING] = "doing",
	[QUEUE_DONE] = "done",
	[QUEUE_HELD] = "held",
	NULL,
};
const char *const queue_shuffle_names[] = {"none", "shards", "samples", NULL};

const char *queue_result_code(enum queue_result result)
{
	return result_code[result];
}

const char *queue_state_name(enum queue_state state)
{
	return queue_state_names[state];
}

const char *queue_shuffle_name(enum queue_shuffle shuffle)
{
	return queue_shuffle_names[shuffle];
}

int queue_shuffle_of(const char *name, enum queue_shuffle *out)
{
	for (int i = 0; i < 3; i++)
		if (strcmp(name, queue_shuffle_names[i]) == 0) {
			*out = (enum queue_shuffle)i;
			return 0;
		}
	return -1;
}

enum queue_result queue_no(enum queue_result result, struct error *err, const char *why,
			   uint64_t id)
{
	error_set(err, ERROR_DATA, NULL, why, (unsigned long long)id);
	return result;
}

enum queue_result queue_no_memory(struct error *err)
{
	error_set(err, ERROR_OS, NULL, "out of memory");
	return QUEUE_MEMORY;
}

/* ---- the queue as a whole ---- */

int queue_new(struct queue **out, const struct queue_parameters *p, struct error *err)
{
	uint64_t rows, total, ids;
	if (p->samples == 0 || p->batch == 0 || p->batches == 0 || p->epochs == 0)
		return error_set(err, ERROR_CONFIG, NULL,
				 "samples, batch, batches and epochs must be 1 at least");
	if (__builtin_mul_overflow(p->batch, p->batches, &rows) || rows > p->samples)
		rows = p->samples; /* one shard has all samples */
	uint64_t shards = (p->samples - 1) / rows + 1;
	if (__builtin_mul_overflow(shards, p->epochs, &total) ||
	    __builtin_mul_overflow(p->samples, p->epochs, &ids) || ids >> 62)
		return error_set(err, ERROR_CONFIG, NULL,
				 "%llu samples in %llu epochs are too many",
				 (unsigned long long)p->samples, (unsigned long long)p->epochs);
	if (source_check(p, err) != 0)
		return -1;
	if (p->shuffle != QUEUE_SHUFFLE_NONE && shards > SHUFFLED_MAX)
		return error_set(err, ERROR_CONFIG, NULL, "%llu shards are too many to be shuffled",
				 (unsigned long long)shards);
	struct queue *q = calloc(1, sizeof *q);
	if (!q)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	q->p = *p;
	q->piece = (struct pool){.bytes = sizeof(struct piece)};
	q->whole = (struct pool){.bytes = sizeof(struct whole)};
	q->worker = (struct pool){.bytes = sizeof(struct worker)};
	q->shard_rows = rows;
	q->shards = shards;
	q->total = q->next_id = total;
	q->incarnation = 1;
	q->retries = 3;
	if (source_new(q) != 0) {
		queue_free(q);
		return error_set(err, ERROR_OS, NULL, "out of memory");
	}
	*out = q;
	return 0;
}

void queue_free(struct queue *q)
{
	if (!q)
		return;
	pool_free(&q->piece);
	pool_free(&q->whole);
	pool_free(&q->worker);
	u64map_free(&q->pieces);
	u64map_free(&q->workers);
	source_free(q);
	free(q->seat);
	free(q->refusal);
	free(q);
}

const struct queue_parameters *queue_parameters(const struct queue *q)
{
	return &q->p;
}

void queue_clock(struct queue *q, double at, double mono)
{
	q->at = at;
	q->mono = mono;
}

void queue_set_log(struct queue *q, void (*log)(void *arg, const char *line, size_t len), void *arg)
{
	q->log = log;
	q->log_arg = arg;
}

void queue_set_watch(struct queue *q,
		     void (*change)(void *arg, uint64_t id, enum queue_state state,
				    const char *worker),
		     void *arg)
{
	q->change = change;
	q->change_arg = arg;
}

uint64_t queue_retries(const struct queue *q)
{
	return q->retries;
}

double queue_lease(const struct queue *q)
{
	return q->lease;
}

const char *queue_loose(const struct queue *q)
{
	return q->loose;
}

const struct partitions *queue_own(const struct queue *q)
{
	return q->own;
}

/* ---- workers and their generations ---- */

static uint64_t hash_of(const char *id)
{
	return XXH3_64bits(id, strlen(id));
}

struct worker *queue_worker(const struct queue *q, const char *id)
{
	struct worker *w = u64map_get(&q->workers, hash_of(id));
	while (w && strcmp(w->id, id) != 0)
		w = w->same_hash;
	return w;
}

size_t queue_seat(const struct queue *q, const char *worker)
{
	const struct worker *w = queue_worker(q, worker);
	return w ? w->seat : 0;
}

void queue_fetch(const struct queue *q, size_t seat, int steps)
{
	if (seat == 0 || seat > q->worker_count)
		return;
	struct worker *const *w = &q->seat[seat - 1];
	if (steps == 2)
		fetch_ahead(w, 1);
	else if (steps == 1)
		fetch_ahead(*w, 1);
	else if ((*w)->hand.tail)
		fetch_ahead(&(*w)->hand.tail->next, 1);
}

struct worker *queue_worker_make(struct queue *q, const char *id)
{
	struct worker *w = queue_worker(q, id);
	if (w)
		return w;
	size_t len = strlen(id) + 1;
	if (len > sizeof w->id || u64map_reserve(&q->workers, q->workers.count + 1) != 0 ||
	    GROW(q->seat, q->seats, q->worker_count + 1) != 0)
		return NULL;
	w = pool_take(&q->worker);
	if (!w)
		return NULL;
	*w = (struct worker){0};
	memcpy(w->id, id, len);
	uint64_t hash = hash_of(id);
	struct worker *other = u64map_get(&q->workers, hash);
	if (other) {
		w->same_hash = other->same_hash;
		other->same_hash = w;
	} else {
		u64map_put(&q->workers, hash, w);
	}
	if (q->last_worker)
		q->last_worker->next = w;
	else
		q->first_worker = w;
	q->last_worker = w;
	q->seat[q->worker_count++] = w;
	w->seat = q->worker_count;
	return w;
}

static enum queue_result unknown_worker(const char *worker, struct error *err)
{
	error_set(err, ERROR_DATA, NULL, "worker '%.64s' has never said hello", worker);
	return QUEUE_UNKNOWN_WORKER;
}

enum queue_result queue_grip(const struct queue *q, const char *worker, size_t seat, uint64_t generation,
			     struct worker **w, struct error *err)
{
	*w = queue_worker_at(q, worker, seat);
	if (!*w)
		return unknown_worker(worker, err);
	if (generation != 0 && (*w)->generation == generation)
		return QUEUE_OK;
	error_set(err, ERROR_DATA, NULL, "generation %llu of worker %s is not in force",
		  (unsigned long long)generation, worker);
	return QUEUE_FENCED;
}

enum queue_result queue_in_force(const struct queue *q, const char *worker, uint64_t generation,
				 struct error *err)
{
	struct worker *w;
	return queue_grip(q, worker, 0, generation, &w, err);
}

/* ---- a queue from a file takes the place of the one in use ---- */

int queue_roll_back(struct queue *q, const struct queue *replaced, struct error *err)
{
	/* Generations never go back: those that were given since the file was written are not given
	 * again. */
	for (const struct worker *w = replaced->first_worker; w; w = w->next) {
		struct worker *mine = queue_worker_make(q, w->id);
		if (!mine)
			return error_set(err, ERROR_OS, NULL, "out of memory");
		if (mine->last < w->last)
			mine->last = w->last;
	}
	/* Nor are ids: a piece that comes back in several runs gets some. */
	if (q->next_id < replaced->next_id) {
		q->skipped += replaced->next_id - q->next_id;
		q->next_id = replaced->next_id;
	}
	q->at = replaced->at;
	q->mono = replaced->mono;
	for (struct worker *w = q->first_worker; w; w = w->next) {
		while (w->hand.head)
			piece_return_first(q, w->hand.head);
		w->generation = 0;
	}
	if (q->incarnation < replaced->incarnation)
		q->incarnation = replaced->incarnation;
	q->incarnation++;
	if (q->own)
		partitions_roll_back(q->own, replaced->own);
	q->loose[0] = '\0';
	q->has_settled = 0;
	q->refusals = 0;
	if (q->term < replaced->term) /* nor do terms */
		q->term = replaced->term;
	q->retries = replaced->retries;
	q->lease = replaced->lease;
	if (replaced->first_at > 0)
		q->first_at = replaced->first_at;
	q->samples_repeated = replaced->samples_repeated;
	if (replaced->samples_done > q->samples_done)
		q->samples_repeated += replaced->samples_done - q->samples_done;
	return 0;
}

/* ---- telling ---- */

uint64_t queue_shards(const struct queue *q)
{
	return q->shards;
}

int queue_has_todo(const struct queue *q)
{
	return q->todo > 0 || source_left(q) > 0;
}

int queue_is_over(const struct queue *q)
{
	return !queue_has_todo(q) && q->doing == 0;
}

uint64_t queue_samples_done(const struct queue *q)
{
	return q->samples_done;
}

uint64_t queue_incarnation(const struct queue *q)
{
	return q->incarnation;
}

void queue_stat(const struct queue *q, struct queue_stat *out)
{
	*out = (struct queue_stat){
		.epoch = q->own           ? q->samples_done / q->p.samples
			 : q->first_epoch ? q->first_epoch->lane.number
					  : q->cursor / q->shards,
		.todo = source_left(q) + q->todo,
		.doing = q->doing,
		.done = q->pieces_done,
		.held = q->held.count,
		.shards = q->own ? q->own->begun + source_left(q) : q->total,
		.shards_done = q->shards_done,
		.samples_done = q->samples_done,
		.samples_repeated = q->samples_repeated,
		.incarnation = q->incarnation,
		.iteration = q->iteration,
		.first_at = q->first_at,
		.last_at = q->last_at,
		.at = q->at,
	};
}

static void describe_whole(const struct queue *q, uint64_t id, enum queue_state state,
		       struct queue_piece *out)
{
	*out = (struct queue_piece){
		.id = id,
		.epoch = id / q->shards,
		.state = state,
		.seed = source_seed(q, id),
		.worker = "",
	};
	source_frame(q, id, &out->begin, &out->length);
	out->take = out->length;
	out->upto = state == QUEUE_DONE ? out->length : 0;
}

static int queue_by_id(const void *a, const void *b)
{
	uint64_t x = (*(const struct piece *const *)a)->id,
		 y = (*(const struct piece *const *)b)->id;
	return (x > y) - (x < y);
}

/* Pieces that are objects, from id `from` on, in order of id; the caller frees *sorted. */
static int sorted_pieces(const struct queue *q, uint64_t from, struct piece ***sorted,
			 size_t *count)
{
	*count = 0;
	*sorted = malloc((q->pieces.count + 1) * sizeof **sorted);
	if (!*sorted)
		return -1;
	struct piece *p;
	for (size_t at = 0; (p = u64map_next(&q->pieces, &at)) != NULL;)
		if (p->id >= from)
			(*sorted)[(*count)++] = p;
	qsort(*sorted, *count, sizeof **sorted, queue_by_id);
	return 0;
}

int queue_list(const struct queue *q, unsigned states, uint64_t from,
	       int (*give)(void *arg, const struct queue_piece *piece), void *arg)
{
	struct piece **sorted;
	size_t count, i = 0;
	if (sorted_pieces(q, from, &sorted, &count) != 0)
		return -1;
	struct queue_piece out;
	uint64_t id = from;
	int stopped = 0;
	/* Whole shards without an object are done if they are before the cursor, and todo behind
	 * it. */
	for (; id < q->total && !stopped; id++) {
		if (i < count && sorted[i]->id == id) {
			piece_describe(q, sorted[i++], &out);
			if (states >> out.state & 1)
				stopped = give(arg, &out);
			continue;
		}
		enum queue_state state = id < q->cursor ? QUEUE_DONE : QUEUE_TODO;
		if (states >> state & 1) {
			describe_whole(q, id, state, &out);
			stopped = give(arg, &out);
		} else { /* there are none until the next object, the cursor or the end */
			uint64_t next = id < q->cursor ? q->cursor : q->total;
			if (i < count && sorted[i]->id < next)
				next = sorted[i]->id;
			id = next - 1;
		}
	}
	for (; i < count && !stopped; i++) {
		piece_describe(q, sorted[i], &out);
		if (states >> out.state & 1)
			stopped = give(arg, &out);
	}
	free(sorted);
	return 0;
}

void queue_asked(struct queue *q, const char *worker)
{
	struct worker *w = queue_worker(q, worker);
	if (w)
		w->asks++;
}

void queue_workers(const struct queue *q,
		   void (*give)(void *arg, const struct queue_worker_stat *worker), void *arg)
{
	for (const struct worker *w = q->first_worker; w; w = w->next) {
		struct queue_worker_stat told = {.worker = w->id,
						 .generation = w->generation,
						 .asks = w->asks,
						 .pieces = w->hand.count};
		give(arg, &told);
	}
}

enum queue_result queue_who(const struct queue *q, const char *worker, uint64_t *generation,
			    uint64_t *last, int (*give)(void *arg, const struct queue_piece *piece),
			    void *arg, struct error *err)
{
	const struct worker *w = queue_worker(q, worker);
	if (!w)
		return unknown_worker(worker, err);
	*generation = w->generation;
	*last = w->last;
	struct queue_piece out;
	int stopped = 0;
	for (const struct piece *p = w->hand.head; p && !stopped; p = p->next) {
		piece_describe(q, p, &out);
		for (const struct piece *run = p; run && !stopped; run = run->more) {
			out.skip = run->lo;
			out.take = run->hi - run->lo;
			stopped = give(arg, &out);
		}
	}
	return QUEUE_OK;
}
