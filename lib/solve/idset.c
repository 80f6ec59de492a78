/* idset: see idset.h. uthash would cost 56 bytes and a pointer chase for each of a million ids that
 * are only asked once whether they are new. */
#include "solve/idset.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

void idset_clear(struct idset *s)
{
	free(s->text);
	free(s->offset);
	free(s->slot);
	*s = (struct idset){0};
}

const char *idset_get(const struct idset *s, size_t row)
{
	return s->text + s->offset[row];
}

static uint64_t idset_hash(const char *id)
{
	uint64_t h = 1469598103934665603ull;
	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 1099511628211ull;
	return h ^ (h >> 29);
}

/* The slot of id, or the free one where it belongs. There is always a free one. */
static uint32_t *idset_slot(const struct idset *s, const char *id)
{
	for (size_t i = (size_t)idset_hash(id);; i++) {
		uint32_t *slot = &s->slot[i & (s->slots - 1)];
		if (*slot == 0 || strcmp(idset_get(s, *slot - 1), id) == 0)
			return slot;
	}
}

/* Twice the rows and four times the slots, so that two of them a row stay the least. */
static int idset_grow_rows(struct idset *s)
{
	size_t room = s->room ? s->room * 2 : 256;
	if (room > UINT32_MAX / 4)
		return -1;
	size_t *offset = reallocarray(s->offset, room, sizeof *offset);
	if (!offset)
		return -1;
	s->offset = offset;
	uint32_t *slot = calloc(room * 2, sizeof *slot);
	if (!slot)
		return -1;
	free(s->slot);
	s->slot = slot;
	s->slots = room * 2;
	s->room = room;
	for (size_t i = 0; i < s->count; i++)
		*idset_slot(s, idset_get(s, i)) = (uint32_t)(i + 1);
	return 0;
}

size_t idset_find(const struct idset *s, const char *id)
{
	uint32_t row = s->slots ? *idset_slot(s, id) : 0;
	return row ? row - 1 : SIZE_MAX;
}

int idset_add(struct idset *s, const char *id, struct error *err)
{
	size_t len = strlen(id) + 1;
	if ((s->count == s->room && idset_grow_rows(s) != 0) ||
	    GROW(s->text, s->text_room, s->text_len + len) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu ids", s->count + 1);
	uint32_t *slot = idset_slot(s, id);
	if (*slot)
		return 0;
	memcpy(s->text + s->text_len, id, len);
	s->offset[s->count] = s->text_len;
	s->text_len += len;
	*slot = (uint32_t)++s->count;
	return 1;
}
