/*
 * xfer_group: see xfer_group.h.
 *
 * Most n are ruled out early.  What the walk has so far bounds the cost from below: nobody who is
 * not committed yet commits before the time that was reached.  The rest that the last aggregator
 * must take needs its port for so long at least, and before that the rest must fit through the
 * ports of all aggregators that are left.
 */
#include "solve/xfer_group.h"

#include <stdlib.h>
#include <string.h>

#define GROUP_AROUND 4 /* neighbours of what bisection finds */

struct grouping {
	const struct xfer_batch *b;
	size_t server, parts;
	struct xfer_part *sum; /* of the group in work */
	uint64_t total;
	size_t *until;  /* by position: the last that a group beginning there can have */
	int64_t *bytes; /* of all before a position */
	int64_t *own;   /* the same of those on an aggregator's host, aggregator by aggregator */
	size_t *way;    /* if somebody wants to know */
	xfer_wide best;
	size_t best_k, best_n;
	int only_waits; /* the cost is of no interest, only walk.waits */
};

/* What was reached: commits until t, `left` updates not committed. */
struct walk {
	int64_t t;
	xfer_wide sum;
	uint64_t left;
	int waits; /* the last group makes the server wait, or can't be */
};

static const struct xfer_update *group_at(const struct xfer_batch *b, size_t position)
{
	return &b->u[b->order[position]];
}

/* The least cost if nobody else commits before `at`. */
static xfer_wide walk_cost(const struct grouping *g, const struct walk *w, int64_t at)
{
	return g->b->goal == XFER_ALL ? at : w->sum + (xfer_wide)w->left * at;
}

static void walk_commit(struct walk *w, int64_t at, uint64_t count)
{
	w->t = at > w->t ? at : w->t;
	w->sum += (xfer_wide)count * w->t;
	w->left -= count;
}

/* Not better than the best, which has the smaller k, or n, where they are equal. */
static int is_no_better(const struct grouping *g, xfer_wide cost, size_t k, size_t n)
{
	if (cost != g->best)
		return cost > g->best;
	return k != g->best_k ? k > g->best_k : n > g->best_n;
}

/* When it has added so many bytes, from `from` on. Many that are too late must not overflow. */
static int64_t summed_by(const struct xfer_aggregator *a, int64_t from, int64_t bytes)
{
	if (a->sum_rate == 0)
		return from;
	xfer_wide at = from + ((xfer_wide)bytes * XFER_SECOND + a->sum_rate - 1) / a->sum_rate;
	return at > XFER_TIME_MAX ? XFER_TIME_MAX : (int64_t)at;
}

