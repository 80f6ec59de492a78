/*
 * The dense vector of a round: buckets, each a ring of its own.
 *
 * Chunk c begins at the host behind c, goes on from host to host, each adding its own, and is whole
 * at host c; from there it goes along the ring once more, to the host before c.  So one host makes
 * the sum of a chunk, in one order, and all others have its bits.
 */
#include "fabric/sum_internal.h"

#include <stdlib.h>
#include <string.h>

static size_t behind(const struct round *rd, size_t member)
{
	return member + 1 == rd->hosts ? 0 : member + 1;
}

static uint64_t bucket_floats(const struct round *rd)
{
	uint64_t least = rd->hosts * BUCKET_HOST_FLOATS;

	return least > BUCKET_FLOATS ? least : BUCKET_FLOATS;
}

static uint64_t chunk_begin(const struct round *rd, uint64_t length, size_t chunk)
{
	uint64_t at = (length * chunk / rd->hosts + CHUNK_UNIT - 1) / CHUNK_UNIT * CHUNK_UNIT;

	return at < length ? at : length;
}

size_t ring_chunk(const struct round *rd, uint64_t at)
{
	uint64_t bucket = bucket_floats(rd), rest = rd->floats - at / bucket * bucket;
	size_t chunk = 0;

	rest = rest < bucket ? rest : bucket;
	while (chunk_begin(rd, rest, chunk + 1) <= at % bucket)
		chunk++;
	return chunk;
}

static size_t chunk_floats(const struct round *rd, uint32_t bucket, size_t chunk)
{
	uint64_t length = unit_floats(rd, bucket);

	return (size_t)(chunk_begin(rd, length, chunk + 1) - chunk_begin(rd, length, chunk));
}

static float *chunk_at(const struct round *rd, struct piece p)
{
	return unit_at(rd, p.bucket) + chunk_begin(rd, unit_floats(rd, p.bucket), p.chunk);
}

static struct chunk *chunk_of(const struct round *rd, struct piece p)
{
	return &rd->chunk[p.bucket * rd->hosts + p.chunk];
}

/* ---- which pieces there are ---- */

static int has_partial_in(const struct round *rd, size_t chunk)
{
	return rd->self != behind(rd, chunk);
}

static int has_partial_out(const struct round *rd, size_t chunk)
{
	return rd->self != chunk;
}

static int has_final_in(const struct round *rd, size_t chunk)
{
	return rd->self != chunk;
}

static int has_final_out(const struct round *rd, size_t chunk)
{
	return behind(rd, rd->self) != chunk;
}

static int ring_exists(const struct round *rd, struct piece p)
{
	return rd->chunk && rd->hosts > 1 && p.bucket < rd->units && p.chunk < rd->hosts &&
	       chunk_floats(rd, p.bucket, p.chunk) > 0;
}

static uint8_t *ring_in(struct round *rd, size_t from, struct piece p, size_t *bytes)
{
	if (!ring_exists(rd, p) || behind(rd, from) != rd->self)
		return NULL;
	*bytes = chunk_floats(rd, p.bucket, p.chunk) * sizeof(float);
	if (p.kind == PIECE_PARTIAL)
		return has_partial_in(rd, p.chunk) ? &chunk_of(rd, p)->partial_in : NULL;
	return has_final_in(rd, p.chunk) ? &chunk_of(rd, p)->final_in : NULL;
}

static uint8_t *ring_out(struct round *rd, size_t to, struct piece p)
{
	if (!ring_exists(rd, p) || behind(rd, rd->self) != to)
		return NULL;
	if (p.kind == PIECE_PARTIAL)
		return has_partial_out(rd, p.chunk) ? &chunk_of(rd, p)->partial_out : NULL;
	return has_final_out(rd, p.chunk) ? &chunk_of(rd, p)->final_out : NULL;
}

