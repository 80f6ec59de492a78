/* hand: what is said of one piece, mostly by the worker in whose hand it is; and what happens when
 * its lease ends.  Whether it may be said is one table, state x event. */
#include "shard/queue_internal.h"

enum event {
	EVENT_DONE,
	EVENT_PROGRESS,
	EVENT_BACK,
	EVENT_RENEW,
	EVENT_RELEASE,
	EVENTS
};
enum place { PLACE_TODO, PLACE_MINE, PLACE_OTHERS, PLACE_DONE, PLACE_HELD, PLACES };
enum action { ACT, SAME, NOT_YOURS, BAD };

/* state x event -> action. SAME: it is so already, or was, and a repeated request gets its ok. */
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

enum queue_result queue_find(const struct queue *q, uint64_t id, struct piece **p,
			     struct error *err)
{
	*p = table_get(&q->pieces, id);
	if (*p || id < q->cursor || (id >= q->total && id < q->next_id))
		return QUEUE_OK;
	return queue_no(QUEUE_UNKNOWN_SHARD, err, "no shard %llu has been handed out", id);
}

static enum place place_of(const struct piece *p, const struct worker *w)
{
	if (!p)
		return PLACE_DONE;
	if (p->state == QUEUE_DOING)
		return p->worker == w || !w ? PLACE_MINE : PLACE_OTHERS;
	return p->state == QUEUE_HELD ? PLACE_HELD : PLACE_TODO;
}

/* QUEUE_OK with *p: act; with *p NULL: nothing is to be done. */
static enum queue_result look_up(const struct queue *q, enum event event, const struct worker *w,
				 uint64_t id, struct piece **p, struct error *err)
{
	enum queue_result result = queue_find(q, id, p, err);
	if (result != QUEUE_OK)
		return result;
	enum place place = place_of(*p, w);
	switch (action_of[event][place]) {
	case ACT:
		return QUEUE_OK;
	case SAME:
		*p = NULL;
		return QUEUE_OK;
	case NOT_YOURS:
		result = QUEUE_NOT_YOURS;
		break;
	case BAD:
		result = QUEUE_BAD;
		break;
	}
	error_set(err, ERROR_DATA, NULL, "%s: shard %llu is %s", event_name[event],
		  (unsigned long long)id, place_name[place]);
	return result;
}

/* The usual beginning: generation, piece, memory. *p NULL: answered as it stands. */
static enum queue_result begin(struct queue *q, enum event event, const char *worker,
			       uint64_t generation, uint64_t id, struct worker **w,
			       struct piece **p, struct error *err)
{
	*p = NULL;
	enum queue_result result = queue_grip(q, worker, generation, w, err);
	if (result == QUEUE_OK)
		result = look_up(q, event, *w, id, p, err);
	if (result == QUEUE_OK && *p)
		(*w)->is_blamed = 0;
	return result;
}

static void log_piece(struct queue *q, const char *type, const struct worker *w, uint64_t id)
{
	struct line l;
	line_begin(&l, type);
	line_text(&l, "worker", w->id);
	line_u64(&l, "id", id);
	queue_log_line(q, &l);
}

enum queue_result queue_done(struct queue *q, const char *worker, uint64_t generation, uint64_t id,
			     struct error *err)
{
	struct worker *w;
	struct piece *p;
	enum queue_result result = begin(q, EVENT_DONE, worker, generation, id, &w, &p, err);
	if (result != QUEUE_OK || !p)
		return result;
	piece_finish(q, p);
	log_piece(q, "done", w, id);
	return QUEUE_OK;
}

