/*
 * The row table: open addressing with linear probing over (key, row number), rows in chunks.  A
 * batch asks for tens of thousands of keys at random places, so the time is cache misses: keys are
 * looked up in groups, each stage of a group prefetching what the next one reads.
 *
 * Rows stay where they are until some are removed: staged pushes hold pointers to them.
 */
#include "param/table.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_BYTES ((size_t)2 << 20)
#define CHUNK_BYTES (4 * HUGE_BYTES)
#define GROUP 32
#define HEAD 3 /* generation, key and mark before the parameters */

struct slot {
	uint32_t key;
	uint32_t number; /* of the row, plus 1; 0: empty */
};

struct table {
	size_t width, stride; /* floats of a record */
	unsigned chunk_bits;  /* rows of a chunk, as a power of two */
	size_t count;
	uint32_t generation;
	float **chunk;
	size_t chunks, chunks_max, chunk_bytes;
	struct slot *slot;
	size_t mask;
	table_init_fn *init;
	void *arg;
};

/* Zeroed memory, in huge pages where it is large: with small ones a random access costs a walk
 * through page tables besides the cache miss. NULL: none. */
static void *memory_new(size_t bytes)
{
	size_t room = bytes < HUGE_BYTES ? bytes : bytes + HUGE_BYTES;
	char *base = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (base == MAP_FAILED)
		return NULL;
	if (room == bytes)
		return base;
	/* Give back what is not aligned. */
	size_t before = (HUGE_BYTES - (size_t)(uintptr_t)base % HUGE_BYTES) % HUGE_BYTES;
	if (before)
		munmap(base, before);
	munmap(base + before + bytes, HUGE_BYTES - before);
	(void)madvise(base + before, bytes, MADV_HUGEPAGE);
	return base + before;
}

static size_t page_round(size_t bytes)
{
	return (bytes + 4095) / 4096 * 4096;
}

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
		return error_set(err, ERROR_OS, "table", "out of memory");
	t->width = width;
	t->stride = HEAD + width * (1 + slots);
	t->generation = 1;
	t->init = init;
	t->arg = arg;
	while (((size_t)2 << t->chunk_bits) * t->stride * sizeof(float) <= CHUNK_BYTES)
		t->chunk_bits++;
	t->chunk_bytes = page_round(((size_t)1 << t->chunk_bits) * t->stride * sizeof(float));
	t->mask = 1023;
	t->slot = memory_new(page_round((t->mask + 1) * sizeof *t->slot));
	if (!t->slot) {
		free(t);
		return error_set(err, ERROR_OS, "table", "out of memory");
	}
	*out = t;
	return 0;
}

void table_free(struct table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->chunks; i++)
		munmap(t->chunk[i], t->chunk_bytes);
	free(t->chunk);
	munmap(t->slot, page_round((t->mask + 1) * sizeof *t->slot));
	free(t);
}

size_t table_count(const struct table *t)
{
	return t->count;
}

uint32_t table_generation(const struct table *t)
{
	return t->generation;
}

void table_next_generation(struct table *t)
{
	t->generation++;
}

float *table_at(const struct table *t, size_t i)
{
	return at(t, i);
}

static int grow_slots(struct table *t, struct error *err)
{
	size_t mask = t->mask * 2 + 1;
	struct slot *fresh = memory_new(page_round((mask + 1) * sizeof *fresh));

	if (!fresh)
		return error_set(err, ERROR_OS, "table", "out of memory for %zu keys", mask + 1);
	for (size_t i = 0; i <= t->mask; i++) {
		if (!t->slot[i].number)
			continue;
		size_t h = hash(t->slot[i].key) & mask;
		while (fresh[h].number)
			h = (h + 1) & mask;
		fresh[h] = t->slot[i];
	}
	munmap(t->slot, page_round((t->mask + 1) * sizeof *t->slot));
	t->slot = fresh;
	t->mask = mask;
	return 0;
}

static int grow_chunks(struct table *t, struct error *err)
{
	if (GROW(t->chunk, t->chunks_max, t->chunks + 1) != 0)
		return error_set(err, ERROR_OS, "table", "out of memory");
	t->chunk[t->chunks] = memory_new(t->chunk_bytes);
	if (!t->chunk[t->chunks])
		return error_set(err, ERROR_OS, "table", "out of memory for row %zu", t->count);
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
	head[0] = t->generation;
	head[1] = key;
	head[2] = 0;
	t->init(key, row, t->arg);
	*number = t->count++;
	return 0;
}

