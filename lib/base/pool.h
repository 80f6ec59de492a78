/*
 * pool: many objects of one size.  Each begins a line of the cache, they lie close together, and many
 * of them in huge pages: with a hundred thousand of them, most of the time goes into waiting for
 * memory, half of that for the addresses of small pages.
 *
 * What is given back is for the next one; memory goes back to the system with pool_free() only.
 */
#ifndef PACELINE_BASE_POOL_H
#define PACELINE_BASE_POOL_H

#include <stddef.h>

#define POOL_LINE 64

/* {.bytes = sizeof(struct object)} is an empty one. */
struct pool {
	size_t bytes; /* of an object */
	/* private */
	void **spare; /* with room for all objects, so that what is given back needs no memory */
	size_t spares, objects;
	struct pool_chunk *chunk;
	size_t chunk_bytes;
};

/* So many can be taken now, and none of these fails. -1: no memory. */
int pool_reserve(struct pool *p, size_t count);
void *pool_take(struct pool *p); /* not cleared; NULL: no memory */
void pool_give(struct pool *p, void *object); /* NULL is fine */
void pool_free(struct pool *p); /* with all objects; it is empty afterwards */

/* Memory of so many bytes for one array of such objects, all zero; for free(). NULL: no memory. */
void *pool_array(size_t bytes);

#endif
