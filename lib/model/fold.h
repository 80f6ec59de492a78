/*
 * fold: the columns of a batch with few categories, in the first layer of wdl's deep part
 * (first.h).  Their embeddings are multiplied with their part of the weights once for each category;
 * a row adds up what its categories gave.  In the backward pass the rows' gradients are summed for
 * each category, and the sums are multiplied.  Private to lib/model.
 */
#ifndef PACELINE_MODEL_FOLD_H
#define PACELINE_MODEL_FOLD_H

#include "model/first.h"
#include "model/pool.h"

struct fold {
	struct first_batch b;
	size_t out, in, embed;
	/* Columns that are folded, in order; category c of the j-th has number base[j] + c among
	 * all of them, and row i has number slot[i * count + j] there. */
	struct words columns, base, slot, key;
	size_t count;
	size_t room; /* floats of an embedding, filled up to whole vectors */
	struct pool embedding, by_embedding; /* [categories][room] */
	struct pool tile;                    /* [categories][outputs of a tile] */
	struct pool weight;                  /* of a column and a tile */
	/* While categories are counted, [keys][2]: the last column with that key, plus 1, and the
	 * key's number there. */
	struct words seen;
};

/* Chooses the columns that are folded, and looks up their embeddings; count 0: none. -1: no
 * memory. */
int fold_begin(struct fold *f, const struct first_batch *b, struct error *err);
/* y[rows of the batch][out] = what the folded columns give. */
void fold_forward(struct fold *f, float *y);
/* by_y: the gradient by y. Adds to the batch's gradients. */
void fold_backward(struct fold *f, const float *by_y);
void fold_clear(struct fold *f); /* frees its memory */

#endif
