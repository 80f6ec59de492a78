/* follow: a queue follows the changes that another wrote down.  Each line is given to the function
 * that wrote it; what it answers then must be what it answered when it was written. */
#include "shard/loader_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void follow_free(struct queue_loader *l)
{
	for (size_t i = 0; i < l->line_count; i++)
		free((void *)(uintptr_t)l->line[i].worker);
	free(l->line);
	free(l->refusal);
	l->line = NULL;
	l->refusal = NULL;
	l->line_count = l->line_due = l->refusals = 0;
}

static int begin_settle(struct queue_loader *l, struct error *err)
{
	uint64_t lines;
	if (loader_u64(l, "number", &l->number, err) != 0 ||
	    loader_u64(l, "iteration", &l->iteration, err) != 0 ||
	    record_u64(&l->r, "lines", 0, LINES_OF_SETTLE_MAX, &lines, err) != 0)
		return -1;
	l->line = malloc((lines + 1) * sizeof *l->line);
	l->refusal = malloc((lines + 1) * sizeof *l->refusal);
	l->line_due = lines;
	return l->line && l->refusal ? 0 : loader_no_memory(err);
}

static int read_settle_line(struct queue_loader *l, struct error *err)
{
	l->line_due--;
	if (record_is(&l->r, "fenced"))
		return loader_refusal(l, &l->refusal[l->refusals++], err);
	struct queue_line *line = &l->line[l->line_count];
	const char *id;
	*line = (struct queue_line){.is_back = record_is(&l->r, "back")};
	if (!line->is_back && !record_is(&l->r, "apply"))
		return loader_wrong(err, "a settle ends before its lines do");
	if (record_id(&l->r, "worker", &id, err) != 0 || loader_u64(l, "id", &line->id, err) != 0 ||
	    loader_u64(l, "begin", &line->begin, err) != 0 ||
	    loader_u64(l, "length", &line->length, err) != 0)
		return -1;
	const struct worker *w = queue_worker(l->q, id);
	if (!w)
		return loader_wrong(err, "unknown worker");
	line->generation = w->generation;
	line->worker = strdup(id);
	if (!line->worker)
		return loader_no_memory(err);
	l->line_count++;
	return 0;
}

static int end_settle(struct queue_loader *l, struct error *err)
{
	struct queue *q = l->q;
	/* The number was judged when the lines were written. */
	enum queue_result result =
		queue_settle_again(q, l->number, l->iteration, l->line, l->line_count, err);
	if (result != QUEUE_OK)
		return -1;
	if (q->refusals > 0)
		return loader_wrong(err, "a settled line is refused now");
	free(q->refusal);
	q->refusal = l->refusal;
	q->refusals = l->refusals;
	l->refusal = NULL;
	follow_free(l);
	return 0;
}

/* The worker= and id= of a change, with the generation in force. */
struct change {
	const char *worker;
	uint64_t generation, id;
};

static int read_change(struct queue_loader *l, struct change *c, struct error *err)
{
	*c = (struct change){.worker = record_get(&l->r, "worker")};
	if (c->worker) {
		const struct worker *w = queue_worker(l->q, c->worker);
		c->generation = w ? w->generation : 0;
		if (record_id(&l->r, "worker", &c->worker, err) != 0)
			return -1;
	} else {
		c->worker = "";
	}
	return record_u64_opt(&l->r, "id", 0, UINT64_MAX, &c->id, err);
}

static enum queue_result change_hello(struct queue_loader *l, struct change *c, struct error *err)
{
	uint64_t said, given;
	if (loader_u64(l, "generation", &said, err) != 0 ||
	    record_id(&l->r, "worker", &c->worker, err) != 0)
		return QUEUE_BAD;
	enum queue_result result = queue_hello(l->q, c->worker, &given, err);
	if (result == QUEUE_OK && given != said) {
		loader_wrong(err, "another generation would be given now");
		return QUEUE_BAD;
	}
	return result;
}

static enum queue_result change_get(struct queue_loader *l, struct change *c, struct error *err)
{
	uint64_t max = 0;
	struct queue_piece piece;
	if (record_u64_opt(&l->r, "max", 1, UINT64_MAX, &max, err) != 0)
		return QUEUE_BAD;
	enum queue_result result = queue_get(l->q, c->worker, c->generation, max, &piece, err);
	if (result == QUEUE_OK && piece.id == c->id)
		return QUEUE_OK;
	loader_wrong(err, "another shard would be handed out now");
	return QUEUE_BAD;
}

static enum queue_result change_done(struct queue_loader *l, struct change *c, struct error *err)
{
	return queue_done(l->q, c->worker, c->generation, c->id, err);
}

static enum queue_result change_progress(struct queue_loader *l, struct change *c,
					 struct error *err)
{
	uint64_t upto;
	if (loader_u64(l, "upto", &upto, err) != 0)
		return QUEUE_BAD;
	return queue_progress(l->q, c->worker, c->generation, c->id, upto, err);
}

static enum queue_result change_back(struct queue_loader *l, struct change *c, struct error *err)
{
	uint64_t first, length;
	if (!record_get(&l->r, "begin"))
		return queue_back(l->q, c->worker, c->generation, c->id, err);
	if (loader_u64(l, "begin", &first, err) != 0 || loader_u64(l, "length", &length, err) != 0)
		return QUEUE_BAD;
	return queue_back_range(l->q, c->worker, c->generation, c->id, first, length, err);
}

