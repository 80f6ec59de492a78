/* See map.h. */
#include "param/map.h"

void map_even(struct map *m, uint32_t parts, uint64_t dense_count)
{
	m->version = 1;
	m->parts = parts;
	/* There are at most 2^40 elements and 2^10 parts: no overflow. */
	for (uint64_t i = 0; i <= parts; i++) {
		m->dense_begin[i] = i * dense_count / parts;
		m->key_begin[i] = (i * MAP_PLACES + parts - 1) / parts; /* place * parts >> 32 */
	}
}

void map_first(struct map *m, uint32_t parts, uint64_t dense_count)
{
	m->version = 0;
	m->parts = parts;
	for (uint64_t i = 0; i <= parts; i++) {
		m->dense_begin[i] = i ? dense_count : 0;
		m->key_begin[i] = i ? MAP_PLACES : 0;
	}
}

int map_is_whole(const struct map *m, uint64_t dense_count)
{
	int whole = m->parts > 0 && m->parts <= MAP_PARTS_MAX && m->dense_begin[0] == 0 &&
		    m->key_begin[0] == 0 && m->dense_begin[m->parts] == dense_count &&
		    m->key_begin[m->parts] == MAP_PLACES;

	for (uint32_t i = 0; whole && i < m->parts; i++)
		whole = m->dense_begin[i] <= m->dense_begin[i + 1] &&
			m->key_begin[i] <= m->key_begin[i + 1];
	return whole;
}
