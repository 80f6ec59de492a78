/* piece: the pieces of the queue: their lists, memory reserved for them, samples that leave them,
 * hands and leases. It decides nothing: change.c and settle.c decide whether a request is allowed.
 * Nothing here can fail once piece_prepare() has succeeded. */
#include "shard/queue_internal.h"

#include <assert.h>
#include <stdlib.h>

void piece_append(struct piece_list *list, struct piece *p)
{
	p->prev = list->tail;
	p->next = NULL;
	if (list->tail)
		list->tail->next = p;
	else
		list->head = p;
	list->tail = p;
	list->count++;
}

/* Whether p comes before the other: its rows come first. */
static int piece_is_before(const struct piece *p, const struct piece *other)
{
	if (p->origin != other->origin)
		return p->origin < other->origin;
	return p->begin != other->begin ? p->begin < other->begin : p->lo < other->lo;
}

void piece_put_first(struct piece *p)
{
	struct piece_list *list = &p->lane->first;
	struct piece *before = list->tail;
	while (before && piece_is_before(p, before))
		before = before->prev;
	p->is_first = 1;
	p->prev = before;
	p->next = before ? before->next : list->head;
	if (p->next)
		p->next->prev = p;
	else
		list->tail = p;
	if (before)
		before->next = p;
	else
		list->head = p;
	list->count++;
}

void piece_unlink(struct piece_list *list, struct piece *p)
{
	if (p->prev)
		p->prev->next = p->next;
	else
		list->head = p->next;
	if (p->next)
		p->next->prev = p->prev;
	else
		list->tail = p->prev;
	p->prev = p->next = NULL;
	list->count--;
}

int piece_prepare(struct queue *q, size_t count)
{
	return u64map_reserve(&q->pieces, q->pieces.count + q->runs + count) != 0 ||
			       pool_reserve(&q->piece, count) != 0 || pool_reserve(&q->whole, count) != 0
		       ? -1 : 0;
}

struct piece *piece_new(struct queue *q)
{
	struct piece *p = pool_take(&q->piece);
	assert(p);
	*p = (struct piece){0};
	return p;
}

#define PIECE_AHEAD 16 /* ids count up: where the one that comes so much later will be is fetched meanwhile */

void piece_enter(struct queue *q, struct piece *p)
{
	u64map_put(&q->pieces, p->id, p);
	u64map_fetch(&q->pieces, p->id + PIECE_AHEAD);
}

uint64_t piece_left(const struct piece *p)
{
	uint64_t left = 0;
	for (; p; p = p->more)
		left += p->hi - p->lo;
	return left;
}

void piece_share(struct queue *q, struct piece *p)
{
	if (p->whole)
		return;
	struct whole *w = pool_take(&q->whole);
	assert(w);
	*w = (struct whole){.id = p->origin, .left = piece_left(p)};
	p->whole = w;
}

/* The run of p from which a walk to position `at` may begin: all runs before it end at `at` or
 * before. */
static struct piece *walk_begin(struct piece *p, uint64_t at)
{
	return p->last_cut && p->last_cut->hi <= at ? p->last_cut : p;
}

/* If `at` lies inside one of these runs, splits the run there. */
static void split_runs(struct queue *q, struct piece *runs, uint64_t at)
{
	for (struct piece *r = runs; r && r->lo < at; r = r->more) {
		if (at >= r->hi)
			continue;
		struct piece *behind = piece_new(q);
		behind->lo = at;
		behind->hi = r->hi;
		behind->more = r->more;
		r->hi = at;
		r->more = behind;
		q->runs++;
		return;
	}
}

static int is_inside(const struct piece *run, uint64_t lo, uint64_t hi)
{
	return run->lo >= lo && run->hi <= hi;
}

/* p itself must stay, as it has the id: it swaps its positions with the first run outside of [lo,
 * hi). 0: there is no such run. */
