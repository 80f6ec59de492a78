/* settle: the moment at which a batch becomes part of the model (paceline-protocol(7), THE LIFE OF
 * A BATCH; judge() of tests/model/batch.pml). It is one request of many lines; all of them are
 * judged before any of them changes anything. An `apply` line counts rows that are in that worker's
 * hand and remain there; otherwise it is refused. The rows of a generation are one gradient, and
 * are refused together. A settle has a number, so that repeating it does no harm. Its answer is
 * part of the state, so that a lead which asks again after a crash gets the same answer. */
#include "shard/state.h"

#include "base/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum queue_result queue_settle_known(const struct queue *q, const struct queue_settlement *s,
				     struct error *err)
{
	if (s->incarnation != q->incarnation) {
		error_set(err, ERROR_DATA, NULL, "incarnation %llu is not in force: %llu is",
			  (unsigned long long)s->incarnation, (unsigned long long)q->incarnation);
		return QUEUE_FENCED;
	}
	if (s->term && s->term != q->term) {
		error_set(err, ERROR_DATA, NULL, "term %llu is not in force: %llu is",
			  (unsigned long long)s->term, (unsigned long long)q->term);
		return QUEUE_FENCED;
	}
	if (!q->has_settled || s->number > q->settle_number)
		return QUEUE_OK;
	if (s->number == q->settle_number)
		return QUEUE_REPEATED;
	error_set(err, ERROR_DATA, NULL, "settle %llu comes after %llu",
		  (unsigned long long)s->number, (unsigned long long)q->settle_number);
	return QUEUE_BAD;
}

const struct field settle_fields[] = {
	{FIELD("number", U64, settle_head, number)},
	{FIELD("iteration", U64, settle_head, iteration)},
	{FIELD("lines", U64, settle_head, lines)},
	{FIELD("term", U64, settle_head, term), .is_optional = 1},
	{FIELD("whole", U64, settle_head, is_whole), .is_optional = 1},
	{FIELD("note", ID_COPY, settle_head, note), .is_optional = 1},
	{0}};

const struct field range_fields[] = {
	{FIELD("worker", ID, queue_range, worker)},
	{FIELD("id", U64, queue_range, id)},
	{FIELD("begin", U64, queue_range, begin)},
	{FIELD("length", U64, queue_range, length)},
	{0}};

const struct field refusal_fields[] = {
	{FIELD("worker", ID_COPY, queue_refusal, worker)},
	{FIELD("generation", U64, queue_refusal, generation)},
	{FIELD("id", U64, queue_refusal, id)},
	{0}};

/* A range whose rows are in the hand of the worker that it names: positions [lo, hi) of piece. */
struct claim {
	const struct queue_range *range;
	struct worker *worker;
	struct piece *piece;
	uint64_t id, lo, hi;
	uint32_t index;
	unsigned char is_back, is_end; /* is_end: nothing of the piece is left behind it */
	unsigned char is_blamed;       /* the worker is */
};

/* By piece and position. So one walk over the runs of each piece judges all rows of a settle, and
 * another one takes them out. */
static int claim_order(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	return x->index < y->index ? -1 : 1;
}

static int is_in_order(const struct claim *claim, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (claim_order(&claim[i - 1], &claim[i]) > 0)
			return 0;
	return 1;
}

static int asked_order(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	return x->index < y->index ? -1 : 1;
}

/* Whether the range is inside the frame. The sum begin + length can't be trusted: it may
 * overflow. */
static int is_in_frame(const struct piece *p, const struct queue_range *range)
{
	return range->length > 0 && range->begin >= p->begin && range->length <= p->length &&
	       range->begin - p->begin <= p->length - range->length;
}

/* Of ranges and claims to come, what will be looked at is fetched meanwhile: the worker (its place, then itself), then the
 * oldest piece in its hand, then the one behind it, if it is meant. */
