/*
 * Writes a store's parameters into a stream, and reads this part's share of any stream, whatever
 * part wrote it.  Writing only reads the store: a forked child does it.
 */
#include "param/store_internal.h"

#include "base/grow.h"
#include "base/number.h"
#include "param/store_move.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A stream that is kept has its rows in this many groups, by their places. With more groups a
 * reader with other ranges could skip more. But rows that were touched first are the ones in
 * demand, and they must stay side by side: a store that is restored makes its rows in this
 * order. */
#define GROUPS 256
#define AHEAD 24 /* rows that are being fetched into the cache */

/* ---- writing ---- */

static int store_stream_write_notes(const struct store *s, struct stream_writer *w,
				    struct error *err)
{
	char steps[32];

	number_format_u64(s->steps, steps);
	if (stream_note(w, "optimizer", opt_name(s->opt.kind), err) != 0)
		return -1;
	return stream_note(w, "steps", steps, err);
}

static uint8_t group_of(const struct store *s, size_t row)
{
	uint64_t begin = s->map.key_begin[s->part], end = s->map.key_begin[s->part + 1];

	return (uint8_t)((map_place(table_key(table_at(s->table, row))) - begin) * GROUPS /
			 (end - begin));
}

static int is_since(const struct store *s, size_t row, uint32_t since)
{
	return table_touched(table_at(s->table, row)) > since;
}

static size_t count_since(const struct store *s, uint32_t since)
{
	size_t all = store_row_count(s), n = 0;

	for (size_t i = 0; since > 0 && i < all; i++)
		n += is_since(s, i, since) ? 1 : 0;
	return since > 0 ? n : all;
}

/* The numbers of the n rows that are written, group by group. Within a group they are in the order
 * in which the rows were made. NULL: no memory. */
static uint32_t *store_stream_order_rows(const struct store *s, uint32_t since, size_t n)
{
	size_t begin[GROUPS + 1] = {0}, all = table_count(s->table);
	uint32_t *order = malloc((n + 1) * sizeof *order);
	uint8_t *group = malloc(all + 1);

	for (size_t i = 0; order && group && i < all; i++) {
		if (!is_since(s, i, since))
			continue;
		group[i] = group_of(s, i);
		begin[group[i] + 1]++;
	}
	for (size_t g = 0; g < GROUPS; g++)
		begin[g + 1] += begin[g];
	for (size_t i = 0; order && group && i < all; i++) {
		if (is_since(s, i, since))
			order[begin[group[i]]++] = (uint32_t)i;
	}
	if (!group) {
		free(order);
		order = NULL;
	}
	free(group);
	return order;
}

/* Copies rows from the table's records to one array for each section. */
struct gather {
	const struct store *store;
	const struct store_some *some;
	size_t begin, count; /* of this batch */
	size_t most;         /* the most of any batch: the distance between the arrays */
	uint32_t *key;
	float *values; /* parameters, then slots */
};

#define GATHER_ROWS 1024 /* a thread takes so many at a time */

static void store_stream_find_rows(const struct store *s, const struct store_some *some, size_t at,
				   size_t n, float **row)
{
	if (some->row) {
		memcpy(row, some->row + at, n * sizeof *row);
		return;
	}
	if (some->key) {
		table_look(s->table, some->key + at, n, row);
		return;
	}
	for (size_t i = 0; i < n; i++)
		row[i] = table_at(s->table, some->number ? some->number[at + i] : at + i);
}

/* A record has parameters and slots side by side; a stream has each in a section of its own. */
static void gather_piece(size_t piece, void *gather)
{
	const struct gather *g = gather;
	size_t width = g->store->width, sections = 1 + g->store->row_slots;
	size_t first = piece * GATHER_ROWS;
	size_t n = g->count - first < GATHER_ROWS ? g->count - first : GATHER_ROWS;
	float *row[GATHER_ROWS];

	store_stream_find_rows(g->store, g->some, g->begin + first, n, row);
	for (size_t i = 0; i < n; i++) {
		if (i + AHEAD < n)
			store_prefetch(row[i + AHEAD], width * sections);
		g->key[first + i] = table_key(row[i]);
		for (size_t k = 0; k < sections; k++)
			memcpy(g->values + (k * g->most + first + i) * width, row[i] + k * width,
			       width * sizeof *g->values);
	}
}

static int store_stream_write_rows(const struct store *s, const struct store_some *some,
				   struct team *team, size_t most, struct stream_writer *w,
				   struct error *err)
{
	size_t width = s->width, sections = 1 + s->row_slots, n = some->rows;
	struct gather g = {.store = s, .some = some, .most = most};
	const float *slot[OPT_SLOTS_MAX];

