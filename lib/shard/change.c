/* change: all changes of a queue except settle. Each is a row of a table: what is said, what
 * happens, and the line about it. A function checks first, then reserves memory, then changes; a
 * result other than QUEUE_OK means that nothing has changed. The same functions replay a journal,
 * and then their result must be what it was when the line was written. */
#include "shard/queue_internal.h"

#include "record/sealed.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define WORKERS_MAX (1u << 20) /* names; a worker that comes back keeps its name */

/* ---- what a worker may say of a piece: state x event -> action ---- */

enum event { EVENT_DONE, EVENT_PROGRESS, EVENT_BACK, EVENT_RENEW, EVENT_RELEASE, EVENTS };
enum place { PLACE_TODO, PLACE_MINE, PLACE_OTHERS, PLACE_DONE, PLACE_HELD, PLACES };
enum action { ACT, SAME, NOT_YOURS, BAD };

/* SAME: the change was made before, and a repeated request gets its ok. */
static const enum action action_of[EVENTS][PLACES] = {
	/*                  todo       mine  others     done       held */
	[EVENT_DONE] =     {NOT_YOURS, ACT,  NOT_YOURS, SAME,      NOT_YOURS},
	[EVENT_PROGRESS] = {NOT_YOURS, ACT,  NOT_YOURS, SAME,      NOT_YOURS},
	[EVENT_BACK] =     {SAME,      ACT,  NOT_YOURS, SAME,      NOT_YOURS},
	[EVENT_RENEW] =    {NOT_YOURS, ACT,  NOT_YOURS, NOT_YOURS, NOT_YOURS},
	[EVENT_RELEASE] =  {SAME,      BAD,  BAD,       BAD,       ACT},
};
static const char *const event_name[EVENTS] = {"done", "progress", "back", "renew", "release"};
static const char *const place_name[PLACES] = {"todo", "doing", "in another's hand", "done",
					       "held"};

static enum place change_place_of(const struct piece *p, const struct worker *w)
{
	if (!p)
		return PLACE_DONE;
	if (p->state == QUEUE_DOING)
		return p->worker == w || !w ? PLACE_MINE : PLACE_OTHERS;
	return p->state == QUEUE_HELD ? PLACE_HELD : PLACE_TODO;
}

/* QUEUE_OK: act on *p; *p NULL: there is nothing to do. */
static enum queue_result change_look_up(const struct queue *q, enum event event,
					const struct worker *w, uint64_t id, struct piece **p,
					struct error *err)
{
	*p = u64map_get(&q->pieces, id);
	if (!*p && id >= q->cursor && (id < q->total || id >= q->next_id))
		return queue_no(QUEUE_UNKNOWN_SHARD, err, "no shard %llu has been handed out", id);
	enum place place = change_place_of(*p, w);
	switch (action_of[event][place]) {
	case ACT:
		return QUEUE_OK;
	case SAME:
		*p = NULL;
		return QUEUE_OK;
	case NOT_YOURS:
	case BAD:
		break;
	}
	error_set(err, ERROR_DATA, NULL, "%s: shard %llu is %s", event_name[event],
		  (unsigned long long)id, place_name[place]);
	return action_of[event][place] == BAD ? QUEUE_BAD : QUEUE_NOT_YOURS;
}

/* The same for the piece that a worker names. */
static enum queue_result change_find(struct queue *q, enum event event,
				     const struct queue_change *c, struct piece **p,
				     struct error *err)
{
	struct worker *w;
	*p = NULL;
	enum queue_result result = queue_grip(q, c->worker, c->seat, c->generation, &w, err);
	if (result == QUEUE_OK)
		result = change_look_up(q, event, w, c->id, p, err);
	if (result == QUEUE_OK && *p)
		w->is_blamed = 0;
	return result;
}

/* ---- of one piece ---- */

static enum queue_result change_done(struct queue *q, struct queue_change *c, struct error *err)
{
	struct piece *p;
	enum queue_result result = change_find(q, EVENT_DONE, c, &p, err);
	if (result == QUEUE_OK && p) {
		piece_finish(q, p);
		c->is_made = 1;
	}
	return result;
}

