#include "base/u64map.h"

#include "base/fetch.h"
#include "base/pool.h"

#include <assert.h>
#include <stdlib.h>

#define LINE 4 /* slots of a line of the cache */

/* The first slot of the line where a key belongs. Ids count up from 0, and are often asked for in that order: so those
 * of one line belong together, and the multiplication spreads the lines; its high bits choose. */
static size_t home_of(const struct u64map *t, uint64_t key)
{
	return (size_t)((key / LINE * 0x9e3779b97f4a7c15u) >> 20) * LINE & (t->room - 1);
}

int u64map_reserve(struct u64map *t, size_t count)
{
	if (count <= t->room - t->room / 4)
		return 0;
	size_t room = t->room ? t->room : 64;
	while (count > room - room / 4)
		room *= 2;
	struct u64map larger = {.slot = pool_array(room * sizeof *larger.slot),
				.away = pool_array(room / LINE * sizeof *larger.away), .room = room};
	if (!larger.slot || !larger.away) {
		u64map_free(&larger);
		return -1;
	}
	for (size_t i = 0; i < t->room; i++)
		if (t->slot[i].value)
			u64map_put(&larger, t->slot[i].key, t->slot[i].value);
	u64map_free(t);
	*t = larger;
	return 0;
}

/* The slot that no other key takes of those that belong there: mostly a key is in it. */
static size_t own_slot(const struct u64map *t, uint64_t key)
{
	return home_of(t, key) + key % LINE;
}

/* Its own is taken. */
static __attribute__((noinline)) size_t free_slot(struct u64map *t, uint64_t key)
{
	size_t home = home_of(t, key), line = home, i = home;
	while (t->slot[i].value) {
		assert(t->slot[i].key != key);
		i++;
		if (i == line + LINE)
			i = line = (line + LINE) & (t->room - 1);
	}
	t->away[home / LINE] += line != home;
	return i;
}

void u64map_put(struct u64map *t, uint64_t key, void *value)
{
	assert(value && t->count < t->room - t->room / 4);
	size_t i = own_slot(t, key);
	if (t->slot[i].value)
		i = free_slot(t, key);
	t->slot[i] = (struct u64map_slot){key, value};
	t->count++;
}

void u64map_fetch(const struct u64map *t, uint64_t key)
{
	if (t->room > 0)
		fetch_ahead(&t->slot[home_of(t, key)], 1);
}

static int is_in_slot(const struct u64map *t, size_t i, uint64_t key)
{
	return t->slot[i].key == key && t->slot[i].value;
}

/* It is not in its own slot. Behind the line where it belongs it can be as far away as the last one that belongs
 * there, too. SIZE_MAX: it is nowhere. */
static __attribute__((noinline)) size_t find_elsewhere(const struct u64map *t, uint64_t key)
{
	size_t home = home_of(t, key), line = home, away = t->away[home / LINE];
	for (;;) {
		for (size_t i = line; i < line + LINE; i++) {
			if (is_in_slot(t, i, key))
				return i;
			away -= line != home && t->slot[i].value && home_of(t, t->slot[i].key) == home;
		}
		if (away == 0)
			return SIZE_MAX;
		line = (line + LINE) & (t->room - 1);
	}
}

static size_t u64map_find(const struct u64map *t, uint64_t key)
{
	if (t->count == 0)
		return SIZE_MAX;
	size_t i = own_slot(t, key);
	return is_in_slot(t, i, key) ? i : find_elsewhere(t, key);
}

void *u64map_get(const struct u64map *t, uint64_t key)
{
	size_t i = u64map_find(t, key);
	return i == SIZE_MAX ? NULL : t->slot[i].value;
}

void u64map_remove(struct u64map *t, uint64_t key)
{
	size_t i = u64map_find(t, key), home;
	if (i == SIZE_MAX)
		return;
	home = home_of(t, key);
	t->slot[i].value = NULL;
	t->away[home / LINE] -= i / LINE != home / LINE;
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
	free(t->away);
	*t = (struct u64map){0};
}