/* Where the keys of a group start to be looked for; their slots are on the way to the cache. */
static void aim(const struct table *t, const uint32_t *key, size_t n, uint32_t *own, size_t *place)
{
	/* A copy: the keys may lie in memory that their sender still writes. */
	memcpy(own, key, n * sizeof *own);
	for (size_t i = 0; i < n; i++) {
		place[i] = hash(own[i]) & t->mask;
		__builtin_prefetch(&t->slot[place[i]]);
	}
}

/* The slot of a key that is looked for from h on, or the empty one where it belongs. */
static inline size_t find(const struct table *t, uint32_t key, size_t h)
{
	while (t->slot[h].number && t->slot[h].key != key)
		h = (h + 1) & t->mask;
	return h;
}

/* Finds or makes the rows of a group that was aimed at. */
static int hit(struct table *t, const uint32_t *key, const size_t *place, size_t n, float **row,
	       struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		size_t h = find(t, key[i], place[i]), number = 0;
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
	uint32_t own[2][GROUP];
	size_t place[2][GROUP];
	size_t len = n < GROUP ? n : GROUP;

	while ((t->count + n) * 2 > t->mask) {
		if (grow_slots(t, err) != 0)
			return -1;
	}
	aim(t, key, len, own[0], place[0]);
	for (size_t i = 0, turn = 0; i < n; turn ^= 1) {
		size_t next = i + len, next_len = n - next < GROUP ? n - next : GROUP;
		/* The next group's misses run while this one is looked up. */
		aim(t, key + next, next_len, own[turn ^ 1], place[turn ^ 1]);
		if (hit(t, own[turn], place[turn], len, row + i, err) != 0)
			return -1;
		i = next;
		len = next_len;
	}
	return 0;
}

void table_look(const struct table *t, const uint32_t *key, size_t n, float **row)
{
	uint32_t own[GROUP];
	size_t place[GROUP];

	for (size_t at_key = 0, len; at_key < n; at_key += len) {
		len = n - at_key < GROUP ? n - at_key : GROUP;
		aim(t, key + at_key, len, own, place);
		for (size_t i = 0; i < len; i++) {
			const struct slot *slot = &t->slot[find(t, own[i], place[i])];
			row[at_key + i] = slot->number ? at(t, slot->number - 1) : NULL;
			if (slot->number)
				__builtin_prefetch(row[at_key + i]);
		}
	}
}

/* ---- removing ---- */

/* Empties a slot. Those behind it that would not be found any more move up (Knuth, volume 3, 6.4,
 * algorithm R). */
static void empty_slot(struct table *t, size_t h)
{
	for (size_t next = (h + 1) & t->mask; t->slot[next].number; next = (next + 1) & t->mask) {
		size_t home = hash(t->slot[next].key) & t->mask;
		if (((next - home) & t->mask) < ((next - h) & t->mask))
			continue;
		t->slot[h] = t->slot[next];
		h = next;
	}
	t->slot[h].number = 0;
}

static void remove_at(struct table *t, size_t h)
{
	size_t number = t->slot[h].number - 1, last = t->count - 1;

	empty_slot(t, h);
	if (number != last) {
		float *row = at(t, number) - HEAD, *from = at(t, last) - HEAD;
		uint32_t key = table_key(at(t, last));
		memcpy(row, from, t->stride * sizeof *row);
		t->slot[find(t, key, hash(key) & t->mask)].number = (uint32_t)number + 1;
	}
	t->count--;
	if (t->count == (t->chunks - 1) << t->chunk_bits) {
		t->chunks--;
		munmap(t->chunk[t->chunks], t->chunk_bytes);
	}
}

void table_remove(struct table *t, const uint32_t *key, size_t n)
{
	uint32_t own[GROUP];
	size_t place[GROUP];

	for (size_t at_key = 0, len; at_key < n; at_key += len) {
		len = n - at_key < GROUP ? n - at_key : GROUP;
		aim(t, key + at_key, len, own, place);
		for (size_t i = 0; i < len; i++) {
			size_t h = find(t, own[i], place[i]);
			if (t->slot[h].number)
				remove_at(t, h);
		}
	}
}
