/*
 * The row table: open addressing with linear probing over (key, row number), and rows in chunks.
 *
 * The slots are in segments of one size, chosen by the high bits of a key's hash (extendible
 * hashing: Fagin, Nievergelt, Pippenger, Strong, 1979).  A segment that is full enough is split in
 * two, so nobody ever waits until a large table has grown.  But hashes spread so evenly that all
 * segments would be split at about the same time.  So each has its own threshold, between three
 * eighths and a half.
 *
 * A batch asks for tens of thousands of keys at random places, so the time is that of cache misses.
 * Keys are looked up in groups, and each stage of a group prefetches what the next stage reads.
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
#define SLOT_BITS 18 /* of a segment: so many slots fill a huge page */
/* At most so many high bits choose a segment. A segment of this depth may get full: table_hash() is
 * one to one, so the other SLOT_BITS bits give each of its keys a slot of its own. */
#define DEPTH_MAX (32 - SLOT_BITS)
#define HEAD 3 /* generation, key and mark before the parameters */

struct slot {
	uint32_t key;
	uint32_t number; /* number of the row, plus 1; 0: empty */
};

struct segment {
	struct slot *slot;
	uint32_t depth; /* so many high bits are the same in all its hashes */
	uint32_t count; /* keys; counted in the first of its places in the directory only */
};

struct table {
	size_t width, stride; /* floats of a record */
	unsigned chunk_bits;  /* rows of a chunk, as a power of two */
	size_t count;
	uint32_t generation;
	float **chunk;
	size_t chunks, chunks_max, chunk_bytes;
	struct segment *segment; /* the directory, by the first `depth` bits of a hash */
	unsigned depth;
	size_t mask; /* of the slots of a segment; the same for all */
	struct slot *spare; /* of a segment that was split: fresh memory is slow; or NULL */
	table_init_fn *init;
	void *arg;
};

/* Zeroed memory. If it is large, it is in huge pages: with small ones, a random access costs a walk
 * through page tables besides the cache miss. NULL: no memory. */
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

static size_t slots_bytes(size_t mask)
{
	return page_round((mask + 1) * sizeof(struct slot));
}

static struct slot *slots_new(size_t mask)
{
	return memory_new(slots_bytes(mask));
}

static inline size_t table_hash(uint32_t key)
{
	/* murmur3's finalizer: one to one. map_place() would not do: all keys of one part share the
	 * high bits of their places. */
	key ^= key >> 16;
	key *= 0x85ebca6bu;
	key ^= key >> 13;
	key *= 0xc2b2ae35u;
	key ^= key >> 16;
	return key;
}

/* The place in the directory of the segment of a hash. */
static inline size_t table_place_of(const struct table *t, size_t h)
{
	return (size_t)((uint64_t)h >> (32 - t->depth));
}

