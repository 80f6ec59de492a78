/* source: what is handed out next. Epochs follow each other and are the same for all workers. A
 * partition is handed out over and over, to its own worker. In both cases a shard that nobody has
 * asked for yet is not an object, and pieces that came back wait in lanes. */
#include "shard/queue_internal.h"

#include "base/random.h"

#include <stdlib.h>
#include <string.h>

/* ---- the beginning and the end ---- */

int source_check(const struct queue_parameters *p, struct error *err)
{
	if (p->partitions == 0)
		return 0;
	if (p->apart)
		return error_set(err, ERROR_CONFIG, NULL,
				 "partitions have no epochs that could be kept apart");
	if (p->shuffle == QUEUE_SHUFFLE_SHARDS)
		return error_set(err, ERROR_CONFIG, NULL,
				 "shards of partitions have no order to shuffle: say samples");
	return partitions_check(p->partition, p->partitions, p->samples, err);
}

int source_new(struct queue *q)
{
	for (size_t i = 0; i < SHARD_ORDERS; i++)
		q->order[i].epoch = UINT64_MAX;
	if (q->p.shuffle != QUEUE_SHUFFLE_NONE && q->p.partitions == 0) {
		q->order[0].at = malloc((size_t)q->shards * sizeof *q->order[0].at);
		if (!q->order[0].at)
			return -1;
	}
	if (q->p.partitions == 0)
		return 0;
	q->own = partitions_new(q->p.partition, q->p.partitions, q->p.batch, q->p.epochs);
	q->lanes = calloc(q->p.partitions, sizeof *q->lanes);
	if (!q->own || !q->lanes)
		return -1;
	q->p.partition = q->own->own;
	q->total = q->next_id = 0;
	return 0;
}

void source_free(struct queue *q)
{
	for (struct epoch *e; (e = q->first_epoch) != NULL;) {
		q->first_epoch = e->next;
		free(e);
	}
	partitions_free(q->own);
	free(q->lanes);
	for (size_t i = 0; i < SHARD_ORDERS; i++)
		free(q->order[i].at);
}

/* ---- orders: they are published (shardd(8), SHUFFLES) and must never change ---- */

/* The order of the epoch; it moves to the front of the list. The second order gets its memory when
 * it is first needed; if there is none, one order is used for all epochs, more slowly. */
static const uint32_t *order_of(struct shard_order *order, const struct queue *q, uint64_t epoch)
{
	size_t i = 0;
	while (i < SHARD_ORDERS - 1 && order[i].epoch != epoch && order[i].epoch != UINT64_MAX)
		i++;
	if (!order[i].at)
		order[i].at = malloc((size_t)q->shards * sizeof *order[i].at);
	if (!order[i].at)
		i = 0;
	struct shard_order found = order[i];
	if (found.epoch != epoch) {
		uint64_t state = ~q->p.seed + epoch;
		random_permute(found.at, (size_t)q->shards, random_next(&state));
		found.epoch = epoch;
	}
	memmove(order + 1, order, i * sizeof *order);
	order[0] = found;
	return found.at;
}

void source_frame(const struct queue *q, uint64_t id, uint64_t *begin, uint64_t *length)
{
	uint64_t epoch = id / q->shards, k = id % q->shards;
	/* The cast is allowed: nobody can see which orders are cached. */
	struct shard_order *order = (struct shard_order *)(uintptr_t)q->order;
	if (order[0].at)
		k = order_of(order, q, epoch)[k];
	*begin = k * q->shard_rows;
	*length = q->p.samples - *begin < q->shard_rows ? q->p.samples - *begin : q->shard_rows;
}

uint64_t source_seed(const struct queue *q, uint64_t id)
{
	uint64_t state = q->p.seed + (id < q->total ? id : id - q->skipped);
	/* Halved: it fits a signed number. */
	return q->p.shuffle == QUEUE_SHUFFLE_SAMPLES ? random_next(&state) >> 1 : 0;
}

