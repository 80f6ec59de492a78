#include "fabric/rowlist.h"

#include "param/map.h"

#include <stdlib.h>
#include <string.h>

size_t rowlist_bytes(uint64_t count, uint32_t width)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, 4 * (1 + (uint64_t)width), &bytes))
		return 0;
	return bytes;
}

struct rowlist rowlist_at(const void *memory, size_t count)
{
	const uint32_t *key = memory;

	if (count == 0)
		return (struct rowlist){0};
	return (struct rowlist){key, (const float *)(const void *)(key + count), count};
}

/* Which of n owners sums the rows of this key: each has an equal range of places (param/map.h). */
static size_t rowlist_owner(uint32_t key, size_t n)
{
	return (size_t)((uint64_t)map_place(key) * n >> 32);
}

/* ---- apart ---- */

/* A copy of the keys when they were checked, and how many each owner has. */
static int copy_keys(const uint32_t *from, size_t count, size_t owners, uint32_t *key, size_t *each,
		     struct error *err)
{
	memcpy(key, from, count * sizeof *key);
	for (size_t i = 0; i < count; i++) {
		if (i > 0 && key[i] <= key[i - 1])
			return error_set(err, ERROR_DATA, NULL,
					 "keys: %u stands behind %u: they have to ascend", key[i],
					 key[i - 1]);
		each[rowlist_owner(key[i], owners)]++;
	}
	return 0;
}

int rowlist_split(const void *memory, size_t count, uint32_t width, size_t owners, void *block,
		  struct rowlist *list, struct error *err)
{
	struct rowlist from = rowlist_at(memory, count);
	size_t *each = calloc(owners, sizeof *each);
	uint32_t *key = malloc((count ? count : 1) * sizeof *key);
	char *at = block;
	int result = -1;

	if (!each || !key) {
		error_set(err, ERROR_OS, NULL, "out of memory");
		goto out;
	}
	if (count && copy_keys(from.key, count, owners, key, each, err) != 0)
		goto out;
	for (size_t i = 0; i < owners; i++) {
		list[i] = rowlist_at(at, each[i]);
		at += rowlist_bytes(each[i], width);
		each[i] = 0;
	}
	for (size_t i = 0; i < count; i++) {
		size_t owner = rowlist_owner(key[i], owners), n = each[owner]++;
		uint32_t *to_key = (uint32_t *)(uintptr_t)list[owner].key;
		float *to_row = (float *)(uintptr_t)list[owner].row;
		to_key[n] = key[i];
		memcpy(to_row + n * width, from.row + i * width, width * sizeof *to_row);
	}
	result = 0;
out:
	free(each);
	free(key);
	return result;
}

/* ---- together ---- */

/* The least of the next keys of all lists; 0: all lists are at their end. */
static int rowlist_least(const struct rowlist *list, size_t n, const size_t *at, uint32_t *key)
{
	int found = 0;

	for (size_t i = 0; i < n; i++) {
		if (at[i] < list[i].count && (!found || list[i].key[at[i]] < *key)) {
			*key = list[i].key[at[i]];
			found = 1;
		}
	}
	return found;
}

size_t rowlist_count(const struct rowlist *list, size_t n, size_t *at)
{
	size_t count = 0;
	uint32_t key = 0;

	memset(at, 0, n * sizeof *at);
	for (; rowlist_least(list, n, at, &key); count++) {
		for (size_t i = 0; i < n; i++)
			at[i] += at[i] < list[i].count && list[i].key[at[i]] == key;
	}
	return count;
}

static void rowlist_add(float *restrict to, const float *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] += from[i];
}

void rowlist_merge(const struct rowlist *list, size_t n, uint32_t width, size_t count, void *memory,
		   size_t *at)
{
	uint32_t *to_key = memory, key = 0;
	float *to = (float *)(void *)(to_key + count);

	memset(at, 0, n * sizeof *at);
	for (; count > 0 && rowlist_least(list, n, at, &key); count--, to += width) {
		int first = 1;
		*to_key++ = key;
		for (size_t i = 0; i < n; i++) {
			if (at[i] == list[i].count || list[i].key[at[i]] != key)
				continue;
			const float *row = list[i].row + at[i]++ * width;
			if (first)
				memcpy(to, row, width * sizeof *to);
			else
				rowlist_add(to, row, width);
			first = 0;
		}
	}
}
