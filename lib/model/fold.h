/*
 * fold: the columns with few categories, in the first layer of a deep part (first.h).  The
 * embedding of each category is multiplied with its part of the weights only once, and each row
 * adds up the products of its categories.  In the backward pass, the rows' gradients are summed for
 * each category, and the sums are multiplied.  Private to lib/model.
 */
#ifndef PACELINE_MODEL_FOLD_H
#define PACELINE_MODEL_FOLD_H

#include "model/first.h"
#include "model/pool.h"

struct fold {
	struct first_batch b;
	size_t out, in, embed;
	/* The folded columns, in order. Category c of the j-th has number base[j] + c among all
	 * categories; slot[i * count + j] is the number of row i's category in it. */
	struct words columns, base, slot, key;
	size_t count;
	size_t room; /* floats of an embedding, rounded up to whole vectors */
	struct pool embedding, by_embedding; /* [categories][room] */
	struct pool tile;                    /* [categories][outputs of a tile] */
	struct pool weight;                  /* the weights of a column and a tile */
	/* Used while categories are counted, [keys][2]: the last column that has this key, plus 1,
	 * and the number of the key there. */
	struct words seen;
};

/* Chooses the columns to be folded and looks up their embeddings; afterwards count 0: none. -1: no
 * memory. */
int fold_begin(struct fold *f, const struct first_batch *b, struct error *err);
/* y[rows of the batch][out] = the part of the folded columns. */
void fold_forward(struct fold *f, float *y);
/* by_y: the gradient by y. Adds to the gradients of the batch. */
void fold_backward(struct fold *f, const float *by_y);
void fold_clear(struct fold *f); /* frees its memory */

#endif