/* ---- epochs ---- */

static struct epoch *epoch_of(struct lane *lane)
{
	return (struct epoch *)lane;
}

/* Finds the epoch, or begins it at its place in the list. NULL: out of memory. */
static struct epoch *epoch_make(struct queue *q, uint64_t number)
{
	struct epoch *before = q->last_epoch;
	while (before && before->lane.number > number)
		before = before->prev;
	if (before && before->lane.number == number)
		return before;
	struct epoch *e = calloc(1, sizeof *e);
	if (!e)
		return NULL;
	e->lane.number = number;
	e->prev = before;
	e->next = before ? before->next : q->first_epoch;
	if (e->next)
		e->next->prev = e;
	else
		q->last_epoch = e;
	if (before)
		before->next = e;
	else
		q->first_epoch = e;
	return e;
}

void source_done(struct queue *q, struct lane *lane)
{
	struct epoch *e = epoch_of(lane);
	if (q->own || --e->left > 0)
		return;
	if (e->prev)
		e->prev->next = e->next;
	else
		q->first_epoch = e->next;
	if (e->next)
		e->next->prev = e->prev;
	else
		q->last_epoch = e->prev;
	free(e);
}

/* The epoch of the pieces in hand, if epochs are kept apart; NULL: it may be any. */
static const struct lane *only_epoch(const struct queue *q)
{
	if (!q->p.apart || q->doing == 0)
		return NULL;
	const struct worker *w = q->first_worker;
	while (!w->hand.head)
		w = w->next;
	return w->hand.head->lane;
}

static struct piece *next_of_epochs(const struct queue *q, int *is_fresh)
{
	const struct lane *only = only_epoch(q);
	for (const struct epoch *e = q->first_epoch; e; e = e->next) {
		if (only && &e->lane != only)
			continue;
		if (e->lane.first.head)
			return e->lane.first.head;
		if (q->cursor < (e->lane.number + 1) * q->shards) {
			*is_fresh = 1;
			return NULL;
		}
		if (e->lane.todo.head)
			return e->lane.todo.head;
	}
	*is_fresh = q->cursor < q->total && !only;
	return NULL;
}

static struct piece *fresh_of_epoch(struct queue *q)
{
	struct epoch *e = epoch_make(q, q->cursor / q->shards);
	if (!e)
		return NULL;
	if (e->left == 0)
		e->left = q->shards;
	struct piece *p = piece_new(q);
	p->lane = &e->lane;
	p->id = q->cursor++;
	source_frame(q, p->id, &p->begin, &p->length);
	return p;
}

/* ---- partitions ---- */

const char *lane_worker(const struct queue *q, const struct lane *lane)
{
	return q->own ? q->own->partition[lane - q->lanes].worker : NULL;
}

int source_knows(const struct queue *q, const char *worker)
{
	return !q->own || partitions_find(q->own, worker) < q->own->count;
}

static struct piece *next_of_partition(const struct queue *q, size_t i, int *is_fresh)
{
	const struct lane *lane = &q->lanes[i];
	const struct partition *part = &q->own->partition[i];
	if (lane->first.head)
		return lane->first.head;
	/* What came back is handed out before the next pass begins. */
	if (lane->todo.head && part->left == part->rows)
		return lane->todo.head;
	*is_fresh = partition_offer(q->own, part, 1) > 0;
	return *is_fresh ? NULL : lane->todo.head;
}

static struct piece *fresh_of_partition(struct queue *q, size_t i, uint64_t max)
{
	struct partition *part = &q->own->partition[i];
	if (partition_prepare(part) != 0)
		return NULL;
	uint64_t most = max > 0 && max < q->shard_rows ? max : q->shard_rows;
	struct piece *p = piece_new(q);
	p->lane = &q->lanes[i];
	p->lane->number = part->passes;
	p->id = q->next_id++;
	p->length = partition_offer(q->own, part, most);
	p->begin = partition_take(q->own, part, p->length);
	return p;
}