static enum queue_result progress(struct queue *q, struct queue_change *c, struct error *err)
{
	struct piece *p;
	enum queue_result result = change_find(q, EVENT_PROGRESS, c, &p, err);
	if (result != QUEUE_OK || !p)
		return result;
	if (c->upto > p->length)
		return queue_no(QUEUE_BAD, err, "the shard has no %llu samples", c->upto);
	piece_renew(q, p);
	if (c->upto <= p->lo)
		return QUEUE_OK; /* said before */
	if (piece_prepare(q, 3) != 0)
		return queue_no_memory(err);
	piece_apply(q, p, 0, c->upto);
	c->is_made = 1;
	return QUEUE_OK;
}

static enum queue_result change_back(struct queue *q, struct queue_change *c, struct error *err)
{
	struct piece *p;
	enum queue_result result = change_find(q, EVENT_BACK, c, &p, err);
	int is_whole = c->begin == QUEUE_UNSAID && c->length == 0;
	if (result == QUEUE_OK && !is_whole && (c->begin == QUEUE_UNSAID || c->length == 0))
		return queue_no(QUEUE_BAD, err, "begin= and length= go together", 0);
	if (result == QUEUE_OK && !is_whole && (c->failed || c->hold))
		return queue_no(QUEUE_BAD, err, "failed= and hold= are of a whole piece", 0);
	if (result != QUEUE_OK || !p)
		return result;
	if (is_whole) {
		p->deaths += (uint32_t)(c->failed && p->deaths < UINT32_MAX);
		piece_return(q, p,
			     c->hold || (c->failed && q->retries > 0 && p->deaths >= q->retries));
		c->is_made = 1;
		return QUEUE_OK;
	}
	if (c->begin < p->begin || c->length > p->length ||
	    c->begin - p->begin > p->length - c->length)
		return queue_no(QUEUE_BAD, err, "shard %llu has no such rows", c->id);
	if (piece_prepare(q, 3) != 0)
		return queue_no_memory(err);
	uint64_t lo = c->begin - p->begin;
	piece_return_range(q, p, lo, lo + c->length);
	c->is_made = 1;
	return QUEUE_OK;
}

enum queue_result queue_renew(struct queue *q, const char *worker, uint64_t generation, uint64_t id,
			      struct error *err)
{
	struct queue_change c = {.worker = worker, .generation = generation, .id = id};
	struct piece *p;
	enum queue_result result = change_find(q, EVENT_RENEW, &c, &p, err);
	if (result == QUEUE_OK)
		piece_renew(q, p);
	return result;
}

static enum queue_result change_release(struct queue *q, struct queue_change *c, struct error *err)
{
	struct piece *p;
	enum queue_result result = change_look_up(q, EVENT_RELEASE, NULL, c->id, &p, err);
	if (result != QUEUE_OK || !p)
		return result;
	piece_unlink(&q->held, p);
	p->deaths = 0;
	p->state = QUEUE_TODO;
	p->at = q->at;
	piece_append(&p->lane->todo, p);
	q->todo++;
	piece_changed(q, p);
	c->is_made = 1;
	return QUEUE_OK;
}

/* The lease of a piece is over. */
static enum queue_result expire(struct queue *q, struct queue_change *c, struct error *err)
{
	struct piece *p = u64map_get(&q->pieces, c->id);
	if (!p || p->state != QUEUE_DOING || c->blamed > 1)
		return queue_no(QUEUE_BAD, err, "shard %llu is in nobody's hand", c->id);
	p->deaths += (uint32_t)(c->blamed && p->deaths < UINT32_MAX);
	p->worker->is_blamed |= (int)c->blamed;
	piece_return(q, p, c->blamed && q->retries > 0 && p->deaths >= q->retries);
	c->is_made = 1;
	return QUEUE_OK;
}

/* ---- of one worker ---- */

/* All that a worker holds comes back. is_death: its oldest piece, which it was working on, is
 * blamed. */
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

