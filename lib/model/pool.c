/*
 * pool: see pool.h.
 */
#include "model/pool.h"

#include <stdlib.h>

/* Frees the old memory and makes new one; NULL: no memory. GROW() would keep the contents, which
 * costs a copy, and does not align. */
static void *anew(void *data, size_t *room, size_t count, struct error *err)
{
	size_t bytes;
	free(data);
	*room = 0;
	if (__builtin_mul_overflow(count + 16, (size_t)4, &bytes) || bytes > SIZE_MAX - 64) {
		error_set(err, ERROR_OS, "", "a batch too large for memory");
		return NULL;
	}
	bytes = (bytes + 63) / 64 * 64;
	data = aligned_alloc(64, bytes);
	if (data)
		*room = bytes / 4;
	else
		error_set(err, ERROR_OS, "", "out of memory");
	return data;
}

int pool_grow(struct pool *p, size_t count, struct error *err)
{
	if (count > p->room || !p->data)
		p->data = anew(p->data, &p->room, count, err);
	return p->data ? 0 : -1;
}

int words_grow(struct words *w, size_t count, struct error *err)
{
	if (count > w->room || !w->data)
		w->data = anew(w->data, &w->room, count, err);
	return w->data ? 0 : -1;
}