	g.key = malloc(most * sizeof *g.key);
	g.values = malloc(most * width * sections * sizeof *g.values);
	int rc = g.key && g.values ? 0 : error_set(err, ERROR_OS, "rows", "out of memory");
	for (size_t k = 0; k < s->row_slots; k++)
		slot[k] = g.values + (k + 1) * most * width;
	for (; rc == 0 && g.begin < n; g.begin += g.count) {
		g.count = n - g.begin < most ? n - g.begin : most;
		team_run(team, (g.count + GATHER_ROWS - 1) / GATHER_ROWS, gather_piece, &g);
		rc = stream_rows(w, g.count, g.key, g.values, slot, err);
	}
	free(g.key);
	free(g.values);
	return rc;
}

int store_write_some(const struct store *s, const struct store_some *some,
		     const struct stream_sink *sink, struct error *err)
{
	struct stream_shape shape = {
		.part = s->part,
		.parts = s->map.parts,
		.dense_begin = some->dense_begin,
		.dense_count = some->dense_count,
		.rows = some->rows,
		.partial = some->partial,
		.all_rows = store_row_count(s),
		.dense_slots = (uint32_t)s->slots,
		.width = (uint32_t)s->width,
		.row_slots = (uint32_t)s->row_slots,
	};
	const float *dense = s->frozen ? s->frozen : s->dense;
	uint64_t from = some->dense_begin - s->dense_begin;
	struct stream_writer *w;
	int rc;

	if (stream_begin(&w, sink, &shape, err) != 0)
		return -1;
	rc = store_stream_write_notes(s, w, err);
	for (size_t k = 0; rc == 0 && some->dense_count && k <= s->slots; k++) {
		rc = stream_dense(w, (int)k - 1, dense + from, some->dense_count, err);
		dense = s->dense + (k + 1) * s->dense_stride;
	}
	if (rc == 0 && s->table)
		rc = store_stream_write_rows(
			s, some, sink->team,
			sink->at ? stream_batch_rows(w) : stream_block_rows(&shape), w, err);
	if (rc == 0)
		rc = stream_end(w, err);
	stream_writer_free(w);
	return rc;
}

int store_write(const struct store *s, const struct stream_sink *sink, struct error *err)
{
	return store_write_since(s, 0, sink, err);
}

uint32_t store_mark(struct store *s)
{
	uint32_t mark = s->table ? table_generation(s->table) : 1;

	if (s->table)
		table_next_generation(s->table);
	return mark;
}

int store_write_since(const struct store *s, uint32_t since, const struct stream_sink *sink,
		      struct error *err)
{
	struct store_some some = {
		.dense_begin = s->dense_begin,
		.dense_count = s->dense_count,
		.rows = s->table ? count_since(s, since) : 0,
		.partial = since > 0 && s->table,
	};
	uint32_t *order = NULL;

	if (s->table && (sink->at || since > 0)) {
		some.number = order = store_stream_order_rows(s, since, some.rows);
		if (!order)
			return error_set(err, ERROR_OS, "rows", "out of memory");
	}
	int rc = store_write_some(s, &some, sink, err);
	free(order);
	return rc;
}

/* ---- what has changed ---- */

void store_begin_changes(struct store *s)
{
	struct changes *c = &s->changes;

	c->since = store_mark(s);
	c->there = store_row_count(s);
	c->rows = 0;
}

void store_end_changes(struct store *s)
{
	free(s->changes.row);
	s->changes = (struct changes){0};
}

static size_t count_changes(const struct store *s)
{
	return s->changes.rows + store_row_count(s) - s->changes.there;
}

uint64_t store_changes_bytes(const struct store *s)
{
	return store_dense_bytes(s) + count_changes(s) * store_one_row_bytes(s);
}

int store_write_changes(struct store *s, const struct stream_sink *sink, struct error *err)
{
	struct changes *c = &s->changes;
	struct store_some some = {
		.dense_begin = s->dense_begin,
		.dense_count = s->dense_count,
		.rows = count_changes(s),
		.partial = s->table != NULL,
	};

	if (GROW(c->row, c->room, some.rows + 1) != 0)
		return error_set(err, ERROR_OS, "rows", "out of memory");
	for (size_t i = c->rows; i < some.rows; i++)
		c->row[i] = table_at(s->table, c->there + i - c->rows);
	some.row = c->row;
	return store_write_some(s, &some, sink, err);
}

/* ---- reading ---- */

/* Slots are finite, as everything that comes out of a stream; but some must not be negative either,
 * as their roots are taken. */
static int check_slot(const struct store *s, size_t k, const float *x, size_t n, size_t *bad,
		      struct error *err)
{
	*bad = opt_bad_slot(&s->opt, k, x, n);
	if (*bad == n)
		return 0;
	return error_set(err, ERROR_DATA, NULL, "slot %zu of %s can't be %g", k, opt_name(s->opt.kind),
			 (double)x[*bad]);
}

static int name_bad(struct error *err, const char *what, uint64_t number)
{
	size_t len = err ? strlen(err->text) : 0;

	if (err)
		snprintf(err->text + len, sizeof err->text - len, " (%s %" PRIu64 ")", what, number);
	return -1;
}

