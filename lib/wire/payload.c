/*
 * payload: the bulk of a request, either read from the socket into its own memory, or in memory
 * that the client has passed. It is reference-counted and may outlive its request, its connection
 * and its server. Only one thread may use it at a time.
 */
#include "wire/server_internal.h"

#include <stdlib.h>

#define SMALL_ROOM 2048
#define SMALL_MAX 256              /* kept for the next requests */
#define SPARE_BYTES_MIN (1 << 20)  /* larger payloads: the last one is kept */
#define FIRST_ROOM (64 * 1024)     /* bytes of a payload that has not arrived yet */
#define GROWTH 4

struct payload_pool *payload_pool_new(void)
{
	struct payload_pool *pool = calloc(1, sizeof *pool);
	if (pool)
		pool->references = 1;
	return pool;
}

void payload_pool_release(struct payload_pool *pool)
{
	if (!pool || --pool->references > 0)
		return;
	while (pool->small) {
		struct payload *p = pool->small;
		pool->small = p->next;
		free(p);
	}
	free(pool->spare);
	free(pool);
}

/* A block with room for `bytes`, reused or new. */
static struct payload *payload_take_block(struct payload_pool *pool, size_t bytes)
{
	struct payload *p;
	size_t room = bytes < SMALL_ROOM ? SMALL_ROOM : bytes;
	if (room == SMALL_ROOM && pool->small) {
		p = pool->small;
		pool->small = p->next;
		pool->small_count--;
		return p;
	}
	if (pool->spare && pool->spare->room >= bytes && pool->spare->room / 2 <= bytes) {
		p = pool->spare;
		pool->spare = NULL;
		return p;
	}
	if (room > SIZE_MAX - sizeof *p)
		return NULL;
	p = malloc(sizeof *p + room);
	if (p)
		p->room = room;
	return p;
}

static struct payload *payload_begin_block(struct payload_pool *pool, size_t bytes, size_t room)
{
	struct payload *p = payload_take_block(pool, room);
	if (!p)
		return NULL;
	p->references = 1;
	p->bytes = bytes;
	p->data = p->storage;
	p->mapping = NULL;
	p->pool = pool;
	pool->references++;
	return p;
}

void *server_expect(struct server *s, size_t bytes)
{
	struct payload_pool *pool = s->payloads;
	if (bytes < SPARE_BYTES_MIN || pool->spare)
		return NULL;
	pool->spare = payload_take_block(pool, bytes);
	return pool->spare ? pool->spare->storage : NULL;
}

struct payload *payload_begin(struct payload_pool *pool, size_t bytes)
{
	int is_there = pool->spare && pool->spare->room >= bytes && pool->spare->room / 2 <= bytes;
	return payload_begin_block(pool, bytes,
				   is_there || bytes < FIRST_ROOM ? bytes : FIRST_ROOM);
}

int payload_grow(struct payload **payload, size_t need)
{
	struct payload *p = *payload;
	if (need <= p->room)
		return 0;
	size_t room = p->room > p->bytes / GROWTH ? p->bytes : GROWTH * p->room;
	if (room < need)
		room = need;
	p = room <= SIZE_MAX - sizeof *p ? realloc(p, sizeof *p + room) : NULL;
	if (!p)
		return -1;
	p->room = room;
	p->data = p->storage;
	*payload = p;
	return 0;
}

struct payload *payload_of_mapping(struct payload_pool *pool, struct mapping *m, uint64_t offset,
				   uint64_t bytes, struct error *err)
{
	if (!m) {
		error_set(err, ERROR_DATA, NULL, "map-bytes= without a map request before");
		return NULL;
	}
	char *at = mapping_at(m, offset, bytes);
	if (!at) {
		error_set(err, ERROR_DATA, NULL,
			  "map-offset-bytes=%llu map-bytes=%llu is not inside the %zu bytes mapped, "
			  "or not aligned to 8",
			  (unsigned long long)offset, (unsigned long long)bytes, m->bytes);
		return NULL;
	}
	struct payload *p = payload_begin_block(pool, 0, 0);
	if (!p) {
		error_set(err, ERROR_OS, NULL, "out of memory");
		return NULL;
	}
	p->bytes = (size_t)bytes;
	p->data = at;
	p->mapping = m;
	m->references++;
	return p;
}

const void *payload_data(const struct payload *p)
{
	return p->data;
}

size_t payload_bytes(const struct payload *p)
{
	return p->bytes;
}

int payload_is_shared(const struct payload *p)
{
	return p->mapping != NULL;
}

struct payload *payload_hold(struct payload *p)
{
	p->references++;
	return p;
}

void payload_release(struct payload *p)
{
	if (!p || --p->references > 0)
		return;
	struct payload_pool *pool = p->pool;
	mapping_release(p->mapping);
	if (p->room == SMALL_ROOM && pool->small_count < SMALL_MAX) {
		p->next = pool->small;
		pool->small = p;
		pool->small_count++;
	} else if (p->room >= SPARE_BYTES_MIN) {
		free(pool->spare);
		pool->spare = p;
	} else {
		free(p);
	}
	payload_pool_release(pool);
}
