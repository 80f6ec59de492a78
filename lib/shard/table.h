/*
 * table: numbers to pointers, with room reserved ahead.
 *
 * Open addressing with linear probing.  It exists, although uthash does, for one property: after
 * table_reserve() a put can't fail, so a change of the queue that has begun always ends.  It is
 * also 16 bytes an entry where uthash takes 56.
 */
#ifndef PACELINE_SHARD_TABLE_H
#define PACELINE_SHARD_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct table_slot {
	uint64_t key;
	void *value; /* NULL: free */
};

struct table {
	struct table_slot *slot;
	size_t count;
	size_t room; /* a power of two, or 0 */
};

/* Room for count entries in all; -1: out of memory, nothing changed. */
int table_reserve(struct table *t, size_t count);
/* The key must not be there, and room must have been reserved. value is not NULL. */
void table_put(struct table *t, uint64_t key, void *value);
void *table_get(const struct table *t, uint64_t key); /* NULL when absent */
void table_remove(struct table *t, uint64_t key);     /* nothing when absent */
/* Every value once, in no order; *at is 0 at first. NULL: no more. The table must not change
 * meanwhile. */
void *table_next(const struct table *t, size_t *at);
void table_free(struct table *t);

#endif
