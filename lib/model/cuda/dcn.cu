/*
 * dcn: as in lib/model/dcn.c, which says why no x[l] is computed: with x the inputs, x[l] = a[l] x
 * + c[l], where a[l] is one number of a sample, and c[l] the sum of the biases before l.  So one
 * product gives all dots x . weight[l], and the rest is a few numbers for each sample.
 */
#include "model/cuda/deep.h"
#include "model/cuda/layers.h"
#include "model/cuda/product.h"
#include "model/own.h"

/* In dense vectors, weight l begins at `at` + 2 l in, and bias l behind it. The last weight is that
 * of the output, which has no bias. */
struct dcn {
	struct deep deep;
	size_t layers, at;
	float *c;        /* [layers + 1][in] */
	float *shift;    /* [layers + 1]: c[l] . weight[l] */
	float *dots;     /* [n][layers + 1]; then the gradients by them */
	float *by_shift; /* of each sample; [layers + 1] more: their sums */
};

static void dcn_open(struct plugin *p)
{
	struct dcn *d = (struct dcn *)p->own;
	size_t in = (size_t)p->spec.fields * p->spec.embed + p->spec.dense_inputs;
	wide_open(p);
	p->by_width = p->spec.embed;
	d->layers = ((const struct dcn_options *)p->spec.own)->cross;
	d->at = plugin_matrix(p, 2 * d->layers + 1, in);
	p->widest = p->widest > d->layers + 1 ? p->widest : d->layers + 1;
	deep_open(p, &d->deep, DEEP_GAIN);
}

static void dcn_carve(struct plugin *p, struct carver *c, size_t n)
{
	struct dcn *d = (struct dcn *)p->own;
	size_t weights = d->layers + 1;
	d->c = CARVE(c, float, weights * d->deep.in);
	d->shift = CARVE(c, float, weights);
	d->dots = CARVE(c, float, n *weights);
	d->by_shift = CARVE(c, float, (n + 1) * weights);
	deep_carve(p, &d->deep, c, n);
}

/* A thread a column. */
__global__ void dcn_c_kernel(size_t layers, size_t in, const float *weight, float *c)
{
	for (size_t j = thread_number(); j < in; j += thread_count()) {
		float sum = 0;
		for (size_t l = 0; l <= layers; l++) {
			c[l * in + j] = sum;
			if (l < layers)
				sum += weight[(2 * l + 1) * in + j];
		}
	}
}

/* A warp a layer. */
__global__ void dcn_shift_kernel(size_t layers, size_t in, const float *weight, const float *c,
				 float *shift)
{
	size_t l = thread_number() / WARP, lane = threadIdx.x % WARP;
	if (l > layers)
		return;
	float sum = 0;
	for (size_t j = lane; j < in; j += WARP)
		sum += c[l * in + j] * weight[2 * l * in + j];
	sum = warp_sum(sum);
	if (lane == 0)
		shift[l] = sum;
}

/* a[layers] of a sample; a[0] is 1. */
DEVICE_CODE float dcn_factor(size_t layers, const float *dots, const float *shift)
{
	float a = 1;
	for (size_t l = 0; l < layers; l++)
		a += a * dots[l] + shift[l];
	return a;
}

__global__ void dcn_kernel(size_t n, size_t layers, const float *dots, const float *shift, float *z)
{
	for (size_t i = thread_number(); i < n; i += thread_count()) {
		const float *of = dots + i * (layers + 1);
		z[i] += dcn_factor(layers, of, shift) * of[layers] + shift[layers];
	}
}

