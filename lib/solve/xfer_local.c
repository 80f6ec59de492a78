/*
 * xfer_local: small batches, searched (xfer_group.h).
 *
 * A state is an order and a way for each update; what it costs is found by sending it.  From each
 * start one change after the other is tried, and the first that is better is taken, until none is.
 * Then a few changes at random, and again; the best of all is kept.
 */
#include "solve/xfer_group.h"

#include "base/random.h"

#include <stdlib.h>
#include <string.h>

#define LOCAL_KICKS 20
#define LOCAL_CHANGES 3      /* of a kick */
#define LOCAL_ASKS_MAX 20000 /* states that are looked at */

struct local_state {
	size_t order[XFER_LOCAL_MAX], way[XFER_LOCAL_MAX];
	xfer_wide cost;
};

struct local {
	struct xfer_batch b;
	size_t asks;
	struct xfer_hop hop[XFER_LOCAL_MAX];
	int64_t commit[XFER_LOCAL_MAX];
	struct xfer_sum sum[XFER_LOCAL_MAX];
};

static int local_ask(struct local *l, struct local_state *s, struct error *err)
{
	struct xfer_course course = {.hop = l->hop, .commit = l->commit, .sum = l->sum};
	size_t outer = xfer_begin(l->b.net);
	l->asks++;
	l->b.order = s->order;
	if (xfer_carry(&l->b, s->way, &course, &s->cost, err) != 0)
		return -1;
	xfer_undo(l->b.net, outer);
	return 0;
}

static void local_swap(struct local_state *s, size_t i, size_t k)
{
	size_t order = s->order[i], way = s->way[i];
	s->order[i] = s->order[k];
	s->way[i] = s->way[k];
	s->order[k] = order;
	s->way[k] = way;
}

/* The update at i goes to position k, and those between move up. */
static void local_move(struct local_state *s, size_t i, size_t k)
{
	for (; i < k; i++)
		local_swap(s, i, i + 1);
	for (; i > k; i--)
		local_swap(s, i, i - 1);
}

enum { LOCAL_WAY, LOCAL_MOVE, LOCAL_SWAP, LOCAL_KINDS };

static void local_change(struct local_state *s, int kind, size_t i, size_t k)
{
	switch (kind) {
	case LOCAL_WAY:
		s->way[i] = k;
		break;
	case LOCAL_MOVE:
		local_move(s, i, k);
		break;
	case LOCAL_SWAP:
		local_swap(s, i, k);
		break;
	}
}

/* 1: a change is better, and made. */
static int local_step(struct local *l, struct local_state *s, struct error *err)
{
	for (int kind = 0; kind < LOCAL_KINDS; kind++)
		for (size_t i = 0; i < l->b.count; i++)
			for (size_t k = kind == LOCAL_SWAP ? i + 1 : 0;
			     k < (kind == LOCAL_WAY ? l->b.aggregators + 1 : l->b.count); k++) {
				struct local_state next = *s;
				if (l->asks == LOCAL_ASKS_MAX)
					return 0;
				local_change(&next, kind, i, k);
				if (local_ask(l, &next, err) != 0)
					return -1;
				if (next.cost >= s->cost)
					continue;
				*s = next;
				return 1;
			}
	return 0;
}

static int local_descend(struct local *l, struct local_state *s, struct local_state *best,
			 struct error *err)
{
	int result = local_ask(l, s, err);
	while (result == 0 && (result = local_step(l, s, err)) == 1)
		result = 0;
	if (result == 0 && s->cost < best->cost)
		*best = *s;
	return result;
}

static void local_kick(const struct local *l, struct local_state *s, uint64_t *seed)
{
	for (int i = 0; i < LOCAL_CHANGES; i++) {
		int kind = (int)(random_next(seed) % LOCAL_KINDS);
		size_t most = kind == LOCAL_WAY ? l->b.aggregators + 1 : l->b.count;
		size_t at = random_next(seed) % l->b.count;
		local_change(s, kind, at, random_next(seed) % most);
	}
}

static int local_search(struct local *l, size_t *way, struct error *err)
{
	static const struct local_state none = {.cost = XFER_NO_COST};
	const struct xfer_batch *b = &l->b;
	struct local_state start = none, best = none;
	size_t *order = b->order;
	uint64_t seed = 1;
	for (size_t i = 0; i < b->count; i++) {
		start.order[i] = order[i];
		start.way[i] = way[i] > b->aggregators ? 0 : way[i];
	}
	for (size_t from = 0; from < 3; from++) { /* the plan, all direct, in turn */
		struct local_state s = start;
		for (size_t i = 0; i < b->count && from > 0; i++)
			s.way[i] = from == 1 ? 0 : i % (b->aggregators + 1);
		if (local_descend(l, &s, &best, err) != 0)
			return -1;
	}
	for (int i = 0; i < LOCAL_KICKS; i++) {
		struct local_state s = best;
		local_kick(l, &s, &seed);
		if (local_descend(l, &s, &best, err) != 0)
			return -1;
	}
	if (best.cost == XFER_NO_COST)
		return 0; /* none can be: as it was */
	memcpy(order, best.order, b->count * sizeof *order);
	memcpy(way, best.way, b->count * sizeof *way);
	return 0;
}

int xfer_local(const struct xfer_batch *b, size_t *way, struct error *err)
{
	struct local l = {.b = *b};
	if (b->count == 0 || b->count > XFER_LOCAL_MAX)
		return 0;
	if (b->aggregators > XFER_LOCAL_MAX)
		l.b.aggregators = XFER_LOCAL_MAX;
	size_t parts = b->u[b->order[0]].parts;
	struct xfer_part *part = calloc(XFER_LOCAL_MAX * parts, sizeof *part);
	if (!part)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu parts", parts);
	for (size_t a = 0; a < XFER_LOCAL_MAX; a++)
		l.sum[a].part = part + a * parts;
	int result = local_search(&l, way, err);
	free(part);
	return result;
}
