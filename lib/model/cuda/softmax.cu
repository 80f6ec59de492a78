/*
 * softmax: as in lib/model/softmax.c.
 */
#include "model/cuda/layers.h"
#include "model/cuda/plugin.h"
#include "model/cuda/product.h"

static void softmax_open(struct plugin *p)
{
	plugin_vector(p, p->outputs);
	plugin_matrix(p, p->outputs, p->spec.dense_inputs);
	p->weights = p->outputs;
}

static void softmax_forward(struct plugin *p, const struct samples *r)
{
	struct queue *q = &p->device.queue;
	size_t n = r->keys.n, in = p->spec.dense_inputs;
	const float *dense = p->card.dense;
	layers_bias(q, n, p->outputs, r->z, dense);
	rows_weights(q, r->keys, p->outputs, r->z);
	if (in > 0)
		product_forward(q, n, p->outputs, in, 1.0f, r->x, dense + p->outputs, in, 1.0f,
				r->z);
}

static void softmax_backward(struct plugin *p, const struct samples *r)
{
	struct queue *q = &p->device.queue;
	size_t n = r->keys.n, in = p->spec.dense_inputs;
	layers_column_sums(q, n, p->outputs, r->delta, NULL, 1.0f, r->parts, p->dense_gradient);
	product_by_weight(q, n, p->outputs, in, 1.0f, r->delta, r->x,
			  p->dense_gradient + p->outputs, in);
}

const struct cuda_model cuda_softmax = {
	.name = "softmax",
	.labels = MODEL_CLASS,
	.products = 1,
	.gain = 1.0f,
	.open = softmax_open,
	.forward = softmax_forward,
	.backward = softmax_backward,
};
