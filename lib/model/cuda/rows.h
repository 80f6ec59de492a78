/*
 * rows: kernels about the rows of the table: the wide part, embeddings side by side, and gradients
 * by rows.  Arrays are the card's, as in struct model_batch.  A row has `width` floats; column 0 is
 * the weight of the wide part, so embeddings are not aligned for float4.
 */
#ifndef PACELINE_MODEL_CUDA_ROWS_H
#define PACELINE_MODEL_CUDA_ROWS_H

#include "model/cuda/device.h"

/* A range of a batch: offset, x and so on begin with its first sample; index and value are whole.
 */
struct keys {
	size_t n;               /* samples */
	const uint32_t *offset; /* [n + 1] */
	const uint32_t *index;
	const float *value; /* NULL: all 1 */
};

/* z[n] = bias + sum x * weight + sum rows[key][0] * value. dense: the bias, then the weights. */
void rows_wide(struct queue *q, struct keys k, const float *rows, size_t width, const float *x,
	       size_t dense_inputs, const float *dense, float *z);

/* to[n][fields * embed + dense_inputs]: of each sample the embeddings of its keys, multiplied by
 * gain, then its dense columns. */
void rows_gather(struct queue *q, struct keys k, size_t fields, size_t embed, const float *rows,
		 float gain, const float *x, size_t dense_inputs, float *to);

/* The occurrences of keys in a batch, by row, and in each row in the batch's order: a counting sort
 * of the host. A row's occurrences are cut in pieces of ROWS_PIECE. */
#define ROWS_PIECE 64
struct occurrences {
	uint32_t *order;       /* [count]: which occurrence, a position in index */
	uint32_t *owner;       /* [count]: its sample */
	uint32_t *piece;       /* [pieces + 1]: where each begins in order */
	uint32_t *first_piece; /* [unique + 1]: of each row */
	size_t count, unique, pieces;
};
size_t occurrences_bytes(size_t count, size_t unique); /* of the four arrays, at most */
/* Sorts into memory of that size. next: [unique] of scratch. */
void occurrences_sort(struct occurrences *o, void *memory, uint32_t *next, const uint32_t *offset,
		      const uint32_t *index, size_t samples, size_t unique);
/* The same arrays in another memory. */
struct occurrences occurrences_at(const struct occurrences *o, void *memory);

/* to[unique][width]: column 0 is the sum of delta[owner] * value; column 1 + e the sum of gain *
 * by[...][e]. by has a part of `embed` floats for each occurrence: those of a sample begin at
 * by + sample * stride, or if stride is 0, all lie one after the other, in the order of index.
 * parts: [pieces * width] of scratch. width is 1, or 1 + embed. */
void rows_gradient(struct queue *q, struct occurrences o, const uint32_t *offset,
		   const float *value, const float *delta, const float *by, size_t stride,
		   float gain, size_t width, float *parts, float *to);

#endif