#define SETTLE_AHEAD 12
static const struct worker *settle_worker(const struct queue *q, const struct queue_range *range)
{
	return range->seat > 0 && range->seat <= q->worker_count ? q->seat[range->seat - 1] : NULL;
}

static void settle_fetch(const struct queue *q, const struct queue_range *range)
{
	const struct worker *w;
	const struct piece *p;
	queue_fetch(q, range[4 * SETTLE_AHEAD].seat, 2);
	if ((w = settle_worker(q, &range[3 * SETTLE_AHEAD])))
		fetch_ahead(w, 1);
	if ((w = settle_worker(q, &range[2 * SETTLE_AHEAD])))
		fetch_ahead(w->hand.head, 1);
	if ((w = settle_worker(q, &range[SETTLE_AHEAD])) && (p = w->hand.head) && p->id != range[SETTLE_AHEAD].id)
		fetch_ahead(p->next, 1);
}

/* Its piece may be gone by then: its first two lines. What is only cut shorter changes neither the worker nor the map. */
static void settle_fetch_claim(const struct queue *q, const struct claim *c, int is_apart)
{
	fetch_ahead(c->piece, offsetof(struct piece, origin));
	if (is_apart && !c->is_end)
		return;
	fetch_ahead(c->worker, 1);
	u64map_fetch(&q->pieces, c->id);
}

/* The piece, mostly the oldest in the worker's hand or the one behind it; or NULL. */
static struct piece *settle_find(const struct queue *q, const struct worker *w, uint64_t id)
{
	struct piece *p = w->hand.head;
	if (p && p->id != id)
		p = p->next;
	return p && p->id == id ? p : u64map_get(&q->pieces, id);
}

/* 0: there are no such rows, or they are not in this worker's hand. */
static int claim_make(const struct queue *q, const struct queue_range *range, size_t index,
		      struct claim *c)
{
	*c = (struct claim){.range = range, .index = (uint32_t)index, .id = range->id, .is_back = range->is_back != 0};
	c->worker = queue_worker_at(q, range->worker, range->seat);
	if (!c->worker || c->worker->generation == 0 ||
	    c->worker->generation != range->generation)
		return 0;
	c->piece = settle_find(q, c->worker, range->id);
	if (!c->piece || c->piece->worker != c->worker || !is_in_frame(c->piece, range))
		return 0;
	c->lo = range->begin - c->piece->begin;
	c->hi = c->lo + range->length;
	c->is_end = c->hi >= c->piece->hi;
	c->is_blamed = c->worker->is_blamed != 0;
	return 1;
}

/* Whether the run, together with those that follow without a gap, covers the claim. */
static int is_covered(const struct piece *run, const struct claim *c)
{
	if (!run || run->lo > c->lo)
		return 0;
	uint64_t end = run->hi;
	while (end < c->hi && run->more && run->more->lo == end) {
		run = run->more;
		end = run->hi;
	}
	return end >= c->hi;
}

/* Judges the claims on one piece. A worker's gradient is refused if some of its rows no longer
 * remain in the piece, or if two lines name the same row and one of them applies it. */
static int judge_piece(const struct claim *claim, size_t count)
{
	const struct piece *run = claim->piece;
	uint64_t applied_end = 0, named_end = 0;
	int is_bad = 0;
	for (size_t i = 0; i < count; i++) {
		const struct claim *c = &claim[i];
		while (run && run->hi <= c->lo)
			run = run->more;
		int is_apply = !c->is_back;
		is_bad |= is_apply && (c->lo < named_end || !is_covered(run, c));
		is_bad |= c->lo < applied_end;
		if (c->hi > named_end)
			named_end = c->hi;
		if (is_apply && c->hi > applied_end)
			applied_end = c->hi;
	}
	if (is_bad)
		claim->worker->is_refused = 1;
	return is_bad;
}

