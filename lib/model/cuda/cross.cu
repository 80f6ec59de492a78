/*
 * cross: see cross.h.
 */
#include "model/cuda/cross.h"

#include "model/cuda/layers.h"

/* A warp a sample. */
__global__ void cross_forward_kernel(size_t n, size_t in, const float *x0, const float *x,
				     const float *w, const float *bias, float *dots, float *next)
{
	size_t i = thread_number() / WARP, lane = threadIdx.x % WARP;
	if (i >= n)
		return;
	float sum = 0;
	for (size_t j = lane; j < in; j += WARP)
		sum += x[i * in + j] * w[j];
	sum = warp_sum(sum);
	if (lane == 0)
		dots[i] = sum;
	for (size_t j = lane; j < in; j += WARP)
		next[i * in + j] = x0[i * in + j] * sum + bias[j] + x[i * in + j];
}

void cross_forward(struct queue *q, size_t n, size_t in, const float *x0, const float *x,
		   const float *w, const float *bias, float *dots, float *next)
{
	queue_kernel(q, "cross_forward_kernel", queue_grid(n * WARP), QUEUE_BLOCK,
		     cross_forward_kernel, n, in, x0, x, w, bias, dots, next);
}

__global__ void cross_backward_kernel(size_t n, size_t in, const float *x0, const float *w,
				      const float *dots, float *by, float *by_x0, float *by_dots)
{
	size_t i = thread_number() / WARP, lane = threadIdx.x % WARP;
	if (i >= n)
		return;
	float by_dot = 0;
	for (size_t j = lane; j < in; j += WARP)
		by_dot += by[i * in + j] * x0[i * in + j];
	by_dot = warp_sum(by_dot);
	if (lane == 0)
		by_dots[i] = by_dot;
	for (size_t j = lane; j < in; j += WARP) {
		by_x0[i * in + j] += by[i * in + j] * dots[i];
		by[i * in + j] += by_dot * w[j];
	}
}

void cross_backward(struct queue *q, size_t n, size_t in, const float *x0, const float *x,
		    const float *w, const float *dots, float *by, float *by_x0, float *by_dots,
		    float *parts, float *by_w, float *by_bias)
{
	layers_column_sums(q, n, in, by, NULL, 1.0f, parts, by_bias);
	queue_kernel(q, "cross_backward_kernel", queue_grid(n * WARP), QUEUE_BLOCK,
		     cross_backward_kernel, n, in, x0, w, dots, by, by_x0, by_dots);
	layers_column_sums(q, n, in, x, by_dots, 1.0f, parts, by_w);
}
