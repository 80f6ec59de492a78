/*
 * batch: see batch.h.  The inner loops here run once for every key of every row, in the reading
 * thread; what they cost is a good part of what a row costs.
 */
#include "work/batch.h"

#include "base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void batch_free(struct batch *b)
{
	free(b->dense);
	free(b->label);
	free(b->weight);
	free(b->row);
	free(b->value);
	free(b->offset);
	free(b->index);
	free(b->key);
	free(b->part_begin);
	free(b->raw);
	free(b->move);
	free(b->table);
	free(b->bits);
	free(b->before);
	*b = (struct batch){0};
}

void batch_start(struct batch *b, size_t dense_columns, int has_value)
{
	b->positions = b->count = b->range_count = b->ranges_bytes = b->unique = 0;
	b->dense_columns = dense_columns;
	b->has_value = has_value;
	if (b->offset)
		b->offset[0] = 0;
}

/* Characters of ID:BEGIN:LENGTH, and a comma. */
static size_t range_bytes(uint64_t id, uint64_t begin, uint64_t length)
{
	size_t bytes = 6;
	for (; id >= 10; id /= 10)
		bytes++;
	for (; begin >= 10; begin /= 10)
		bytes++;
	for (; length >= 10; length /= 10)
		bytes++;
	return bytes;
}

static struct batch_range *range_before(struct batch *b, uint64_t id, uint64_t begin)
{
	if (b->range_count == 0)
		return NULL;
	struct batch_range *last = &b->range[b->range_count - 1];
	return last->id == id && last->begin + last->length == begin ? last : NULL;
}

int batch_takes_range(const struct batch *b, uint64_t id, uint64_t begin, uint64_t length)
{
	return b->range_count < BATCH_RANGES_MAX &&
	       b->ranges_bytes + range_bytes(id, begin, length) <= BATCH_RANGES_BYTES_MAX;
}

void batch_add_range(struct batch *b, uint64_t id, uint64_t begin, uint64_t length)
{
	struct batch_range *before = range_before(b, id, begin);
	b->positions += length;
	if (before) {
		before->length += length;
		return;
	}
	b->range[b->range_count++] = (struct batch_range){id, begin, length};
	b->ranges_bytes += range_bytes(id, begin, length);
}

/* Grows to exactly `count` (1 or more), because several arrays share one `room`. */
static int batch_grow(void *array_at, size_t count, size_t size, struct error *err)
{
	size_t room = 0;
	if (grow_array(array_at, &room, count, size) != 0)
		return error_set(err, ERROR_OS, "", "out of memory");
	return 0;
}

static int reserve_rows(struct batch *b, size_t rows, struct error *err)
{
	if (rows <= b->row_room && b->offset)
		return 0;
	size_t room = rows + rows / 4 + 16;
	if (batch_grow(&b->label, room, sizeof(float), err) != 0 ||
	    batch_grow(&b->weight, room, sizeof(float), err) != 0 ||
	    batch_grow(&b->row, room, sizeof(uint64_t), err) != 0 ||
	    batch_grow(&b->offset, room + 1, sizeof(uint32_t), err) != 0)
		return -1;
	b->row_room = room;
	if (b->count == 0)
		b->offset[0] = 0;
	return 0;
}

static int reserve_keys(struct batch *b, size_t keys, struct error *err)
{
	if (keys > UINT32_MAX / 4)
		return error_set(err, ERROR_DATA, "", "%zu keys are too many for one batch", keys);
	size_t room = keys + keys / 4 + 64;
	if (keys > b->key_room || !b->index) {
		if (batch_grow(&b->index, room, sizeof(uint32_t), err) != 0 ||
		    batch_grow(&b->raw, room, sizeof(uint32_t), err) != 0 ||
		    batch_grow(&b->key, room, sizeof(uint32_t), err) != 0 ||
		    batch_grow(&b->move, room, sizeof(uint32_t), err) != 0)
			return -1;
		b->key_room = room;
	}
	if (b->has_value && b->value_room < b->key_room) {
		if (batch_grow(&b->value, b->key_room, sizeof(float), err) != 0)
			return -1;
		b->value_room = b->key_room;
	}
	return 0;
}

int batch_reserve(struct batch *b, size_t rows, size_t keys, struct error *err)
{
	size_t have = b->offset ? b->offset[b->count] : 0, dense;
	rows += b->count;
	if (reserve_rows(b, rows, err) != 0 || reserve_keys(b, have + keys, err) != 0)
		return -1;
	if (__builtin_mul_overflow(rows, b->dense_columns, &dense))
		return error_set(err, ERROR_OS, "", "out of memory");
	if (dense > b->dense_room) {
		if (batch_grow(&b->dense, dense + dense / 4, sizeof(float), err) != 0)
			return -1;
		b->dense_room = dense + dense / 4;
	}
	return 0;
}

