/* loader_parts: what a state says of partitions. As in loader.c: what does not fit is refused. */
#include "shard/loader_internal.h"

#include <stdlib.h>
#include <string.h>

int loader_partition(struct queue_loader *l, struct error *err)
{
	const char *worker;
	if (!record_is(&l->r, "partition"))
		return loader_wrong(err, "fewer `partition` lines than partitions=");
	/* One by one: a file may say any number of them. */
	struct queue_partition *grown =
		realloc(l->partition, (l->partitions + 1) * sizeof *grown);
	if (!grown)
		return loader_no_memory(err);
	l->partition = grown;
	struct queue_partition *p = &grown[l->partitions];
	if (record_id(&l->r, "worker", &worker, err) != 0 ||
	    loader_u64(l, "samples", &p->rows, err) != 0)
		return -1;
	memset(p->worker, 0, sizeof p->worker);
	memcpy(p->worker, worker, strlen(worker) + 1);
	l->partitions++;
	return l->partitions == l->p.partitions;
}

int loader_parts_state(struct queue_loader *l, struct error *err)
{
	struct parts *p = l->q->parts;
	if (loader_u64(l, "begun", &l->q->begun, err) != 0 ||
	    record_real(&l->r, "migrate", 0, 1e12, &p->migrate, err) != 0 ||
	    loader_u64(l, "next-move", &p->next_move, err) != 0 ||
	    loader_u64(l, "moves-done", &p->moves_done, err) != 0 ||
	    loader_u64(l, "rows-moved", &p->rows_moved, err) != 0)
		return -1;
	/* The lines that follow say what is where. */
	for (size_t i = 0; i < p->count; i++)
		p->part[i].count = p->part[i].rows = p->part[i].left = 0;
	p->unseen = 0;
	return 0;
}

int loader_traversal(struct queue_loader *l, struct error *err)
{
	const char *worker;
	if (record_id(&l->r, "worker", &worker, err) != 0)
		return -1;
	struct epoch *line = l->q->parts ? queue_parts_line(l->q, worker) : NULL;
	if (!line || line->part->rows > 0)
		return loader_wrong(err, "`traversal` of no partition, or twice");
	l->part = line->part;
	if (loader_u64(l, "done", &l->part->traversals, err) != 0 ||
	    record_u64(&l->r, "left", 1, l->q->p.samples, &l->part->left, err) != 0 ||
	    loader_u64(l, "given", &l->part->given, err) != 0)
		return -1;
	line->number = l->part->traversals;
	return 0;
}

int loader_rows(struct queue_loader *l, struct error *err)
{
	uint64_t begin, length, times, samples = l->q->p.samples;
	if (!l->part)
		return loader_wrong(err, "`rows` without a `traversal` line before them");
	if (record_u64(&l->r, "begin", 0, samples - 1, &begin, err) != 0 ||
	    record_u64(&l->r, "length", 1, samples - begin, &length, err) != 0 ||
	    loader_u64(l, "times", &times, err) != 0)
		return -1;
	struct part *part = l->part;
	if (part->rows > samples || part->rows + length > samples)
		return loader_wrong(err, "a partition of more rows than there are");
	if (part->rows < part->left && part->rows + length > part->left)
		return loader_wrong(err, "left= is in the middle of `rows`");
	if (part_append(part, begin, length, times) != 0)
		return loader_no_memory(err);
	l->q->parts->unseen += times == 0 ? length : 0;
	return 0;
}

int loader_move(struct queue_loader *l, struct error *err)
{
	struct parts *p = l->q->parts;
	const char *from, *to;
	struct part_move m;
	if (!p || p->next_move == 0)
		return loader_wrong(err, "`move`, though none was planned");
	if (record_u64(&l->r, "id", 0, p->next_move - 1, &m.id, err) != 0 ||
	    record_id(&l->r, "from", &from, err) != 0 ||
	    loader_u64(l, "begin", &m.begin, err) != 0 ||
	    loader_u64(l, "length", &m.length, err) != 0)
		return -1;
	m.from = parts_find(p, from);
	if (record_id(&l->r, "to", &to, err) != 0)
		return -1;
	m.to = parts_find(p, to);
	if (m.from == p->count || m.to == p->count || m.from == m.to || parts_move(p, m.id))
		return loader_wrong(err, "a move of nobody, or twice");
	return parts_plan(p, &m) == 0 ? 0 : loader_no_memory(err);
}

int loader_parts_end(struct queue_loader *l, struct error *err)
{
	struct queue *q = l->q;
	struct parts *p = q->parts;
	uint64_t all = q->p.samples * q->p.epochs, used;
	for (size_t i = 0; i < p->count; i++)
		if (p->part[i].rows == 0 || p->part[i].left > p->part[i].rows)
			return loader_wrong(err, "a partition without rows, or with too many left");
	int whole = parts_are_whole(p, q->p.samples);
	if (whole < 0)
		return loader_no_memory(err);
	if (!whole)
		return loader_wrong(err, "partitions do not have each row once");
	if (__builtin_add_overflow(q->samples_done, l->remaining, &used) || used > all ||
	    q->begun - q->shards_done != l->origins.count)
		return loader_wrong(err, "samples or shards do not add up");
	p->budget = all - used;
	if (p->budget < p->unseen)
		return loader_wrong(err, "more rows were never handed out than will be");
	return 0;
}
