/*
 * mlp: as in lib/model/mlp.c: layers alone, and a bias for each output.
 */
#include "model/cuda/deep.h"
#include "model/cuda/layers.h"

static void mlp_open(struct plugin *p)
{
	plugin_vector(p, p->outputs);
	p->by_width = p->spec.fields > 0 ? p->spec.embed : 0;
	deep_open(p, (struct deep *)p->own, p->model->gain);
}

static void mlp_forward(struct plugin *p, const struct samples *r)
{
	struct deep *d = (struct deep *)p->own;
	layers_bias(&p->device.queue, r->keys.n, p->outputs, r->z, p->card.dense);
	deep_gather(p, d, r);
	deep_forward(p, d, r);
}

static void mlp_backward(struct plugin *p, const struct samples *r)
{
	struct deep *d = (struct deep *)p->own;
	layers_column_sums(&p->device.queue, r->keys.n, p->outputs, r->delta, NULL, 1.0f, r->parts,
			   p->dense_gradient);
	deep_backward(p, d, r, p->spec.fields * p->by_width, 0.0f, r->by);
}

const struct cuda_model cuda_mlp = {
	.name = "mlp",
	.labels = MODEL_BINARY | MODEL_CLASS | MODEL_REAL,
	.products = 1,
	.own_bytes = sizeof(struct deep),
	.gain = 1.0f,
	.open = mlp_open,
	.carve = deep_own_carve,
	.forward = mlp_forward,
	.backward = mlp_backward,
};
