/*
 * idset: the ids of many rows, packed, with a hash to find one that appears twice. A million ids
 * cost about 16 bytes each beyond their letters.
 */
#ifndef PACELINE_SOLVE_IDSET_H
#define PACELINE_SOLVE_IDSET_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct idset {      /* all zeros at first */
	char *text; /* ids one after another, each with its NUL */
	size_t text_len, text_room;
	size_t *offset; /* into text, by row */
	size_t count, room;
	uint32_t *slot; /* row + 1 by hash, 0 free; a power of two of them */
	size_t slots;
};

void idset_clear(struct idset *s);
/* Row s->count becomes id. 1: added; 0: it is there already; -1: ERROR_OS. */
int idset_add(struct idset *s, const char *id, struct error *err);
/* Its row; SIZE_MAX: it is not there. */
size_t idset_find(const struct idset *s, const char *id);
/* Valid until the next idset_add(). */
const char *idset_get(const struct idset *s, size_t row);

#endif
