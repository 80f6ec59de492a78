/* See map.h. */
#include "param/map.h"

void map_even(struct map *m, uint32_t parts, uint64_t dense_count)
{
	m->version = 1;
	m->parts = parts;
	/* At most 2^40 elements times 2^10 parts: no overflow. */
	for (uint64_t i = 0; i <= parts; i++) {
		m->dense_begin[i] = i * dense_count / parts;
		m->key_begin[i] = (i * MAP_PLACES + parts - 1) / parts; /* key k: place * parts >> 32 */
	}
}
