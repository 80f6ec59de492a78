/*
 * u64map: numbers to pointers, with room reserved ahead.
 *
 * Open addressing, by lines of the cache: a key is in the line where it belongs, or, if that was full, in
 * one behind it, and each line knows how many are so.  It exists, although uthash does, for one property:
 * after u64map_reserve() a put can't fail, so a change that has begun always ends.  It is also 17 bytes
 * an entry where uthash takes 56.  Objects with a name are in uthash's tables; a million names that
 * are only asked whether they are new are in solve/idset.h.
 */
#ifndef PACELINE_BASE_U64MAP_H
#define PACELINE_BASE_U64MAP_H

#include <stddef.h>
#include <stdint.h>

struct u64map_slot {
	uint64_t key;
	void *value; /* NULL: free */
};

struct u64map {
	struct u64map_slot *slot;
	uint32_t *away; /* of each line: how many belong there and are behind it */
	size_t count;
	size_t room; /* a power of two, or 0 */
};

/* Room for count entries in all; -1: out of memory, nothing changed. */
int u64map_reserve(struct u64map *t, size_t count);
/* The key must not be there, and room must have been reserved. value is not NULL. */
void u64map_put(struct u64map *t, uint64_t key, void *value);
void u64map_fetch(const struct u64map *t, uint64_t key); /* it will soon be asked for, put or removed */
void *u64map_get(const struct u64map *t, uint64_t key); /* NULL when absent */
void u64map_remove(struct u64map *t, uint64_t key);     /* nothing when absent */
/* Every value once, in no order; *at is 0 at first. NULL: no more. The table must not change
 * meanwhile. */
void *u64map_next(const struct u64map *t, size_t *at);
void u64map_free(struct u64map *t);

#endif