static enum queue_result change_hello(struct queue *q, struct queue_change *c, struct error *err)
{
	if (!source_knows(q, c->worker)) {
		error_set(err, ERROR_DATA, NULL, "worker '%.64s' has no partition", c->worker);
		return QUEUE_UNKNOWN_WORKER;
	}
	if (!queue_worker(q, c->worker) && q->worker_count >= WORKERS_MAX)
		return queue_no(QUEUE_BAD, err, "more than %llu names of workers", WORKERS_MAX);
	struct worker *w = queue_worker_make(q, c->worker);
	if (!w)
		return queue_no_memory(err);
	c->shards = return_all(q, w, 1);
	c->generation = w->generation = ++w->last;
	c->is_made = 1;
	return QUEUE_OK;
}

static enum queue_result bye(struct queue *q, struct queue_change *c, struct error *err)
{
	struct worker *w;
	enum queue_result result = queue_grip(q, c->worker, c->seat, c->generation, &w, err);
	if (result != QUEUE_OK)
		return result;
	c->shards = w->hand.count;
	while (c->front && w->hand.head)
		piece_return_first(q, w->hand.head);
	return_all(q, w, 0);
	w->generation = 0;
	c->is_made = 1;
	return QUEUE_OK;
}

static enum queue_result change_fail(struct queue *q, struct queue_change *c, struct error *err)
{
	struct worker *w;
	enum queue_result result = queue_grip(q, c->worker, c->seat, 0, &w, err);
	if (result == QUEUE_UNKNOWN_WORKER)
		return result;
	if (w->generation == 0)
		return QUEUE_OK; /* it was given up before */
	c->shards = return_all(q, w, 1);
	w->generation = 0;
	c->is_made = 1;
	return QUEUE_OK;
}

/* ---- handing out ---- */

static void leave_todo(struct queue *q, struct piece *p)
{
	piece_unlink(p->is_first ? &p->lane->first : &p->lane->todo, p);
	p->is_first = 0;
	q->todo--;
}

/* The first max samples of p get a new id; the rest stays first in the queue. */
static struct piece *change_cut_piece(struct queue *q, struct piece *p, uint64_t max)
{
	piece_share(q, p);
	struct piece *part = piece_new(q);
	*part = *p;
	part->prev = part->next = NULL;
	part->id = q->next_id++;
	if (p->lo == 0 && p->hi == p->length) {
		part->length = part->hi = max;
		part->seed = source_seed(q, part->id);
		p->begin += max;
		p->length -= max;
		p->hi = p->length;
	} else { /* shuffled and partly in the model: both keep the frame of the order */
		part->hi = part->lo + max;
		p->lo += max;
	}
	piece_enter(q, part);
	p->state = QUEUE_TODO;
	p->at = q->at;
	piece_put_first(p);
	q->todo++;
	return part;
}

static enum queue_result get(struct queue *q, struct queue_change *c, struct error *err)
{
	struct worker *w;
	int is_fresh;
	enum queue_result result = queue_grip(q, c->worker, c->seat, c->generation, &w, err);
	if (result != QUEUE_OK)
		return result;
	w->is_blamed = 0;
	struct piece *p = source_next(q, w, &is_fresh);
	if (!p && !is_fresh)
		return queue_is_over(q) ? QUEUE_END : QUEUE_WAIT;
	if (piece_prepare(q, 2) != 0)
		return queue_no_memory(err);
	if (p)
		leave_todo(q, p);
	else if ((p = source_fresh(q, w, c->max)) == NULL)
		return queue_no_memory(err);
	if (c->max > 0 && p->hi - p->lo > c->max)
		p = change_cut_piece(q, p, c->max);
	piece_take(q, p, w);
	piece_describe(q, p, &c->piece);
	c->id = p->id;
	c->is_made = 1;
	return QUEUE_OK;
}

/* ---- of the queue ---- */

static enum queue_result change_set(struct queue *q, struct queue_change *c, struct error *err)
{
	(void)err;
	q->retries = c->retries;
	q->lease = c->lease;
	c->is_made = 1;
	return QUEUE_OK;
}

