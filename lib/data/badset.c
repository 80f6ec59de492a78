/* badset: see badset.h. */
#include "data/badset.h"

#include <stdlib.h>

/* Where row is, or where it would be. */
static size_t find(const uint64_t *slot, size_t room, uint64_t row)
{
	size_t i = (size_t)((row * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (room - 1);
	while (slot[i] != 0 && slot[i] != row + 1)
		i = (i + 1) & (room - 1);
	return i;
}

int badset_has(const struct badset *b, uint64_t row)
{
	return b->room > 0 && b->slot[find(b->slot, b->room, row)] != 0;
}

static int grow(struct badset *b)
{
	size_t room = b->room ? b->room * 2 : 64;
	uint64_t *slot = calloc(room, sizeof *slot);
	if (!slot)
		return -1;
	for (size_t i = 0; i < b->room; i++)
		if (b->slot[i])
			slot[find(slot, room, b->slot[i] - 1)] = b->slot[i];
	free(b->slot);
	b->slot = slot;
	b->room = room;
	return 0;
}

int badset_add(struct badset *b, uint64_t row)
{
	if (2 * (b->count + 1) > b->room && grow(b) != 0)
		return -1;
	size_t i = find(b->slot, b->room, row);
	if (b->slot[i] == 0) {
		b->slot[i] = row + 1;
		b->count++;
	}
	return 0;
}

void badset_free(struct badset *b)
{
	free(b->slot);
	*b = (struct badset){0};
}
