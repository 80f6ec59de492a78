/*
 * ffm: as in lib/model/ffm.c: a key's row has a weight, then an embedding for each field.
 */
#include "model/cuda/plugin.h"

/* The embedding that key k has for field f. */
DEVICE_CODE const float *ffm_row(const struct keys &keys, size_t k, size_t f, size_t embed)
{
	return keys.rows + keys.index[k] * keys.width + 1 + f * embed;
}

/* A warp a sample: for each field f the products with the embeddings of all fields behind it. */
__global__ void ffm_kernel(struct keys keys, uint32_t fields, uint32_t embed, float *z)
{
	size_t i = thread_number() / WARP, lane = threadIdx.x % WARP;
	if (i >= keys.n)
		return;
	size_t first = keys.offset[i];
	float sum = 0;
	for (uint32_t f = 0; f < fields; f++) {
		const float *row = ffm_row(keys, first + f, f + 1, embed);
		for (uint32_t at = (uint32_t)lane; at < (fields - f - 1) * embed; at += WARP)
			sum += row[at] *
			       ffm_row(keys, first + f + 1 + at / embed, f, embed)[at % embed];
	}
	sum = warp_sum(sum);
	if (lane == 0)
		z[i] += sum;
}

/* by[occurrence][fields * embed]: the other embedding of each pair; a key has none for its own
 * field. */
__global__ void ffm_back_kernel(struct keys keys, uint32_t fields, uint32_t embed,
				const float *delta, float *by)
{
	size_t width = (size_t)fields * embed, first = keys.offset[0];
	matrix_each(keys.n * fields, width, [&](size_t line, size_t column) {
		uint32_t i = (uint32_t)line / fields, f = (uint32_t)line % fields;
		uint32_t other = (uint32_t)column / embed, e = (uint32_t)column % embed;
		const float *of_other = ffm_row(keys, first + line - f + other, f, embed);
		by[line * width + column] = other == f ? 0.0f : delta[i] * of_other[e];
	});
}

static void ffm_open(struct plugin *p)
{
	wide_open(p);
	p->by_width = (size_t)p->spec.fields * p->spec.embed;
}

static void ffm_forward(struct plugin *p, const struct samples *r)
{
	wide_forward(p, r);
	queue_kernel(&p->device.queue, "ffm_kernel", queue_grid(r->keys.n * WARP), QUEUE_BLOCK,
		     ffm_kernel, r->keys, p->spec.fields, p->spec.embed, r->z);
}

static void ffm_backward(struct plugin *p, const struct samples *r)
{
	wide_backward(p, r);
	queue_kernel(&p->device.queue, "ffm_back_kernel",
		     matrix_grid(r->keys.n * p->spec.fields, p->by_width),
		     matrix_block(p->by_width), ffm_back_kernel, r->keys, p->spec.fields,
		     p->spec.embed, r->delta, r->by);
}

const struct cuda_model cuda_ffm = {
	.name = "ffm",
	.labels = MODEL_BINARY,
	.gain = 1.0f,
	.open = ffm_open,
	.forward = ffm_forward,
	.backward = ffm_backward,
};
