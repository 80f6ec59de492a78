/*
 * pool: see pool.h.
 */
#include "model/pool.h"

#include <stdlib.h>

static int grow(void *data, size_t *room, size_t count, struct error *err)
{
	void **p = data;
	size_t bytes;
	if (count <= *room && *p)
		return 0;
	if (__builtin_mul_overflow(count + 16, (size_t)4, &bytes) || bytes > SIZE_MAX - 64)
		return error_set(err, ERROR_OS, "", "a batch too large for memory");
	bytes = (bytes + 63) / 64 * 64;
	free(*p);
	*room = 0;
	*p = aligned_alloc(64, bytes);
	if (!*p)
		return error_set(err, ERROR_OS, "", "out of memory");
	*room = bytes / 4;
	return 0;
}

int pool_grow(struct pool *p, size_t count, struct error *err)
{
	return grow(&p->data, &p->room, count, err);
}

int words_grow(struct words *w, size_t count, struct error *err)
{
	return grow(&w->data, &w->room, count, err);
}