/* 1: somebody is refused. */
static int judge_pieces(const struct claim *claim, size_t count)
{
	int is_bad = 0;
	for (size_t i = 0, n; i < count; i += n) {
		for (n = 1; i + n < count && claim[i + n].id == claim[i].id; n++)
			;
		is_bad |= judge_piece(&claim[i], n);
	}
	return is_bad;
}

/* Whether its rows are the first of its piece, in one run: they leave it without a new piece. */
static int claim_is_front(const struct claim *c)
{
	return !c->is_back && !c->piece->more && c->lo <= c->piece->lo;
}

struct judgement {
	size_t claims, refusals;
	size_t cuts; /* three pieces are needed for each */
	int is_apart; /* each piece is named once, and applied */
};

/* Fills claim[], in order, and ranges[].refused; changes nothing else. */
static struct judgement settle_judge(struct queue *q, struct queue_range *ranges, size_t count,
				     struct claim *claim)
{
	size_t claims = 0, fronts = 0, refusals = 0;
	int is_bad = 0, is_apart = 1;
	q->judged++;
	for (size_t i = 0; i < count; i++) {
		if (i + 4 * SETTLE_AHEAD < count)
			settle_fetch(q, &ranges[i]);
		ranges[i].refused = 0;
		if (claim_make(q, &ranges[i], i, &claim[claims])) {
			struct piece *p = claim[claims].piece;
			is_bad |= judge_piece(&claim[claims], 1); /* with other claims on it, once more below */
			fronts += (size_t)claim_is_front(&claim[claims++]);
			is_apart &= p->named != q->judged && !ranges[i].is_back;
			p->named = q->judged;
			continue;
		}
		/* What a `back` line asks for is done already if its rows have left the hand. */
		ranges[i].refused = !ranges[i].is_back;
		struct worker *w = claim[claims].worker;
		if (ranges[i].refused && w && w->generation == ranges[i].generation)
			w->is_refused = 1;
		is_bad |= ranges[i].refused;
	}
	if (!is_apart && !is_in_order(claim, claims))
		qsort(claim, claims, sizeof *claim, claim_order);
	is_bad |= !is_apart && judge_pieces(claim, claims);
	for (size_t i = 0; i < count && is_bad; i++) {
		const struct worker *w = queue_worker(q, ranges[i].worker);
		if (!ranges[i].is_back && w && w->is_refused &&
		    w->generation == ranges[i].generation)
			ranges[i].refused = 1;
		refusals += ranges[i].refused != 0;
	}
	for (size_t i = 0; i < count && is_bad; i++) {
		struct worker *w = queue_worker(q, ranges[i].worker);
		if (w)
			w->is_refused = 0;
	}
	return (struct judgement){claims, refusals, is_apart ? claims - fronts : claims, is_apart};
}

/* Carries out a claim. 1: there is something to write down. */
static int act(struct queue *q, const struct claim *c, int is_apart)
{
	if (q->refusals > 0 && c->range->refused)
		return 0;
	/* An earlier `back` line may have taken the piece out of the hand. */
	struct piece *p = is_apart ? c->piece : settle_find(q, c->worker, c->id);
	if (!p || p->worker != c->worker)
		return 0;
	if (c->is_blamed)
		c->worker->is_blamed = 0;
	if (c->is_back)
		piece_return_range(q, p, c->lo, c->hi);
	else
		piece_apply(q, p, c->lo, c->hi);
	return 1;
}

static void settle_refuse(struct queue *q, const struct queue_range *ranges, size_t count)
{
	size_t n = 0;
	for (size_t i = 0; i < count && n < q->refusals; i++) {
		if (!ranges[i].refused)
			continue;
		struct queue_refusal *r = &q->refusal[n++];
		snprintf(r->worker, sizeof r->worker, "%s", ranges[i].worker);
		r->generation = ranges[i].generation;
		r->id = ranges[i].id;
	}
}

/* Carries out the claims, and writes down what has changed and what was refused, as one
 * transaction: its first line says how many lines there are. */
