/*
 * table: sparse rows by 32-bit key, each made on first touch.
 *
 * A row is one record of floats: `width` parameters, then the optimiser's slots of `width` floats
 * each, so that a step on a row touches one place in memory.  Records move only when some are
 * removed.  The table is private memory: a forked child sees it as it was.
 */
#ifndef PACELINE_PARAM_TABLE_H
#define PACELINE_PARAM_TABLE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct table;

/* Fills row (width parameters and the slots behind them) for a key that is seen first. */
typedef void table_init_fn(uint32_t key, float *row, void *arg);

int table_new(struct table **out, size_t width, size_t slots, table_init_fn *init, void *arg,
	      struct error *err);
void table_free(struct table *t); /* NULL is fine */

size_t table_count(const struct table *t);

/* row[i] = the record of key[i], made when it is new. ERROR_OS when memory is gone; rows made until
 * then stay. */
int table_rows(struct table *t, const uint32_t *key, size_t n, float **row, struct error *err);

/* The same without making any: NULL when it is not there. */
void table_look(const struct table *t, const uint32_t *key, size_t n, float **row);

/* Rows of keys go; keys that are not there are passed over. No pointer to a row of this table is
 * good any more: the last ones take the places of those that went. */
void table_remove(struct table *t, const uint32_t *key, size_t n);

/* The i-th row in order of making (i < table_count()), but where some were removed. */
float *table_at(const struct table *t, size_t i);

static inline uint32_t table_key(const float *row)
{
	return ((const uint32_t *)(const void *)row)[-2];
}

/* A row that is made, or given to table_touch(), gets the generation of that moment, from 1 on.
 * This tells which rows have changed since. */
uint32_t table_generation(const struct table *t);
void table_next_generation(struct table *t);

static inline void table_touch(float *row, uint32_t generation)
{
	((uint32_t *)(void *)row)[-3] = generation;
}

static inline uint32_t table_touched(const float *row)
{
	return ((const uint32_t *)(const void *)row)[-3];
}

/* Sets of rows without clearing (Briggs and Torczon, "An efficient representation for sparse sets",
 * 1993): a row is in list[0..n) when its mark says where. Returns its place there, after appending
 * it when it was not (then the result is the old n, and the caller adds one). */
static inline size_t table_place(float *row, float **list, size_t n)
{
	uint32_t *mark = &((uint32_t *)(void *)row)[-1];

	if (*mark < n && list[*mark] == row)
		return *mark;
	*mark = (uint32_t)n;
	list[n] = row;
	return n;
}

#endif