/* Sends a sum, whose parts have the bytes of all members. */
static int sum_send(const struct xfer_batch *b, size_t host, struct xfer_part *part, size_t parts,
		    int64_t summed, int64_t *there, struct error *err)
{
	struct xfer_update sum = {.host = host, .part = part, .parts = parts, .ready = summed};
	for (size_t p = 0; p < parts && b->dense; p++)
		if (b->dense[p] > 0 && part[p].bytes > b->dense[p])
			part[p].bytes = b->dense[p];
	return xfer_send_parts(b->net, &sum, there, err);
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Bytes of positions [from, to) that the port of this aggregator need not take. */
static int64_t group_own(const struct grouping *g, size_t a, size_t from, size_t to)
{
	const int64_t *own = g->own + a * (g->b->count + 1);
	return own[to] - own[from];
}

/* ---- a walk: n are sent directly already, k aggregators take the rest ---- */

/* The last time from which the port can still take so much until then. */
static int64_t group_before(const struct xfer_port *p, int64_t until, xfer_wide amount)
{
	for (size_t i = p->count; i-- > 0 && amount > 0;) {
		const struct xfer_step *s = &p->step[i];
		if (s->at >= until)
			continue;
		xfer_wide has = (xfer_wide)s->rate * (until - s->at);
		if (has >= amount)
			return until - (int64_t)(amount / s->rate);
		amount -= has;
		until = s->at;
	}
	return until;
}

/* Whether groups of the aggregators from a on can't take those from position i on in time to be
 * better. The server's port takes one sum after the other, so that of the groups with a full sum
 * the last is complete so much before the end, the one before it twice as much, and so on. */
static int group_has_no_room(const struct grouping *g, size_t a, size_t i, size_t k, size_t n)
{
	const struct xfer_batch *b = g->b;
	const struct xfer_host *host = b->net->host;
	xfer_wide last = g->best - is_no_better(g, g->best, k, n),
		  dense = b->dense && g->parts == 1 ? (xfer_wide)*b->dense * XFER_SECOND : 0;
	xfer_wide left = g->bytes[b->count] - g->bytes[i];
	if (b->goal != XFER_ALL || last > XFER_TIME_MAX)
		return 0;
	for (size_t j = a; j < k; j++) {
		left -= group_own(g, j, i, b->count);
		if (b->aggregator[j].host == g->server)
			dense = 0; /* it sends no sum */
	}
	left *= XFER_SECOND;
	int64_t until = (int64_t)last;
	for (size_t done = a; done < k && left > 0; done++) {
		xfer_wide most = dense;
		until = group_before(&host[g->server].in, until, dense);
		for (size_t j = a; j < k; j++) {
			xfer_wide takes = xfer_port_until(&host[b->aggregator[j].host].in, until);
			most = takes > most ? takes : most;
		}
		left -= most;
	}
	return left > 0;
}

/* A group that must take all the rest: whether the port of its aggregator alone rules that out. */
static int rest_is_no_better(const struct grouping *g, const struct walk *w, size_t a, size_t i,
			     size_t k, size_t n)
{
	const struct xfer_batch *b = g->b;
	int64_t rest = g->bytes[b->count] - g->bytes[i] - group_own(g, a, i, b->count);
	int64_t end = xfer_port_end(&b->net->host[b->aggregator[a].host].in, rest, 0);
	return end == XFER_NEVER || is_no_better(g, walk_cost(g, w, end), k, n);
}

/* One group, from position *i on. 1: it went on; 0: this can't be, or not be better. */
static int walk_group(struct grouping *g, struct walk *w, size_t a, size_t *i, size_t k, size_t n,
		      struct error *err)
{
	const struct xfer_batch *b = g->b;
	const struct xfer_aggregator *agg = &b->aggregator[a];
	size_t first = *i, last = g->until[first];
	int is_last = a + 1 == k, is_free = is_last || (n == 0 && a == 0);
	int64_t done = 0, before = w->t, there;
	uint64_t count = 0;
	struct xfer_hop hop;
	w->waits = is_last;
	if (is_last ? last + 1 < b->count || rest_is_no_better(g, w, a, first, k, n)
		    : group_has_no_room(g, a, first, k, n))
		return 0;
	for (size_t p = 0; p < g->parts; p++)
		g->sum[p].bytes = 0;
	for (; *i <= last; ++*i) {
		const struct xfer_update *u = group_at(b, *i);
		int64_t bytes = g->bytes[*i + 1] - g->bytes[*i];
		hop = xfer_ask(b->net, u->host, agg->host, bytes, u->ready);
		if (hop.end == XFER_NEVER && *i > first && !is_last)
			break;
		if (hop.end == XFER_NEVER)
			return 0;
		int64_t summed = summed_by(agg, later(hop.end, done), bytes);
		if (*i > first && !is_free && summed > w->t)
			break;
		if (is_no_better(g, walk_cost(g, w, summed), k, n))
			return 0;
		if (g->only_waits && is_last && summed > before)
			return 0;
		if (xfer_take(b->net, u->host, agg->host, &hop, err) != 0)
			return -1;
		done = summed;
		if (*i == first && !is_free)
			w->t = later(w->t, done);
		for (size_t p = 0; p < g->parts; p++)
			g->sum[p].bytes += u->part[p].bytes;
		count += u->count;
		if (g->way)
			g->way[*i] = a + 1;
	}
	if (sum_send(b, agg->host, g->sum, g->parts, done, &there, err) != 0)
		return -1;
	if (there == XFER_NEVER)
		return 0;
	walk_commit(w, there, count);
	w->waits = is_last && done > before;
	return 1;
}

static int walk_on(struct grouping *g, struct walk *w, size_t k, size_t n, struct error *err)
{
	size_t i = n;
	int result = 1;
	for (size_t a = 0; a < k && i < g->b->count && result == 1; a++)
		result = walk_group(g, w, a, &i, k, n, err);
	if (result == 1 && i < g->b->count)
		result = 0;
	return result;
}

static int walk_direct(struct grouping *g, struct walk *w, size_t i, struct error *err)
{
	const struct xfer_update *u = group_at(g->b, i);
	int64_t there;
	if (xfer_send_parts(g->b->net, u, &there, err) != 0)
		return -1;
	if (there == XFER_NEVER)
		return 0;
	walk_commit(w, there, u->count);
	if (g->way)
		g->way[i] = 0;
	return 1;
}

/* From the beginning. */
static int walk_whole(struct grouping *g, size_t k, size_t n, struct walk *w, xfer_wide *cost,
		      struct error *err)
{
	size_t outer = xfer_begin(g->b->net);
	int result = 1;
	*w = (struct walk){.left = g->total};
	for (size_t i = 0; i < n && result == 1; i++)
		result = walk_direct(g, w, i, err);
	if (result == 1)
		result = walk_on(g, w, k, n, err);
	if (result < 0)
		return -1;
	xfer_undo(g->b->net, outer);
	*cost = result == 1 ? walk_cost(g, w, w->t) : XFER_NO_COST;
	return 0;
}

static void group_better(struct grouping *g, xfer_wide cost, size_t k, size_t n)
{
	if (is_no_better(g, cost, k, n))
		return;
	g->best = cost;
	g->best_k = k;
	g->best_n = n;
}

/* ---- which n ---- */

/* Every n in [from, to], until what is sent directly takes too long alone. */
static int group_every(struct grouping *g, size_t k, size_t from, size_t to, struct error *err)
{
	const struct xfer_batch *b = g->b;
	struct walk prefix = {.left = g->total};
	size_t outer = xfer_begin(b->net);
	int result = 1;
	for (size_t n = 0; n < from && result == 1; n++)
		result = walk_direct(g, &prefix, n, err);
	for (size_t n = from; n <= to && result == 1; n++) {
		if (is_no_better(g, walk_cost(g, &prefix, prefix.t), k, n))
			break;
		struct walk w = prefix;
		size_t inner = xfer_begin(b->net);
		int walked = walk_on(g, &w, k, n, err);
		if (walked < 0)
			return -1;
		xfer_undo(b->net, inner);
		if (walked == 1)
			group_better(g, walk_cost(g, &w, w.t), k, n);
		if (n == b->count)
			break;
		result = walk_direct(g, &prefix, n, err);
	}
	if (result < 0)
		return -1;
	xfer_undo(b->net, outer);
	return 0;
}

/* Whether there is an n for which k aggregators may be better, as far as that can be told without a
 * walk. */
static int group_may_be_better(struct grouping *g, size_t k, int *may, struct error *err)
{
	const struct xfer_batch *b = g->b;
	struct walk prefix = {.left = g->total};
	size_t outer = xfer_begin(b->net);
	int result = 1;
	*may = 0;
	for (size_t n = 0; result == 1 && !is_no_better(g, walk_cost(g, &prefix, prefix.t), k, n);
	     n++) {
		*may = !group_has_no_room(g, 0, n, k, n);
		if (*may || n == b->count)
			break;
		result = walk_direct(g, &prefix, n, err);
	}
	if (result < 0)
		return -1;
	xfer_undo(b->net, outer);
	return 0;
}

static int group_bisect(struct grouping *g, size_t k, struct error *err)
{
	size_t low = 0, high = g->b->count, to;
	xfer_wide best = g->best, cost;
	struct walk w;
	g->only_waits = 1;
	g->best = XFER_NO_COST; /* nothing is ruled out */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (walk_whole(g, k, middle, &w, &cost, err) != 0)
			return -1;
		if (w.waits)
			low = middle + 1;
		else
			high = middle;
	}
	g->only_waits = 0;
	g->best = best;
	to = low + GROUP_AROUND;
	return group_every(g, k, low > GROUP_AROUND ? low - GROUP_AROUND : 0,
			   to < g->b->count ? to : g->b->count, err);
}