static enum queue_result loose(struct queue *q, struct queue_change *c, struct error *err)
{
	(void)err;
	snprintf(q->loose, sizeof q->loose, "%s", c->boot ? c->boot : "");
	c->is_made = 1;
	return QUEUE_OK;
}

/* Settle numbers belong to a term; from now on requests of an older lead are refused. */
static enum queue_result term(struct queue *q, struct queue_change *c, struct error *err)
{
	(void)err;
	c->term = ++q->term;
	q->has_settled = 0;
	q->refusals = 0;
	q->is_whole = 0;
	c->is_made = 1;
	return QUEUE_OK;
}

static enum queue_result change_set_time(struct queue *q, struct queue_change *c, struct error *err)
{
	(void)err;
	q->at = c->at;
	c->is_made = 1;
	return QUEUE_OK;
}

/* ---- of partitions ---- */

static enum queue_result change_migrate(struct queue *q, struct queue_change *c, struct error *err)
{
	(void)err;
	if (q->own) {
		q->own->migrate = c->threshold;
		c->is_made = 1;
	}
	return QUEUE_OK;
}

static enum queue_result change_move(struct queue *q, struct queue_change *c, struct error *err)
{
	struct partition_move m = {.id = c->id, .begin = c->begin, .length = c->length};
	if (q->own) {
		m.from = partitions_find(q->own, c->from);
		m.to = partitions_find(q->own, c->to);
	}
	if (!q->own || !partitions_may_move(q->own, &m))
		return queue_no(QUEUE_BAD, err, "move %llu is not possible", c->id);
	if (partitions_plan(q->own, &m) != 0)
		return queue_no_memory(err);
	c->is_made = 1;
	return QUEUE_OK;
}

/* QUEUE_OK and *m NULL: the move was done or dropped before. */
static enum queue_result find_move(const struct queue *q, uint64_t id, struct partition_move **m,
				   struct error *err)
{
	*m = q->own ? partitions_move(q->own, id) : NULL;
	if (*m || (q->own && id < q->own->next_move))
		return QUEUE_OK;
	return queue_no(QUEUE_UNKNOWN_SHARD, err, "no move %llu was planned", id);
}

/* The worker (if one is named) has the text of the rows; from now on they are in its partition. */
static enum queue_result moved(struct queue *q, struct queue_change *c, struct error *err)
{
	struct partition_move *m;
	enum queue_result result = find_move(q, c->id, &m, err);
	if (result != QUEUE_OK || !m)
		return result;
	if (c->worker && strcmp(q->own->partition[m->to].worker, c->worker) != 0)
		return queue_no(QUEUE_NOT_YOURS, err, "move %llu is to another", c->id);
	if (partitions_commit(q->own, m) != 0)
		return queue_no_memory(err);
	c->is_made = 1;
	return QUEUE_OK;
}

static enum queue_result change_drop(struct queue *q, struct queue_change *c, struct error *err)
{
	struct partition_move *m;
	enum queue_result result = find_move(q, c->id, &m, err);
	if (result == QUEUE_OK && m) {
		partitions_drop(q->own, m);
		c->is_made = 1;
	}
	return result;
}

/* ---- the table ---- */

#define WORKER {FIELD("worker", ID, queue_change, worker)}
#define ID {FIELD("id", U64, queue_change, id)}
#define FIELDS (const struct field[])

