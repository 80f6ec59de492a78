/*
 * first: the first layer of a deep part (deep.h), y = X W^T.  A row of X has the embeddings of a
 * sample's keys and its dense columns.  This layer is the widest, and the only one whose input
 * repeats: a column with few categories has few different embeddings in a batch.  Such a column is
 * folded (fold.h): the embedding of each category is multiplied with its part of W only once, and
 * each row adds up the products of its categories.  In the backward pass, the rows' gradients are
 * first summed for each category.  The result is the same sum in another order.
 *
 * Other parts of a model that have embeddings as inputs take them from the rows, and bring their
 * gradients back, by first_gather() and first_scatter().  Private to lib/model.
 */
#ifndef PACELINE_MODEL_FIRST_H
#define PACELINE_MODEL_FIRST_H

#include "model/kind.h"

struct first;

/* Floats of its input. */
static inline size_t first_inputs(const struct model_spec *s)
{
	return (size_t)s->fields * s->embed + s->dense_inputs;
}

/* Where embeddings of keys lie as inputs: that of sample i in the j-th of these columns begins at
 * i * by_sample + j * by_column. */
struct first_places {
	const uint32_t *columns; /* NULL: all of them, in order */
	size_t count;
	size_t width, embed; /* floats in a row of the table, and in the embedding that ends it */
	size_t dense; /* so many dense columns stand behind the embeddings of a sample */
	size_t by_sample, by_column;
	float gain; /* embeddings are multiplied by it */
};
/* b: a block; rows, row_gradient: [unique][width]. first_scatter() ADDS the gradients by
 * embeddings to those by rows. */
void first_gather(const struct first_places *p, const struct model_batch *b, const float *rows,
		  float *x);
void first_scatter(const struct first_places *p, const struct model_batch *b, const float *by_x,
		   float *row_gradient);

struct first *first_new(void); /* NULL: no memory */
void first_free(struct first *f);

/* Where the embedding of a row of the table begins: it is the end of the row. */
static inline size_t first_embedding(const struct model *m, size_t row)
{
	return (row + 1) * m->width - m->spec.embed;
}

/* Begins a batch. weight: [out][inputs], out = hidden[0]. Embeddings and weights are multiplied by
 * gain where they are used. Everything given is borrowed until first_end(). -1: no memory. */
struct first_batch {
	const struct model *model;
	const struct model_batch *batch;
	const float *rows;   /* [unique][width] */
	const float *weight;
	float gain;
	size_t block; /* most rows that first_forward() will be given */
	/* gradients are added to these; NULL: forward only */
	float *weight_gradient, *row_gradient;
};
int first_begin(struct first *f, const struct first_batch *b, struct error *err);

/* Computes y[count][out] of rows begin..begin+count-1. It is valid until the next call, and
 * the caller may change it. */
float *first_forward(struct first *f, size_t begin, size_t count);
/* first_by_y() is the place for the gradient by the y of that block; first_backward() goes on from
 * there. */
float *first_by_y(const struct first *f);
void first_backward(struct first *f);
/* To be called after the last block, if gradients are wanted. */
void first_end(struct first *f);

#endif
