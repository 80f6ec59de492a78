/* What store.c (numbers), store_sum.c (sums of pushes, and steps) and store_stream.c (from and to
 * streams) share. */
#ifndef PACELINE_PARAM_STORE_INTERNAL_H
#define PACELINE_PARAM_STORE_INTERNAL_H

#include "param/store.h"
#include "param/store_sum.h"
#include "param/table.h"

/* A larger number of steps is refused: steps are added to it, and it must not wrap to 0. */
#define STORE_STEPS_MAX (UINT64_C(1) << 62)

/* A piece of the dense range that is updated in one way. */
struct segment {
	size_t begin, count; /* within this part */
	int add;             /* plain sums instead of the optimiser */
};

/* Which rows have changed since a generation of the table: those that were there, as a list, and
 * all that were made since, behind them. */
struct changes {
	uint32_t since; /* 0: it is not noted */
	size_t there;   /* rows, then */
	float **row;
	size_t rows, room;
};

struct store {
	struct layout layout;
	struct map map;
	uint32_t part;
	struct opt opt;
	size_t slots;     /* of the optimiser, dense range */
	size_t row_slots; /* 0 for a table that only adds */
	uint64_t steps;   /* optimiser steps since the slots started */
	uint64_t held;    /* values held at a bound */

	uint64_t dense_begin;
	size_t dense_count, dense_stride; /* floats; stride: to the next slot */
	float *dense;                     /* parameters, then slot 0, then slot 1 */
	/* Addresses for more than this part's range, so that it can grow in place. In each slot
	 * there are those of elements room_begin .. room_end-1 of the vector; room[0] is the first
	 * of them. */
	uint64_t room_begin, room_end;
	float *room;
	void *memory; /* all of it; NULL: there is no dense vector */
	size_t dense_bytes;
	int shared_fd; /* the memory of the parameters (not of slots), or -1: it is private */
	float *frozen; /* a private copy of it, or NULL */
	struct segment segment[LAYOUT_TENSORS_MAX];
	size_t segments;

	size_t width;
	struct table *table;
	struct places *places; /* of its rows that have been looked at (store_move.c); or NULL */

	struct row_sums sums; /* of store_apply(), kept between units */
	struct changes changes;

	/* while parameters are taken from a stream */
	int take_slots; /* the stream has slots, and they are this optimiser's */
	int bare;       /* rows that are made get no initial values: theirs come at once */
};

/* store.c */
void store_cut_segments(struct store *s);
/* Makes memory of elements begin .. end-1 of the vector, which are within the room. */
int store_open_room(struct store *s, uint64_t begin, uint64_t end, struct error *err);
/* Gets their memory now, and not when they are written. Advice only. */
void store_warm(struct store *s, uint64_t begin, uint64_t end);
/* store_move.c */
void store_forget_places(struct store *s);
/* The address of an element of the vector that is within the room; slot -1: its parameter. */
static inline float *store_dense_at(const struct store *s, int slot, uint64_t element)
{
	return s->room + (size_t)(slot + 1) * s->dense_stride + (element - s->room_begin);
}

/* store_stream.c */

/* What is written of a store: a range of its own elements, and rows. */
struct store_some {
	uint64_t dense_begin, dense_count;
	size_t rows;
	/* Which rows: themselves, their numbers or their keys; all NULL: all, as they were made. */
	float *const *row;
	const uint32_t *number, *key;
	int partial;                  /* as of struct stream_shape */
};

int store_write_some(const struct store *s, const struct store_some *some,
		     const struct stream_sink *sink, struct error *err);
/* Puts rows that came from a stream into rows of the table. own[n]: their numbers in what came;
 * NULL: all, in order. */
int store_put_rows(struct store *s, size_t n, const uint32_t *own, float *const *row,
		   const float *values, const float *const *slots, struct error *err);
double store_weight(const struct store_push *push);
uint64_t store_divisor(const struct store_push *push);

/* Of a row's key, parameters and slots. */
static inline uint64_t store_one_row_bytes(const struct store *s)
{
	return (1 + s->width * (1 + s->row_slots)) * sizeof(float);
}

static inline void store_prefetch(const float *row, size_t count)
{
	for (size_t i = 0; i < count; i += 16)
		__builtin_prefetch(row + i, 1);
}

#endif
