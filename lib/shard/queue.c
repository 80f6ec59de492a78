/* queue: requests of workers and people, one function each.  Each checks first, then reserves
 * memory, then changes and says so in one line; a result other than QUEUE_OK means that nothing
 * changed.  No clock, no file, no socket: paceline-journal(5) follows these lines to the same
 * state. */
#include "shard/queue_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define WORKERS_MAX (1u << 20) /* names; a worker that comes back has its old one */
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
	[QUEUE_MEMORY] = "memory",
};
static const char *const state_name[] = {
	[QUEUE_TODO] = "todo",
	[QUEUE_DOING] = "doing",
	[QUEUE_DONE] = "done",
	[QUEUE_HELD] = "held",
};
static const char *const shuffle_name[] = {"none", "shards", "samples"};

const char *queue_result_code(enum queue_result result)
{
	return result_code[result];
}

const char *queue_state_name(enum queue_state state)
{
	return state_name[state];
}

const char *queue_shuffle_name(enum queue_shuffle shuffle)
{
	return shuffle_name[shuffle];
}

int queue_shuffle_of(const char *name, enum queue_shuffle *out)
{
	for (int i = 0; i < 3; i++)
		if (strcmp(name, shuffle_name[i]) == 0) {
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
		rows = p->samples; /* one shard has them all */
	uint64_t shards = (p->samples - 1) / rows + 1;
	if (__builtin_mul_overflow(shards, p->epochs, &total) ||
	    __builtin_mul_overflow(p->samples, p->epochs, &ids) || ids >> 62)
		return error_set(err, ERROR_CONFIG, NULL,
				 "%llu samples in %llu epochs are too many",
				 (unsigned long long)p->samples, (unsigned long long)p->epochs);
	if (queue_parts_check(p, err) != 0)
		return -1;
	if (p->shuffle != QUEUE_SHUFFLE_NONE && shards > SHUFFLED_MAX)
		return error_set(err, ERROR_CONFIG, NULL, "%llu shards are too many to be shuffled",
				 (unsigned long long)shards);
	struct queue *q = calloc(1, sizeof *q);
	if (!q)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	q->p = *p;
	q->p.partition = NULL;
	q->shard_rows = rows;
	q->shards = shards;
	q->total = q->next_id = total;
	q->incarnation = 1;
	q->retries = 3;
	q->order = calloc(1, sizeof *q->order);
	if (q->order) {
		q->order->epoch = UINT64_MAX;
		if (p->shuffle != QUEUE_SHUFFLE_NONE)
			q->order->at = malloc((size_t)shards * sizeof *q->order->at);
	}
	if (!q->order || (p->shuffle != QUEUE_SHUFFLE_NONE && !q->order->at) ||
	    (p->partitions > 0 && queue_parts_new(q, p) != 0)) {
		queue_free(q);
		return error_set(err, ERROR_OS, NULL, "out of memory");
	}
	*out = q;
	return 0;
}

static void free_pieces(struct queue *q)
{
	struct piece *p;
	for (size_t at = 0; (p = table_next(&q->pieces, &at)) != NULL;) {
		if (p->whole && (p->whole->left -= piece_left(p)) == 0)
			free(p->whole);
		for (struct piece *next; p; p = next) {
			next = p->more;
			free(p);
		}
	}
	while ((p = q->spare) != NULL) {
		q->spare = p->next;
		free(p);
	}
	for (struct whole *w; (w = q->spare_whole) != NULL;) {
		q->spare_whole = w->next;
		free(w);
	}
}

void queue_free(struct queue *q)
{
	if (!q)
		return;
	free_pieces(q);
	for (struct worker *w; (w = q->first_worker) != NULL;) {
		q->first_worker = w->next;
		free(w);
	}
	for (struct epoch *e; (e = q->first_epoch) != NULL;) {
		q->first_epoch = e->next;
		free(e);
	}
	table_free(&q->pieces);
	table_free(&q->workers);
	queue_parts_free(q);
	if (q->order)
		free(q->order->at);
	free(q->order);
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

void queue_log_line(struct queue *q, const struct line *l)
{
	if (q->log)
		q->log(q->log_arg, l->data, l->len);
}

void queue_set(struct queue *q, uint64_t retries, double lease)
{
	struct line l;
	q->retries = retries;
	q->lease = lease;
	line_begin(&l, "set");
	line_u64(&l, "retries", retries);
	line_real(&l, "lease", lease);
	queue_log_line(q, &l);
}

uint64_t queue_retries(const struct queue *q)
{
	return q->retries;
}

double queue_lease(const struct queue *q)
{
	return q->lease;
}

void queue_set_loose(struct queue *q, const char *boot)
{
	struct line l;
	snprintf(q->loose, sizeof q->loose, "%s", boot);
	line_begin(&l, "loose");
	line_text(&l, "boot", q->loose);
	queue_log_line(q, &l);
}

const char *queue_loose(const struct queue *q)
{
	return q->loose;
}

/* ---- workers and their generations ---- */

static uint64_t hash_of(const char *id)
{
	return XXH3_64bits(id, strlen(id));
}

struct worker *queue_worker(const struct queue *q, const char *id)
{
	struct worker *w = table_get(&q->workers, hash_of(id));
	while (w && strcmp(w->id, id) != 0)
		w = w->same_hash;
	return w;
}

struct worker *queue_worker_make(struct queue *q, const char *id)
{
	struct worker *w = queue_worker(q, id);
	if (w)
		return w;
	size_t len = strlen(id) + 1;
	if (table_reserve(&q->workers, q->workers.count + 1) != 0)
		return NULL;
	w = calloc(1, sizeof *w + len);
	if (!w)
		return NULL;
	memcpy(w->id, id, len);
	uint64_t hash = hash_of(id);
	struct worker *other = table_get(&q->workers, hash);
	if (other) {
		w->same_hash = other->same_hash;
		other->same_hash = w;
	} else {
		table_put(&q->workers, hash, w);
	}
	if (q->last_worker)
		q->last_worker->next = w;
	else
		q->first_worker = w;
	q->last_worker = w;
	q->worker_count++;
	return w;
}

static enum queue_result unknown_worker(const char *worker, struct error *err)
{
	error_set(err, ERROR_DATA, NULL, "worker '%.64s' has never said hello", worker);
	return QUEUE_UNKNOWN_WORKER;
}

enum queue_result queue_grip(const struct queue *q, const char *worker, uint64_t generation,
			     struct worker **w, struct error *err)
{
	*w = queue_worker(q, worker);
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
	return queue_grip(q, worker, generation, &w, err);
}

/* What a worker held comes back; with is_death the piece in work, the oldest, is blamed. */
static uint64_t return_all(struct queue *q, struct worker *w, int is_death)
{
	uint64_t count = w->hand.count;
	for (struct piece *p; (p = w->hand.head) != NULL; is_death = 0) {
		p->deaths += (uint32_t)(is_death && p->deaths < UINT32_MAX);
		piece_return(q, p, is_death && q->retries > 0 && p->deaths >= q->retries);
	}
	w->is_blamed = 0;
	return count;
}

static void log_worker(struct queue *q, const char *type, const struct worker *w)
{
	struct line l;
	line_begin(&l, type);
	line_text(&l, "worker", w->id);
	queue_log_line(q, &l);
}

enum queue_result queue_hello(struct queue *q, const char *worker, uint64_t *generation,
			      struct error *err)
{
	if (q->parts && parts_find(q->parts, worker) == q->parts->count) {
		error_set(err, ERROR_DATA, NULL, "worker '%.64s' has no partition", worker);
		return QUEUE_UNKNOWN_WORKER;
	}
	if (!queue_worker(q, worker) && q->worker_count >= WORKERS_MAX)
		return queue_no(QUEUE_BAD, err, "more than %llu names of workers", WORKERS_MAX);
	struct worker *w = queue_worker_make(q, worker);
	if (!w)
		return queue_no_memory(err);
	return_all(q, w, 1);
	w->generation = ++w->last;
	*generation = w->generation;
	struct line l;
	line_begin(&l, "hello");
	line_text(&l, "worker", w->id);
	line_u64(&l, "generation", w->generation);
	queue_log_line(q, &l);
	return QUEUE_OK;
}

enum queue_result queue_bye(struct queue *q, const char *worker, uint64_t generation,
			    struct error *err)
{
	struct worker *w;
	enum queue_result result = queue_grip(q, worker, generation, &w, err);
	if (result != QUEUE_OK)
		return result;
	return_all(q, w, 0);
	w->generation = 0;
	log_worker(q, "bye", w);
	return QUEUE_OK;
}

enum queue_result queue_fail(struct queue *q, const char *worker, uint64_t *shards,
			     struct error *err)
{
	struct worker *w = queue_worker(q, worker);
	if (!w)
		return unknown_worker(worker, err);
	*shards = 0;
	if (w->generation == 0)
		return QUEUE_OK; /* given up before */
	*shards = return_all(q, w, 1);
	w->generation = 0;
	log_worker(q, "fail", w);
	return QUEUE_OK;
}

/* ---- handing out ---- */

/* What would be handed out: a piece, or (NULL with *is_fresh) the shard under the cursor. */
static struct piece *next_piece(const struct queue *q, int *is_fresh)
{
	*is_fresh = 0;
	for (struct epoch *e = q->first_epoch; e; e = e->next) {
		if (e->front)
			return e->front;
		if (q->cursor < (e->number + 1) * q->shards) {
			*is_fresh = 1;
			return NULL;
		}
		if (e->todo.head)
			return e->todo.head;
	}
	*is_fresh = q->cursor < q->total;
	return NULL;
}

int queue_has_todo(const struct queue *q)
{
	return q->todo > 0 || q->cursor < q->total || (q->parts && q->parts->budget > 0);
}

int queue_is_over(const struct queue *q)
{
	return !queue_has_todo(q) && q->doing == 0;
}

static struct piece *fresh_piece(struct queue *q, struct epoch *e)
{
	struct piece *p = piece_new(q);
	p->id = p->origin = q->cursor++;
	p->epoch = e;
	piece_frame(q, p->id, &p->begin, &p->length);
	p->hi = p->length;
	p->seed = piece_seed(q, p->id);
	table_put(&q->pieces, p->id, p);
	return p;
}

static void leave_todo(struct queue *q, struct piece *p)
{
	if (p->epoch->front == p)
		p->epoch->front = NULL;
	else
		piece_unlink(&p->epoch->todo, p);
	q->todo--;
}

/* The first max samples of p under a new id; the rest stays first in the queue. */
static struct piece *cut_piece(struct queue *q, struct piece *p, uint64_t max)
{
	piece_share(q, p);
	struct piece *part = piece_new(q);
	*part = *p;
	part->prev = part->next = NULL;
	part->id = q->next_id++;
	if (p->lo == 0 && p->hi == p->length) {
		part->length = part->hi = max;
		part->seed = piece_seed(q, part->id);
		p->begin += max;
		p->length -= max;
		p->hi = p->length;
	} else { /* shuffled and partly in the model: both keep the frame that the order is of */
		part->hi = part->lo + max;
		p->lo += max;
	}
	table_put(&q->pieces, part->id, part);
	p->state = QUEUE_TODO;
	p->at = q->at;
	p->epoch->front = p;
	q->todo++;
	return part;
}

enum queue_result queue_get(struct queue *q, const char *worker, uint64_t generation, uint64_t max,
			    struct queue_piece *piece, struct error *err)
{
	struct worker *w;
	enum queue_result result = queue_grip(q, worker, generation, &w, err);
	if (result != QUEUE_OK)
		return result;
	w->is_blamed = 0;
	int is_fresh;
	struct piece *p = q->parts ? queue_parts_next(q, w, &is_fresh) : next_piece(q, &is_fresh);
	if (!p && !is_fresh)
		return queue_is_over(q) ? QUEUE_END : QUEUE_WAIT;
	if (piece_prepare(q, 2) != 0)
		return queue_no_memory(err);
	if (p) {
		leave_todo(q, p);
	} else if (q->parts) {
		p = queue_parts_fresh(q, w, max);
		if (!p)
			return queue_no_memory(err);
	} else {
		struct epoch *e = epoch_make(q, q->cursor / q->shards);
		if (!e)
			return queue_no_memory(err);
		if (e->left == 0)
			e->left = q->shards;
		p = fresh_piece(q, e);
	}
	if (max > 0 && p->hi - p->lo > max)
		p = cut_piece(q, p, max);
	piece_take(q, p, w);
	piece_tell(q, p, piece);
	struct line l;
	line_begin(&l, "get");
	line_text(&l, "worker", w->id);
	line_u64(&l, "id", p->id);
	if (max > 0)
		line_u64(&l, "max", max);
	queue_log_line(q, &l);
	return QUEUE_OK;
}
