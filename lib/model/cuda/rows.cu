/*
 * rows: see rows.h.  No kernel may add floats atomically: sums have one order.
 */
#include "model/cuda/rows.h"

#include <string.h>

/* A warp a sample. */
__global__ void wide_kernel(size_t n, const uint32_t *offset, const uint32_t *index,
			    const float *value, const float *rows, size_t width, const float *x,
			    size_t dense_inputs, const float *dense, float *z)
{
	size_t i = thread_number() / WARP, lane = threadIdx.x % WARP;
	if (i >= n) /* for a whole warp */
		return;
	float sum = 0;
	for (size_t k = offset[i] + lane; k < offset[i + 1]; k += WARP)
		sum += rows[index[k] * width] * (value ? value[k] : 1.0f);
	for (size_t j = lane; j < dense_inputs; j += WARP)
		sum += x[i * dense_inputs + j] * dense[1 + j];
	sum = warp_sum(sum);
	if (lane == 0)
		z[i] = dense[0] + sum;
}

void rows_wide(struct queue *q, struct keys k, const float *rows, size_t width, const float *x,
	       size_t dense_inputs, const float *dense, float *z)
{
	queue_kernel(q, "wide_kernel", queue_grid(k.n * WARP), QUEUE_BLOCK, wide_kernel, k.n,
		     k.offset, k.index, k.value, rows, width, x, dense_inputs, dense, z);
}

__global__ void gather_kernel(size_t n, const uint32_t *offset, const uint32_t *index,
			      size_t fields, size_t embed, const float *rows, float gain,
			      const float *x, size_t dense_inputs, float *to)
{
	size_t keys = fields * embed, in = keys + dense_inputs;
	for (size_t at = thread_number(); at < n * in; at += thread_count()) {
		size_t i = at / in, j = at % in;
		if (j < keys)
			to[at] = gain *
				 rows[index[offset[i] + j / embed] * (1 + embed) + 1 + j % embed];
		else
			to[at] = x[i * dense_inputs + j - keys];
	}
}

void rows_gather(struct queue *q, struct keys k, size_t fields, size_t embed, const float *rows,
		 float gain, const float *x, size_t dense_inputs, float *to)
{
	queue_kernel(q, "gather_kernel", queue_grid(k.n * (fields * embed + dense_inputs)),
		     QUEUE_BLOCK, gather_kernel, k.n, k.offset, k.index, fields, embed, rows, gain,
		     x, dense_inputs, to);
}

/* ---- gradients ---- */

/* Each row has at most one piece that is not full. */
static size_t pieces_most(size_t count, size_t unique)
{
	return count / ROWS_PIECE + unique;
}

size_t occurrences_bytes(size_t count, size_t unique)
{
	return (2 * count + pieces_most(count, unique) + 1 + unique + 1) * sizeof(uint32_t);
}

static void occurrences_carve(struct occurrences *o, void *memory)
{
	o->order = (uint32_t *)memory;
	o->owner = o->order + o->count;
	o->first_piece = o->owner + o->count;
	o->piece = o->first_piece + o->unique + 1;
}

struct occurrences occurrences_at(const struct occurrences *o, void *memory)
{
	struct occurrences there = *o;
	occurrences_carve(&there, memory);
	return there;
}

void occurrences_sort(struct occurrences *o, void *memory, uint32_t *next, const uint32_t *offset,
		      const uint32_t *index, size_t samples, size_t unique)
{
	o->count = samples ? offset[samples] - offset[0] : 0;
	o->unique = unique;
	o->pieces = 0;
	occurrences_carve(o, memory);
	memset(next, 0, unique * sizeof(*next));
	for (size_t k = 0; k < o->count; k++)
		next[index[offset[0] + k]]++;
	uint32_t begin = 0;
	for (size_t r = 0; r < unique; r++) {
		uint32_t end = begin + next[r];
		o->first_piece[r] = (uint32_t)o->pieces;
		for (uint32_t at = begin; at < end; at += ROWS_PIECE)
			o->piece[o->pieces++] = at;
		next[r] = begin;
		begin = end;
	}
	o->first_piece[unique] = (uint32_t)o->pieces;
	o->piece[o->pieces] = begin;
	for (size_t i = 0; i < samples; i++)
		for (uint32_t k = offset[i]; k < offset[i + 1]; k++) {
			uint32_t to = next[index[k]]++;
			o->order[to] = k;
			o->owner[to] = (uint32_t)i;
		}
}

/* A thread for each piece and column. */
__global__ void pieces_kernel(size_t pieces, const uint32_t *piece, const uint32_t *order,
			      const uint32_t *owner, const uint32_t *offset, const float *value,
			      const float *delta, const float *by, size_t stride, float gain,
			      size_t width, float *parts)
{
	for (size_t at = thread_number(); at < pieces * width; at += thread_count()) {
		size_t p = at / width, column = at % width, embed = width - 1;
		float sum = 0;
		for (uint32_t j = piece[p]; j < piece[p + 1]; j++) {
			uint32_t k = order[j], i = owner[j];
			if (column == 0)
				sum += delta[i] * (value ? value[k] : 1.0f);
			else if (stride)
				sum += gain * by[i * stride + (k - offset[i]) * embed + column - 1];
			else
				sum += gain * by[k * embed + column - 1];
		}
		parts[at] = sum;
	}
}

/* A thread for each row and column. */
__global__ void rows_kernel(size_t unique, size_t width, const uint32_t *first_piece,
			    const float *parts, float *to)
{
	for (size_t at = thread_number(); at < unique * width; at += thread_count()) {
		size_t row = at / width, column = at % width;
		float sum = 0;
		for (size_t p = first_piece[row]; p < first_piece[row + 1]; p++)
			sum += parts[p * width + column];
		to[at] = sum;
	}
}

void rows_gradient(struct queue *q, struct occurrences o, const uint32_t *offset,
		   const float *value, const float *delta, const float *by, size_t stride,
		   float gain, size_t width, float *parts, float *to)
{
	queue_kernel(q, "pieces_kernel", queue_grid(o.pieces * width), QUEUE_BLOCK, pieces_kernel,
		     o.pieces, o.piece, o.order, o.owner, offset, value, delta, by, stride, gain,
		     width, parts);
	queue_kernel(q, "rows_kernel", queue_grid(o.unique * width), QUEUE_BLOCK, rows_kernel,
		     o.unique, width, o.first_piece, parts, to);
}
