/*
 * deep: see deep.h.
 */
#include "model/cuda/deep.h"

#include "model/cuda/layers.h"
#include "model/cuda/product.h"

void deep_open(struct plugin *p, struct deep *d, float gain)
{
	const struct model_spec *s = &p->spec;
	size_t in = (size_t)s->fields * s->embed + s->dense_inputs;
	d->gain = gain;
	d->in = in;
	for (uint32_t i = 0; i < s->hidden.count; i++) {
		d->weight[i] = plugin_matrix(p, s->hidden.width[i], in);
		in = s->hidden.width[i];
		d->bias[i] = plugin_vector(p, in);
	}
	d->output = p->outputs == 1 ? plugin_vector(p, in) : plugin_matrix(p, p->outputs, in);
}

void deep_carve(struct plugin *p, struct deep *d, struct carver *c, size_t n)
{
	const struct model_spec *s = &p->spec;
	size_t most = 0;
	d->room = s->fields > 0 ? CARVE(c, float, n * d->in) : NULL;
	for (uint32_t i = 0; i < s->hidden.count; i++) {
		d->layer[i] = CARVE(c, float, n * s->hidden.width[i]);
		most = most > s->hidden.width[i] ? most : s->hidden.width[i];
	}
	d->by[0] = CARVE(c, float, n *most);
	d->by[1] = CARVE(c, float, n *most);
}

void deep_own_carve(struct plugin *p, struct carver *c, size_t n)
{
	deep_carve(p, (struct deep *)p->own, c, n);
}

void deep_gather(struct plugin *p, struct deep *d, const struct samples *r)
{
	const struct model_spec *s = &p->spec;
	d->x = d->room ? d->room : r->x; /* dense columns alone lie there as they are needed */
	if (d->room)
		rows_gather(&p->device.queue, r->keys, s->fields, s->embed, d->gain, r->x,
			    s->dense_inputs, d->room);
}

void deep_forward(struct plugin *p, const struct deep *d, const struct samples *r)
{
	const struct model_spec *s = &p->spec;
	struct queue *q = &p->device.queue;
	size_t n = r->keys.n, in = d->in;
	const float *x = d->x, *dense = p->card.dense;
	for (uint32_t i = 0; i < s->hidden.count; i++) {
		size_t out = s->hidden.width[i];
		product_forward(q, n, out, in, d->gain, x, dense + d->weight[i], in, 0.0f,
				d->layer[i]);
		layers_bias_relu(q, n, out, d->layer[i], dense + d->bias[i], d->gain);
		x = d->layer[i];
		in = out;
	}
	if (p->outputs == 1)
		layers_dot(q, n, in, x, dense + d->output, d->gain, r->z);
	else
		product_forward(q, n, p->outputs, in, d->gain, x, dense + d->output, in, 1.0f,
				r->z);
}

/* Adds the gradient by the outputs' weights; by[n][in] = the gradient by what they are given. */
static void output_backward(struct plugin *p, const struct deep *d, const struct samples *r,
			    size_t in, const float *x, float *by)
{
	struct queue *q = &p->device.queue;
	size_t n = r->keys.n;
	const float *weight = p->card.dense + d->output;
	float *gradient = p->dense_gradient + d->output;
	if (p->outputs == 1) {
		layers_column_sums(q, n, in, x, r->delta, d->gain, r->parts, gradient);
		layers_dot_back(q, n, in, r->delta, weight, d->gain, by);
	} else {
		product_by_weight(q, n, p->outputs, in, d->gain, r->delta, x, gradient, in);
		product_by_input(q, n, p->outputs, in, d->gain, r->delta, weight, in, 0.0f, by);
	}
}

void deep_backward(struct plugin *p, const struct deep *d, const struct samples *r, size_t learnt,
		   float keep, float *by_x)
{
	const struct model_spec *s = &p->spec;
	struct queue *q = &p->device.queue;
	uint32_t last = s->hidden.count - 1;
	size_t n = r->keys.n, out = s->hidden.width[last];
	output_backward(p, d, r, out, d->layer[last], d->by[last % 2]);
	for (uint32_t i = last + 1; i-- > 0;) {
		size_t in = i > 0 ? s->hidden.width[i - 1] : d->in;
		const float *weight = p->card.dense + d->weight[i];
		float *by = d->by[i % 2];
		layers_relu_back(q, n, out, by, d->layer[i]);
		layers_column_sums(q, n, out, by, NULL, d->gain, r->parts,
				   p->dense_gradient + d->bias[i]);
		product_by_weight(q, n, out, in, d->gain, by, i > 0 ? d->layer[i - 1] : d->x,
				  p->dense_gradient + d->weight[i], in);
		if (i > 0)
			product_by_input(q, n, out, in, d->gain, by, weight, in, 0.0f,
					 d->by[(i - 1) % 2]);
		else
			product_by_input(q, n, out, learnt, d->gain, by, weight, in, keep, by_x);
		out = in;
	}
}