static void settle_carry_out(struct queue *q, const struct queue_settlement *s, struct claim *claim,
			     const struct judgement *j)
{
	size_t done = 0;
	for (size_t i = 0; i < j->claims; i++) {
		if (i + SETTLE_AHEAD < j->claims)
			settle_fetch_claim(q, &claim[i + SETTLE_AHEAD], j->is_apart);
		if (!act(q, &claim[i], j->is_apart))
			continue;
		if (done < i)
			claim[done] = claim[i];
		done++;
	}
	struct settle_head head = {.number = q->settle_number,
				   .iteration = q->iteration,
				   .lines = done + q->refusals,
				   .term = s->term,
				   .is_whole = q->is_whole};
	if (s->note)
		snprintf(head.note, sizeof head.note, "%s", s->note);
	queue_log(q, "settle", settle_fields, &head);
	for (size_t i = 0; i < done; i++)
		queue_log(q, claim[i].is_back ? "back" : "apply", range_fields,
			  claim[i].range);
	for (size_t i = 0; i < q->refusals; i++)
		queue_log(q, "fenced", refusal_fields, &q->refusal[i]);
}

/* Notes what is in the model after this settle. A lead without a term knows no notes: after its
 * settles an earlier note would be wrong. */
static void settle_commit(struct queue *q, const struct queue_settlement *s)
{
	q->iteration = s->iteration;
	if (s->note || !s->term) {
		snprintf(q->note, sizeof q->note, "%s", s->note ? s->note : "");
		q->committed = s->note ? s->iteration + 1 : 0;
	}
}

/* is_replay: in the order of the lines, as they were carried out then. */
static enum queue_result settle_pushes(struct queue *q, const struct queue_settlement *said,
				       struct queue_range *ranges, size_t count, int is_replay,
				       struct error *err)
{
	struct queue_settlement s = *said;
	struct queue_refusal *refusal = NULL;
	struct claim *claim = malloc((count + 1) * sizeof *claim);
	struct judgement j = {0};
	if (claim) {
		j = settle_judge(q, ranges, count, claim);
		refusal = malloc((j.refusals + 1) * sizeof *refusal);
	}
	if (!refusal || piece_prepare(q, 3 * j.cuts) != 0) {
		free(refusal);
		free(claim);
		return queue_no_memory(err);
	}
	if (is_replay)
		qsort(claim, j.claims, sizeof *claim, asked_order);
	free(q->refusal);
	q->refusal = refusal;
	q->refusals = j.refusals;
	q->has_settled = 1;
	q->settle_number = s.number;
	q->is_whole = s.is_whole ? 1 : 0;
	settle_refuse(q, ranges, count);
	if (s.is_whole && q->refusals > 0) { /* nothing is carried out */
		j.claims = 0;
		s.iteration = q->iteration;
		s.note = NULL;
	}
	settle_commit(q, &s);
	settle_carry_out(q, &s, claim, &j);
	free(claim);
	return QUEUE_OK;
}

enum queue_result queue_settle(struct queue *q, const struct queue_settlement *s,
			       struct queue_range *ranges, size_t count, struct error *err)
{
	enum queue_result result = queue_settle_known(q, s, err);
	return result == QUEUE_OK ? settle_pushes(q, s, ranges, count, 0, err) : result;
}

enum queue_result queue_settle_again(struct queue *q, const struct queue_settlement *s,
				     struct queue_range *ranges, size_t count, struct error *err)
{
	return settle_pushes(q, s, ranges, count, 1, err);
}

const struct queue_refusal *queue_refusals(const struct queue *q, size_t *count)
{
	*count = q->refusals;
	return q->refusal;
}

int queue_settled_whole(const struct queue *q)
{
	return q->is_whole != 0;
}

uint64_t queue_committed(const struct queue *q, const char **note)
{
	*note = q->note;
	return q->committed;
}

uint64_t queue_term(const struct queue *q)
{
	return q->term;
}
