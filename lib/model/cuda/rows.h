/*
 * rows: kernels about the rows of the table: weights of outputs, embeddings side by side, and
 * gradients by rows.  Arrays are the card's, as in struct model_batch.  A row has `width` floats:
 * first the weights (one for each output, or none), then the embedding, which is not aligned for
 * float4.
 */
#ifndef PACELINE_MODEL_CUDA_ROWS_H
#define PACELINE_MODEL_CUDA_ROWS_H

#include "model/cuda/device.h"

/* A range of a batch: offset, x and so on begin with its first sample; index, value and rows are
 * whole. */
struct keys {
	size_t n;               /* samples */
	const uint32_t *offset; /* [n + 1] */
	const uint32_t *index;
	const float *value; /* NULL: all 1 */
	const float *rows;  /* [unique][width] */
	size_t width;
};

/* z[n] = bias + sum x * weight + sum rows[key][0] * value: one output. dense: the bias, then the
 * weights. */
void rows_wide(struct queue *q, struct keys k, const float *x, size_t dense_inputs,
	       const float *dense, float *z);

/* z[n][outputs] += sum rows[key][output] * value */
void rows_weights(struct queue *q, struct keys k, size_t outputs, float *z);

/* to[n][fields * embed + dense_inputs]: of each sample the embeddings of its keys, which are the
 * ends of their rows, multiplied by gain; then its dense columns. */
void rows_gather(struct queue *q, struct keys k, size_t fields, size_t embed, float gain,
		 const float *x, size_t dense_inputs, float *to);

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

/* to[unique][width]: column c is for c < weights the sum of delta[owner][c] * value; of the others
 * the sum of gain * by[occurrence][c - weights], where an occurrence is a position in index. delta:
 * [n][weights]. parts: [pieces * width] of scratch. */
void rows_gradient(struct queue *q, struct occurrences o, const float *value, const float *delta,
		   size_t weights, const float *by, float gain, size_t width, float *parts,
		   float *to);

#endif