static enum queue_result change_bye(struct queue_loader *l, struct change *c, struct error *err)
{
	return queue_bye(l->q, c->worker, c->generation, err);
}

static enum queue_result change_fail(struct queue_loader *l, struct change *c, struct error *err)
{
	uint64_t shards;
	return queue_fail(l->q, c->worker, &shards, err);
}

static enum queue_result change_release(struct queue_loader *l, struct change *c, struct error *err)
{
	return queue_release(l->q, c->id, err);
}

static enum queue_result change_expire(struct queue_loader *l, struct change *c, struct error *err)
{
	uint64_t is_blamed;
	struct piece *p = table_get(&l->q->pieces, c->id);
	if (record_u64(&l->r, "blamed", 0, 1, &is_blamed, err) != 0)
		return QUEUE_BAD;
	if (!p || p->state != QUEUE_DOING) {
		loader_wrong(err, "a lease ends of a shard in nobody's hand");
		return QUEUE_BAD;
	}
	queue_expire_piece(l->q, p, (int)is_blamed);
	return QUEUE_OK;
}

static enum queue_result change_set(struct queue_loader *l, struct change *c, struct error *err)
{
	(void)c;
	uint64_t retries;
	double lease;
	if (loader_u64(l, "retries", &retries, err) != 0 ||
	    record_real(&l->r, "lease", 0, 1e12, &lease, err) != 0)
		return QUEUE_BAD;
	queue_set(l->q, retries, lease);
	return QUEUE_OK;
}

static enum queue_result change_loose(struct queue_loader *l, struct change *c, struct error *err)
{
	(void)c;
	return loader_loose(l, "boot", err) == 0 ? QUEUE_OK : QUEUE_BAD;
}

static enum queue_result change_migrate(struct queue_loader *l, struct change *c,
					struct error *err)
{
	(void)c;
	double threshold;
	if (record_real(&l->r, "threshold", 0, 1e12, &threshold, err) != 0)
		return QUEUE_BAD;
	queue_set_migrate(l->q, threshold);
	return QUEUE_OK;
}

static enum queue_result change_move(struct queue_loader *l, struct change *c, struct error *err)
{
	struct queue_move m = {.id = c->id};
	const char *from, *to;
	char giver[OPTION_ID_MAX];
	if (record_id(&l->r, "from", &from, err) != 0)
		return QUEUE_BAD;
	snprintf(giver, sizeof giver, "%s", from);
	if (record_id(&l->r, "to", &to, err) != 0 ||
	    loader_u64(l, "begin", &m.begin, err) != 0 ||
	    loader_u64(l, "length", &m.length, err) != 0)
		return QUEUE_BAD;
	m.from = giver;
	m.to = to;
	return queue_plan_take(l->q, &m, err);
}

static enum queue_result change_moved(struct queue_loader *l, struct change *c, struct error *err)
{
	const struct part_move *m = l->q->parts ? parts_move(l->q->parts, c->id) : NULL;
	if (m)
		return queue_moved(l->q, l->q->parts->part[m->to].worker, c->id, err);
	loader_wrong(err, "a move that was not planned");
	return QUEUE_BAD;
}

static enum queue_result change_drop(struct queue_loader *l, struct change *c, struct error *err)
{
	return queue_drop_move(l->q, c->id, err);
}

static enum queue_result change_time(struct queue_loader *l, struct change *c, struct error *err)
{
	(void)c;
	double at;
	if (record_real(&l->r, "at", 0, 1e15, &at, err) != 0)
		return QUEUE_BAD;
	queue_clock(l->q, at, l->q->mono);
	return QUEUE_OK;
}

static const struct {
	const char *type;
	enum queue_result (*change)(struct queue_loader *l, struct change *c, struct error *err);
} changes[] = {
	{"get", change_get},
	{"done", change_done},
	{"time", change_time},
	{"progress", change_progress},
	{"back", change_back},
	{"hello", change_hello},
	{"bye", change_bye},
	{"fail", change_fail},
	{"release", change_release},
	{"expire", change_expire},
	{"set", change_set},
	{"loose", change_loose},
	{"migrate", change_migrate},
	{"move", change_move},
	{"moved", change_moved},
	{"drop", change_drop},
};

int follow_line(struct queue_loader *l, struct error *err)
{
	if (l->line_due > 0) {
		if (read_settle_line(l, err) != 0)
			return -1;
		return l->line_due > 0 ? 1 : end_settle(l, err);
	}
	if (record_is(&l->r, "settle")) {
		if (begin_settle(l, err) != 0)
			return -1;
		return l->line_due > 0 ? 1 : end_settle(l, err);
	}
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		if (!record_is(&l->r, changes[i].type))
			continue;
		struct change c;
		if (read_change(l, &c, err) != 0)
			return -1;
		return changes[i].change(l, &c, err) == QUEUE_OK ? 0 : -1;
	}
	return error_set(err, ERROR_DATA, NULL, "unknown line '%.40s'", l->r.type);
}
