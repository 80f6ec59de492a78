/*
 * store: one server's share of the parameters: a range of the dense vector and the rows of its
 * keys, each with optimiser slots.  It computes only: lib/lead decides what is applied.
 *
 * Parameters lie in private memory, except those of store_share(): to write a cut, a process forks.
 * Gradients are read when a unit is applied, so nobody else may write to their memory
 * (store_copy_judged() makes such a copy).  For several threads, and for gradients in memory that
 * others write: store_sum.h.
 */
#ifndef PACELINE_PARAM_STORE_H
#define PACELINE_PARAM_STORE_H

#include "base/error.h"
#include "base/team.h"
#include "param/layout.h"
#include "param/map.h"
#include "param/opt.h"
#include "param/stream.h"

#include <stddef.h>
#include <stdint.h>

struct store;

/* Makes the share that the map gives to part `part`, with the layout's initial values. Layout and
 * map are copied. */
int store_new(struct store **out, const struct layout *layout, const struct map *map, uint32_t part,
	      const struct opt *opt, struct error *err);
/* The same for a store that will be filled from streams. Its dense range has no values yet: to make
 * them would take longer than to read the real ones. */
int store_new_bare(struct store **out, const struct layout *layout, const struct map *map,
		   uint32_t part, const struct opt *opt, struct error *err);
void store_free(struct store *s); /* NULL is fine */
/* Gets all memory of its dense range now, so that nobody waits for it later. If several threads
 * write all of it at once, it is faster not to call this. */
void store_populate(struct store *s);

/* Drops its rows and its count of optimiser steps, before parameters are read from a stream. The
 * dense range keeps its values until others come. Pointers from store_rows() are invalid
 * afterwards. */
int store_empty(struct store *s, struct error *err);

/* Moves the dense parameters, without slots, to memory that other processes may map for reading;
 * only this process can write there. store_dense() stays the same. */
int store_share(struct store *s, struct error *err);
/* The memory of the dense parameters, store_dense_count() floats; it belongs to s. -1: not
 * shared. */
int store_shared_fd(const struct store *s);
/* Call this before a fork whose child writes the parameters, as shared memory would change while
 * the child reads it. From now on store_write() takes values from a copy, until the parent calls
 * store_thaw(). */
int store_freeze(struct store *s, struct team *team, struct error *err);
void store_thaw(struct store *s);

const struct map *store_map(const struct store *s);
uint32_t store_part(const struct store *s);
uint64_t store_dense_begin(const struct store *s);
size_t store_dense_count(const struct store *s);
size_t store_slots(const struct store *s); /* of the optimiser, beside each dense parameter */
size_t store_width(const struct store *s); /* 0: no table */
size_t store_row_count(const struct store *s);

/* The i-th dense parameter of this part as people name it: TENSOR[ELEMENT]. */
void store_dense_name(const struct store *s, size_t i, char *out, size_t max);

/* Finds the rows of n keys, and makes those that are new. ERROR_DATA: a key is not of this part or
 * beyond the table; the message has the first such key. With `unique`, a key that comes twice is
 * also an error. row[n] stays valid until rows are removed (store_move.h). */
int store_rows(struct store *s, const uint32_t *key, size_t n, int unique, float **row,
	       struct error *err);

/* Copies the parameters of the rows of n keys, whatever part they belong to, into out[n][width].
 * Rows that do not exist have their initial values, and are not made. The store has a table. */
void store_look_rows(const struct store *s, const uint32_t *key, size_t n, float *out);

/* This part's dense range itself; valid as long as s. NULL: the range is empty. */
const float *store_dense(const struct store *s);
/* Copies the dense range. `apart`: this process does not read the destination (it is a worker's
 * memory), so the copy need not go through the caches. */
void store_pull_dense(const struct store *s, float *out, int apart);
/* Copies the parameters of n rows into out[n][width]. */
void store_pull_rows(const struct store *s, float *const *row, size_t n, float *out);