/* ---- what is known before ---- */

static void group_free(struct grouping *g)
{
	free(g->until);
	free(g->bytes);
	free(g->own);
	free(g->sum);
}

/* A group that begins earlier has more deadlines to keep, so that its last position is not later.
 */
static void group_until(struct grouping *g)
{
	const struct xfer_batch *b = g->b;
	uint64_t position = g->total; /* at `last`, which is behind the group */
	size_t last = b->count;
	for (size_t i = b->count; i-- > 0;) {
		while (last > i + 1 && position > group_at(b, i)->deadline)
			position -= group_at(b, --last)->count;
		g->until[i] = last - 1;
		if (b->limit && b->limit[i] < g->until[i])
			g->until[i] = b->limit[i];
	}
}

static int group_prepare(struct grouping *g, struct error *err)
{
	const struct xfer_batch *b = g->b;
	size_t n = b->count;
	g->server = n ? group_at(b, 0)->part->to : 0;
	g->parts = n ? group_at(b, 0)->parts : 0;
	g->best = XFER_NO_COST;
	g->best_k = SIZE_MAX;
	g->until = calloc(n + 1, sizeof *g->until);
	g->bytes = calloc(n + 1, sizeof *g->bytes);
	g->own = calloc((n + 1) * (b->aggregators + 1), sizeof *g->own);
	g->sum = calloc(g->parts + 1, sizeof *g->sum);
	if (!g->until || !g->bytes || !g->own || !g->sum) {
		group_free(g);
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu updates", n);
	}
	for (size_t p = 0; p < g->parts; p++)
		g->sum[p].to = group_at(b, 0)->part[p].to;
	for (size_t i = 0; i < n; i++) {
		const struct xfer_update *u = group_at(b, i);
		int64_t bytes = xfer_bytes(u);
		g->total += u->count;
		g->bytes[i + 1] = g->bytes[i] + bytes;
		for (size_t a = 0; a < b->aggregators; a++) {
			int64_t *own = g->own + a * (n + 1) + i;
			own[1] = own[0] + (u->host == b->aggregator[a].host ? bytes : 0);
		}
	}
	group_until(g);
	return 0;
}