static int leave_front(struct piece *p, uint64_t lo, uint64_t hi)
{
	struct piece *stays = p->more;
	while (stays && is_inside(stays, lo, hi))
		stays = stays->more;
	if (!stays)
		return 0;
	uint64_t gone_lo = p->lo, gone_hi = p->hi;
	p->lo = stays->lo;
	p->hi = stays->hi;
	stays->lo = gone_lo;
	stays->hi = gone_hi;
	return 1;
}

/* Splits the runs at the edges of [lo, hi) and takes those inside out of p; returns them, chained
 * by `more`. If all of p is inside, p stays as it is, *all is set, and the result is NULL. Needs
 * piece_prepare(3). */
static struct piece *piece_carve(struct queue *q, struct piece *p, uint64_t lo, uint64_t hi,
				 int *all)
{
	struct piece *before = walk_begin(p, lo);
	split_runs(q, before, lo);
	split_runs(q, before, hi);
	*all = is_inside(p, lo, hi) && !leave_front(p, lo, hi);
	if (*all)
		return NULL;
	struct piece *chain = NULL, **tail = &chain;
	for (struct piece **link = &before->more; *link && (*link)->lo < hi;) {
		struct piece *r = *link;
		if (!is_inside(r, lo, hi)) {
			before = r;
			link = &r->more;
			continue;
		}
		*link = r->more;
		r->more = NULL;
		*tail = r;
		tail = &r->more;
		q->runs--;
	}
	p->last_cut = before;
	return chain;
}

/* Counts n samples of p as in the model; is_last: p has no others. */
static void piece_account(struct queue *q, struct piece *p, uint64_t n, int is_last)
{
	q->samples_done += n;
	q->last_at = q->at;
	int is_shard_done = is_last;
	if (p->whole) {
		p->whole->left -= n;
		is_shard_done = p->whole->left == 0;
		if (is_shard_done)
			pool_give(&q->whole, p->whole);
	}
	if (is_shard_done) {
		q->shards_done++;
		source_done(q, p->lane);
	}
}

static void free_chain(struct queue *q, struct piece *chain)
{
	while (chain) {
		struct piece *next = chain->more;
		pool_give(&q->piece, chain);
		chain = next;
	}
}

static void piece_lease_end(struct queue *q, struct piece *p)
{
	if (p->lease_prev)
		p->lease_prev->lease_next = p->lease_next;
	else
		q->lease_head = p->lease_next;
	if (p->lease_next)
		p->lease_next->lease_prev = p->lease_prev;
	else
		q->lease_tail = p->lease_prev;
	p->lease_prev = p->lease_next = NULL;
}

static void leave_hand(struct queue *q, struct piece *p)
{
	piece_unlink(&p->worker->hand, p);
	piece_lease_end(q, p);
	p->last_cut = NULL;
	q->doing--;
}

void piece_finish(struct queue *q, struct piece *p)
{
	piece_account(q, p, piece_left(p), 1);
	leave_hand(q, p);
	u64map_remove(&q->pieces, p->id);
	q->pieces_done++;
	p->state = QUEUE_DONE;
	piece_changed(q, p);
	for (struct piece *r = p->more; r; r = r->more)
		q->runs--;
	free_chain(q, p);
}

void piece_apply(struct queue *q, struct piece *p, uint64_t lo, uint64_t hi)
{
	if (!p->more && lo <= p->lo) { /* the usual case: a range at the front */
		if (hi >= p->hi) {
			piece_finish(q, p);
		} else if (hi > p->lo) {
			uint64_t n = hi - p->lo;
			p->lo = hi;
			/* If the shard was never cut, the rest is all that is left of it. */
			piece_account(q, p, n, 0);
		}
		return;
	}
	piece_share(q, p);
	int all;
	struct piece *chain = piece_carve(q, p, lo, hi, &all);
	if (all) {
		piece_finish(q, p);
	} else if (chain) {
		piece_account(q, p, piece_left(chain), 0);
		free_chain(q, chain);
	}
}

void piece_take(struct queue *q, struct piece *p, struct worker *w)
{
	p->state = QUEUE_DOING;
	p->is_first = 0;
	p->worker = w;
	p->at = q->at;
	piece_append(&w->hand, p);
	p->lease_prev = p->lease_next = NULL;
	piece_renew(q, p);
	q->doing++;
	if (p->returns > 0)
		q->samples_repeated += piece_left(p);
	if (q->first_at == 0)
		q->first_at = q->at;
	piece_changed(q, p);
}

