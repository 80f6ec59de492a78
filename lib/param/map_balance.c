/* See map_balance.h. */
#include "param/map_balance.h"

#include <string.h>

/* The load of places from .. to-1. */
static double map_balance_load_of(const struct map_load *range, size_t ranges, uint64_t from,
				  uint64_t to)
{
	double sum = 0.0;

	for (size_t i = 0; i < ranges; i++) {
		uint64_t begin = range[i].begin, end = begin + range[i].places;
		uint64_t a = begin > from ? begin : from, b = end < to ? end : to;
		if (a < b)
			sum += range[i].load * ((double)(b - a) / (double)range[i].places);
	}
	return sum;
}

static double map_balance_work(const struct map *m, double element, const struct map_load *range,
			       size_t ranges, uint32_t part)
{
	return element * (double)(m->dense_begin[part + 1] - m->dense_begin[part]) +
	       map_balance_load_of(range, ranges, m->key_begin[part], m->key_begin[part + 1]);
}

/* The work of the busiest part, divided by the mean of all parts. */
static double peak(const struct map *m, double element, const struct map_load *range,
		   size_t ranges, uint32_t *busiest)
{
	double sum = 0.0, most = 0.0;

	*busiest = 0;
	for (uint32_t i = 0; i < m->parts; i++) {
		double one = map_balance_work(m, element, range, ranges, i);
		sum += one;
		if (one > most) {
			most = one;
			*busiest = i;
		}
	}
	return sum > 0.0 ? most * m->parts / sum : 1.0;
}

/* The place before which the load of all places is `wanted`. */
static uint64_t place_at(const struct map_load *range, size_t ranges, double wanted)
{
	double sum = 0.0;

	for (size_t i = 0; i < ranges; i++) {
		double load = range[i].load;
		if (load > 0.0 && sum + load >= wanted) {
			double part = (wanted - sum) / load;
			return range[i].begin + (uint64_t)(part * (double)range[i].places);
		}
		sum += load > 0.0 ? load : 0.0;
	}
	return MAP_PLACES;
}

/* The dense vector is always asked for as a whole, so all parts get the same length of it. Keys are
 * divided by how much is asked of them. */
static void set_bounds(struct map *m, const struct map_load *range, size_t ranges)
{
	uint64_t dense = m->dense_begin[m->parts];
	double rows = map_balance_load_of(range, ranges, 0, MAP_PLACES);

	for (uint64_t i = 1; i < m->parts; i++) {
		m->dense_begin[i] = i * dense / m->parts;
		m->key_begin[i] =
			place_at(range, ranges, rows * (double)i / (double)m->parts);
		if (m->key_begin[i] < m->key_begin[i - 1])
			m->key_begin[i] = m->key_begin[i - 1];
	}
}

int map_balance(struct map *out, const struct map *now, double element,
		const struct map_load *range, size_t ranges, double gain,
		struct map_balance *result)
{
	uint32_t ignored;

	*out = *now;
	result->before = peak(now, element, range, ranges, &result->busiest);
	result->after = result->before;
	/* No load of keys is known, or there is no other part to share with. */
	if (now->parts < 2 || map_balance_load_of(range, ranges, 0, MAP_PLACES) <= 0.0)
		return 0;
	set_bounds(out, range, ranges);
	double after = peak(out, element, range, ranges, &ignored);
	if (after > result->before * (1.0 - gain)) {
		*out = *now;
		return 0;
	}
	result->after = after;
	out->version++;
	return 1;
}
