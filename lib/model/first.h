/*
 * first: the first layer of wdl's deep part, y = X W^T, where X holds the embeddings of a row's keys
 * and its dense columns.  It is the widest layer and the only one whose input repeats: a column with
 * few different categories has few different embeddings in a batch.  Such a column is folded:
 * its embeddings are multiplied with their part of W once for each category, and the rows add up
 * what their categories gave.  The backward pass is alike: the rows' gradients are summed for each
 * category first.  The result is the same sum in another order.  Private to lib/model.
 */
#ifndef PACELINE_MODEL_FIRST_H
#define PACELINE_MODEL_FIRST_H

#include "model/model.h"

struct first;

struct first *first_new(void); /* NULL: no memory */
void first_free(struct first *f);

/* Starts a batch. weight: [hidden[0]][inputs]; what is looked up and what is in weight is multiplied
 * by gain where it is used. Everything given is borrowed until first_end(). -1: no memory. */
struct first_batch {
	const struct model_spec *spec;
	const struct model_batch *batch;
	const float *rows;   /* [unique][1 + embed] */
	const float *weight;
	float gain;
	size_t block; /* first_forward() takes so many rows at most */
	/* sums are added here; NULL: only forward */
	float *weight_gradient, *row_gradient;
};
int first_begin(struct first *f, const struct first_batch *b, struct error *err);

/* y[count][hidden[0]] of rows begin..begin+count-1; valid, and the caller's to change, until the
 * next call. */
float *first_forward(struct first *f, size_t begin, size_t count);
/* Where the gradient by the y of that block belongs, and what is done with it. */
float *first_by_y(const struct first *f);
void first_backward(struct first *f);
/* After the last block, when gradients are wanted. */
void first_end(struct first *f);

#endif