enum queue_result queue_progress(struct queue *q, const char *worker, uint64_t generation,
				 uint64_t id, uint64_t upto, struct error *err)
{
	struct worker *w;
	struct piece *p;
	enum queue_result result = begin(q, EVENT_PROGRESS, worker, generation, id, &w, &p, err);
	if (result != QUEUE_OK || !p)
		return result;
	if (upto > p->length)
		return queue_no(QUEUE_BAD, err, "the shard has no %llu samples", upto);
	piece_renew(q, p);
	if (upto <= p->lo)
		return QUEUE_OK; /* said before */
	if (piece_prepare(q, 3) != 0)
		return queue_no_memory(err);
	struct line l;
	line_begin(&l, "progress");
	line_text(&l, "worker", w->id);
	line_u64(&l, "id", id);
	line_u64(&l, "upto", upto);
	piece_apply(q, p, 0, upto);
	queue_log_line(q, &l);
	return QUEUE_OK;
}

enum queue_result queue_back(struct queue *q, const char *worker, uint64_t generation, uint64_t id,
			     struct error *err)
{
	struct worker *w;
	struct piece *p;
	enum queue_result result = begin(q, EVENT_BACK, worker, generation, id, &w, &p, err);
	if (result != QUEUE_OK || !p)
		return result;
	piece_return(q, p, 0);
	log_piece(q, "back", w, id);
	return QUEUE_OK;
}

enum queue_result queue_back_range(struct queue *q, const char *worker, uint64_t generation,
				   uint64_t id, uint64_t first, uint64_t length, struct error *err)
{
	struct worker *w;
	struct piece *p;
	enum queue_result result = begin(q, EVENT_BACK, worker, generation, id, &w, &p, err);
	if (result != QUEUE_OK || !p)
		return result;
	if (first < p->begin || length == 0 || length > p->length ||
	    first - p->begin > p->length - length)
		return queue_no(QUEUE_BAD, err, "shard %llu has no such rows", id);
	if (piece_prepare(q, 3) != 0)
		return queue_no_memory(err);
	struct line l;
	line_begin(&l, "back");
	line_text(&l, "worker", w->id);
	line_u64(&l, "id", id);
	line_u64(&l, "begin", first);
	line_u64(&l, "length", length);
	piece_return_range(q, p, first - p->begin, first - p->begin + length);
	queue_log_line(q, &l);
	return QUEUE_OK;
}

enum queue_result queue_renew(struct queue *q, const char *worker, uint64_t generation, uint64_t id,
			      struct error *err)
{
	struct worker *w;
	struct piece *p;
	enum queue_result result = begin(q, EVENT_RENEW, worker, generation, id, &w, &p, err);
	if (result == QUEUE_OK && p)
		piece_renew(q, p);
	return result;
}

enum queue_result queue_release(struct queue *q, uint64_t id, struct error *err)
{
	struct piece *p;
	enum queue_result result = look_up(q, EVENT_RELEASE, NULL, id, &p, err);
	if (result != QUEUE_OK || !p)
		return result;
	piece_unlink(&q->held, p);
	p->deaths = 0;
	p->state = QUEUE_TODO;
	p->at = q->at;
	piece_append(&p->epoch->todo, p);
	q->todo++;
	piece_changed(q, p);
	struct line l;
	line_begin(&l, "release");
	line_u64(&l, "id", id);
	queue_log_line(q, &l);
	return QUEUE_OK;
}

/* ---- leases ---- */

void queue_expire_piece(struct queue *q, struct piece *p, int is_blamed)
{
	struct worker *w = p->worker;
	p->deaths += (uint32_t)(is_blamed && p->deaths < UINT32_MAX);
	w->is_blamed |= is_blamed;
	struct line l;
	line_begin(&l, "expire");
	line_u64(&l, "id", p->id);
	line_u64(&l, "blamed", (uint64_t)is_blamed);
	piece_return(q, p, is_blamed && q->retries > 0 && p->deaths >= q->retries);
	queue_log_line(q, &l);
}

uint64_t queue_expire(struct queue *q, uint64_t limit)
{
	uint64_t count = 0;
	double end;
	while ((limit == 0 || count < limit) && queue_next_expiry(q, &end) && end <= q->mono) {
		/* Blame is written down: signs of life leave no lines, replay can't judge. */
		struct piece *p = q->lease_head;
		queue_expire_piece(q, p, p->worker->hand.head == p && !p->worker->is_blamed);
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
