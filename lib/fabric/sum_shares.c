/*
 * The dense vector of a round by shares: segments, each summed by one host, its owner.
 *
 * Each host sends a segment to its owner, who adds all hosts' in the order of the ring, and sends
 * the sum to all.  So the bits of a sum do not depend on who owns what, and hosts with fast links
 * may own more.  Who owns what, or that it is the ring, is the first host's decision, for each
 * round anew (sum_plan.c); it tells the others as soon as it has met them.  What comes from a host
 * that heard of it earlier waits until it is known here, too.
 *
 * An owner asks for a segment when all hosts have it ready: one that is slow costs the others no
 * memory.  Only some segments are on their way to it at once.
 *
 * When the link of an owner becomes slower in the middle of a round, the segments that it has not
 * asked for get other owners.  It alone decides that: nobody has sent anything of them yet.  What
 * is said of a segment names its owner's turn, so that words for the one before are told from those
 * for a new one, who may not know yet that it is that (tests/model/owners.pml).
 */
#include "fabric/sum_internal.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENTS_MIN 64
#define SEGMENTS_HOST 8                        /* at least: so many for each host */
#define SEGMENT_FLOATS_MAX (UINT64_C(1) << 17) /* 512 KB */
#define TILE CHUNK_UNIT                        /* floats that are added at a time */

/* Of one segment what a host gives to its owner, and whether it has got the sum. */
struct given {
	uint8_t in, out; /* enum piece_state */
	struct block *block;
};

struct segment {
	size_t owner;
	uint32_t turn;             /* the owner's: so many had it before */
	struct given *given;       /* of each host, at its owner */
	size_t offered, missing;   /* of the others, at its owner */
	uint8_t begun;             /* at its owner: it has asked for it */
	uint8_t share_out, sum_in; /* at other hosts; enum piece_state */
	struct segment *next;      /* that may begin */
};

struct early {
	struct early *next;
	unsigned rank;
	size_t bytes;
	_Alignas(8) char data[];
};

struct shares {
	uint32_t *count; /* of each host; NULL: not known yet */
	struct segment *segment;
	struct segment *first, **last; /* that may begin */
	size_t begun, begun_max;
	int others_give; /* another host has given segments away in this round */
	struct early *early, **early_last;
};

static struct segment *segment_of(const struct round *rd, struct piece p)
{
	const struct shares *s = rd->shares;

	if (!s || !s->count || p.bucket >= rd->units || p.chunk != s->segment[p.bucket].turn)
		return NULL;
	return &s->segment[p.bucket];
}

/* What a host gives to its owner, or the owner to it. */
static struct piece piece_of(const struct round *rd, enum piece_kind kind, uint32_t i)
{
	return (struct piece){kind, i, rd->shares->segment[i].turn};
}

static uint8_t *shares_in(struct round *rd, size_t from, struct piece p, size_t *bytes)
{
	struct segment *g = segment_of(rd, p);

	if (!g || from == rd->self)
		return NULL;
	*bytes = unit_floats(rd, p.bucket) * sizeof(float);
	if (p.kind == PIECE_SHARE)
		return g->owner == rd->self ? &g->given[from].in : NULL;
	return g->owner == from ? &g->sum_in : NULL;
}

static uint8_t *shares_out(struct round *rd, size_t to, struct piece p)
{
	struct segment *g = segment_of(rd, p);

	if (!g || to == rd->self)
		return NULL;
	if (p.kind == PIECE_SHARE)
		return g->owner == to ? &g->share_out : NULL;
	return g->owner == rd->self ? &g->given[to].out : NULL;
}

static const void *shares_data(struct round *rd, size_t to, struct piece p, size_t *bytes)
{
	struct segment *g = segment_of(rd, p);

	(void)to;
	*bytes = unit_floats(rd, p.bucket) * sizeof(float);
	return rd->unit[p.bucket].ready && (p.kind == PIECE_SHARE || g->missing == 0)
		       ? unit_at(rd, p.bucket)
		       : NULL;
}

