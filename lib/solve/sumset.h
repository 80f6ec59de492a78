/*
 * sumset: which sums can be reached by taking one number out of each of several lists, and at what
 * least cost.  A list is made of arithmetic progressions.  Only sums below `width` count; larger
 * ones fall off the end.
 */
#ifndef PACELINE_SOLVE_SUMSET_H
#define PACELINE_SOLVE_SUMSET_H

#include <stddef.h>
#include <stdint.h>

/* start, start+stride, ...: len numbers, at least one, all below the width. */
struct progression {
	uint64_t start, stride, len;
};

#define SUMSET_NEVER UINT64_MAX /* the cost of a sum that can't be reached */

static inline size_t sumset_words(uint64_t width)
{
	return (size_t)((width + 63) / 64);
}

static inline int sumset_has(const uint64_t *set, uint64_t sum)
{
	return (int)(set[sum / 64] >> (sum % 64) & 1);
}

static inline void sumset_put(uint64_t *set, uint64_t sum)
{
	set[sum / 64] |= 1ull << (sum % 64);
}

/* to |= { s + x: s in from, x in p }. spare: two sets' room. log2(len) passes over the words. */
void sumset_reach(uint64_t *to, const uint64_t *from, const struct progression *p, uint64_t width,
		  uint64_t *spare);

/* to[s] = min(to[s], from[s - x] + cost, x in p). spare: two tables' room. */
void sumset_least(uint64_t *to, const uint64_t *from, const struct progression *p, uint64_t cost,
		  uint64_t width, uint64_t *spare);

#endif
