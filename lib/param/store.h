/*
 * store: one server's share of the parameters: a range of the dense vector and the rows of its
 * keys, each with optimiser slots.  Numbers only: who may apply what is decided elsewhere
 * (lib/lead).
 *
 * Parameters lie in private memory (the cut forks), but for those of store_share().  Gradients are
 * read when a unit is applied: they have to be memory that nobody else writes
 * (store_copy_judged()).  Several threads, and gradients that lie elsewhere: store_sum.h.
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

/* What the map gives to part `part`, with the layout's initial values. Layout and map are copied. */
int store_new(struct store **out, const struct layout *layout, const struct map *map, uint32_t part,
	      const struct opt *opt, struct error *err);
/* The same for parameters that come from streams: its dense range has no values yet, making them up
 * would take longer than reading them. */
int store_new_bare(struct store **out, const struct layout *layout, const struct map *map,
		   uint32_t part, const struct opt *opt, struct error *err);
void store_free(struct store *s); /* NULL is fine */
/* Gets all memory of its dense range now, not later while others wait for what is written there. If
 * several threads write all of it at once, that is faster without this. */
void store_populate(struct store *s);

/* Drops its rows and the optimiser's steps, before parameters are read from a stream. Values of the
 * dense range stay until others come. What store_rows() has found must not be used any more. */
int store_empty(struct store *s, struct error *err);

/* From now on the dense parameters, without slots, lie in memory that may be given to others:
 * nobody but this process can write there. They stay where store_dense() is. */
int store_share(struct store *s, struct error *err);
int store_shared_fd(const struct store *s); /* s's own; store_dense_count() floats; -1: none */
/* Before a fork whose child writes the parameters: shared memory would change under it, so that
 * store_write() takes a copy from now on, until store_thaw() in the parent. */
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

/* Rows of keys, made when new. ERROR_DATA naming the first key that is not of this part or beyond
 * the table; with `unique`, also one that is there twice. row[n] stays valid until rows are removed
 * (store_move.h). */
int store_rows(struct store *s, const uint32_t *key, size_t n, int unique, float **row,
	       struct error *err);

/* Parameters of the rows of keys, whatever part they are of, into out[n][width]; the initial values
 * for rows that do not exist. None are made. The store has a table. */
void store_look_rows(const struct store *s, const uint32_t *key, size_t n, float *out);

/* This part's dense range where it lies, as long as s; NULL: it is empty. */
const float *store_dense(const struct store *s);
/* The same, copied; `apart` says that the destination is not read here again (a worker's
 * memory), so that it need not go through the caches. */
void store_pull_dense(const struct store *s, float *out, int apart);
void store_pull_rows(const struct store *s, float *const *row, size_t n, float *out);

/* Copies gradients out of memory that somebody else may write meanwhile, and returns which of the
 * copies is the first that opt_bad_gradient() would name, n when none is. */
size_t store_copy_judged(float *to, const float *from, size_t n);

/* One worker's contribution to a unit. */
struct store_push {
	const float *dense; /* sum of gradients over count samples; NULL: none */
	size_t rows;
	float *const *row; /* from store_rows(unique) */
	const float *row_gradient;
	uint64_t count;
	uint64_t size; /* samples of a whole batch of this worker; its divisor is never less */
	double scale;  /* what it weighs; 1 */
};

/* Applies a unit: one optimiser step with the mean over all samples of all pushes, summed in the
 * order given.  A batch that the end of the data cut short is divided by its whole size, so that
 * its samples weigh what all others do (LB-BSP 3.4: 1/X each): a mean over the last one or two
 * would be a step as large as that of a whole batch, in the direction of their noise.  The same
 * pushes in the same order give the same bits.  ERROR_OS: no memory, nothing was changed. */
int store_apply(struct store *s, const struct store_push *push, size_t pushes, struct error *err);

/* How many values were held at a bound of the optimiser's (opt.h) in all units since the start. */
uint64_t store_held(const struct store *s);
/* Which of these pushes has the largest gradient, by what it weighs; for a message. */
size_t store_largest(const struct store *s, const struct store_push *push, size_t pushes);

/* Changes the scales so that store_apply() makes the plain mean of the pushes' own means, however
 * many samples each has: with n pushes of x_i samples, X in all, scale X/(n x_i), and so a sample
 * weighs 1/(n x_i) instead of 1/X.  It leans towards the data of small batches, and where the data
 * are alike it is as noisy as a batch of n^2 / (sum of 1/x_i).  For comparison only: this is what
 * LB-BSP 3.4 warns of. */
void store_naive_mean(struct store_push *push, size_t pushes);

/* ---- on its way (stream.h) ---- */

/* All of it, as one stream. */
int store_write(const struct store *s, const struct stream_sink *sink, struct error *err);

/* From now on the store can tell which rows have changed; the result is the `since` of
 * store_write_since(). */
uint32_t store_mark(struct store *s);
/* All of the dense range, and of rows those only that were made or changed since then; 0: all. */
int store_write_since(const struct store *s, uint32_t since, const struct stream_sink *sink,
		      struct error *err);

/* The store will take its share of streams, one or several: `from` is one of them, its first record
 * and its notes read, and says what they are. The taker passes over what is another part's.
 * ERROR_CONFIG: rows of another width. *same: they are of this optimiser; otherwise slots and steps
 * start anew with the parameters that come. */
int store_expect(struct store *s, const struct stream_reader *from, int *same, struct error *err);
struct stream_taker store_taker(struct store *s); /* after store_expect() */

#endif