static void *shares_place(struct round *rd, struct piece p)
{
	return p.kind == PIECE_SUM ? unit_at(rd, p.bucket) : NULL;
}

/* ---- at the owner ---- */

static void add_shares(struct round *rd, uint32_t i)
{
	struct segment *g = &rd->shares->segment[i];
	size_t floats = unit_floats(rd, i);
	float *own = unit_at(rd, i), sum[TILE];

	for (size_t at = 0; at < floats; at += TILE) {
		size_t n = floats - at < TILE ? floats - at : TILE;
		size_t begin = ring_chunk(rd, i * rd->unit_floats + at) + 1;
		for (size_t k = 0; k < rd->hosts; k++) {
			size_t h = (begin + k) % rd->hosts;
			const float *from =
				(h == rd->self
					 ? own
					 : (const float *)(const void *)g->given[h].block->data) +
				at;
			if (k == 0)
				memcpy(sum, from, n * sizeof *sum);
			else
				for (size_t j = 0; j < n; j++)
					sum[j] += from[j];
		}
		memcpy(own + at, sum, n * sizeof *sum);
	}
	for (size_t h = 0; h < rd->hosts; h++) {
		block_give(rd->sum, g->given[h].block);
		g->given[h].block = NULL;
	}
	if (rd->want_check)
		unit_check(rd, i);
}

static void begin_segments(struct round *rd)
{
	struct shares *s = rd->shares;

	while (s->first && s->begun < s->begun_max) {
		struct segment *g = s->first;
		uint32_t i = (uint32_t)(g - s->segment);
		s->first = g->next;
		if (!s->first)
			s->last = &s->first;
		s->begun++;
		g->begun = 1;
		for (size_t k = 1; k < rd->hosts; k++)
			wire_want(rd, (rd->self + k) % rd->hosts, piece_of(rd, PIECE_SHARE, i),
				  unit_floats(rd, i) * sizeof(float));
	}
}

static int is_ready(const struct round *rd, const struct segment *g)
{
	return rd->unit[g - rd->shares->segment].ready;
}

/* All hosts have it ready. */
static void segment_may_begin(struct round *rd, struct segment *g)
{
	struct shares *s = rd->shares;

	if (!is_ready(rd, g) || g->offered < rd->hosts - 1)
		return;
	*s->last = g;
	g->next = NULL;
	s->last = &g->next;
	begin_segments(rd);
}

/* This host's own and all others' are here. */
static void segment_whole(struct round *rd, struct segment *g)
{
	struct shares *s = rd->shares;
	uint32_t i = (uint32_t)(g - s->segment);

	if (!is_ready(rd, g) || g->missing)
		return;
	add_shares(rd, i);
	for (size_t k = 1; k < rd->hosts; k++)
		wire_offer(rd, (rd->self + k) % rd->hosts, piece_of(rd, PIECE_SUM, i));
	if (g->offered) {
		s->begun--;
		begin_segments(rd);
	}
}

/* ---- as they come ---- */

static void shares_offered(struct round *rd, size_t from, struct piece p, size_t bytes)
{
	struct segment *g = segment_of(rd, p);

	if (p.kind == PIECE_SUM) {
		wire_want(rd, from, p, bytes);
	} else {
		g->offered++;
		segment_may_begin(rd, g);
	}
}

static void shares_take(struct round *rd, size_t from, struct piece p, const void *floats,
			size_t bytes, struct block *block)
{
	struct segment *g = segment_of(rd, p);

	if (p.kind == PIECE_SUM) {
		if (floats)
			memcpy(unit_at(rd, p.bucket), floats, bytes);
		block_give(rd->sum, block);
		g->sum_in = PIECE_DONE;
		round_one_less(rd);
		if (rd->want_check)
			unit_check(rd, p.bucket);
		return;
	}
	if (!block && (block = block_take(rd->sum, bytes)) != NULL)
		memcpy(block->data, floats, bytes);
	if (!block) {
		round_fail(rd, SUM_ROOM, "out of memory");
		return;
	}
	g->given[from].block = block;
	g->given[from].in = PIECE_DONE;
	g->missing--;
	round_one_less(rd);
	segment_whole(rd, g);
}