/* A segment may have several places in the directory; this is the first. */
static inline struct segment *table_first_of(const struct table *t, size_t place)
{
	unsigned more = t->depth - t->segment[place].depth;

	return &t->segment[place >> more << more];
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
	t->segment = calloc(1, sizeof *t->segment);
	if (t->segment)
		t->segment->slot = slots_new(t->mask);
	if (!t->segment || !t->segment->slot) {
		free(t->segment);
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
	for (size_t i = 0; i < (size_t)1 << t->depth; i++)
		if (table_first_of(t, i) == &t->segment[i])
			munmap(t->segment[i].slot, slots_bytes(t->mask));
	if (t->spare)
		munmap(t->spare, slots_bytes(t->mask));
	free(t->segment);
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

static int no_slots(size_t count, struct error *err)
{
	return error_set(err, ERROR_OS, "table", "out of memory for %zu keys", count);
}

/* Copies those slots of `from` whose hash has bit `bit` as `is` says; bit 0: all. Returns how
 * many. */
static uint32_t take_slots(struct slot *to, size_t to_mask, const struct slot *from, size_t mask,
			   size_t bit, size_t is)
{
	uint32_t count = 0;

	for (size_t i = 0; i <= mask; i++) {
		size_t h = table_hash(from[i].key);
		if (!from[i].number || (h & bit) != is)
			continue;
		for (h &= to_mask; to[h].number;)
			h = (h + 1) & to_mask;
		to[h] = from[i];
		count++;
	}
	return count;
}

/* Doubles the segment, while there is only one. */
static int grow_segment(struct table *t, struct error *err)
{
	size_t mask = t->mask * 2 + 1;
	struct slot *fresh = slots_new(mask);

	if (!fresh)
		return no_slots(mask + 1, err);
	(void)take_slots(fresh, mask, t->segment->slot, t->mask, 0, 0);
	munmap(t->segment->slot, slots_bytes(t->mask));
	t->segment->slot = fresh;
	t->mask = mask;
	return 0;
}

static int double_directory(struct table *t, struct error *err)
{
	size_t places = (size_t)1 << t->depth;
	struct segment *fresh = calloc(2 * places, sizeof *fresh);

	if (!fresh)
		return no_slots(t->count, err);
	for (size_t i = 0; i < places; i++) {
		fresh[2 * i] = fresh[2 * i + 1] = t->segment[i];
		fresh[2 * i + 1].count = 0;
	}
	free(t->segment);
	t->segment = fresh;
	t->depth++;
	return 0;
}

/* Splits the segment of this hash in two. */
static int split_segment(struct table *t, size_t h, struct error *err)
{
	if (table_first_of(t, table_place_of(t, h))->depth == t->depth &&
	    double_directory(t, err) != 0)
		return -1;
	struct segment *s = table_first_of(t, table_place_of(t, h)), was = *s;
	size_t half = (size_t)1 << (t->depth - was.depth - 1), bit = (size_t)1 << (31 - was.depth);
	if (!t->spare && !(t->spare = slots_new(t->mask)))
		return no_slots(t->count, err);
	struct slot *low = t->spare, *high = slots_new(t->mask);

	if (!high)
		return no_slots(t->count, err);
	memset(low, 0, slots_bytes(t->mask));
	for (size_t i = 0; i < 2 * half; i++)
		s[i] = (struct segment){.slot = i < half ? low : high, .depth = was.depth + 1};
	s[0].count = take_slots(low, t->mask, was.slot, t->mask, bit, 0);
	s[half].count = take_slots(high, t->mask, was.slot, t->mask, bit, bit);
	t->spare = was.slot;
	return 0;
}

/* So many keys are enough to split the segment of this hash. Multiples of the golden ratio lie
 * evenly between 0 and 1 (Knuth, volume 3, 6.4), so the thresholds differ. */
static size_t table_enough(const struct table *t, size_t h, unsigned depth)
{
	uint32_t prefix = (uint32_t)((uint64_t)h >> (32 - depth));
	uint32_t part = prefix * 2654435769u;

	return (t->mask + 1) / 2 - (size_t)((uint64_t)(t->mask + 1) / 8 * part >> 32);
}

/* Makes room for one more key with this hash. */
static int grow_slots(struct table *t, size_t h, struct error *err)
{
	const struct segment *s = table_first_of(t, table_place_of(t, h));

	if ((size_t)s->count + 1 < table_enough(t, h, s->depth) || s->depth == DEPTH_MAX)
		return 0;
	return t->mask + 1 < (size_t)1 << SLOT_BITS ? grow_segment(t, err)
						    : split_segment(t, h, err);
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

/* Makes a new row for key; *number counts from 0. */
static int table_make(struct table *t, uint32_t key, size_t *number, struct error *err)
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

/* Computes the hashes of a group's keys, and prefetches their slots. */
static void aim(const struct table *t, const uint32_t *key, size_t n, uint32_t *own, size_t *h)
{
	/* A copy, as the keys may lie in memory that their sender still writes. */
	memcpy(own, key, n * sizeof *own);
	for (size_t i = 0; i < n; i++) {
		h[i] = table_hash(own[i]);
		__builtin_prefetch(&t->segment[table_place_of(t, h[i])].slot[h[i] & t->mask]);
	}
}

/* The slot of a key with hash h; if there is none, the empty slot where it belongs. */
static inline struct slot *table_find_slot(const struct table *t, uint32_t key, size_t h)
{
	struct slot *slot = t->segment[table_place_of(t, h)].slot;

	for (h &= t->mask; slot[h].number && slot[h].key != key;)
		h = (h + 1) & t->mask;
	return &slot[h];
}

/* Makes a slot and a row for a key that has none. */
static int table_add_row(struct table *t, uint32_t key, size_t h, size_t *number, struct error *err)
{
	if (grow_slots(t, h, err) != 0 || table_make(t, key, number, err) != 0)
		return -1;
	*table_find_slot(t, key, h) = (struct slot){key, (uint32_t)*number + 1};
	table_first_of(t, table_place_of(t, h))->count++;
	return 0;
}

/* Finds or makes the rows of a group, after aim(). */
static int hit(struct table *t, const uint32_t *key, const size_t *h, size_t n, float **row,
	       struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		const struct slot *slot = table_find_slot(t, key[i], h[i]);
		size_t number = slot->number - 1;
		if (!slot->number && table_add_row(t, key[i], h[i], &number, err) != 0)
			return -1;
		row[i] = at(t, number);
		__builtin_prefetch(row[i] - HEAD, 1);
	}
	return 0;
}

int table_rows(struct table *t, const uint32_t *key, size_t n, float **row, struct error *err)
{
	uint32_t own[2][GROUP];
	size_t h[2][GROUP];
	size_t len = n < GROUP ? n : GROUP;

	aim(t, key, len, own[0], h[0]);
	for (size_t i = 0, turn = 0; i < n; turn ^= 1) {
		size_t next = i + len, next_len = n - next < GROUP ? n - next : GROUP;
		/* The next group's cache misses run while this group is looked up. */
		aim(t, key + next, next_len, own[turn ^ 1], h[turn ^ 1]);
		if (hit(t, own[turn], h[turn], len, row + i, err) != 0)
			return -1;
		i = next;
		len = next_len;
	}
	return 0;
}

void table_look(const struct table *t, const uint32_t *key, size_t n, float **row)
{
	uint32_t own[GROUP];
	size_t h[GROUP];

	for (size_t at_key = 0, len; at_key < n; at_key += len) {
		len = n - at_key < GROUP ? n - at_key : GROUP;
		aim(t, key + at_key, len, own, h);
		for (size_t i = 0; i < len; i++) {
			const struct slot *slot = table_find_slot(t, own[i], h[i]);
			row[at_key + i] = slot->number ? at(t, slot->number - 1) : NULL;
			if (slot->number)
				__builtin_prefetch(row[at_key + i]);
		}
	}
}

/* ---- removing ---- */

/* Empties a slot of the segment of hash h. Slots behind it that could not be found any more move up
 * (Knuth, volume 3, 6.4, algorithm R). */
static void empty_slot(struct table *t, size_t h, struct slot *gone)
{
	struct slot *slot = t->segment[table_place_of(t, h)].slot;
	size_t at_slot = (size_t)(gone - slot), next = at_slot;

	while (slot[next = (next + 1) & t->mask].number && next != at_slot) {
		size_t home = table_hash(slot[next].key) & t->mask;
		if (((next - home) & t->mask) < ((next - at_slot) & t->mask))
			continue;
		slot[at_slot] = slot[next];
		at_slot = next;
	}
	slot[at_slot].number = 0;
	table_first_of(t, table_place_of(t, h))->count--;
}

static void table_remove_at(struct table *t, size_t h, struct slot *gone)
{
	size_t number = gone->number - 1, last = t->count - 1;

	empty_slot(t, h, gone);
	if (number != last) {
		float *row = at(t, number) - HEAD, *from = at(t, last) - HEAD;
		uint32_t key = table_key(at(t, last));
		memcpy(row, from, t->stride * sizeof *row);
		table_find_slot(t, key, table_hash(key))->number = (uint32_t)number + 1;
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
	size_t h[GROUP];

	for (size_t at_key = 0, len; at_key < n; at_key += len) {
		len = n - at_key < GROUP ? n - at_key : GROUP;
		aim(t, key + at_key, len, own, h);
		for (size_t i = 0; i < len; i++) {
			struct slot *slot = table_find_slot(t, own[i], h[i]);
			if (slot->number)
				table_remove_at(t, h[i], slot);
		}
	}
}
