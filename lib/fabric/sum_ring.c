/*
 * The dense vector of an epoch: buckets, each a ring of its own.
 *
 * Chunk c begins at the host behind c, goes on from host to host, each adding its own, and is whole
 * at host c; from there it goes round again, to the host before c.  So one host makes the sum of a
 * chunk, in one order, and all others have its bits.
 */
#include "fabric/sum_internal.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static size_t behind(const struct epoch *e, size_t member)
{
	return member + 1 == e->hosts ? 0 : member + 1;
}

static uint64_t bucket_length(const struct epoch *e, uint32_t bucket)
{
	uint64_t rest = e->floats - bucket * e->bucket_floats;

	return rest < e->bucket_floats ? rest : e->bucket_floats;
}

static uint64_t chunk_begin(const struct epoch *e, uint64_t length, size_t chunk)
{
	uint64_t at = (length * chunk / e->hosts + CHUNK_UNIT - 1) / CHUNK_UNIT * CHUNK_UNIT;

	return at < length ? at : length;
}

static size_t chunk_floats(const struct epoch *e, uint32_t bucket, size_t chunk)
{
	uint64_t length = bucket_length(e, bucket);

	return (size_t)(chunk_begin(e, length, chunk + 1) - chunk_begin(e, length, chunk));
}

static float *chunk_at(const struct epoch *e, struct piece p)
{
	return e->dense + p.bucket * e->bucket_floats +
	       chunk_begin(e, bucket_length(e, p.bucket), p.chunk);
}

static struct chunk *chunk_of(const struct epoch *e, struct piece p)
{
	return &e->chunk[p.bucket * e->hosts + p.chunk];
}

/* ---- which pieces there are ---- */

static int has_partial_in(const struct epoch *e, size_t chunk)
{
	return e->self != behind(e, chunk);
}

static int has_partial_out(const struct epoch *e, size_t chunk)
{
	return e->self != chunk;
}

static int has_final_in(const struct epoch *e, size_t chunk)
{
	return e->self != chunk;
}

static int has_final_out(const struct epoch *e, size_t chunk)
{
	return behind(e, e->self) != chunk;
}

static int ring_exists(const struct epoch *e, struct piece p)
{
	return e->hosts > 1 && p.bucket < e->buckets && p.chunk < e->hosts &&
	       chunk_floats(e, p.bucket, p.chunk) > 0;
}

static uint8_t *ring_in(struct epoch *e, size_t from, struct piece p, size_t *bytes)
{
	if (!ring_exists(e, p) || behind(e, from) != e->self)
		return NULL;
	*bytes = chunk_floats(e, p.bucket, p.chunk) * sizeof(float);
	if (p.kind == PIECE_PARTIAL)
		return has_partial_in(e, p.chunk) ? &chunk_of(e, p)->partial_in : NULL;
	return has_final_in(e, p.chunk) ? &chunk_of(e, p)->final_in : NULL;
}

static uint8_t *ring_out(struct epoch *e, size_t to, struct piece p)
{
	if (!ring_exists(e, p) || behind(e, e->self) != to)
		return NULL;
	if (p.kind == PIECE_PARTIAL)
		return has_partial_out(e, p.chunk) ? &chunk_of(e, p)->partial_out : NULL;
	return has_final_out(e, p.chunk) ? &chunk_of(e, p)->final_out : NULL;
}

/* Whether this host's data at the chunk's place are already what the piece is to be. */
static int ring_is_ready(const struct epoch *e, struct piece p)
{
	const struct chunk *c = chunk_of(e, p);
	int added = e->bucket[p.bucket].ready &&
		    (!has_partial_in(e, p.chunk) || c->partial_in == PIECE_DONE);

	if (p.kind == PIECE_PARTIAL || e->self == p.chunk)
		return added;
	return c->final_in == PIECE_DONE;
}

static const void *ring_data(struct epoch *e, size_t to, struct piece p, size_t *bytes)
{
	(void)to;
	*bytes = chunk_floats(e, p.bucket, p.chunk) * sizeof(float);
	return ring_is_ready(e, p) ? chunk_at(e, p) : NULL;
}

static int ring_wanted(struct epoch *e, struct piece p)
{
	return p.kind == PIECE_FINAL || e->bucket[p.bucket].ready;
}

static void *ring_place(struct epoch *e, struct piece p)
{
	return p.kind == PIECE_FINAL ? chunk_at(e, p) : NULL;
}

/* ---- as they come ---- */

static void check_bucket(struct epoch *e, uint32_t bucket)
{
	struct bucket *b = &e->bucket[bucket];

	b->check = XXH3_64bits(e->dense + bucket * e->bucket_floats,
			       (size_t)bucket_length(e, bucket) * sizeof(float));
	b->checked = 1;
}

static void final_is_here(struct epoch *e, struct piece p)
{
	struct bucket *b = &e->bucket[p.bucket];

	/* Add it now, while it is still in a cache. */
	if (--b->left == 0 && e->want_check)
		check_bucket(e, p.bucket);
	if (e->hosts > 1)
		wire_offer(e, behind(e, e->self), (struct piece){PIECE_FINAL, p.bucket, p.chunk});
}

static void ring_add(float *restrict to, const float *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] += from[i];
}

