/*
 * rows: see rows.h.  No kernel may add floats atomically: sums have one order.
 */
#include "model/cuda/rows.h"

#include <string.h>

/* A warp a sample. */
__global__ void wide_kernel(struct keys keys, const float *x, size_t dense_inputs,
			    const float *dense, float *z)
{
	size_t i = thread_number() / WARP, lane = threadIdx.x % WARP;
	if (i >= keys.n) /* for a whole warp */
		return;
	float sum = 0;
	for (size_t k = keys.offset[i] + lane; k < keys.offset[i + 1]; k += WARP)
		sum += keys.rows[keys.index[k] * keys.width] * (keys.value ? keys.value[k] : 1.0f);
	for (size_t j = lane; j < dense_inputs; j += WARP)
		sum += x[i * dense_inputs + j] * dense[1 + j];
	sum = warp_sum(sum);
	if (lane == 0)
		z[i] = dense[0] + sum;
}

void rows_wide(struct queue *q, struct keys k, const float *x, size_t dense_inputs,
	       const float *dense, float *z)
{
	queue_kernel(q, "wide_kernel", queue_grid(k.n * WARP), QUEUE_BLOCK, wide_kernel, k, x,
		     dense_inputs, dense, z);
}

__global__ void weights_kernel(struct keys keys, size_t outputs, float *z)
{
	matrix_each(keys.n, outputs, [&](size_t i, size_t o) {
		float sum = 0;
		for (size_t k = keys.offset[i]; k < keys.offset[i + 1]; k++)
			sum += keys.rows[keys.index[k] * keys.width + o] *
			       (keys.value ? keys.value[k] : 1.0f);
		z[i * outputs + o] += sum;
	});
}

void rows_weights(struct queue *q, struct keys k, size_t outputs, float *z)
{
	queue_kernel(q, "weights_kernel", matrix_grid(k.n, outputs), matrix_block(outputs),
		     weights_kernel, k, outputs, z);
}

/* A line for each key; as all samples have as many, it says which sample's. */
__global__ void gather_kernel(struct keys keys, uint32_t fields, size_t embed, float gain,
			      size_t dense_inputs, float *to)
{
	uint32_t first = keys.offset[0];
	matrix_each(keys.n * fields, embed, [&](size_t line, size_t e) {
		size_t row = keys.index[first + line], i = (uint32_t)line / fields;
		to[line * embed + i * dense_inputs + e] =
			gain * keys.rows[(row + 1) * keys.width - embed + e];
	});
}

/* x[n][columns] becomes the end of the lines of to[n][in]. */
__global__ void beside_kernel(size_t n, size_t columns, const float *x, size_t in, float *to)
{
	matrix_each(n, columns, [&](size_t i, size_t j) {
		to[(i + 1) * in - columns + j] = x[i * columns + j];
	});
}

void rows_gather(struct queue *q, struct keys k, size_t fields, size_t embed, float gain,
		 const float *x, size_t dense_inputs, float *to)
{
	queue_kernel(q, "gather_kernel", matrix_grid(k.n * fields, embed), matrix_block(embed),
		     gather_kernel, k, (uint32_t)fields, embed, gain, dense_inputs, to);
	queue_kernel(q, "beside_kernel", matrix_grid(k.n, dense_inputs), matrix_block(dense_inputs),
		     beside_kernel, k.n, dense_inputs, x, fields * embed + dense_inputs, to);
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
		for (size_t at = begin; at < end; at += ROWS_PIECE)
			o->piece[o->pieces++] = (uint32_t)at;
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
__global__ void pieces_kernel(struct occurrences o, const float *value, const float *delta,
			      size_t weights, const float *by, float gain, size_t width,
			      float *parts)
{
	matrix_each(o.pieces, width, [&](size_t p, size_t column) {
		float sum = 0;
		for (size_t j = o.piece[p]; j < o.piece[p + 1]; j++) {
			size_t k = o.order[j];
			if (column < weights)
				sum += delta[o.owner[j] * weights + column] *
				       (value ? value[k] : 1.0f);
			else
				sum += gain * by[k * (width - weights) + column - weights];
		}
		parts[p * width + column] = sum;
	});
}

/* A thread for each row and column. */
__global__ void rows_kernel(struct occurrences o, size_t width, const float *parts, float *to)
{
	matrix_each(o.unique, width, [&](size_t row, size_t column) {
		float sum = 0;
		for (size_t p = o.first_piece[row]; p < o.first_piece[row + 1]; p++)
			sum += parts[p * width + column];
		to[row * width + column] = sum;
	});
}

void rows_gradient(struct queue *q, struct occurrences o, const float *value, const float *delta,
		   size_t weights, const float *by, float gain, size_t width, float *parts,
		   float *to)
{
	queue_kernel(q, "pieces_kernel", matrix_grid(o.pieces, width), matrix_block(width),
		     pieces_kernel, o, value, delta, weights, by, gain, width, parts);
	queue_kernel(q, "rows_kernel", matrix_grid(o.unique, width), matrix_block(width),
		     rows_kernel, o, width, parts, to);
}
