/*
 * sumset: see sumset.h. A progression of len numbers is a chain of log2(len) moves: what has been
 * covered so far, taken once more that much further on.  Overlaps do no harm, because "or" and
 * "min" give the same when a value comes twice.
 */
#include "solve/sumset.h"

#include <string.h>

/* to |= from << shift, shift < 64*words. */
static void or_shifted(uint64_t *restrict to, const uint64_t *restrict from, size_t words,
		       uint64_t shift)
{
	size_t skip = (size_t)(shift / 64);
	unsigned bits = (unsigned)(shift % 64);
	if (bits == 0) {
		for (size_t i = skip; i < words; i++)
			to[i] |= from[i - skip];
		return;
	}
	to[skip] |= from[0] << bits;
	for (size_t i = skip + 1; i < words; i++)
		to[i] |= from[i - skip] << bits | from[i - skip - 1] >> (64 - bits);
}

void sumset_reach(uint64_t *to, const uint64_t *from, const struct progression *p, uint64_t width,
		  uint64_t *spare)
{
	size_t words = sumset_words(width);
	uint64_t *next = spare;
	for (uint64_t covered = 1; covered < p->len;) {
		uint64_t more = covered < p->len - covered ? covered : p->len - covered;
		memcpy(next, from, words * sizeof *next);
		or_shifted(next, from, words, more * p->stride);
		covered += more;
		from = next;
		next = next == spare ? spare + words : spare;
	}
	or_shifted(to, from, words, p->start);
}

static void min_shifted(uint64_t *restrict to, const uint64_t *restrict from,
			const uint64_t *restrict same, uint64_t width, uint64_t shift)
{
	memcpy(to, same, shift * sizeof *to);
	for (uint64_t s = shift; s < width; s++)
		to[s] = same[s] < from[s - shift] ? same[s] : from[s - shift];
}

void sumset_least(uint64_t *to, const uint64_t *from, const struct progression *p, uint64_t cost,
		  uint64_t width, uint64_t *spare)
{
	uint64_t *next = spare;
	for (uint64_t covered = 1; covered < p->len;) {
		uint64_t more = covered < p->len - covered ? covered : p->len - covered;
		min_shifted(next, from, from, width, more * p->stride);
		covered += more;
		from = next;
		next = next == spare ? spare + width : spare;
	}
	for (uint64_t s = p->start; s < width; s++) {
		uint64_t with = from[s - p->start];
		with = with == SUMSET_NEVER ? with : with + cost;
		to[s] = with < to[s] ? with : to[s];
	}
}
