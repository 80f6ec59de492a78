#include "fabric/ranges.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

/* The first range that ends at `begin` or behind it. */
static size_t ranges_find(const struct ranges *r, uint64_t begin)
{
	size_t low = 0, high = r->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (r->range[middle].end < begin)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void ranges_take_out(struct ranges *r, size_t at)
{
	r->count--;
	memmove(r->range + at, r->range + at + 1, (r->count - at) * sizeof *r->range);
}

enum ranges_result ranges_add(struct ranges *r, uint64_t begin, uint64_t end)
{
	size_t at = ranges_find(r, begin);
	int touches_last = at < r->count && r->range[at].end == begin;
	size_t next = touches_last ? at + 1 : at;
	int touches_next = next < r->count && r->range[next].begin == end;

	if (next < r->count && r->range[next].begin < end)
		return RANGES_OVERLAP;
	if (touches_last) {
		r->range[at].end = touches_next ? r->range[next].end : end;
		if (touches_next)
			ranges_take_out(r, next);
		return RANGES_OK;
	}
	if (touches_next) {
		r->range[next].begin = begin;
		return RANGES_OK;
	}
	if (r->count >= RANGES_MAX || GROW(r->range, r->room, r->count + 1) != 0)
		return RANGES_FULL;
	memmove(r->range + at + 1, r->range + at, (r->count - at) * sizeof *r->range);
	r->range[at] = (struct range){begin, end};
	r->count++;
	return RANGES_OK;
}

void ranges_free(struct ranges *r)
{
	free(r->range);
	*r = (struct ranges){0};
}
