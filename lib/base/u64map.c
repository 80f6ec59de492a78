#include "base/u64map.h"

#include "base/fetch.h"
#include "base/pool.h"

#include <assert.h>
#include <stdlib.h>

static size_t slot_of(const struct u64map *t, uint64_t key)
{
	/* Ids count up from 0, and are often asked for in that order: the multiplication spreads them by
	 * fours, which stand in one line of the cache; the high bits choose. */
	return (size_t)(((key >> 2) * 0x9e3779b97f4a7c15u) >> 20 << 2 | (key & 3)) & (t->room - 1);
}

int u64map_reserve(struct u64map *t, size_t count)
{
	if (count <= t->room - t->room / 4)
		return 0;
	size_t room = t->room ? t->room : 64;
	while (count > room - room / 4)
		room *= 2;
	struct u64map larger = {.slot = pool_array(room * sizeof *larger.slot), .room = room};
	if (!larger.slot)
		return -1;
	for (size_t i = 0; i < t->room; i++)
		if (t->slot[i].value)
			u64map_put(&larger, t->slot[i].key, t->slot[i].value);
	free(t->slot);
	*t = larger;
	return 0;
}

void u64map_put(struct u64map *t, uint64_t key, void *value)
{
	assert(value && t->count < t->room - t->room / 4);
	size_t i = slot_of(t, key);
	while (t->slot[i].value) {
		assert(t->slot[i].key != key);
		i = (i + 1) & (t->room - 1);
	}
	t->slot[i] = (struct u64map_slot){key, value};
	t->count++;
}

void u64map_fetch(const struct u64map *t, uint64_t key)
{
	if (t->room == 0)
		return;
	const struct u64map_slot *slot = &t->slot[slot_of(t, key)];
	fetch_ahead(slot, 1);
	fetch_ahead(slot + 1, 1); /* whoever is removed, this one is looked at; mostly it is in the same line */
}

static size_t u64map_find(const struct u64map *t, uint64_t key)
{
	if (t->count == 0)
		return SIZE_MAX;
	for (size_t i = slot_of(t, key); t->slot[i].value; i = (i + 1) & (t->room - 1))
		if (t->slot[i].key == key)
			return i;
	return SIZE_MAX;
}

void *u64map_get(const struct u64map *t, uint64_t key)
{
	size_t i = u64map_find(t, key);
	return i == SIZE_MAX ? NULL : t->slot[i].value;
}

void u64map_remove(struct u64map *t, uint64_t key)
{
	size_t hole = u64map_find(t, key);
	if (hole == SIZE_MAX)
		return;
	size_t mask = t->room - 1;
	/* Entries behind the hole move up, so that no probe stops short of them. */
	for (size_t i = (hole + 1) & mask; t->slot[i].value; i = (i + 1) & mask) {
		size_t home = slot_of(t, t->slot[i].key);
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			t->slot[hole] = t->slot[i];
			hole = i;
		}
	}
	t->slot[hole].value = NULL;
	t->count--;
}

void *u64map_next(const struct u64map *t, size_t *at)
{
	while (*at < t->room) {
		void *value = t->slot[(*at)++].value;
		if (value)
			return value;
	}
	return NULL;
}

void u64map_free(struct u64map *t)
{
	free(t->slot);
	*t = (struct u64map){0};
}
