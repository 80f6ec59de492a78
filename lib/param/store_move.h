/*
 * store_move: some of a store's parameters given to the store of another part, while both go on.
 *
 *     giver:     store_share_find(), store_share_write() for each who gets some
 *     receiver:  store_incoming_begin(), store_incoming_take() for each who gives some
 *     all:       store_adopt() when all of it is everywhere; or, as if nothing had been,
 *                store_incoming_undo()
 *
 * Until store_adopt(), what is given stays with the giver, and what came belongs to nobody: the
 * ranges of both stores are as before.
 */
#ifndef PACELINE_PARAM_STORE_MOVE_H
#define PACELINE_PARAM_STORE_MOVE_H

#include "base/error.h"
#include "param/store.h"

#include <stddef.h>
#include <stdint.h>

/* What one part gives to another one. All zero at first. */
struct store_share {
	uint64_t dense_begin, dense_end; /* elements of the vector */
	uint64_t key_begin, key_end;     /* places of keys */
	uint32_t *key;                   /* keys of the rows that exist */
	size_t rows, room;
};

/* What s has now and part `to` of map will have; it may be empty. */
struct store_share store_share_of(const struct store *s, const struct map *map, uint32_t to);
int store_share_is_empty(const struct store_share *share);
/* Learns the places of the store's rows; looks at no more than `most` rows. The store keeps this
 * knowledge (8 bytes a row at most) for its whole life: parameters move in many pieces, and each
 * would have to look at all rows again. 1: all are known; 0: call again; -1: ERROR_OS. */
int store_learn_places(struct store *s, size_t most, struct error *err);
/* Finds the rows of a share. Looks at no more than `most` rows of the store, and at none whose
 * place is known already. It may be called ahead of time and again: rows that are new are added, as
 * long as none were removed. *at: how many rows it has looked at, 0 at first; store_row_count():
 * all. */
int store_share_find(const struct store *s, struct store_share *share, size_t *at, size_t most,
		     struct error *err);
/* Writes the share as one stream, from the first record on. */
int store_share_write(const struct store *s, const struct store_share *share,
		      const struct stream_sink *sink, struct error *err);
/* An upper bound of what store_share_write() writes, in bytes. */
size_t store_share_bytes(const struct store *s, const struct store_share *share);
void store_share_free(struct store_share *share); /* what it points to */

/* What comes from other parts. All zero at first. */
struct store_incoming {
	struct store *store;
	struct map map; /* the map that will be in force */
	uint32_t part;  /* the part that the store will be */
	uint32_t *key;  /* keys of the rows that came */
	size_t rows, room;
	uint64_t new_begin[2], new_end[2]; /* elements that come, below and above those we have */
	uint64_t warm;                     /* so many of them have their memory */
};

/* Makes room for what comes. ERROR_OS: no memory. */
int store_incoming_begin(struct store_incoming *in, struct store *s, const struct map *map,
			 uint32_t part, struct error *err);
/* Gets the memory of the next `most` bytes of the new elements now, so that nobody waits for it
 * when they come. 1: it has all memory. */
int store_incoming_warm(struct store_incoming *in, size_t most);
/* Takes one stream, in text[bytes], as store_share_write() made it; another process may still write
 * there. ERROR_CONFIG: it is of another model or optimiser. ERROR_DATA: it is damaged, or has
 * parameters that will not be ours. */
int store_incoming_take(struct store_incoming *in, const char *text, size_t bytes,
			struct error *err);
/* Removes what came. Rows of the store may move: a caller that has pointers to rows calls
 * store_name_rows() for them before, and store_find_rows() after. */
void store_incoming_undo(struct store_incoming *in);
void store_incoming_free(struct store_incoming *in); /* what it points to */

/* From now on the store is part `part` of map, and no longer has what is in given[count]. Pointers
 * to rows are invalid afterwards. */
void store_adopt(struct store *s, const struct map *map, uint32_t part,
		 const struct store_share *given, size_t count);

/* store_name_rows() replaces pointers to rows by their keys, store_find_rows() such keys by
 * pointers again. They can't fail; row[] must not be used in between. */
void store_name_rows(float **row, size_t n);
void store_find_rows(const struct store *s, float **row, size_t n);

/* Bytes of its dense range and of its rows, slots included. */
uint64_t store_dense_bytes(const struct store *s);
uint64_t store_row_bytes(const struct store *s);

#endif
