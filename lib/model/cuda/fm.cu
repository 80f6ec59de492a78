/*
 * fm: see fm.h.
 */
#include "model/cuda/fm.h"

/* Element e of the multiplied embedding of occurrence k, times its value. */
DEVICE_CODE float fm_element(const struct keys &keys, size_t k, size_t embed, size_t e, float gain)
{
	return gain * keys.rows[(keys.index[k] + (size_t)1) * keys.width - embed + e] *
	       (keys.value ? keys.value[k] : 1.0f);
}

/* blockDim.x threads a sample (a power of two, 32 at most), each for every blockDim.x-th element. A
 * group is never parted: all of its lanes have the same sample. */
__global__ void fm_forward_kernel(struct keys keys, size_t embed, float gain, float *s, float *z)
{
	size_t i = (size_t)blockIdx.x * blockDim.y + threadIdx.y;
	unsigned lanes = blockDim.x, lane = threadIdx.x, first = threadIdx.y * lanes % WARP;
	unsigned mask = lanes == WARP ? ALL_LANES : ((1u << lanes) - 1u) << first;
	if (i >= keys.n)
		return;
	float sum = 0;
	for (size_t e = lane; e < embed; e += lanes) {
		float of_e = 0, squares = 0;
		for (size_t k = keys.offset[i]; k < keys.offset[i + 1]; k++) {
			float v = fm_element(keys, k, embed, e, gain);
			of_e += v;
			squares += v * v;
		}
		s[i * embed + e] = of_e;
		sum += of_e * of_e - squares;
	}
	for (unsigned by = lanes / 2; by > 0; by /= 2)
		sum += __shfl_xor_sync(mask, sum, (int)by);
	if (lane == 0)
		z[i] += 0.5f * sum;
}

void fm_forward(struct queue *q, struct keys k, size_t embed, float gain, float *s, float *z)
{
	dim3 block = matrix_block(embed);
	queue_kernel(q, "fm_forward_kernel", dim3((unsigned)((k.n + block.y - 1) / block.y)), block,
		     fm_forward_kernel, k, embed, gain, s, z);
}

__global__ void fm_backward_kernel(struct keys keys, size_t embed, float gain, const float *s,
				   const float *delta, int alone, float *by)
{
	matrix_each(keys.n, embed, [&](size_t i, size_t e) {
		for (size_t k = keys.offset[i]; k < keys.offset[i + 1]; k++) {
			float g = delta[i] * (keys.value ? keys.value[k] : 1.0f) *
				  (s[i * embed + e] - fm_element(keys, k, embed, e, gain));
			by[k * embed + e] = alone ? g : by[k * embed + e] + g;
		}
	});
}

void fm_backward(struct queue *q, struct keys k, size_t embed, float gain, const float *s,
		 const float *delta, int alone, float *by)
{
	queue_kernel(q, "fm_backward_kernel", matrix_grid(k.n, embed), matrix_block(embed),
		     fm_backward_kernel, k, embed, gain, s, delta, alone, by);
}
