/* pool: see pool.h. */
#include "base/pool.h"

#include "base/fetch.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#else /* who touches what was given back is found only by that */
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

/* So many bytes of the object are fetched that is taken so many objects later. */
#define POOL_FETCH 192
#define POOL_AHEAD 4
#define CHUNK_FIRST 4096
#define CHUNK_HUGE (2u << 20) /* a huge page; chunks don't grow beyond it */

struct pool_chunk { /* in its first line; objects follow */
	struct pool_chunk *next;
};

static size_t pool_round(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

/* A huge page is advice: without it all works, more slowly. */
static void *pool_memory(size_t bytes)
{
	int is_huge = bytes >= CHUNK_HUGE;
	size_t align = is_huge ? CHUNK_HUGE : POOL_LINE;
	if (bytes > SIZE_MAX - align)
		return NULL;
	void *memory = aligned_alloc(align, pool_round(bytes, align));
	if (memory && is_huge)
		madvise(memory, pool_round(bytes, align), MADV_HUGEPAGE);
	return memory;
}

void *pool_array(size_t bytes)
{
	void *memory = pool_memory(bytes);
	return memory ? memset(memory, 0, bytes) : NULL;
}

static size_t pool_step(const struct pool *p)
{
	return pool_round(p->bytes, POOL_LINE);
}

void pool_give(struct pool *p, void *object)
{
	if (!object)
		return;
	p->spare[p->spares++] = object;
	ASAN_POISON_MEMORY_REGION(object, pool_step(p));
}

/* Not inlined: pool_take() is called often, and seldom needs this. */
static __attribute__((noinline)) int pool_grow(struct pool *p)
{
	size_t step = pool_step(p), bytes = p->chunk_bytes ? p->chunk_bytes : CHUNK_FIRST / 2;
	do
		bytes *= bytes < CHUNK_HUGE ? 2 : 1;
	while (bytes < CHUNK_HUGE && bytes < POOL_LINE + step);
	if (bytes < POOL_LINE + step)
		bytes = POOL_LINE + step;
	size_t count = (bytes - POOL_LINE) / step;
	void **spare = realloc(p->spare, (p->objects + count) * sizeof *spare);
	if (!spare)
		return -1;
	p->spare = spare;
	struct pool_chunk *chunk = pool_memory(bytes);
	if (!chunk)
		return -1;
	chunk->next = p->chunk;
	p->chunk = chunk;
	p->chunk_bytes = bytes;
	p->objects += count;
	for (; count > 0; count--) /* the first one is taken first */
		pool_give(p, (char *)chunk + POOL_LINE + (count - 1) * step);
	return 0;
}

int pool_reserve(struct pool *p, size_t count)
{
	while (p->spares < count)
		if (pool_grow(p) != 0)
			return -1;
	return 0;
}

void *pool_take(struct pool *p)
{
	if (p->spares == 0 && pool_grow(p) != 0)
		return NULL;
	void *object = p->spare[--p->spares];
	if (p->spares >= POOL_AHEAD)
		fetch_ahead(p->spare[p->spares - POOL_AHEAD], p->bytes < POOL_FETCH ? p->bytes : POOL_FETCH);
	ASAN_UNPOISON_MEMORY_REGION(object, pool_step(p));
	return object;
}

void pool_free(struct pool *p)
{
	for (struct pool_chunk *chunk; (chunk = p->chunk) != NULL;) {
		p->chunk = chunk->next;
		free(chunk);
	}
	free(p->spare);
	*p = (struct pool){.bytes = p->bytes};
}