int xfer_group_as(const struct xfer_batch *b, size_t n, size_t k, size_t *way, xfer_wide *cost,
		  struct error *err)
{
	struct grouping g = {.b = b, .way = way};
	struct walk w;
	if (group_prepare(&g, err) != 0)
		return -1;
	int result = walk_whole(&g, k, n, &w, cost, err);
	group_free(&g);
	return result;
}

int xfer_group(const struct xfer_batch *b, size_t *way, struct error *err)
{
	struct grouping g = {.b = b};
	xfer_wide cost;
	int result = 0;
	if (group_prepare(&g, err) != 0)
		return -1;
	for (size_t k = b->aggregators; k > 0 && result == 0; k--) {
		int is_exact = b->count <= XFER_EXACT_MAX;
		int may;
		result = group_may_be_better(&g, k, &may, err);
		if (result != 0 || !may)
			continue;
		/* Something good to begin with rules out most others. */
		if (!is_exact || k == b->aggregators)
			result = group_bisect(&g, k, err);
		if (result == 0 && is_exact)
			result = group_every(&g, k, 0, b->count, err);
	}
	struct walk w;
	if (result == 0)
		result = walk_whole(&g, 0, b->count, &w, &cost, err);
	if (result == 0)
		group_better(&g, cost, 0, b->count);
	g.best = XFER_NO_COST;
	g.way = way;
	if (result == 0 && g.best_k != SIZE_MAX)
		result = walk_whole(&g, g.best_k, g.best_n, &w, &cost, err);
	group_free(&g);
	return result;
}

/* ---- as it is carried out ---- */

int xfer_carry(const struct xfer_batch *b, const size_t *way, struct xfer_course *course,
	       xfer_wide *cost, struct error *err)
{
	struct xfer_sum *sum = course->sum;
	int64_t t = 0;
	uint64_t position = 0;
	*cost = 0;
	for (size_t a = 0; a < b->aggregators; a++) {
		sum[a] = (struct xfer_sum){.part = sum[a].part};
		for (size_t p = 0; b->count > 0 && p < group_at(b, 0)->parts; p++)
			sum[a].part[p] = (struct xfer_part){.to = group_at(b, 0)->part[p].to};
	}
	/* Who is the last of each group: `members` counts down to it, then up. */
	for (size_t i = b->count; i-- > 0;)
		if (way[i])
			sum[way[i] - 1].members++;
	for (size_t i = 0; i < b->count; i++) {
		const struct xfer_update *u = group_at(b, i);
		const struct xfer_aggregator *agg = way[i] ? &b->aggregator[way[i] - 1] : NULL;
		struct xfer_sum *s = way[i] ? &sum[way[i] - 1] : NULL;
		uint64_t count = u->count, deadline = u->deadline;
		int64_t bytes = xfer_bytes(u), end;
		if (!s && xfer_send_parts(b->net, u, &end, err) != 0)
			return -1;
		if (s && xfer_send(b->net, u->host, agg->host, bytes, u->ready, &course->hop[i],
				   err) != 0)
			return -1;
		end = s ? course->hop[i].end : end;
		if (end == XFER_NEVER) {
			*cost = XFER_NO_COST;
			return 0;
		}
		if (s) {
			for (size_t p = 0; p < u->parts; p++)
				s->part[p].bytes += u->part[p].bytes;
			s->summed = summed_by(agg, later(s->summed, end), bytes);
			if (--s->members > 0)
				continue;
			if (sum_send(b, agg->host, s->part, u->parts, s->summed, &end, err) != 0)
				return -1;
			for (size_t k = 0; k < i; k++)
				if (way[k] == way[i]) {
					uint64_t by = group_at(b, k)->deadline;
					count += group_at(b, k)->count;
					deadline = by < deadline ? by : deadline;
				}
			s->members = count;
		}
		position += count;
		if (end == XFER_NEVER || position > deadline) {
			*cost = XFER_NO_COST;
			return 0;
		}
		t = later(t, end);
		*cost += (xfer_wide)count * t;
		for (size_t k = s ? 0 : i; k <= i; k++)
			if (way[k] == way[i])
				course->commit[k] = t;
	}
	if (b->goal == XFER_ALL)
		*cost = t;
	return 0;
}
