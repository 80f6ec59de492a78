/*
 * pool: memory of a model that grows with the largest batch seen and never shrinks.  Private to
 * lib/model.
 */
#ifndef PACELINE_MODEL_POOL_H
#define PACELINE_MODEL_POOL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct pool {
	float *data;
	size_t room;
};

struct words {
	uint32_t *data;
	size_t room;
};

/* Makes room for at least `count` elements, aligned to 64 bytes. When it grows, its contents are
 * lost. -1: no memory. */
int pool_grow(struct pool *p, size_t count, struct error *err);
int words_grow(struct words *w, size_t count, struct error *err);

#endif
