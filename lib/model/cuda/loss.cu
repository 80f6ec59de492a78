/*
 * loss: see loss.h.  Losses are summed in double: the parts of a block as a tree, then the blocks
 * in order.
 */
#include "model/cuda/loss.h"

#include <math.h>

size_t loss_parts(size_t n)
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

DEVICE_CODE double loss_log(float z, float label, float weight, float *delta)
{
	float e = expf(-fabsf(z));
	*delta = weight * ((z >= 0.0f ? 1.0f : e) / (1.0f + e) - label);
	return (double)weight *
	       ((double)(z > 0.0f ? z : 0.0f) - (double)z * (double)label + (double)log1pf(e));
}

DEVICE_CODE double loss_squared(float z, float label, float weight, float *delta)
{
	double d = (double)z - (double)label;
	*delta = (float)((double)weight * d);
	return (double)weight * d * d / 2;
}

/* Where nothing is missing the gradient is 0; a NaN is missing everything. */
DEVICE_CODE double loss_hinge(int squared, float z, float label, float weight, float *delta)
{
	double y = label > 0.0f ? 1 : -1, missing = 1 - y * (double)z;
	missing = missing <= 0 ? 0 : missing;
	*delta = (float)(-(double)weight * y * (squared ? missing : missing > 0 ? 1.0 : 0.0));
	return (double)weight * (squared ? missing * missing / 2 : missing);
}

/* Of one output. */
__global__ void loss_kernel(enum loss kind, size_t n, const float *z, const float *label,
			    const float *weight, float *delta, double *parts)
{
	SHARED(double, tree, [QUEUE_BLOCK]);
	size_t i = thread_number();
	double loss = 0;
	if (i < n) {
		float w = weight ? weight[i] : 1.0f;
		loss = kind == LOSS_LOG       ? loss_log(z[i], label[i], w, delta + i)
		       : kind == LOSS_SQUARED ? loss_squared(z[i], label[i], w, delta + i)
					      : loss_hinge(kind == LOSS_SQUARED_HINGE, z[i],
							   label[i], w, delta + i);
	}
	block_sum(tree, loss, parts + blockIdx.x);
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

__global__ void each_kernel(size_t n, const double *each, double *parts)
{
	SHARED(double, tree, [QUEUE_BLOCK]);
	size_t i = thread_number();
	block_sum(tree, i < n ? each[i] : 0.0, parts + blockIdx.x);
}

/* One thread: there are few parts. */
__global__ void parts_kernel(size_t parts, const double *of_parts, double *loss)
{
	double sum = 0;
	for (size_t p = 0; p < parts; p++)
		sum += of_parts[p];
	*loss += sum;
}

void loss_of(struct queue *q, enum loss kind, size_t n, size_t outputs, const float *z,
	     const float *label, const float *weight, float *delta, double *each, double *parts,
	     double *loss)
{
	dim3 grid((unsigned)loss_parts(n));
	if (n == 0)
		return;
	if (kind == LOSS_SOFTMAX) {
		queue_kernel(q, "softmax_kernel", queue_grid(n * WARP), QUEUE_BLOCK, softmax_kernel,
			     n, outputs, z, label, weight, delta, each);
		queue_kernel(q, "each_kernel", grid, QUEUE_BLOCK, each_kernel, n, each, parts);
	} else {
		queue_kernel(q, "loss_kernel", grid, QUEUE_BLOCK, loss_kernel, kind, n, z, label,
			     weight, delta, parts);
	}
	queue_kernel(q, "parts_kernel", 1, 1, parts_kernel, loss_parts(n), parts, loss);
}
