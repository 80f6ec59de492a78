/*
 * fm: see fm.h.
 */
#include "model/cuda/fm.h"

/* The least power of two that is not below: so many lanes work for a sample, 32 at most. */
static unsigned fm_lanes(size_t embed)
{
	unsigned lanes = 1;
	while (lanes < embed && lanes < WARP)
		lanes *= 2;
	return lanes;
}

/* `lanes` threads a sample, each for every lanes-th element. A group is never parted: all of its
 * lanes have the same sample. */
__global__ void fm_forward_kernel(size_t n, const uint32_t *offset, const uint32_t *index,
				  const float *value, size_t embed, unsigned lanes,
				  const float *rows, float gain, float *s, float *z)
{
	size_t i = thread_number() / lanes;
	unsigned lane = threadIdx.x % lanes, first = threadIdx.x % WARP / lanes * lanes;
	unsigned mask = lanes == WARP ? ALL_LANES : ((1u << lanes) - 1u) << first;
	if (i >= n)
		return;
	float sum = 0;
	for (size_t e = lane; e < embed; e += lanes) {
		float of_e = 0, squares = 0;
		for (size_t k = offset[i]; k < offset[i + 1]; k++) {
			float v = gain * rows[index[k] * (1 + embed) + 1 + e] *
				  (value ? value[k] : 1.0f);
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

void fm_forward(struct queue *q, struct keys k, size_t embed, const float *rows, float gain,
		float *s, float *z)
{
	unsigned lanes = fm_lanes(embed);
	queue_kernel(q, "fm_forward_kernel", queue_grid(k.n * lanes), QUEUE_BLOCK,
		     fm_forward_kernel, k.n, k.offset, k.index, k.value, embed, lanes, rows, gain,
		     s, z);
}

__global__ void fm_backward_kernel(size_t n, const uint32_t *offset, const uint32_t *index,
				   const float *value, size_t embed, unsigned lanes,
				   const float *rows, float gain, const float *s,
				   const float *delta, float *by)
{
	size_t i = thread_number() / lanes;
	unsigned lane = threadIdx.x % lanes;
	if (i >= n)
		return;
	for (size_t k = offset[i]; k < offset[i + 1]; k++) {
		float x = value ? value[k] : 1.0f;
		for (size_t e = lane; e < embed; e += lanes) {
			float v = gain * rows[index[k] * (1 + embed) + 1 + e] * x;
			by[k * embed + e] += delta[i] * x * (s[i * embed + e] - v);
		}
	}
}

void fm_backward(struct queue *q, struct keys k, size_t embed, const float *rows, float gain,
		 const float *s, const float *delta, float *by)
{
	unsigned lanes = fm_lanes(embed);
	queue_kernel(q, "fm_backward_kernel", queue_grid(k.n * lanes), QUEUE_BLOCK,
		     fm_backward_kernel, k.n, k.offset, k.index, k.value, embed, lanes, rows, gain,
		     s, delta, by);
}
