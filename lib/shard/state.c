/* state: the whole queue as lines (paceline-journal(5)): the beginning of a journal, and what
 * `save` writes.  Its reader is loader.c: a field added here must be optional there. */
#include "shard/queue_internal.h"

struct writer {
	void (*line)(void *arg, const char *line, size_t len);
	void *arg;
	uint64_t count;
	struct line l;
};

static void put(struct writer *w)
{
	w->line(w->arg, w->l.data, w->l.len);
	w->count++;
}

static void write_head(struct writer *w, const struct queue *q)
{
	struct line *l = &w->l;
	line_begin(l, "queue");
	line_u64(l, "version", 1);
	line_u64(l, "samples", q->p.samples);
	line_u64(l, "batch", q->p.batch);
	line_u64(l, "batches", q->p.batches);
	line_u64(l, "epochs", q->p.epochs);
	line_text(l, "shuffle", queue_shuffle_name(q->p.shuffle));
	line_u64(l, "seed", q->p.seed);
	if (q->parts)
		line_u64(l, "partitions", q->parts->count);
	put(w);
	for (size_t i = 0; q->parts && i < q->parts->count; i++) {
		line_begin(l, "partition");
		line_text(l, "worker", q->parts->part[i].worker);
		line_u64(l, "samples", q->parts->part[i].samples);
		put(w);
	}
	line_begin(l, "state");
	line_u64(l, "incarnation", q->incarnation);
	line_u64(l, "cursor", q->cursor);
	line_u64(l, "next-id", q->next_id);
	line_u64(l, "iteration", q->iteration);
	line_u64(l, "retries", q->retries);
	line_real(l, "lease", q->lease);
	line_u64(l, "pieces-done", q->pieces_done);
	line_u64(l, "shards-done", q->shards_done);
	line_u64(l, "samples-done", q->samples_done);
	line_u64(l, "samples-repeated", q->samples_repeated);
	line_real(l, "first-at", q->first_at);
	line_real(l, "last-at", q->last_at);
	if (q->loose[0])
		line_text(l, "loose", q->loose);
	if (q->parts) {
		line_u64(l, "begun", q->begun);
		line_real(l, "migrate", q->parts->migrate);
		line_u64(l, "next-move", q->parts->next_move);
		line_u64(l, "moves-done", q->parts->moves_done);
		line_u64(l, "rows-moved", q->parts->rows_moved);
	}
	put(w);
}

static void write_parts(struct writer *w, const struct parts *p)
{
	struct line *l = &w->l;
	for (size_t i = 0; i < p->count; i++) {
		const struct part *part = &p->part[i];
		line_begin(l, "traversal");
		line_text(l, "worker", part->worker);
		line_u64(l, "done", part->traversals);
		line_u64(l, "left", part->left);
		line_u64(l, "given", part->given);
		put(w);
		for (size_t j = 0; j < part->count; j++) {
			line_begin(l, "rows");
			line_u64(l, "begin", part->run[j].begin);
			line_u64(l, "length", part->run[j].length);
			line_u64(l, "times", part->run[j].times);
			put(w);
		}
	}
	for (size_t i = 0; i < p->moves; i++) {
		line_begin(l, "move");
		line_u64(l, "id", p->move[i].id);
		line_text(l, "from", p->part[p->move[i].from].worker);
		line_text(l, "to", p->part[p->move[i].to].worker);
		line_u64(l, "begin", p->move[i].begin);
		line_u64(l, "length", p->move[i].length);
		put(w);
	}
}

static void write_settled(struct writer *w, const struct queue *q)
{
	if (!q->has_settled)
		return;
	line_begin(&w->l, "settled");
	line_u64(&w->l, "number", q->settle_number);
	line_u64(&w->l, "lines", q->refusals);
	put(w);
	for (size_t i = 0; i < q->refusals; i++) {
		line_begin(&w->l, "fenced");
		line_text(&w->l, "worker", q->refusal[i].worker);
		line_u64(&w->l, "generation", q->refusal[i].generation);
		line_u64(&w->l, "id", q->refusal[i].id);
		put(w);
	}
}

static void write_piece(struct writer *w, const struct piece *p)
{
	struct line *l = &w->l;
	line_begin(l, "piece");
	line_u64(l, "id", p->id);
	line_text(l, "state", queue_state_name(p->state));
	line_u64(l, "origin", p->origin);
	line_u64(l, "begin", p->begin);
	line_u64(l, "length", p->length);
	line_u64(l, "lo", p->lo);
	line_u64(l, "hi", p->hi);
	if (p->seed)
		line_u64(l, "seed", p->seed);
	if (p->whole)
		line_u64(l, "cut", 1);
	if (p->epoch->front == p)
		line_u64(l, "front", 1);
	if (p->epoch->part)
		line_text(l, "partition", p->epoch->part->worker);
	if (p->worker)
		line_text(l, "worker", p->worker->id);
	line_u64(l, "deaths", p->deaths);
	line_u64(l, "returns", p->returns);
	line_real(l, "at", p->at);
	put(w);
	for (p = p->more; p; p = p->more) {
		line_begin(l, "run");
		line_u64(l, "lo", p->lo);
		line_u64(l, "hi", p->hi);
		put(w);
	}
}

static void write_list(struct writer *w, const struct piece_list *list)
{
	for (const struct piece *p = list->head; p; p = p->next)
		write_piece(w, p);
}

static void write_line(struct writer *w, const struct epoch *e)
{
	if (e->front)
		write_piece(w, e->front);
	write_list(w, &e->todo);
}

void queue_write(const struct queue *q, void (*line)(void *arg, const char *line, size_t len),
		 void *arg)
{
	struct writer w = {.line = line, .arg = arg};
	write_head(&w, q);
	write_settled(&w, q);
	if (q->parts)
		write_parts(&w, q->parts);
	for (const struct worker *worker = q->first_worker; worker; worker = worker->next) {
		line_begin(&w.l, "worker");
		line_text(&w.l, "id", worker->id);
		line_u64(&w.l, "generation", worker->generation);
		line_u64(&w.l, "last", worker->last);
		put(&w);
		write_list(&w, &worker->hand);
	}
	for (const struct epoch *e = q->first_epoch; e; e = e->next)
		write_line(&w, e);
	for (size_t i = 0; q->parts && i < q->parts->count; i++)
		write_line(&w, &q->lines[i]);
	write_list(&w, &q->held);
	line_begin(&w.l, "end");
	line_u64(&w.l, "lines", w.count);
	put(&w);
}
