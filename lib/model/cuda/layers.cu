/*
 * layers: see layers.h.  Sums have one order, whatever the card: parts of fixed size, then the
 * parts in order.
 */
#include "model/cuda/layers.h"

__global__ void bias_kernel(size_t n, size_t out, float *y, const float *bias)
{
	matrix_each(n, out, [&](size_t i, size_t o) { y[i * out + o] = bias[o]; });
}

void layers_bias(struct queue *q, size_t n, size_t out, float *y, const float *bias)
{
	queue_kernel(q, "bias_kernel", matrix_grid(n, out), matrix_block(out), bias_kernel, n, out,
		     y, bias);
}

__global__ void bias_relu_kernel(size_t n, size_t out, float *y, const float *bias, float gain)
{
	matrix_each(n, out, [&](size_t i, size_t o) {
		float v = y[i * out + o] + gain * bias[o];
		y[i * out + o] = v < 0.0f ? 0.0f : v;
	});
}

void layers_bias_relu(struct queue *q, size_t n, size_t out, float *y, const float *bias,
		      float gain)
{
	queue_kernel(q, "bias_relu_kernel", matrix_grid(n, out), matrix_block(out),
		     bias_relu_kernel, n, out, y, bias, gain);
}

__global__ void relu_back_kernel(size_t count, float *by, const float *y)
{
	for (size_t at = thread_number(); at < count; at += thread_count())
		if (!(y[at] > 0.0f))
			by[at] = 0.0f;
}

void layers_relu_back(struct queue *q, size_t n, size_t out, float *by, const float *y)
{
	queue_kernel(q, "relu_back_kernel", queue_grid(n * out), QUEUE_BLOCK, relu_back_kernel,
		     n * out, by, y);
}

/* A warp a sample. */
__global__ void dot_kernel(size_t n, size_t in, const float *h, const float *w, float gain,
			   float *z)
{
	size_t i = thread_number() / WARP, lane = threadIdx.x % WARP;
	if (i >= n)
		return;
	float sum = 0;
	for (size_t j = lane; j < in; j += WARP)
		sum += h[i * in + j] * w[j];
	sum = warp_sum(sum);
	if (lane == 0)
		z[i] += gain * sum;
}

void layers_dot(struct queue *q, size_t n, size_t in, const float *h, const float *w, float gain,
		float *z)
{
	queue_kernel(q, "dot_kernel", queue_grid(n * WARP), QUEUE_BLOCK, dot_kernel, n, in, h, w,
		     gain, z);
}

__global__ void dot_back_kernel(size_t n, size_t in, const float *delta, const float *w, float gain,
				float *by)
{
	matrix_each(n, in, [&](size_t i, size_t j) { by[i * in + j] = gain * delta[i] * w[j]; });
}

void layers_dot_back(struct queue *q, size_t n, size_t in, const float *delta, const float *w,
		     float gain, float *by)
{
	queue_kernel(q, "dot_back_kernel", matrix_grid(n, in), matrix_block(in), dot_back_kernel, n,
		     in, delta, w, gain, by);
}

/* ---- column sums ---- */

#define SUM_COLUMNS 32
#define SUM_LINES 8
#define SUM_ROWS 256 /* of a part */

static size_t sum_parts(size_t n)
{
	return (n + SUM_ROWS - 1) / SUM_ROWS;
}

size_t layers_parts(size_t n, size_t columns)
{
	return sum_parts(n) * columns;
}

/* A block has 32 columns of a part; line l adds its rows l, l + 8, ... */
__global__ void column_parts_kernel(size_t n, size_t columns, const float *m, const float *factor,
				    float *parts)
{
	SHARED(float, sums, [SUM_LINES][SUM_COLUMNS]);
	size_t column = (size_t)blockIdx.x * SUM_COLUMNS + threadIdx.x, line = threadIdx.y;
	for (size_t part = blockIdx.y; part * SUM_ROWS < n; part += gridDim.y) {
		size_t end = (part + 1) * SUM_ROWS < n ? (part + 1) * SUM_ROWS : n;
		float sum = 0;
		if (column < columns)
			for (size_t i = part * SUM_ROWS + line; i < end; i += SUM_LINES)
				sum += (factor ? factor[i] : 1.0f) *
				       (m ? m[i * columns + column] : 1.0f);
		sums[line][threadIdx.x] = sum;
		__syncthreads();
		if (line == 0 && column < columns) {
			for (size_t l = 1; l < SUM_LINES; l++)
				sum += sums[l][threadIdx.x];
			parts[part * columns + column] = sum;
		}
		__syncthreads();
	}
}

__global__ void column_sums_kernel(size_t parts, size_t columns, const float *of_parts, float gain,
				   float *to)
{
	for (size_t column = thread_number(); column < columns; column += thread_count()) {
		float sum = 0;
		for (size_t p = 0; p < parts; p++)
			sum += of_parts[p * columns + column];
		to[column] += gain * sum;
	}
}

void layers_column_sums(struct queue *q, size_t n, size_t columns, const float *m,
			const float *factor, float gain, float *parts, float *to)
{
	size_t count = sum_parts(n);
	dim3 grid((unsigned)((columns + SUM_COLUMNS - 1) / SUM_COLUMNS),
		  (unsigned)(count < QUEUE_Y_MAX ? count : QUEUE_Y_MAX));
	queue_kernel(q, "column_parts_kernel", grid, dim3(SUM_COLUMNS, SUM_LINES),
		     column_parts_kernel, n, columns, m, factor, parts);
	if (count > 0)
		queue_kernel(q, "column_sums_kernel", queue_grid(columns), QUEUE_BLOCK,
			     column_sums_kernel, count, columns, parts, gain, to);
}
