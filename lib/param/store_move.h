/*
 * store_move: some of a store's parameters given to the store of another part, while both go on.
 *
 *     giver:     store_share_find(), store_share_write() for each who gets some
 *     receiver:  store_incoming_begin(), store_incoming_take() for each who gives some
 *     all:       store_adopt() when all of it is everywhere; or, as if nothing had been,
 *                store_incoming_undo()
 *
 * What is given stays where it is until store_adopt(), and what came belongs to nobody until then:
 * the giver's range and the receiver's are as before.
 */
#ifndef PACELINE_PARAM_STORE_MOVE_H
#define PACELINE_PARAM_STORE_MOVE_H

#include "base/error.h"
#include "param/store.h"

#include <stddef.h>
#include <stdint.h>

/* What one part gives another one. Zeroed at first. */
struct store_share {
	uint64_t dense_begin, dense_end; /* elements of the vector */
	uint64_t key_begin, key_end;     /* places of keys */
	uint32_t *key;                   /* rows that are there */
	size_t rows, room;
};

/* What part `to` of map has that s has now; empty is fine. */
struct store_share store_share_of(const struct store *s, const struct map *map, uint32_t to);
int store_share_is_empty(const struct store_share *share);
/* The store learns the places of its rows, looking at no more than `most` of them. It keeps
 * that (8 bytes a row at most) for as long as it lives: parameters move in many pieces, and each would
 * look at all rows again. 1: all are known; 0: go on; -1: ERROR_OS. */
int store_learn_places(struct store *s, size_t most, struct error *err);
/* Finds the rows, looking at no more than `most` of the store's, and at none whose places it has
 * learnt. It may be done ahead, and again: rows that came into being are added, as long as none were
 * removed. *at: how far it has looked, 0 at first; store_row_count(): it has found all. */
int store_share_find(const struct store *s, struct store_share *share, size_t *at, size_t most,
		     struct error *err);
int store_share_write(const struct store *s, const struct store_share *share,
		      const struct stream_sink *sink, struct error *err);
/* At least what store_share_write() writes, in bytes. */
size_t store_share_bytes(const struct store *s, const struct store_share *share);
void store_share_free(struct store_share *share); /* what it points to */

/* What comes from others. Zeroed at first. */
struct store_incoming {
	struct store *store;
	struct map map; /* that will be in force */
	uint32_t part;  /* which s will be */
	uint32_t *key;  /* rows that came */
	size_t rows, room;
	uint64_t new_begin[2], new_end[2]; /* elements that are to be ours, below and above those we have */
	uint64_t warm;                     /* of them have their memory */
};

/* Makes room. ERROR_OS: there is none. */
int store_incoming_begin(struct store_incoming *in, struct store *s, const struct map *map,
			 uint32_t part, struct error *err);
/* Gets the memory of the next `most` bytes of it now, not later while everybody waits for what
 * comes. 1: there is all of it. */
int store_incoming_warm(struct store_incoming *in, size_t most);
/* One stream in text[bytes], as store_share_write() made it; another process may still write there.
 * ERROR_CONFIG: another model or optimiser; ERROR_DATA: it is damaged, or has what is not ours. */
int store_incoming_take(struct store_incoming *in, const char *text, size_t bytes,
			struct error *err);
/* Rows of the store may lie elsewhere afterwards: a caller that has pointers to rows calls
 * store_name_rows() for them before, and store_find_rows() after. */
void store_incoming_undo(struct store_incoming *in);
void store_incoming_free(struct store_incoming *in); /* what it points to */

/* The store is part `part` of map from now on; what is in shares is no longer there. Pointers to
 * rows are not to be used any more. */
void store_adopt(struct store *s, const struct map *map, uint32_t part,
		 const struct store_share *given, size_t count);

/* Replaces pointers to rows by their keys, and such keys by the pointers again. They can't fail;
 * nothing else may be done with row[] in between. */
void store_name_rows(float **row, size_t n);
void store_find_rows(const struct store *s, float **row, size_t n);

/* Of what it has, parameters and slots. */
uint64_t store_dense_bytes(const struct store *s);
uint64_t store_row_bytes(const struct store *s);

#endif