/* The most frequent ones first. */
static const struct queue_kind kinds[] = {
	{"get", QUEUE_BY_WORKER, get,
	 FIELDS{WORKER,
		ID,
		{FIELD("max", U64, queue_change, max), .is_optional = 1, .min = 1},
		{0}}},
	{"done", QUEUE_BY_WORKER | QUEUE_COUNTS, change_done, FIELDS{WORKER, ID, {0}}},
	{"time", 0, change_set_time, FIELDS{{FIELD("at", TIME, queue_change, at)}, {0}}},
	{"progress", QUEUE_BY_WORKER | QUEUE_COUNTS, progress,
	 FIELDS{WORKER, ID, {FIELD("upto", U64, queue_change, upto)}, {0}}},
	{"back", QUEUE_BY_WORKER, change_back,
	 FIELDS{WORKER,
		ID,
		{FIELD("begin", U64, queue_change, begin), .is_optional = 1, .none = QUEUE_UNSAID},
		{FIELD("length", U64, queue_change, length), .is_optional = 1, .min = 1},
		{FIELD("failed", FLAG, queue_change, failed), .is_optional = 1},
		{FIELD("hold", FLAG, queue_change, hold), .is_optional = 1},
		{0}}},
	{"hello", QUEUE_FENCES, change_hello,
	 FIELDS{WORKER, {FIELD("generation", U64, queue_change, generation)}, {0}}},
	{"bye", QUEUE_BY_WORKER | QUEUE_FENCES, bye,
	 FIELDS{WORKER, {FIELD("front", FLAG, queue_change, front), .is_optional = 1}, {0}}},
	{"fail", QUEUE_FENCES | QUEUE_TELLS, change_fail, FIELDS{WORKER, {0}}},
	{"release", 0, change_release, FIELDS{ID, {0}}},
	{"expire", 0, expire, FIELDS{ID, {FIELD("blamed", U64, queue_change, blamed)}, {0}}},
	{"set", 0, change_set,
	 FIELDS{{FIELD("retries", U64, queue_change, retries)},
		{FIELD("lease", REAL, queue_change, lease)},
		{0}}},
	{"loose", 0, loose, FIELDS{{FIELD("boot", ID, queue_change, boot), .is_optional = 1}, {0}}},
	{"term", 0, term, FIELDS{{FIELD("term", U64, queue_change, term)}, {0}}},
	{"migrate", 0, change_migrate,
	 FIELDS{{FIELD("threshold", REAL, queue_change, threshold)}, {0}}},
	{"move", 0, change_move,
	 FIELDS{ID,
		{FIELD("from", ID, queue_change, from)},
		{FIELD("to", ID, queue_change, to)},
		{FIELD("begin", U64, queue_change, begin)},
		{FIELD("length", U64, queue_change, length)},
		{0}}},
	{"moved", 0, moved, FIELDS{ID, {0}}},
	{"drop", 0, change_drop, FIELDS{ID, {0}}},
};

const struct queue_kind *queue_kind(const char *type)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i].type, type) == 0)
			return &kinds[i];
	return NULL;
}

void queue_log_line(struct queue *q, const char *type, const struct field *fields, const void *from)
{
	char data[SEALED_MAX];
	struct record_out o;
	record_begin(&o, data, sizeof data, type);
	fields_write(fields, &o, from);
	assert(!o.overflow);
	q->log(q->log_arg, o.data, o.len);
}

enum queue_result queue_make(struct queue *q, const struct queue_kind *kind, struct queue_change *c,
			     struct error *err)
{
	c->is_made = 0;
	c->shards = 0;
	enum queue_result result = kind->make(q, c, err);
	if (result == QUEUE_OK && c->is_made)
		queue_log(q, kind->type, kind->fields, c);
	return result;
}

/* ---- leases ---- */

uint64_t queue_expire(struct queue *q, uint64_t limit)
{
	uint64_t count = 0;
	double end;
	while ((limit == 0 || count < limit) && queue_next_expiry(q, &end) && end <= q->mono) {
		/* Blame is written down: signs of life leave no lines, so a replay could not judge
		 * it. */
		const struct piece *p = q->lease_head;
		struct queue_change c = {.id = p->id};
		c.blamed = p->worker->hand.head == p && !p->worker->is_blamed;
		queue_make(q, queue_kind("expire"), &c, NULL);
		count++;
	}
	return count;
}

void queue_restart_leases(struct queue *q)
{
	for (struct piece *p = q->lease_head; p; p = p->lease_next)
		p->lease_from = q->mono;
}

int queue_next_expiry(const struct queue *q, double *mono)
{
	if (q->lease <= 0 || !q->lease_head)
		return 0;
	*mono = q->lease_head->lease_from + q->lease;
	return 1;
}
