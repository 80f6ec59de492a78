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

/* Fills row (width parameters, then the slots) for a key that comes for the first time. */
typedef void table_init_fn(uint32_t key, float *row, void *arg);

/* An empty table of rows of width floats with so many slots. init is called for each new row.
 * ERROR_OS: no memory. */
int table_new(struct table **out, size_t width, size_t slots, table_init_fn *init, void *arg,
	      struct error *err);
void table_free(struct table *t); /* NULL is fine */

size_t table_count(const struct table *t);

/* row[i] = the record of key[i]; it is made if the key is new. ERROR_OS: no memory; rows that were
 * made before stay. */
int table_rows(struct table *t, const uint32_t *key, size_t n, float **row, struct error *err);

/* The same, but no row is made: NULL if there is none. */
void table_look(const struct table *t, const uint32_t *key, size_t n, float **row);

/* Removes the rows of n keys; keys without a row are ignored. All pointers to rows of this table
 * are invalid afterwards: the last rows of the table move into the gaps. */
void table_remove(struct table *t, const uint32_t *key, size_t n);

/* The i-th row (i < table_count()), in the order in which rows were made, except that removals
 * change it. */
float *table_at(const struct table *t, size_t i);

/* The key of a row. */
static inline uint32_t table_key(const float *row)
{
	return ((const uint32_t *)(const void *)row)[-2];
}

/* Each row has a generation. A row that is made, or given to table_touch(), gets the present one;
 * they count from 1. So one can tell which rows have changed since some generation. */
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

/* A set of rows that need not be cleared (Briggs and Torczon, "An efficient representation for
 * sparse sets", 1993): a row is in list[0..n) if its mark is its place there. Returns that place.
 * If the row was not in the list, it is appended: then the result is n, and the caller adds one to
 * n. */
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