const struct piece_way shares_way = {shares_in,      shares_out,   shares_data,
				     shares_offered, shares_place, shares_take};

/* ---- as they become ready here ---- */

static void shares_ready(struct round *rd, uint32_t i)
{
	struct shares *s = rd->shares;
	struct segment *g = &s->segment[i];

	if (!s->count)
		return;
	if (g->owner != rd->self) {
		wire_offer(rd, g->owner, piece_of(rd, PIECE_SHARE, i));
		return;
	}
	segment_may_begin(rd, g);
	segment_whole(rd, g);
}

/* ---- who owns what ---- */

/* Each host's segments are spread evenly over the vector: parts of it become ready one after
 * another, and all owners are to have something to do. */
static size_t next_owner(int64_t *due, const uint32_t *count, size_t hosts, uint32_t all)
{
	size_t most = 0;

	for (size_t h = 0; h < hosts; h++) {
		due[h] += count[h];
		if (due[h] > due[most])
			most = h;
	}
	due[most] -= all;
	return most;
}

static int spread(struct round *rd)
{
	struct shares *s = rd->shares;
	int64_t *due = calloc(rd->hosts, sizeof *due);

	if (!due)
		return -1;
	for (uint32_t i = 0; i < rd->units; i++)
		s->segment[i].owner = next_owner(due, s->count, rd->hosts, rd->units);
	free(due);
	return 0;
}

static void shares_met(struct round *rd, size_t member)
{
	struct shares *s = rd->shares;

	if (!s->count)
		return;
	if (rd->self == 0)
		wire_tell_plan(rd, member, s->count);
	for (uint32_t i = 0; i < rd->units; i++) {
		if (s->segment[i].turn > 0)
			wire_tell_owner(rd, member, i, s->segment[i].turn, s->segment[i].owner);
	}
	for (uint32_t i = 0; i < rd->units; i++) {
		if (s->segment[i].owner == member)
			wire_offer(rd, member, piece_of(rd, PIECE_SHARE, i));
		else if (s->segment[i].owner == rd->self)
			wire_offer(rd, member, piece_of(rd, PIECE_SUM, i));
	}
}

/* It is this host's from here on. -1: no memory. */
static int own_segment(struct round *rd, struct segment *g)
{
	g->given = calloc(rd->hosts, sizeof *g->given);
	g->missing = rd->hosts - 1;
	g->offered = 0;
	rd->left += 2 * (rd->hosts - 1);
	rd->sum->owned += 1.0 / rd->units;
	return g->given ? 0 : -1;
}

static int take_plan(struct round *rd, uint32_t *count)
{
	struct shares *s = rd->shares;

	s->count = count;
	s->begun_max = plan_begun(rd, count);
	if (spread(rd) != 0)
		return -1;
	rd->sum->owned = 0;
	for (uint32_t i = 0; i < rd->units; i++) {
		if (s->segment[i].owner != rd->self)
			rd->left += 2;
		else if (own_segment(rd, &s->segment[i]) != 0)
			return -1;
	}
	return 0;
}

static void shares_replay(struct round *rd, struct early *e)
{
	while (e) {
		struct early *next = e->next;
		wire_take(rd->sum, e->rank, e->data, e->bytes);
		free(e);
		e = next;
	}
}

static void replay_early(struct round *rd)
{
	struct early *early = rd->shares->early;

	rd->shares->early = NULL;
	rd->shares->early_last = &rd->shares->early;
	shares_replay(rd, early);
}

/* ---- or the ring ---- */

/* -1: no memory. */
static int be_ring(struct round *rd)
{
	struct shares *s = rd->shares;

	rd->left -= rd->units + UINT64_C(1);
	for (uint32_t i = 0; i < rd->units; i++)
		rd->left += rd->unit[i].ready;
	free(rd->unit);
	rd->unit = NULL;
	rd->units = 0;
	free(s->segment);
	free(s);
	rd->shares = NULL;
	rd->way = &dense_by_ring;
	rd->sum->owned = 1.0 / (double)rd->hosts;
	rd->sum->by_ring++;
	return rd->way->begin(rd);
}