size_t batch_sample_keys(const struct rows *rows, size_t i, const struct model_keys *keys)
{
	double words = 0;
	if (keys->are_rows)
		return 1;
	for (size_t k = rows->offset[i]; keys->own_rows && k < rows->offset[i + 1]; k++)
		words += (double)rows->value[k];
	return rows->offset[i + 1] - rows->offset[i] + model_own_count(keys, words);
}

/* The keys of its own rows, whose values are 0: no word occurs there. */
static size_t batch_add_own(struct batch *b, size_t at, uint64_t row, size_t count,
			    const struct model_keys *keys)
{
	for (size_t k = 0; k < count; k++, at++) {
		b->raw[at] = (uint32_t)(MODEL_OWN_KEYS + row * keys->own_rows + k);
		b->value[at] = 0;
	}
	return at;
}

void batch_add_sample(struct batch *b, const struct rows *rows, size_t i,
		      const struct model_keys *of)
{
	size_t n = b->count++, at = b->offset[n];
	b->label[n] = rows->label[i];
	b->weight[n] = rows->weight[i];
	b->row[n] = rows->row[i];
	if (of->are_rows) {
		b->raw[at] = (uint32_t)rows->row[i];
		b->offset[n + 1] = (uint32_t)at + 1;
		return;
	}
	size_t from = rows->offset[i], keys = rows->offset[i + 1] - from;
	if (b->dense_columns > 0)
		memcpy(b->dense + n * b->dense_columns, rows->dense + i * b->dense_columns,
		       b->dense_columns * sizeof(float));
	if (keys > 0)
		memcpy(b->raw + at, rows->key + from, keys * sizeof(uint32_t));
	if (keys > 0 && b->has_value && rows->value)
		memcpy(b->value + at, rows->value + from, keys * sizeof(float));
	else if (b->has_value)
		for (size_t k = 0; k < keys; k++)
			b->value[at + k] = 1.0f;
	at += keys;
	if (of->own_rows)
		at = batch_add_own(b, at, rows->row[i], batch_sample_keys(rows, i, of) - keys, of);
	b->offset[n + 1] = (uint32_t)at;
}

#define PREFETCH 16 /* keys ahead */

/* Open addressing; a slot holds key + 1 in its upper half (0: empty; a key is below 2^32 - 1) and
 * the key's number below. Its size follows the batch, so that it stays in the second cache where a
 * table of all keys would not. */
static int find_by_table(struct batch *b, size_t total, uint64_t key_count, struct error *err)
{
	size_t size = 64;
	while (size < total + total / 8 && size < key_count)
		size *= 2;
	if (size > b->table_room) {
		if (batch_grow(&b->table, size, sizeof(uint64_t), err) != 0)
			return -1;
		b->table_room = size;
	}
	memset(b->table, 0, size * sizeof(uint64_t));
	uint32_t unique = 0, mask = (uint32_t)(size - 1);
	for (size_t k = 0; k < total; k++) {
		if (k + PREFETCH < total)
			__builtin_prefetch(&b->table[b->raw[k + PREFETCH] & mask], 1);
		uint32_t key = b->raw[k], at = key & mask;
		uint64_t want = ((uint64_t)key + 1) << 32, slot;
		while ((slot = b->table[at]) != 0 && (slot ^ want) >> 32 != 0)
			at = (at + 1) & mask;
		if (slot == 0) {
			b->table[at] = slot = want | unique;
			b->key[unique++] = key;
		}
		b->index[k] = (uint32_t)slot;
	}
	b->unique = unique;
	return 0;
}

#define BITS_KEYS_MAX (1u << 25) /* bits and counts before are in the last cache: 6 MiB */

/* A bit for each possible key; a key's number is how many lower keys occur. Nothing here depends on
 * what a key is but the address of its bit, so no branch is guessed wrong: three times as fast as a
 * table where most keys are new ones, and twice as fast where bits are in the last cache only. With
 * more keys than that it is no faster than the table, which takes 8 ns a key in batches of some
 * thousand rows, and 20 in batches of 65,536. */
