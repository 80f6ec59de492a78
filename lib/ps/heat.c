/* See heat.h. */
#include "ps/heat.h"

#include "base/number.h"
#include "param/map.h"

#include <stdio.h>
#include <string.h>

#define HALF_AT (1u << 24) /* keys */
/* Finding a row takes as long as reading this many consecutive floats: cache misses. */
#define FIND_FLOATS 40.0
/* A pushed float is read, and its parameter and slots are read and written. */
#define PUSH_FLOATS 3.0

void heat_start(struct heat *h, uint64_t begin, uint64_t places)
{
	uint64_t pulled = h->rows_pulled, pushed = h->rows_pushed;

	*h = (struct heat){.rows_pulled = pulled, .rows_pushed = pushed};
	heat_place(h, begin, places);
}

void heat_place(struct heat *h, uint64_t begin, uint64_t places)
{
	h->begin = begin;
	h->places = places;
	h->scale = places ? ((uint64_t)HEAT_RANGES << 32) / places : 0;
}

static void add_counts(struct record_out *o, const char *key, const uint64_t *count)
{
	char text[HEAT_TEXT];
	size_t len = 0;

	for (size_t i = 0; i < HEAT_RANGES; i++)
		len += (size_t)snprintf(text + len, sizeof text - len, "%s%llu", i ? "," : "",
					(unsigned long long)count[i]);
	record_add(o, key, text);
}

void heat_save(const struct heat *h, struct record_out *o)
{
	record_add_u64(o, "heat-rows-pulled", h->rows_pulled);
	record_add_u64(o, "heat-rows-pushed", h->rows_pushed);
	record_add_u64(o, "heat-dense-pulls", h->dense_pulls);
	record_add_u64(o, "heat-dense-pushes", h->dense_pushes);
	record_add_real(o, "heat-units", h->units);
	add_counts(o, "heat-pulled", h->pulled);
	add_counts(o, "heat-pushed", h->pushed);
}

static int read_counts(struct heat *h, const struct record *r, const char *key, uint64_t *count,
		       struct error *err)
{
	const char *at = record_get(r, key);

	for (size_t i = 0; at && i < HEAT_RANGES; i++) {
		size_t len = strcspn(at, ",");
		if (number_u64_span(at, len, &count[i]) != 0 || count[i] > HALF_AT ||
		    (at[len] == '\0') != (i + 1 == HEAT_RANGES))
			return error_set(err, ERROR_DATA, NULL, "%s: not %d counts", key,
					 HEAT_RANGES);
		h->counted += count[i];
		at += len + 1;
	}
	return 0;
}

int heat_load(struct heat *h, const struct record *r, struct error *err)
{
	h->counted = 0;
	return record_u64_opt(r, "heat-rows-pulled", 0, UINT64_MAX, &h->rows_pulled, err) != 0 ||
			       record_u64_opt(r, "heat-rows-pushed", 0, UINT64_MAX,
					      &h->rows_pushed, err) != 0 ||
			       record_u64_opt(r, "heat-dense-pulls", 0, UINT64_MAX,
					      &h->dense_pulls, err) != 0 ||
			       record_u64_opt(r, "heat-dense-pushes", 0, UINT64_MAX,
					      &h->dense_pushes, err) != 0 ||
			       record_real_opt(r, "heat-units", 0.0, 1e18, &h->units, err) != 0 ||
			       read_counts(h, r, "heat-pulled", h->pulled, err) != 0
		       ? -1
		       : read_counts(h, r, "heat-pushed", h->pushed, err);
}

static void heat_halve(struct heat *h)
{
	for (size_t i = 0; i < HEAT_RANGES; i++) {
		h->pulled[i] /= 2;
		h->pushed[i] /= 2;
	}
	h->counted /= 2;
	h->dense_pulls /= 2;
	h->dense_pushes /= 2;
	h->units /= 2.0;
}

/* Each request begins with another key, so that no key is left out for good. */
static void heat_count(struct heat *h, uint64_t *range, const uint32_t *key, size_t rows)
{
	size_t each = rows <= HEAT_ALL ? 1 : HEAT_EACH;

	for (size_t i = h->turn++ % each; i < rows; i += each) {
		uint64_t at = map_place(key[i]) - h->begin;
		if (at >= h->places)
			continue; /* a key of another part: it is refused elsewhere */
		range[at * h->scale >> 32] += each;
		h->counted += each;
	}
	if (h->counted >= HALF_AT)
		heat_halve(h);
}

void heat_pull(struct heat *h, const uint32_t *key, size_t rows, int dense)
{
	h->rows_pulled += rows;
	h->dense_pulls += dense != 0;
	heat_count(h, h->pulled, key, rows);
}

void heat_push(struct heat *h, const uint32_t *key, size_t rows, int dense)
{
	h->rows_pushed += rows;
	h->dense_pushes += dense != 0;
	heat_count(h, h->pushed, key, rows);
}

/* The work of a range, in floats touched. */
static double heat_load_of(const struct heat *h, size_t width, size_t range)
{
	double w = (double)width;

	return (double)h->pulled[range] * (w + FIND_FLOATS) +
	       (double)h->pushed[range] * (PUSH_FLOATS * w + FIND_FLOATS);
}

void heat_text(const struct heat *h, size_t width, char out[HEAT_TEXT])
{
	size_t len = 0;

	out[0] = '\0';
	for (size_t i = 0; i < HEAT_RANGES; i++)
		len += (size_t)snprintf(out + len, HEAT_TEXT - len, "%s%.4g", i ? "," : "",
					h->units > 0.0 ? heat_load_of(h, width, i) / h->units
						       : 0.0);
}

double heat_element(const struct heat *h)
{
	return h->units > 0.0 ? ((double)h->dense_pulls + PUSH_FLOATS * (double)h->dense_pushes) /
					h->units
			      : 0.0;
}

void heat_stat(const struct heat *h, size_t width, struct record_out *o)
{
	double sum = 0.0, most = 0.0;
	size_t hot = 0;

	for (size_t i = 0; i < HEAT_RANGES; i++) {
		double one = heat_load_of(h, width, i);
		sum += one;
		if (one > most) {
			most = one;
			hot = i;
		}
	}
	record_add_u64(o, "rows-pulled", h->rows_pulled);
	record_add_u64(o, "rows-pushed", h->rows_pushed);
	if (sum <= 0.0)
		return;
	uint64_t from = h->places * hot / HEAT_RANGES, to = h->places * (hot + 1) / HEAT_RANGES;
	record_add_u64(o, "hot-begin", h->begin + from);
	record_add_u64(o, "hot-places", to - from);
	record_add_real(o, "hot-fraction", most / sum);
}
