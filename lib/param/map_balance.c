/* See map_balance.h. */
#include "param/map_balance.h"

#include <string.h>

/* The load of places from .. to-1. */
static double load_of(const struct map_load *range, size_t ranges, uint64_t from, uint64_t to)
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

static double work(const struct map *m, double element, const struct map_load *range,
		   size_t ranges, uint32_t part)
{
	return element * (double)(m->dense_begin[part + 1] - m->dense_begin[part]) +
	       load_of(range, ranges, m->key_begin[part], m->key_begin[part + 1]);
}

/* The busiest part by the mean. */
static double peak(const struct map *m, double element, const struct map_load *range,
		   size_t ranges, uint32_t *busiest)
{
	double sum = 0.0, most = 0.0;

	*busiest = 0;
	for (uint32_t i = 0; i < m->parts; i++) {
		double one = work(m, element, range, ranges, i);
		sum += one;
		if (one > most) {
			most = one;
			*busiest = i;
		}
	}
	return sum > 0.0 ? most * m->parts / sum : 1.0;
}

/* Where the load of the places before it is `wanted`. */
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

/*
 * The dense vector is asked for as a whole, so its parts are alike; the keys make up for the rest.
 * What a part has of the vector beyond its share of all work (there are few keys then) is spread
 * over the others: less for each, and no part gets less than no keys.
 */
static void set_bounds(struct map *m, double element, const struct map_load *range, size_t ranges)
{
	uint64_t dense = m->dense_begin[m->parts];
	double rows = load_of(range, ranges, 0, MAP_PLACES), all = element * (double)dense + rows;
	double room = 0.0, sum = 0.0;

	for (uint64_t i = 0; i <= m->parts; i++)
		m->dense_begin[i] = i * dense / m->parts;
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < m->parts; i++) {
			double has = element * (double)(m->dense_begin[i + 1] - m->dense_begin[i]);
			double share = all / m->parts - has;
			share = share > 0.0 ? share : 0.0;
			if (pass == 0) {
				room += share;
				continue;
			}
			sum += room > 0.0 ? share / room * rows : rows / m->parts;
			if (i + 1 < m->parts)
				m->key_begin[i + 1] = place_at(range, ranges, sum);
		}
	}
	for (uint32_t i = 1; i < m->parts; i++)
		if (m->key_begin[i] < m->key_begin[i - 1])
			m->key_begin[i] = m->key_begin[i - 1];
}

int map_balance(struct map *out, const struct map *now, double element,
		const struct map_load *range, size_t ranges, double gain,
		struct map_balance *result)
{
	uint32_t ignored;

	*out = *now;
	result->before = peak(now, element, range, ranges, &result->busiest);
	result->after = result->before;
	/* Nothing is known of keys, or there is nobody to share with. */
	if (now->parts < 2 || load_of(range, ranges, 0, MAP_PLACES) <= 0.0)
		return 0;
	set_bounds(out, element, range, ranges);
	double after = peak(out, element, range, ranges, &ignored);
	if (after > result->before * (1.0 - gain)) {
		*out = *now;
		return 0;
	}
	result->after = after;
	out->version++;
	return 1;
}