/* If a whole block belongs to this part, it is read straight to where it belongs. */
static float *store_stream_place_dense(void *store, int slot, uint64_t begin, size_t count)
{
	struct store *s = store;

	if (begin < s->dense_begin || begin + count > s->dense_begin + s->dense_count)
		return NULL;
	return store_dense_at(s, slot, begin);
}

static int store_stream_take_dense(void *store, int slot, uint64_t begin, size_t count,
				   const float *values, struct error *err)
{
	struct store *s = store;
	uint64_t end = begin + count, own_end = s->dense_begin + s->dense_count;
	uint64_t from = begin > s->dense_begin ? begin : s->dense_begin;
	size_t bad;

	end = end < own_end ? end : own_end;
	if (from >= end)
		return 0;
	count = (size_t)(end - from);
	values += from - begin;
	if (slot >= 0 && check_slot(s, (size_t)slot, values, count, &bad, err) != 0)
		return name_bad(err, "dense parameter", from + bad);
	float *p = store_dense_at(s, -1, from), *to = store_dense_at(s, slot, from);
	if (to != values)
		memcpy(to, values, count * sizeof *values);
	if (slot < 0 && !s->take_slots) {
		float *own[OPT_SLOTS_MAX] = {p + s->dense_stride, p + 2 * s->dense_stride};
		opt_init(&s->opt, p, own, count);
	}
	return 0;
}

/* Which of keys[rows] are this part's: their numbers into own[rows], the keys into key[]. */
static size_t store_stream_choose_rows(const struct store *s, size_t rows, const uint32_t *keys,
				       uint32_t *own, uint32_t *key)
{
	uint64_t begin = s->map.key_begin[s->part], places = s->map.key_begin[s->part + 1] - begin;
	size_t n = 0;

	for (size_t i = 0; i < rows; i++) {
		own[n] = (uint32_t)i;
		key[n] = keys[i];
		n += map_place(keys[i]) - begin < places;
	}
	return n;
}

int store_put_rows(struct store *s, size_t n, const uint32_t *own, float *const *row,
		   const float *values, const float *const *slots, struct error *err)
{
	size_t width = s->width, bad;

	for (size_t i = 0; i < n; i++) {
		float *to = row[i], *slot[OPT_SLOTS_MAX] = {to + width, to + 2 * width};
		size_t from = (own ? own[i] : i) * width;
		memcpy(to, values + from, width * sizeof *to);
		if (s->row_slots && !s->take_slots)
			opt_init(&s->opt, to, slot, width);
		for (size_t k = 0; s->take_slots && k < s->row_slots; k++) {
			memcpy(slot[k], slots[k] + from, width * sizeof *to);
			if (check_slot(s, k, slot[k], width, &bad, err) != 0)
				return name_bad(err, "key", table_key(to));
		}
	}
	return 0;
}

static int store_stream_take_rows(void *store, size_t rows, const uint32_t *keys,
				  const float *values, const float *const *slots, struct error *err)
{
	struct store *s = store;
	uint32_t *own = malloc(2 * rows * sizeof *own);
	float **row = malloc(rows * sizeof *row);
	int rc = own && row ? 0 : error_set(err, ERROR_OS, "rows", "out of memory");

	if (rc == 0) {
		size_t n = store_stream_choose_rows(s, rows, keys, own, own + rows);
		s->bare = 1;
		rc = store_rows(s, own + rows, n, 0, row, err);
		s->bare = 0;
		if (rc == 0)
			rc = store_put_rows(s, n, own, row, values, slots, err);
	}
	free(own);
	free(row);
	return rc;
}

int store_expect(struct store *s, const struct stream_reader *from, int *same, struct error *err)
{
	const struct stream_shape *shape = stream_get_shape(from);
	const char *optimizer = stream_get_note(from, "optimizer");
	const char *steps = stream_get_note(from, "steps");
	struct error ignored;

	if (shape->width != s->width)
		return error_set(err, ERROR_CONFIG, NULL, "its rows are %u wide, the layout's %zu",
				 shape->width, s->width);
	s->take_slots = optimizer && strcmp(optimizer, opt_name(s->opt.kind)) == 0 &&
			shape->dense_slots == s->slots &&
			(s->width == 0 || shape->row_slots == s->row_slots);
	*same = s->take_slots;
	s->steps = 0;
	if (s->take_slots && steps &&
	    number_u64(steps, 0, STORE_STEPS_MAX, &s->steps, "steps", &ignored) != 0)
		return error_set(err, ERROR_DATA, NULL, "steps=%s is no number, or too large", steps);
	return 0;
}

struct stream_taker store_taker(struct store *s)
{
	return (struct stream_taker){.place = store_stream_place_dense,
				     .dense = store_stream_take_dense,
				     .rows = store_stream_take_rows,
				     .owner = s,
				     .slots = s->take_slots};
}