/* The first host has said so: what was named, who was met and what came comes once more. */
static void become_ring(struct round *rd)
{
	struct early *early = rd->shares->early;

	if (be_ring(rd) != 0)
		round_fail(rd, SUM_ROOM, "out of memory");
	for (size_t i = 0; i < rd->parts.count && !rd->failed; i++)
		units_part(rd, rd->parts.range[i].begin, rd->parts.range[i].end);
	for (size_t i = 0; i < rd->hosts && !rd->failed; i++) {
		if (i != rd->self && rd->member[i].life)
			rd->way->met(rd, i);
	}
	shares_replay(rd, early);
}

int shares_plan(struct round *rd, const uint32_t *count)
{
	struct shares *s = rd->shares;
	uint32_t *copy;
	uint64_t all = 0;

	for (size_t i = 0; i < rd->hosts; i++)
		all += count[i];
	if (s->count || (all && all != rd->units))
		return -1;
	if (all == 0) {
		become_ring(rd);
		return 0;
	}
	copy = calloc(rd->hosts, sizeof *copy);
	if (copy)
		memcpy(copy, count, rd->hosts * sizeof *copy);
	if (!copy || take_plan(rd, copy) != 0) {
		round_fail(rd, SUM_ROOM, "out of memory");
		return 0;
	}
	round_one_less(rd);
	for (size_t i = 0; i < rd->hosts; i++)
		if (i != rd->self)
			shares_met(rd, i);
	replay_early(rd);
	return 0;
}

static int keep_early(struct round *rd, unsigned rank, const void *data, size_t bytes)
{
	struct early *e = malloc(sizeof *e + bytes);

	if (!e) {
		round_fail(rd, SUM_ROOM, "out of memory");
		return 1;
	}
	*e = (struct early){NULL, rank, bytes};
	memcpy(e->data, data, bytes);
	*rd->shares->early_last = e;
	rd->shares->early_last = &e->next;
	return 1;
}

int shares_keep_early(struct round *rd, unsigned rank, const void *data, size_t bytes)
{
	return rd->shares->count ? 0 : keep_early(rd, rank, data, bytes);
}

int shares_defer(struct round *rd, unsigned rank, struct piece p, const void *data, size_t bytes)
{
	const struct shares *s = rd->shares;

	if (!s->count)
		return keep_early(rd, rank, data, bytes);
	if (p.bucket >= rd->units || p.chunk == s->segment[p.bucket].turn)
		return 0;
	/* For an owner before: the new one is told, too. */
	return p.chunk < s->segment[p.bucket].turn || keep_early(rd, rank, data, bytes);
}

/* ---- other owners in the middle of a round ---- */

int shares_owner(struct round *rd, uint32_t i, uint32_t turn, size_t owner)
{
	struct shares *s = rd->shares;

	if (i >= rd->units || owner >= rd->hosts)
		return -1;
	struct segment *g = &s->segment[i];
	s->others_give = 1;
	if (turn <= g->turn)
		return 0;
	if (g->owner == rd->self || g->share_out > PIECE_OFFERED || g->sum_in != PIECE_NOT_YET)
		return -1;
	g->turn = turn;
	g->owner = owner;
	g->share_out = PIECE_NOT_YET;
	if (owner == rd->self) {
		rd->left -= 2;
		if (own_segment(rd, g) != 0) {
			round_fail(rd, SUM_ROOM, "out of memory");
			return 0;
		}
	}
	if (is_ready(rd, g))
		shares_ready(rd, i);
	replay_early(rd);
	return 0;
}

/* Nobody has been asked for it, and nobody sends it without. Once: where all have become slower, no
 * segment is to go round. */
static int may_be_given_away(const struct round *rd, uint32_t i)
{
	const struct segment *g = &rd->shares->segment[i];

	return g->owner == rd->self && !g->begun && g->turn == 0 &&
	       !wire_is_short(unit_floats(rd, i) * sizeof(float));
}

