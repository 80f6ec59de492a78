/*
 * The row table: open addressing with linear probing over (key, row number), rows in chunks.  A
 * batch asks for tens of thousands of keys at random places, so the time is cache misses: keys are
 * looked up in groups, each stage of a group prefetching what the next one reads.
 *
 * Never removes or moves a row: staged pushes hold pointers to them.
 */
#include "ps/table.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)1 << 20)
#define GROUP 32
#define HEAD 2 /* key and mark before the parameters */

struct slot {
	uint32_t key;
	uint32_t number; /* of the row, plus 1; 0: empty */
};

struct table {
	size_t width, stride; /* floats of a record */
	unsigned chunk_bits;  /* rows of a chunk, as a power of two */
	size_t count;
	float **chunk;
	size_t chunks, chunks_max;
	struct slot *slot;
	size_t mask;
	table_init_fn *init;
	void *arg;
};

static inline size_t hash(uint32_t key)
{
	/* murmur3's finalizer. The multiplication that picks a key's part would not do: all keys
	 * of one part share its high bits. */
	key ^= key >> 16;
	key *= 0x85ebca6bu;
	key ^= key >> 13;
	key *= 0xc2b2ae35u;
	key ^= key >> 16;
	return key;
}

static inline float *at(const struct table *t, size_t number)
{
	size_t in = number & (((size_t)1 << t->chunk_bits) - 1);

	return t->chunk[number >> t->chunk_bits] + in * t->stride + HEAD;
}

int table_new(struct table **out, size_t width, size_t slots, table_init_fn *init, void *arg,
	      struct error *err)
{
	struct table *t = calloc(1, sizeof *t);

	if (!t)
		return error_set(err, ERROR_OS, "table", "no memory");
	t->width = width;
	t->stride = HEAD + width * (1 + slots);
	t->init = init;
	t->arg = arg;
	while (((size_t)2 << t->chunk_bits) * t->stride * sizeof(float) <= CHUNK_BYTES)
		t->chunk_bits++;
	t->mask = 1023;
	t->slot = calloc(t->mask + 1, sizeof *t->slot);
	if (!t->slot) {
		free(t);
		return error_set(err, ERROR_OS, "table", "no memory");
	}
	*out = t;
	return 0;
}

void table_free(struct table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->chunks; i++)
		free(t->chunk[i]);
	free(t->chunk);
	free(t->slot);
	free(t);
}

size_t table_count(const struct table *t)
{
	return t->count;
}

float *table_at(const struct table *t, size_t i)
{
	return at(t, i);
}

static int grow_slots(struct table *t, struct error *err)
{
	size_t mask = t->mask * 4 + 3;
	struct slot *fresh = calloc(mask + 1, sizeof *fresh);

	if (!fresh)
		return error_set(err, ERROR_OS, "table", "no memory for %zu keys", mask + 1);
	for (size_t i = 0; i <= t->mask; i++) {
		if (!t->slot[i].number)
			continue;
		size_t h = hash(t->slot[i].key) & mask;
		while (fresh[h].number)
			h = (h + 1) & mask;
		fresh[h] = t->slot[i];
	}
	free(t->slot);
	t->slot = fresh;
	t->mask = mask;
	return 0;
}

static int grow_chunks(struct table *t, struct error *err)
{
	if (t->chunks == t->chunks_max) {
		size_t max = t->chunks_max ? t->chunks_max * 2 : 16;
		float **more = realloc(t->chunk, max * sizeof *more);
		if (!more)
			return error_set(err, ERROR_OS, "table", "no memory");
		t->chunk = more;
		t->chunks_max = max;
	}
	t->chunk[t->chunks] = malloc(((size_t)1 << t->chunk_bits) * t->stride * sizeof(float));
	if (!t->chunk[t->chunks])
		return error_set(err, ERROR_OS, "table", "no memory for row %zu", t->count);
	t->chunks++;
	return 0;
}

/* A new row for key; *number counts from 0. */
static int make(struct table *t, uint32_t key, size_t *number, struct error *err)
{
	if (t->count == UINT32_MAX - 1)
		return error_set(err, ERROR_OS, "table", "too many rows");
	if (t->count == t->chunks << t->chunk_bits && grow_chunks(t, err) != 0)
		return -1;
	float *row = at(t, t->count);
	uint32_t *head = (uint32_t *)(void *)(row - HEAD);
	head[0] = key;
	head[1] = 0;
	t->init(key, row, t->arg);
	*number = t->count++;
	return 0;
}

/* One group, with room for all of it in the slots. */
static int group(struct table *t, const uint32_t *key, size_t n, float **row, struct error *err)
{
	size_t place[GROUP];

	for (size_t i = 0; i < n; i++) {
		place[i] = hash(key[i]) & t->mask;
		__builtin_prefetch(&t->slot[place[i]]);
	}
	for (size_t i = 0; i < n; i++) {
		size_t h = place[i], number = 0;
		while (t->slot[h].number && t->slot[h].key != key[i])
			h = (h + 1) & t->mask;
		if (t->slot[h].number) {
			number = t->slot[h].number - 1;
		} else {
			if (make(t, key[i], &number, err) != 0)
				return -1;
			t->slot[h] = (struct slot){key[i], (uint32_t)number + 1};
		}
		row[i] = at(t, number);
		__builtin_prefetch(row[i] - HEAD, 1);
	}
	return 0;
}

int table_rows(struct table *t, const uint32_t *key, size_t n, float **row, struct error *err)
{
	uint32_t own[GROUP];

	for (size_t i = 0; i < n; i += GROUP) {
		size_t len = n - i < GROUP ? n - i : GROUP;
		if ((t->count + len) * 2 > t->mask && grow_slots(t, err) != 0)
			return -1;
		/* The keys may lie in memory that their sender still writes. */
		memcpy(own, key + i, len * sizeof *own);
		if (group(t, own, len, row + i, err) != 0)
			return -1;
	}
	return 0;
}