/* ---- either ---- */

struct piece *source_next(const struct queue *q, const struct worker *w, int *is_fresh)
{
	*is_fresh = 0;
	return q->own ? next_of_partition(q, partitions_find(q->own, w->id), is_fresh)
		      : next_of_epochs(q, is_fresh);
}

struct piece *source_fresh(struct queue *q, const struct worker *w, uint64_t max)
{
	struct piece *p = q->own ? fresh_of_partition(q, partitions_find(q->own, w->id), max)
				 : fresh_of_epoch(q);
	if (!p)
		return NULL;
	p->origin = p->id;
	p->hi = p->length;
	p->seed = source_seed(q, p->id);
	piece_enter(q, p);
	return p;
}

uint64_t source_left(const struct queue *q)
{
	uint64_t budget = q->own ? q->own->budget : 0;
	return q->own ? budget / q->shard_rows + (budget % q->shard_rows > 0)
		      : q->total - q->cursor;
}

/* ---- a state that is read ---- */

struct lane *source_lane(struct queue *q, const char *worker, uint64_t origin)
{
	if (q->own) {
		size_t i = worker ? partitions_find(q->own, worker) : q->own->count;
		if (i == q->own->count)
			return NULL;
		q->lanes[i].number = q->own->partition[i].passes;
		return &q->lanes[i];
	}
	struct epoch *e = epoch_make(q, origin / q->shards);
	return e ? &e->lane : NULL;
}

void source_was_read(struct queue *q, struct lane *lane)
{
	if (!q->own)
		epoch_of(lane)->left++;
}

/* How many samples are in the shards at the cursor and behind it. */
static uint64_t fresh_samples(const struct queue *q)
{
	uint64_t epoch = q->cursor / q->shards, fresh = (q->p.epochs - epoch) * q->p.samples;
	uint64_t begun = q->cursor % q->shards;
	fresh -= begun * q->shard_rows;
	/* One shard may be short: the last one. If shards are shuffled, it may be anywhere in the
	 * order. */
	uint64_t missing = q->shards * q->shard_rows - q->p.samples;
	for (uint64_t id = epoch * q->shards; missing > 0 && q->order[0].at && id < q->cursor; id++) {
		uint64_t begin, length;
		source_frame(q, id, &begin, &length);
		if (length < q->shard_rows)
			return fresh + missing;
	}
	return fresh;
}

static int adds_up(const struct queue *q, uint64_t samples, uint64_t shards)
{
	uint64_t all = q->p.samples * q->p.epochs, used;
	if (q->own)
		return !__builtin_add_overflow(q->samples_done, samples, &used) && used <= all &&
		       q->own->begun - q->shards_done == shards;
	return q->samples_done + samples + fresh_samples(q) == all &&
	       q->shards_done + shards + source_left(q) == q->total;
}

int source_read_all(struct queue *q, uint64_t samples, uint64_t shards, struct error *err)
{
	if (!adds_up(q, samples, shards))
		return error_set(err, ERROR_DATA, NULL, "samples or shards do not add up");
	if (q->own)
		return partitions_read_all(q->own, q->p.samples, q->p.samples * q->p.epochs,
					   q->samples_done + samples, err);
	uint64_t begun = q->cursor % q->shards;
	if (begun == 0)
		return 0;
	struct epoch *e = epoch_make(q, q->cursor / q->shards);
	if (!e)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	e->left += q->shards - begun;
	return 0;
}

const struct lane *source_lane_behind(const struct queue *q, const struct lane *lane)
{
	if (q->own) {
		lane = lane ? lane + 1 : q->lanes;
		return lane < q->lanes + q->own->count ? lane : NULL;
	}
	const struct epoch *e = lane ? ((const struct epoch *)lane)->next : q->first_epoch;
	return e ? &e->lane : NULL;
}
