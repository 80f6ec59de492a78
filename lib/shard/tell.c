/* tell: what the queue says of itself: stat, list, who. Changes nothing. */
#include "shard/queue_internal.h"

#include <stdlib.h>
#include <string.h>

uint64_t queue_shards(const struct queue *q)
{
	return q->shards;
}

uint64_t queue_incarnation(const struct queue *q)
{
	return q->incarnation;
}

void queue_stat(const struct queue *q, struct queue_stat *out)
{
	*out = (struct queue_stat){
		.epoch = q->parts ? q->samples_done / q->p.samples
			 : q->first_epoch ? q->first_epoch->number
					  : q->cursor / q->shards,
		.todo = q->total - q->cursor + q->todo,
		.doing = q->doing,
		.done = q->pieces_done,
		.held = q->held.count,
		.shards = q->total,
		.shards_done = q->shards_done,
		.samples_done = q->samples_done,
		.samples_repeated = q->samples_repeated,
		.incarnation = q->incarnation,
		.iteration = q->iteration,
		.first_at = q->first_at,
		.last_at = q->last_at,
		.at = q->at,
	};
	if (q->parts) {
		out->todo += queue_parts_todo(q);
		out->shards = q->begun + queue_parts_todo(q);
	}
}

static void tell_whole(const struct queue *q, uint64_t id, enum queue_state state,
		       struct queue_piece *out)
{
	*out = (struct queue_piece){
		.id = id,
		.epoch = id / q->shards,
		.state = state,
		.seed = piece_seed(q, id),
		.worker = "",
	};
	piece_frame(q, id, &out->begin, &out->length);
	out->take = out->length;
	out->upto = state == QUEUE_DONE ? out->length : 0;
}

static int by_id(const void *a, const void *b)
{
	uint64_t x = (*(const struct piece *const *)a)->id,
		 y = (*(const struct piece *const *)b)->id;
	return (x > y) - (x < y);
}

/* Objects of the wanted states in order of id; *sorted is the caller's to free. */
static int sorted_pieces(const struct queue *q, uint64_t from, struct piece ***sorted,
			 size_t *count)
{
	*count = 0;
	*sorted = malloc((q->pieces.count + 1) * sizeof **sorted);
	if (!*sorted)
		return -1;
	struct piece *p;
	for (size_t at = 0; (p = table_next(&q->pieces, &at)) != NULL;)
		if (p->id >= from)
			(*sorted)[(*count)++] = p;
	qsort(*sorted, *count, sizeof **sorted, by_id);
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
	/* Whole shards without an object are done before the cursor and todo behind it. */
	for (; id < q->total && !stopped; id++) {
		if (i < count && sorted[i]->id == id) {
			piece_tell(q, sorted[i++], &out);
			if (states >> out.state & 1)
				stopped = give(arg, &out);
			continue;
		}
		enum queue_state state = id < q->cursor ? QUEUE_DONE : QUEUE_TODO;
		if (states >> state & 1) {
			tell_whole(q, id, state, &out);
			stopped = give(arg, &out);
		} else { /* none until the next object, the cursor or the end */
			uint64_t next = id < q->cursor ? q->cursor : q->total;
			if (i < count && sorted[i]->id < next)
				next = sorted[i]->id;
			id = next - 1;
		}
	}
	for (; i < count && !stopped; i++) {
		piece_tell(q, sorted[i], &out);
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
		   void (*give)(void *arg, const struct queue_worker_told *worker), void *arg)
{
	for (const struct worker *w = q->first_worker; w; w = w->next) {
		struct queue_worker_told told = {.worker = w->id,
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
	if (!w) {
		error_set(err, ERROR_DATA, NULL, "worker '%.64s' has never said hello", worker);
		return QUEUE_UNKNOWN_WORKER;
	}
	*generation = w->generation;
	*last = w->last;
	struct queue_piece out;
	int stopped = 0;
	for (const struct piece *p = w->hand.head; p && !stopped; p = p->next) {
		piece_tell(q, p, &out);
		for (const struct piece *run = p; run && !stopped; run = run->more) {
			out.skip = run->lo;
			out.take = run->hi - run->lo;
			stopped = give(arg, &out);
		}
	}
	return QUEUE_OK;
}