/* dots become the gradients by them. There are few layers, so a[l] is computed anew for each. */
__global__ void dcn_back_kernel(size_t n, size_t layers, const float *shift, const float *delta,
				float *dots, float *by_shift)
{
	for (size_t i = thread_number(); i < n; i += thread_count()) {
		float *of = dots + i * (layers + 1), *by = by_shift + i * (layers + 1);
		float by_a = delta[i] * of[layers];
		of[layers] = delta[i] * dcn_factor(layers, of, shift);
		by[layers] = delta[i];
		for (size_t l = layers; l-- > 0;) {
			float by_dot = by_a * dcn_factor(l, of, shift);
			by[l] = by_a;
			by_a += by_a * of[l];
			of[l] = by_dot;
		}
	}
}

/* What comes by the shifts to weights and biases: a thread a column. */
__global__ void dcn_shift_back_kernel(size_t layers, size_t in, const float *by_shift,
				      const float *weight, const float *c, float *by_weight)
{
	for (size_t j = thread_number(); j < in; j += thread_count()) {
		float sum = 0; /* of the layers behind */
		for (size_t l = layers; l > 0; l--) {
			by_weight[2 * l * in + j] += by_shift[l] * c[l * in + j];
			sum += by_shift[l] * weight[2 * l * in + j];
			by_weight[(2 * l - 1) * in + j] += sum;
		}
	}
}

static void dcn_forward(struct plugin *p, const struct samples *r)
{
	struct dcn *d = (struct dcn *)p->own;
	struct queue *q = &p->device.queue;
	const float *weight = p->card.dense + d->at;
	size_t n = r->keys.n, in = d->deep.in, layers = d->layers;
	wide_forward(p, r);
	deep_gather(p, &d->deep, r);
	deep_forward(p, &d->deep, r);
	queue_kernel(q, "dcn_c_kernel", queue_grid(in), QUEUE_BLOCK, dcn_c_kernel, layers, in,
		     weight, d->c);
	queue_kernel(q, "dcn_shift_kernel", queue_grid((layers + 1) * WARP), QUEUE_BLOCK,
		     dcn_shift_kernel, layers, in, weight, d->c, d->shift);
	product_forward(q, n, layers + 1, in, 1.0f, d->deep.x, weight, 2 * in, 0.0f, d->dots);
	queue_kernel(q, "dcn_kernel", queue_grid(n), QUEUE_BLOCK, dcn_kernel, n, layers, d->dots,
		     d->shift, r->z);
}

static void dcn_backward(struct plugin *p, const struct samples *r)
{
	struct dcn *d = (struct dcn *)p->own;
	struct queue *q = &p->device.queue;
	const float *weight = p->card.dense + d->at;
	float *by_weight = p->dense_gradient + d->at;
	size_t n = r->keys.n, in = d->deep.in, layers = d->layers, weights = layers + 1,
	       learnt = p->spec.fields * p->by_width;
	float *sums = d->by_shift + n * weights;
	wide_backward(p, r);
	deep_backward(p, &d->deep, r, learnt, 0.0f, r->by);
	queue_kernel(q, "dcn_back_kernel", queue_grid(n), QUEUE_BLOCK, dcn_back_kernel, n, layers,
		     d->shift, r->delta, d->dots, d->by_shift);
	queue_zero(q, sums, weights * sizeof(float));
	layers_column_sums(q, n, weights, d->by_shift, NULL, 1.0f, r->parts, sums);
	queue_kernel(q, "dcn_shift_back_kernel", queue_grid(in), QUEUE_BLOCK, dcn_shift_back_kernel,
		     layers, in, sums, weight, d->c, by_weight);
	product_by_weight(q, n, weights, in, 1.0f, d->dots, d->deep.x, by_weight, 2 * in);
	product_by_input(q, n, weights, learnt, 1.0f, d->dots, weight, 2 * in, 1.0f, r->by);
}

const struct cuda_model cuda_dcn = {
	.name = "dcn",
	.labels = MODEL_BINARY,
	.products = 1,
	.own_bytes = sizeof(struct dcn),
	.gain = DEEP_GAIN,
	.open = dcn_open,
	.carve = dcn_carve,
	.forward = dcn_forward,
	.backward = dcn_backward,
};
