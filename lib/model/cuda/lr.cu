/*
 * lr: the wide part of models, and those that are nothing else: lr, svm, linear.  The gradients by
 * rows are plugin.cu's.
 */
#include "model/cuda/layers.h"
#include "model/cuda/plugin.h"
#include "model/own.h"

void wide_open(struct plugin *p)
{
	plugin_vector(p, 1);
	plugin_vector(p, p->spec.dense_inputs);
	p->weights = 1;
}

void wide_forward(struct plugin *p, const struct samples *r)
{
	rows_wide(&p->device.queue, r->keys, r->x, p->spec.dense_inputs, p->card.dense, r->z);
}

void wide_backward(struct plugin *p, const struct samples *r)
{
	struct queue *q = &p->device.queue;
	size_t n = r->keys.n;
	layers_column_sums(q, n, 1, r->delta, NULL, 1.0f, r->parts, p->dense_gradient);
	layers_column_sums(q, n, p->spec.dense_inputs, r->x, r->delta, 1.0f, r->parts,
			   p->dense_gradient + 1);
}

static enum loss svm_loss(const struct model_spec *spec)
{
	return ((const struct svm_options *)spec->own)->loss == 0 ? LOSS_HINGE : LOSS_SQUARED_HINGE;
}

const struct cuda_model cuda_lr = {
	.name = "lr",
	.labels = MODEL_BINARY,
	.gain = 1.0f,
	.open = wide_open,
	.forward = wide_forward,
	.backward = wide_backward,
};

const struct cuda_model cuda_svm = {
	.name = "svm",
	.labels = MODEL_BINARY,
	.gain = 1.0f,
	.open = wide_open,
	.forward = wide_forward,
	.backward = wide_backward,
	.loss = svm_loss,
};

const struct cuda_model cuda_linear = {
	.name = "linear",
	.labels = MODEL_REAL,
	.gain = 1.0f,
	.open = wide_open,
	.forward = wide_forward,
	.backward = wide_backward,
};