enum put { PUT_LAST, PUT_FIRST, PUT_HELD };

/* Puts p into the queue, or among the held. If samples are not shuffled, its frame shrinks to what
 * remains: then its client needs no skip= and take=. */
static void piece_put_away(struct queue *q, struct piece *p, enum put where)
{
	if (q->p.shuffle != QUEUE_SHUFFLE_SAMPLES) {
		p->begin += p->lo;
		p->hi -= p->lo;
		p->lo = 0;
		p->length = p->hi;
	}
	p->worker = NULL;
	p->returns++;
	p->at = q->at;
	p->state = where == PUT_HELD ? QUEUE_HELD : QUEUE_TODO;
	if (where == PUT_FIRST)
		piece_put_first(p);
	else
		piece_append(where == PUT_HELD ? &q->held : &p->lane->todo, p);
	q->todo += where != PUT_HELD;
	piece_changed(q, p);
}

/* A run that was p's becomes a piece of its own. */
static void put_away_run(struct queue *q, const struct piece *p, struct piece *run, enum put where)
{
	run->more = NULL;
	run->id = q->next_id++;
	run->origin = p->origin;
	run->begin = p->begin;
	run->length = p->length;
	run->seed = p->seed;
	run->whole = p->whole;
	run->lane = p->lane;
	run->deaths = p->deaths;
	run->returns = p->returns;
	piece_enter(q, run);
	piece_put_away(q, run, where);
}

/* All runs of p come back, each as a piece. If p is to be held, only its first run is: the one on
 * which the worker was working. */
static void piece_come_back(struct queue *q, struct piece *p, enum put where)
{
	leave_hand(q, p);
	const struct piece as_it_was = *p;
	p->more = NULL;
	piece_put_away(q, p, where);
	for (struct piece *run = as_it_was.more, *next; run; run = next) {
		next = run->more;
		q->runs--;
		put_away_run(q, &as_it_was, run, where == PUT_HELD ? PUT_LAST : where);
	}
}

void piece_return(struct queue *q, struct piece *p, int is_held)
{
	piece_come_back(q, p, is_held ? PUT_HELD : PUT_LAST);
}

void piece_return_first(struct queue *q, struct piece *p)
{
	piece_come_back(q, p, PUT_FIRST);
}

void piece_return_range(struct queue *q, struct piece *p, uint64_t lo, uint64_t hi)
{
	piece_share(q, p);
	int all;
	struct piece *chain = piece_carve(q, p, lo, hi, &all);
	if (all) {
		piece_return(q, p, 0);
		return;
	}
	for (struct piece *next; chain; chain = next) {
		next = chain->more;
		put_away_run(q, p, chain, PUT_LAST);
	}
}

void piece_describe(const struct queue *q, const struct piece *p, struct queue_piece *out)
{
	*out = (struct queue_piece){
		.id = p->id,
		.epoch = p->lane->number,
		.state = p->state,
		.begin = p->begin,
		.length = p->length,
		.skip = p->lo,
		.take = p->hi - p->lo,
		.upto = p->lo,
		.seed = p->seed,
		.worker = p->worker ? p->worker->id : "",
		.returns = p->returns,
		.age = q->at > p->at ? q->at - p->at : 0,
	};
}

void piece_changed(const struct queue *q, const struct piece *p)
{
	if (q->change)
		q->change(q->change_arg, p->id, p->state, p->worker ? p->worker->id : "");
}

void piece_renew(struct queue *q, struct piece *p)
{
	if (p->lease_prev || p->lease_next || q->lease_head == p)
		piece_lease_end(q, p);
	p->lease_from = q->mono;
	p->lease_prev = q->lease_tail;
	if (q->lease_tail)
		q->lease_tail->lease_next = p;
	else
		q->lease_head = p;
	q->lease_tail = p;
}