/* Whether this host's data at the chunk's place are already what the piece is to be. */
static int ring_is_ready(const struct round *rd, struct piece p)
{
	const struct chunk *c = chunk_of(rd, p);
	int added = rd->unit[p.bucket].ready &&
		    (!has_partial_in(rd, p.chunk) || c->partial_in == PIECE_DONE);

	if (p.kind == PIECE_PARTIAL || rd->self == p.chunk)
		return added;
	return c->final_in == PIECE_DONE;
}

static const void *ring_data(struct round *rd, size_t to, struct piece p, size_t *bytes)
{
	(void)to;
	*bytes = chunk_floats(rd, p.bucket, p.chunk) * sizeof(float);
	return ring_is_ready(rd, p) ? chunk_at(rd, p) : NULL;
}

static void ring_offered(struct round *rd, size_t from, struct piece p, size_t bytes)
{
	if (p.kind == PIECE_FINAL || rd->unit[p.bucket].ready)
		wire_want(rd, from, p, bytes);
}

static void *ring_place(struct round *rd, struct piece p)
{
	return p.kind == PIECE_FINAL ? chunk_at(rd, p) : NULL;
}

/* ---- as they come ---- */

static void final_is_here(struct round *rd, struct piece p)
{
	struct unit *u = &rd->unit[p.bucket];

	/* Add it now, while it is still in a cache. */
	if (--u->left == 0 && rd->want_check)
		unit_check(rd, p.bucket);
	if (rd->hosts > 1)
		wire_offer(rd, behind(rd, rd->self),
			   (struct piece){PIECE_FINAL, p.bucket, p.chunk});
}

static void ring_add(float *restrict to, const float *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] += from[i];
}

static void add_partial(struct round *rd, struct piece p, const void *floats, struct block *block)
{
	ring_add(chunk_at(rd, p), floats, chunk_floats(rd, p.bucket, p.chunk));
	block_give(rd->sum, block);
	chunk_of(rd, p)->partial_in = PIECE_DONE;
	round_one_less(rd);
	if (rd->self == p.chunk)
		final_is_here(rd, p);
	else
		wire_offer(rd, behind(rd, rd->self), p);
}

static void ring_take(struct round *rd, size_t from, struct piece p, const void *floats,
		      size_t bytes, struct block *block)
{
	struct chunk *c = chunk_of(rd, p);

	(void)from;
	if (p.kind == PIECE_PARTIAL && rd->unit[p.bucket].ready) {
		add_partial(rd, p, floats, block);
	} else if (p.kind == PIECE_PARTIAL) {
		if (!block && (block = block_take(rd->sum, bytes)) != NULL)
			memcpy(block->data, floats, bytes);
		if (!block)
			round_fail(rd, SUM_ROOM, "out of memory");
		c->early = block;
	} else {
		if (floats)
			memcpy(chunk_at(rd, p), floats, bytes);
		block_give(rd->sum, block);
		c->final_in = PIECE_DONE;
		round_one_less(rd);
		final_is_here(rd, p);
	}
}

const struct piece_way ring_way = {ring_in,      ring_out,   ring_data,
				   ring_offered, ring_place, ring_take};

/* ---- as they become ready here ---- */

static void ready_chunk(struct round *rd, struct piece p)
{
	struct chunk *c = chunk_of(rd, p);
	size_t before = rd->self == 0 ? rd->hosts - 1 : rd->self - 1;

	if (!has_partial_in(rd, p.chunk)) {
		wire_offer(rd, behind(rd, rd->self), p);
	} else if (c->early) {
		struct block *block = c->early;
		c->early = NULL;
		add_partial(rd, p, block->data, block);
	} else if (c->partial_in == PIECE_OFFERED) {
		wire_want(rd, before, p, chunk_floats(rd, p.bucket, p.chunk) * sizeof(float));
	}
}

