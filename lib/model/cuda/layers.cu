/*
 * layers: see layers.h.  Sums have one order, whatever the card: parts of fixed size, then the
 * parts in order.
 */
#include "model/cuda/layers.h"

#include <math.h>

__global__ void bias_relu_kernel(size_t n, size_t out, float *y, const float *bias, float gain)
{
	for (size_t at = thread_number(); at < n * out; at += thread_count()) {
		float v = y[at] + gain * bias[at % out];
		y[at] = v < 0.0f ? 0.0f : v;
	}
}

void layers_bias_relu(struct queue *q, size_t n, size_t out, float *y, const float *bias,
		      float gain)
{
	queue_kernel(q, "bias_relu_kernel", queue_grid(n * out), QUEUE_BLOCK, bias_relu_kernel, n,
		     out, y, bias, gain);
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
	for (size_t at = thread_number(); at < n * in; at += thread_count())
		by[at] = gain * delta[at / in] * w[at % in];
}

void layers_dot_back(struct queue *q, size_t n, size_t in, const float *delta, const float *w,
		     float gain, float *by)
{
	queue_kernel(q, "dot_back_kernel", queue_grid(n * in), QUEUE_BLOCK, dot_back_kernel, n, in,
		     delta, w, gain, by);
}

/* ---- column sums ---- */

#define SUM_COLUMNS 32
#define SUM_LINES 8
#define SUM_ROWS 256 /* of a part */
#define GRID_Y_MAX 65535

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
		  (unsigned)(count < GRID_Y_MAX ? count : GRID_Y_MAX));
	queue_kernel(q, "column_parts_kernel", grid, dim3(SUM_COLUMNS, SUM_LINES),
		     column_parts_kernel, n, columns, m, factor, parts);
	if (count > 0)
		queue_kernel(q, "column_sums_kernel", queue_grid(columns), QUEUE_BLOCK,
			     column_sums_kernel, count, columns, parts, gain, to);
}

/* ---- losses ---- */

size_t layers_loss_parts(size_t n)
{
	return (n + QUEUE_BLOCK - 1) / QUEUE_BLOCK;
}

/* The sum of a block's values, a tree; thread 0 keeps it. All threads of the block call it. */
DEVICE_CODE void block_sum(double (&tree)[QUEUE_BLOCK], double value, double *part)
{
	tree[threadIdx.x] = value;
	__syncthreads();
	for (unsigned half = QUEUE_BLOCK / 2; half > 0; half /= 2) {
		if (threadIdx.x < half)
			tree[threadIdx.x] += tree[threadIdx.x + half];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		*part = tree[0];
}

__global__ void logistic_kernel(size_t n, const float *z, const float *label, const float *weight,
				float *delta, double *parts)
{
	SHARED(double, tree, [QUEUE_BLOCK]);
	size_t i = thread_number();
	double loss = 0;
	if (i < n) {
		float x = z[i], y = label[i], w = weight ? weight[i] : 1.0f, e = expf(-fabsf(x));
		loss = (double)w *
		       ((double)(x > 0.0f ? x : 0.0f) - (double)x * (double)y + (double)log1pf(e));
		delta[i] = w * ((x >= 0.0f ? 1.0f : e) / (1.0f + e) - y);
	}
	block_sum(tree, loss, parts + blockIdx.x);
}

/* One thread: there are few parts. */
__global__ void loss_kernel(size_t parts, const double *of_parts, double *loss)
{
	double sum = 0;
	for (size_t p = 0; p < parts; p++)
		sum += of_parts[p];
	*loss += sum;
}

static dim3 loss_grid(size_t n)
{
	return dim3((unsigned)layers_loss_parts(n));
}

static void loss_add(struct queue *q, size_t n, const double *parts, double *loss)
{
	if (n > 0)
		queue_kernel(q, "loss_kernel", 1, 1, loss_kernel, layers_loss_parts(n), parts,
			     loss);
}

void layers_logistic(struct queue *q, size_t n, const float *z, const float *label,
		     const float *weight, float *delta, double *parts, double *loss)
{
	queue_kernel(q, "logistic_kernel", loss_grid(n), QUEUE_BLOCK, logistic_kernel, n, z, label,
		     weight, delta, parts);
	loss_add(q, n, parts, loss);
}

/* A warp a sample: the maximum, then the sum of exponentials. */
__global__ void softmax_kernel(size_t n, size_t classes, const float *z, const float *label,
			       const float *weight, float *delta, double *each)
{
	size_t i = thread_number() / WARP, lane = threadIdx.x % WARP;
	if (i >= n)
		return;
	const float *x = z + i * classes;
	float most = -INFINITY, sum = 0, y = label[i], w = weight ? weight[i] : 1.0f;
	for (size_t c = lane; c < classes; c += WARP)
		most = fmaxf(most, x[c]);
	most = warp_max(most);
	for (size_t c = lane; c < classes; c += WARP)
		sum += expf(x[c] - most);
	sum = warp_sum(sum);
	int is_class = y >= 0.0f && y < (float)classes && y == floorf(y);
	if (lane == 0) /* before delta, which may be z */
		each[i] = is_class ? (double)w * ((double)logf(sum) + (double)most -
						  (double)x[(size_t)y])
				   : (double)NAN;
	__syncwarp(ALL_LANES);
	for (size_t c = lane; c < classes; c += WARP)
		delta[i * classes + c] =
			w * (expf(x[c] - most) / sum - (is_class && c == (size_t)y ? 1.0f : 0.0f));
}

__global__ void sum_kernel(size_t n, const double *each, double *parts)
{
	SHARED(double, tree, [QUEUE_BLOCK]);
	size_t i = thread_number();
	block_sum(tree, i < n ? each[i] : 0.0, parts + blockIdx.x);
}

void layers_softmax(struct queue *q, size_t n, size_t classes, const float *z, const float *label,
		    const float *weight, float *delta, double *each, double *parts, double *loss)
{
	queue_kernel(q, "softmax_kernel", queue_grid(n * WARP), QUEUE_BLOCK, softmax_kernel, n,
		     classes, z, label, weight, delta, each);
	queue_kernel(q, "sum_kernel", loss_grid(n), QUEUE_BLOCK, sum_kernel, n, each, parts);
	loss_add(q, n, parts, loss);
}
