/*
 * rowmap: see rowmap.h.  Open addressing over row numbers, at most half full; it never shrinks, and
 * keys of absent rows are never entered, so that scoring does not grow it.
 */
#include "ckpt/rowmap.h"

#include <stdlib.h>
#include <string.h>

#define EMPTY UINT32_MAX

struct rowmap {
	struct layout layout;
	uint32_t width;
	uint32_t *slot; /* row number or EMPTY */
	uint32_t *key;  /* [rows] */
	unsigned bits;  /* slots are 2^bits */
	size_t rows;    /* of the checkpoint */
	size_t extra;   /* made for absent keys, behind them */
	size_t room;    /* rows that fit in values */
	float *values;
};

static size_t slot_of(const struct rowmap *m, uint32_t key)
{
	return (size_t)((key * 0x9E3779B97F4A7C15ull) >> (64 - m->bits));
}

/* The slot that holds key, or the empty one where it belongs. */
static uint32_t *find_slot(const struct rowmap *m, uint32_t key)
{
	size_t mask = ((size_t)1 << m->bits) - 1;
	size_t i = slot_of(m, key);
	while (m->slot[i] != EMPTY && m->key[m->slot[i]] != key)
		i = (i + 1) & mask;
	return &m->slot[i];
}

static int take_row(uint32_t key, const float *values, void *arg, struct error *err)
{
	struct rowmap *m = arg;
	uint32_t *slot = find_slot(m, key);
	if (*slot != EMPTY)
		return error_set(err, ERROR_DATA, NULL, "holds row %u twice", key);
	*slot = (uint32_t)m->rows;
	m->key[m->rows] = key;
	memcpy(m->values + m->rows * m->width, values, m->width * sizeof *values);
	m->rows++;
	return 0;
}

static int reserve(struct rowmap *m, size_t rows, struct error *err)
{
	size_t floats;
	if (rows <= m->room)
		return 0;
	if (__builtin_mul_overflow(rows, (size_t)m->width, &floats) || floats > SIZE_MAX / 8)
		return error_set(err, ERROR_OS, NULL, "more rows than memory can hold");
	float *larger = realloc(m->values, (floats + 1) * sizeof *larger);
	if (!larger)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu rows", rows);
	m->values = larger;
	m->room = rows;
	return 0;
}

static int make_room(struct rowmap *m, uint64_t rows, struct error *err)
{
	if (rows >= EMPTY)
		return error_set(err, ERROR_DATA, NULL, "holds too many rows");
	m->bits = 4;
	while (((uint64_t)1 << m->bits) < 2 * rows)
		m->bits++;
	m->slot = malloc(((size_t)1 << m->bits) * sizeof *m->slot);
	m->key = malloc(((size_t)rows + 1) * sizeof *m->key);
	if (!m->slot || !m->key)
		return error_set(err, ERROR_OS, NULL, "out of memory for %llu rows",
				 (unsigned long long)rows);
	memset(m->slot, 0xff, ((size_t)1 << m->bits) * sizeof *m->slot);
	/* Some more, so that a batch's absent keys rarely move the array. */
	return reserve(m, (size_t)rows + 1024, err);
}

int rowmap_load(struct rowmap **out, struct ckpt *c, const struct layout *l, struct error *err)
{
	struct rowmap *m = calloc(1, sizeof *m);
	if (!m)
		return error_set(err, ERROR_OS, ckpt_dir(c), "out of memory");
	m->layout = *l;
	m->width = ckpt_width(c);
	if (make_room(m, ckpt_row_count(c), err) != 0 || ckpt_each_row(c, take_row, m, err) != 0) {
		rowmap_free(m);
		return error_wrap(err, ckpt_dir(c));
	}
	*out = m;
	return 0;
}

void rowmap_free(struct rowmap *m)
{
	if (!m)
		return;
	free(m->slot);
	free(m->key);
	free(m->values);
	free(m);
}

int rowmap_find(struct rowmap *m, uint32_t key, uint32_t *row, struct error *err)
{
	uint32_t found = *find_slot(m, key);
	if (found != EMPTY) {
		*row = found;
		return 0;
	}
	size_t next = m->rows + m->extra;
	if (next == m->room && reserve(m, m->room + m->room / 8 + 1, err) != 0)
		return -1;
	if (next >= EMPTY)
		return error_set(err, ERROR_DATA, NULL, "too many rows in a batch");
	layout_init_row(&m->layout, key, m->values + next * m->width);
	m->extra++;
	*row = (uint32_t)next;
	return 0;
}

void rowmap_forget(struct rowmap *m)
{
	m->extra = 0;
}

const float *rowmap_values(const struct rowmap *m)
{
	return m->values;
}