static void add_partial(struct epoch *e, struct piece p, const void *floats, struct block *block)
{
	ring_add(chunk_at(e, p), floats, chunk_floats(e, p.bucket, p.chunk));
	block_give(e->sum, block);
	chunk_of(e, p)->partial_in = PIECE_DONE;
	epoch_one_less(e);
	if (e->self == p.chunk)
		final_is_here(e, p);
	else
		wire_offer(e, behind(e, e->self), p);
}

static void ring_take(struct epoch *e, size_t from, struct piece p, const void *floats,
		      size_t bytes, struct block *block)
{
	struct chunk *c = chunk_of(e, p);

	(void)from;
	if (p.kind == PIECE_PARTIAL && e->bucket[p.bucket].ready) {
		add_partial(e, p, floats, block);
	} else if (p.kind == PIECE_PARTIAL) {
		if (!block && (block = block_take(e->sum, bytes)) != NULL)
			memcpy(block->data, floats, bytes);
		if (!block)
			epoch_fail(e, SUM_ROOM, "out of memory");
		c->early = block;
	} else {
		if (floats)
			memcpy(chunk_at(e, p), floats, bytes);
		block_give(e->sum, block);
		c->final_in = PIECE_DONE;
		epoch_one_less(e);
		final_is_here(e, p);
	}
}

const struct piece_way ring_way = {ring_in,     ring_out,   ring_data,
				   ring_wanted, ring_place, ring_take};

/* ---- as they become ready here ---- */

static void ready_chunk(struct epoch *e, struct piece p)
{
	struct chunk *c = chunk_of(e, p);
	size_t before = e->self == 0 ? e->hosts - 1 : e->self - 1;

	if (!has_partial_in(e, p.chunk)) {
		wire_offer(e, behind(e, e->self), p);
	} else if (c->early) {
		struct block *block = c->early;
		c->early = NULL;
		add_partial(e, p, block->data, block);
	} else if (c->partial_in == PIECE_OFFERED) {
		wire_want(e, before, p, chunk_floats(e, p.bucket, p.chunk) * sizeof(float));
	}
}

static void ring_ready(struct epoch *e, uint32_t bucket)
{
	e->bucket[bucket].ready = 1;
	epoch_one_less(e);
	for (uint32_t i = 0; i < e->hosts; i++) {
		/* Each host begins with another chunk: with the one that starts here. */
		struct piece p = {PIECE_PARTIAL, bucket,
				  (uint32_t)((e->self + e->hosts - 1 + i) % e->hosts)};
		if (ring_exists(e, p))
			ready_chunk(e, p);
	}
	if (e->hosts == 1 && e->want_check)
		check_bucket(e, bucket);
}

void ring_part(struct epoch *e, uint64_t begin, uint64_t end)
{
	while (begin < end) {
		uint32_t bucket = (uint32_t)(begin / e->bucket_floats);
		uint64_t behind_it = (bucket + UINT64_C(1)) * e->bucket_floats;
		uint64_t to = end < behind_it ? end : behind_it;
		e->bucket[bucket].filled += to - begin;
		if (e->bucket[bucket].filled == bucket_length(e, bucket))
			ring_ready(e, bucket);
		begin = to;
	}
}

void ring_met(struct epoch *e, size_t member)
{
	if (e->hosts == 1 || member != behind(e, e->self))
		return;
	for (uint32_t b = 0; b < e->buckets; b++) {
		for (uint32_t c = 0; c < e->hosts; c++) {
			wire_offer(e, member, (struct piece){PIECE_PARTIAL, b, c});
			wire_offer(e, member, (struct piece){PIECE_FINAL, b, c});
		}
	}
}

uint64_t ring_check(struct epoch *e)
{
	uint64_t check = 0;

	for (uint32_t b = 0; b < e->buckets; b++) {
		if (!e->bucket[b].checked)
			check_bucket(e, b);
		check = XXH3_64bits_withSeed(&e->bucket[b].check, sizeof check, check);
	}
	return check;
}

/* ---- the whole of it ---- */

static void count_missing(struct epoch *e, uint32_t bucket)
{
	e->left++; /* this host's own */
	for (uint32_t c = 0; c < e->hosts; c++) {
		if (!ring_exists(e, (struct piece){PIECE_PARTIAL, bucket, c}))
			continue;
		e->left += (uint64_t)(has_partial_in(e, c) + has_partial_out(e, c) +
				      has_final_in(e, c) + has_final_out(e, c));
		e->bucket[bucket].left++;
	}
}

int ring_begin(struct epoch *e)
{
	uint64_t least = e->hosts * BUCKET_HOST_FLOATS;

	e->bucket_floats = least > BUCKET_FLOATS ? least : BUCKET_FLOATS;
	uint64_t buckets = e->floats / e->bucket_floats + (e->floats % e->bucket_floats != 0);
	if (buckets == 0)
		return 0;
	if (buckets > UINT32_MAX)
		return -1;
	e->buckets = (uint32_t)buckets;
	e->bucket = calloc(e->buckets, sizeof *e->bucket);
	e->chunk = calloc(buckets * e->hosts, sizeof *e->chunk);
	if (!e->bucket || !e->chunk)
		return -1;
	for (uint32_t b = 0; b < e->buckets; b++)
		count_missing(e, b);
	return 0;
}

void ring_end(struct epoch *e)
{
	for (size_t i = 0; e->chunk && i < e->buckets * e->hosts; i++)
		block_give(e->sum, e->chunk[i].early);
	free(e->chunk);
	free(e->bucket);
	ranges_free(&e->parts);
	e->chunk = NULL;
	e->bucket = NULL;
	e->buckets = 0;
}