static void ring_ready(struct round *rd, uint32_t bucket)
{
	for (uint32_t i = 0; i < rd->hosts; i++) {
		/* Each host begins with another chunk: with the one that starts here. */
		struct piece p = {PIECE_PARTIAL, bucket,
				  (uint32_t)((rd->self + rd->hosts - 1 + i) % rd->hosts)};
		if (ring_exists(rd, p))
			ready_chunk(rd, p);
	}
	if (rd->hosts == 1 && rd->want_check)
		unit_check(rd, bucket);
}

/* All that comes from the host before this one finds room. */
static void give_ahead(struct round *rd, size_t before)
{
	for (uint32_t i = 0; i < 2 * rd->units * rd->hosts; i++) {
		struct piece p = {i % 2 ? PIECE_FINAL : PIECE_PARTIAL, (uint32_t)(i / 2 / rd->hosts),
				  (uint32_t)(i / 2 % rd->hosts)};
		size_t bytes;
		uint8_t *state = ring_in(rd, before, p, &bytes);
		if (state && !wire_is_short(bytes))
			wire_want(rd, before, p, bytes);
	}
}

void ring_give_back(struct round *rd)
{
	for (size_t i = 0; rd->chunk && rd->gives_ahead && i < rd->units * rd->hosts; i++) {
		struct chunk *c = &rd->chunk[i];
		if (c->partial_out >= PIECE_GIVEN)
			wire_send_nothing(rd, behind(rd, rd->self), c->partial_out);
		if (c->final_out >= PIECE_GIVEN)
			wire_send_nothing(rd, behind(rd, rd->self), c->final_out);
	}
}

static void ring_met(struct round *rd, size_t member)
{
	if (rd->hosts > 1 && rd->gives_ahead && behind(rd, member) == rd->self)
		give_ahead(rd, member);
	if (rd->hosts == 1 || member != behind(rd, rd->self))
		return;
	for (uint32_t b = 0; b < rd->units; b++) {
		for (uint32_t c = 0; c < rd->hosts; c++) {
			wire_offer(rd, member, (struct piece){PIECE_PARTIAL, b, c});
			wire_offer(rd, member, (struct piece){PIECE_FINAL, b, c});
		}
	}
}

/* ---- the whole of it ---- */

static void count_missing(struct round *rd, uint32_t bucket)
{
	for (uint32_t c = 0; c < rd->hosts; c++) {
		if (!ring_exists(rd, (struct piece){PIECE_PARTIAL, bucket, c}))
			continue;
		rd->left += (uint64_t)(has_partial_in(rd, c) + has_partial_out(rd, c) +
				       has_final_in(rd, c) + has_final_out(rd, c));
		rd->unit[bucket].left++;
	}
}

static int ring_begin(struct round *rd)
{
	if (units_make(rd, bucket_floats(rd)) != 0)
		return -1;
	rd->chunk = calloc(rd->units * rd->hosts + 1, sizeof *rd->chunk);
	if (!rd->chunk)
		return -1;
	for (uint32_t b = 0; b < rd->units; b++)
		count_missing(rd, b);
	/* All of it must find room: a host may wait for what it has given none for as long as others
	 * do for what was given some and is not ready. And who may not know yet that it is the ring
	 * does not know what the room is for. */
	uint64_t pieces = 2 * rd->units * rd->hosts;
	rd->gives_ahead = !shares_are_thought_of(rd) && pieces <= RECEIVES_MAX &&
			  (2 * rd->floats / rd->hosts * (rd->hosts - 1) + pieces * CHUNK_UNIT) *
					  sizeof(float) <=
				  WINDOW_BYTES;
	return 0;
}

static void ring_end(struct round *rd)
{
	for (size_t i = 0; rd->chunk && i < rd->units * rd->hosts; i++)
		block_give(rd->sum, rd->chunk[i].early);
	free(rd->chunk);
	rd->chunk = NULL;
}

const struct dense_way dense_by_ring = {ring_begin, ring_end, ring_ready, ring_met};