static int find_by_bits(struct batch *b, size_t total, size_t words, struct error *err)
{
	if (words > b->word_room) {
		if (batch_grow(&b->bits, words, sizeof(uint64_t), err) != 0 ||
		    batch_grow(&b->before, words, sizeof(uint32_t), err) != 0)
			return -1;
		b->word_room = words;
	}
	memset(b->bits, 0, words * sizeof(uint64_t));
	for (size_t k = 0; k < total; k++)
		b->bits[b->raw[k] / 64] |= UINT64_C(1) << b->raw[k] % 64;
	uint32_t unique = 0;
	for (size_t w = 0; w < words; w++) {
		b->before[w] = unique;
		for (uint64_t bits = b->bits[w]; bits; bits &= bits - 1)
			b->key[unique++] = (uint32_t)(w * 64 + (size_t)__builtin_ctzll(bits));
	}
	for (size_t k = 0; k < total; k++) {
		uint32_t key = b->raw[k];
		uint64_t lower = b->bits[key / 64] & ((UINT64_C(1) << key % 64) - 1);
		b->index[k] = b->before[key / 64] + (uint32_t)__builtin_popcountll(lower);
	}
	b->unique = unique;
	return 0;
}

static int find_unique(struct batch *b, uint64_t key_count, struct error *err)
{
	size_t total = b->offset ? b->offset[b->count] : 0;
	uint32_t most = 0;
	for (size_t k = 0; k < total; k++)
		most = b->raw[k] > most ? b->raw[k] : most;
	size_t words = most / 64 + 1;
	/* All words are looked at, however few keys there are. */
	if (most < BITS_KEYS_MAX && words <= 2 * total)
		return find_by_bits(b, total, words, err);
	return find_by_table(b, total, key_count, err);
}

/* Counting sort of the unique keys by part; then every index follows its key. */
static void group_by_part(struct batch *b, const struct map *map)
{
	size_t *begin = b->part_begin, total = b->offset[b->count];
	for (size_t u = 0; u < b->unique; u++)
		begin[map_part_of_key(map, b->key[u]) + 1]++;
	for (uint32_t i = 0; i < b->parts; i++)
		begin[i + 1] += begin[i];
	uint32_t *sorted = b->raw; /* free now: key[] and index[] have its keys */
	for (size_t u = 0; u < b->unique; u++) {
		size_t to = begin[map_part_of_key(map, b->key[u])]++;
		sorted[to] = b->key[u];
		b->move[u] = (uint32_t)to;
	}
	for (uint32_t i = b->parts; i > 0; i--)
		begin[i] = begin[i - 1];
	begin[0] = 0;
	memcpy(b->key, sorted, b->unique * sizeof(uint32_t));
	for (size_t k = 0; k < total; k++)
		b->index[k] = b->move[b->index[k]];
}

int batch_finish(struct batch *b, const struct map *map, uint64_t key_count, struct error *err)
{
	uint32_t parts = map->parts;
	if (parts + 1 > b->part_room) {
		if (batch_grow(&b->part_begin, parts + 1, sizeof(size_t), err) != 0)
			return -1;
		b->part_room = parts + 1;
	}
	b->parts = parts;
	b->map_version = map->version;
	memset(b->part_begin, 0, (parts + 1) * sizeof(size_t));
	if (find_unique(b, key_count, err) != 0)
		return -1;
	if (parts > 1 && b->unique > 0)
		group_by_part(b, map);
	b->part_begin[parts] = b->unique;
	return 0;
}

/* Inputs without a number of their own count as 1. */
static double largest_input(const struct batch *b, size_t i)
{
	double most = 1;
	for (size_t k = 0; k < b->dense_columns; k++)
		most = fmax(most, fabs((double)b->dense[i * b->dense_columns + k]));
	for (size_t k = b->offset[i]; b->has_value && k < b->offset[i + 1]; k++)
		most = fmax(most, fabs((double)b->value[k]));
	return most;
}

struct batch_extreme batch_extreme(const struct batch *b, int unit_weights)
{
	struct batch_extreme e = {0, 0, 0};
	double most = -1;
	for (size_t i = 0; i < b->count; i++) {
		double weight = unit_weights ? 1 : (double)b->weight[i];
		double value = largest_input(b, i);
		if (weight * value <= most)
			continue;
		most = weight * value;
		e = (struct batch_extreme){b->row[i], weight, value};
	}
	return e;
}

struct model_batch batch_slice(const struct batch *b, size_t begin, size_t count, int unit_weights)
{
	return (struct model_batch){
		.count = count,
		.dense = b->dense_columns ? b->dense + begin * b->dense_columns : NULL,
		.label = b->label + begin,
		.weight = unit_weights ? NULL : b->weight + begin,
		.offset = b->offset + begin,
		.index = b->index,
		.value = b->has_value ? b->value : NULL,
		.unique = b->unique,
		.row = b->row + begin,
		.serial = b->serial,
	};
}