static void forget_to_begin(struct shares *s, const struct segment *g)
{
	for (struct segment **at = &s->first; *at; at = &(*at)->next) {
		if (*at != g)
			continue;
		*at = g->next;
		if (!*at)
			s->last = at;
		return;
	}
}

static void give_away(struct round *rd, uint32_t i, size_t owner)
{
	struct segment *g = &rd->shares->segment[i];

	forget_to_begin(rd->shares, g);
	free(g->given);
	g->given = NULL;
	g->owner = owner;
	g->turn++;
	rd->left = rd->left - 2 * (rd->hosts - 1) + 2;
	rd->sum->owned -= 1.0 / rd->units;
	for (size_t h = 0; h < rd->hosts; h++) {
		if (h != rd->self && rd->member[h].life)
			wire_tell_owner(rd, h, i, g->turn, owner);
	}
	if (is_ready(rd, g))
		shares_ready(rd, i);
}

/* Not when another host has: who sends to a slow host alone, or gets from it, looks as slow. */
void shares_follow(struct round *rd)
{
	const struct shares *s = rd->shares;
	uint32_t may = 0, own = 0, *count = calloc(rd->hosts, sizeof *count);
	int64_t *due = calloc(rd->hosts, sizeof *due);

	for (uint32_t i = 0; s->count && !s->others_give && i < rd->units; i++) {
		own += s->segment[i].owner == rd->self;
		may += (uint32_t)may_be_given_away(rd, i);
	}
	/* Without memory they stay where they are. */
	uint32_t away = may && count && due ? plan_away(rd, own, may, count) : 0;
	for (uint32_t i = 0, gone = 0; gone < away; i++) {
		if (!may_be_given_away(rd, i))
			continue;
		give_away(rd, i, next_owner(due, count, rd->hosts, away));
		gone++;
	}
	free(count);
	free(due);
}

/* ---- the whole of it ---- */

static uint64_t floats_of_segments(const struct round *rd)
{
	uint64_t least = rd->hosts * SEGMENTS_HOST,
		 segments = least > SEGMENTS_MIN ? least : SEGMENTS_MIN;
	uint64_t floats = rd->floats / segments;

	if (floats > SEGMENT_FLOATS_MAX)
		floats = SEGMENT_FLOATS_MAX;
	return (floats + CHUNK_UNIT - 1) / CHUNK_UNIT * CHUNK_UNIT + (floats == 0 ? CHUNK_UNIT : 0);
}

static int shares_begin(struct round *rd)
{
	struct shares *s = rd->shares = calloc(1, sizeof *s);
	uint32_t *count = NULL;
	uint64_t owned = 0;

	if (!s)
		return -1;
	s->last = &s->first;
	s->early_last = &s->early;
	if (units_make(rd, floats_of_segments(rd)) != 0)
		return -1;
	s->segment = calloc(rd->units + 1, sizeof *s->segment);
	if (!s->segment)
		return -1;
	rd->left++; /* the plan */
	if (rd->self != 0)
		return 0;
	count = calloc(rd->hosts, sizeof *count);
	if (!count || plan_shares(rd, count) != 0) {
		free(count);
		return -1;
	}
	for (size_t i = 0; i < rd->hosts; i++)
		owned += count[i];
	if (owned == 0) {
		free(count);
		rd->tells_ring = 1;
		return be_ring(rd);
	}
	if (take_plan(rd, count) != 0)
		return -1;
	round_one_less(rd);
	return 0;
}

static void shares_end(struct round *rd)
{
	struct shares *s = rd->shares;

	if (!s)
		return;
	for (uint32_t i = 0; s->segment && i < rd->units; i++) {
		struct segment *g = &s->segment[i];
		for (size_t h = 0; g->given && h < rd->hosts; h++)
			block_give(rd->sum, g->given[h].block);
		free(g->given);
	}
	while (s->early) {
		struct early *e = s->early;
		s->early = e->next;
		free(e);
	}
	free(s->segment);
	free(s->count);
	free(s);
	rd->shares = NULL;
}

const struct dense_way dense_by_shares = {shares_begin, shares_end, shares_ready, shares_met};
