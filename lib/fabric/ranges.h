/*
 * ranges: which parts of a long line of items have been named, each at most once.
 *
 * Neighbours are merged, so parts that come in order are one range.  Bounded: a client that names
 * every second item is refused, so that it can't fill the memory.
 */
#ifndef PACELINE_FABRIC_RANGES_H
#define PACELINE_FABRIC_RANGES_H

#include <stddef.h>
#include <stdint.h>

#define RANGES_MAX 65536

struct range {
	uint64_t begin, end;
};

struct ranges {
	struct range *range; /* ascending, with a gap between any two */
	size_t count, room;
};

enum ranges_result {
	RANGES_OK = 0,
	RANGES_OVERLAP, /* some of it has been named already; nothing changed */
	RANGES_FULL     /* too many gaps, or no memory; nothing changed */
};

/* begin < end. */
enum ranges_result ranges_add(struct ranges *r, uint64_t begin, uint64_t end);
void ranges_free(struct ranges *r);

#endif