/* Copies n gradients out of memory that somebody else may write meanwhile. Returns the first
 * element of the copy that opt_bad_gradient() would name; n: there is none. */
size_t store_copy_judged(float *to, const float *from, size_t n);

/* One worker's contribution to a unit. */
struct store_push {
	const float *dense; /* sum of the gradients of count samples; NULL: none */
	size_t rows;
	float *const *row; /* from store_rows(unique) */
	const float *row_gradient;
	uint64_t count;
	uint64_t size; /* samples of a whole batch of this worker: the mean divides by no less */
	double scale;  /* its weight; usually 1 */
	uint64_t delay; /* how many units it missed (lead/delay.h); of several the most counts */
};

/* Applies a unit: one optimiser step with the mean over all samples of all pushes, summed in the
 * order given. If the end of the data cuts a batch short, its sum is divided by the size of a whole
 * batch. So its samples weigh as much as all others (LB-BSP, section 3.4: 1/X each). Otherwise the
 * last one or two samples would make a step as large as that of a whole batch, in the direction of
 * their noise. The same pushes in the same order give the same bits. ERROR_OS: no memory; nothing
 * was changed. */
int store_apply(struct store *s, const struct store_push *push, size_t pushes, struct error *err);

/* How many values were held at a bound of the optimiser (opt.h), in all units since the start. */
uint64_t store_held(const struct store *s);
/* The push with the largest weighted gradient; for a message. */
size_t store_largest(const struct store *s, const struct store_push *push, size_t pushes);

/* Changes the scales so that store_apply() makes the plain mean of the pushes' own means, however
 * many samples each has. With n pushes of x_i samples, X in all, push i gets scale X/(n x_i), and
 * each of its samples weighs 1/(n x_i) instead of 1/X. This favours the data of small batches; if
 * all data are alike, it is as noisy as a batch of n^2 / (sum of 1/x_i) samples. For comparison
 * only: LB-BSP, section 3.4, warns of it. */
void store_naive_mean(struct store_push *push, size_t pushes);

/* Changes the scales so that the pushes, which close together under ASP or SSP, are as large a step
 * as one step each: with sgd exactly (if their batches have the same size), with momentum in the
 * end. The other optimisers make steps that hardly depend on the size of a gradient: for them this
 * does nothing, and the unit is one step. */
void store_group(const struct store *s, struct store_push *push, size_t pushes);

/* ---- to and from streams (stream.h) ---- */

/* Writes the whole store as one stream. */
int store_write(const struct store *s, const struct stream_sink *sink, struct error *err);

/* Begins to note which rows change. The result is the `since` of store_write_since(). */
uint32_t store_mark(struct store *s);
/* Writes the whole dense range, and those rows that were made or changed since `since`; 0: all
 * rows. */
int store_write_since(const struct store *s, uint32_t since, const struct stream_sink *sink,
		      struct error *err);

/* Begins to note which rows are made or changed, for store_write_changes(); once more: begins anew.
 * store_end_changes() before rows are removed. */
void store_begin_changes(struct store *s);
void store_end_changes(struct store *s);
/* How many bytes their values have. */
uint64_t store_changes_bytes(const struct store *s);
/* The same as store_write_since() when it began, without a look at rows that have not changed. The
 * rows are in the order of their first change. */
int store_write_changes(struct store *s, const struct stream_sink *sink, struct error *err);

/* Prepares the store to take its share of one or several streams. `from` is one of them, whose
 * first record and notes have been read; all are of the same kind. ERROR_CONFIG: its rows have
 * another width. *same: the streams are of this optimiser; otherwise slots and steps start anew
 * with the parameters that come. */
int store_expect(struct store *s, const struct stream_reader *from, int *same, struct error *err);
/* The taker of those streams, after store_expect(). It ignores parameters of other parts. */
struct stream_taker store_taker(struct store *s);

#endif
