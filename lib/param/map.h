/*
 * map: which part has which parameters.  It is a table with a version, and everybody who asks for
 * parameters or has some uses it.
 *
 * A part has one range of the dense vector and one range of the places of keys.  The place of a key
 * is its hash, 0 .. 2^32-1 (multiplicative hashing: Knuth, volume 3, 6.4).  It spreads keys that
 * follow each other evenly over all places.  The ranges follow each other in the order of the
 * parts, without gaps; they may differ in length.
 *
 * A struct map is plain data without pointers, 16 KB; it may be copied.
 */
#ifndef PACELINE_PARAM_MAP_H
#define PACELINE_PARAM_MAP_H

#include <stdint.h>

#define MAP_PARTS_MAX 1024
#define MAP_PLACES (UINT64_C(1) << 32)

struct map {
	uint64_t version; /* of two maps of a job, the one in force has the larger version */
	uint32_t parts;
	/* Part i has elements dense_begin[i] .. dense_begin[i+1]-1 of the vector, and the keys at
	 * places key_begin[i] .. key_begin[i+1]-1. */
	uint64_t dense_begin[MAP_PARTS_MAX + 1];
	uint64_t key_begin[MAP_PARTS_MAX + 1];
};

/* Version 1: the same share for each of `parts` (1..MAP_PARTS_MAX) parts, of a dense vector of at
 * most LAYOUT_DENSE_MAX elements. */
void map_even(struct map *m, uint32_t parts, uint64_t dense_count);

/* Version 0: part 0 has everything. A part that is about to join uses it, because it does not know
 * the job's map. */
void map_first(struct map *m, uint32_t parts, uint64_t dense_count);

/* Whether ranges follow each other and cover all of the vector and all places. */
int map_is_whole(const struct map *m, uint64_t dense_count);

/* The place of a key. */
static inline uint32_t map_place(uint32_t key)
{
	return key * 2654435761u;
}

/* Begins with the part that an even map gives, and goes from there to the right one. */
static inline uint32_t map_part_of_key(const struct map *m, uint32_t key)
{
	uint64_t place = map_place(key);
	uint32_t part = (uint32_t)(place * m->parts >> 32);

	while (place < m->key_begin[part])
		part--;
	while (place >= m->key_begin[part + 1])
		part++;
	return part;
}

#endif
