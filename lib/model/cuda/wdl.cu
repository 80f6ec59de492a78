/*
 * wdl: wide & deep, as in lib/model/wdl.c: the same parameters in the same places, the same gain.
 */
#include "model/cuda/layers.h"
#include "model/cuda/plugin.h"
#include "model/cuda/product.h"

#include <stdlib.h>

#define GAIN 0.4f /* WDL_GAIN of lib/model/wdl.c */

struct wdl {
	float *x;                       /* [n][inputs] */
	float *layer[MODEL_WIDTHS_MAX]; /* outputs */
	float *by[2];                   /* gradients by them, taking turns */
};

static size_t inputs(const struct model_spec *s)
{
	return (size_t)s->fields * s->embed + s->dense_inputs;
}

static int wdl_open(struct plugin *p, struct error *err)
{
	const struct model_spec *s = &p->spec;
	size_t in = inputs(s);
	p->own = calloc(1, sizeof(struct wdl));
	if (!p->own)
		return cuda_error(err, ERROR_OS, "", "out of memory");
	p->dense_count = 1 + (size_t)s->dense_inputs;
	p->widest = p->dense_count;
	for (uint32_t i = 0; i < s->hidden.count; i++) {
		p->dense_count += (in + 1) * s->hidden.width[i];
		in = s->hidden.width[i];
		p->widest = p->widest > in ? p->widest : in;
	}
	p->dense_count += in;
	p->width = 1 + (size_t)s->embed;
	p->by_width = (size_t)s->fields * s->embed;
	return 0;
}

static void wdl_carve(struct plugin *p, struct carver *c, size_t n)
{
	const struct model_spec *s = &p->spec;
	struct wdl *w = (struct wdl *)p->own;
	size_t most = 0;
	w->x = CARVE(c, float, n *inputs(s));
	for (uint32_t i = 0; i < s->hidden.count; i++) {
		w->layer[i] = CARVE(c, float, n * s->hidden.width[i]);
		most = most > s->hidden.width[i] ? most : s->hidden.width[i];
	}
	w->by[0] = CARVE(c, float, n *most);
	w->by[1] = CARVE(c, float, n *most);
}

static void wdl_forward(struct plugin *p, const struct range *r)
{
	const struct model_spec *s = &p->spec;
	struct wdl *w = (struct wdl *)p->own;
	struct queue *q = &p->device.queue;
	size_t n = r->keys.n, in = inputs(s);
	const float *parameters = p->card.dense + 1 + s->dense_inputs, *x = w->x;
	wide_forward(p, r);
	rows_gather(q, r->keys, s->fields, s->embed, p->card.rows, GAIN, r->x, s->dense_inputs,
		    w->x);
	for (uint32_t i = 0; i < s->hidden.count; i++) {
		size_t out = s->hidden.width[i];
		product_forward(q, n, out, in, GAIN, x, parameters, 0.0f, w->layer[i]);
		parameters += out * in;
		layers_bias_relu(q, n, out, w->layer[i], parameters, GAIN);
		parameters += out;
		x = w->layer[i];
		in = out;
	}
	layers_dot(q, n, in, x, parameters, GAIN, r->z);
}

/* Through the dense vector from its end. */
static void wdl_backward(struct plugin *p, const struct range *r)
{
	const struct model_spec *s = &p->spec;
	struct wdl *w = (struct wdl *)p->own;
	struct queue *q = &p->device.queue;
	uint32_t last = s->hidden.count - 1;
	size_t n = r->keys.n, out = s->hidden.width[last], at = p->dense_count - out;
	layers_column_sums(q, n, out, w->layer[last], r->delta, GAIN, r->parts,
			   p->dense_gradient + at);
	layers_dot_back(q, n, out, r->delta, p->card.dense + at, GAIN, w->by[last % 2]);
	for (uint32_t i = last + 1; i-- > 0;) {
		size_t in = i > 0 ? s->hidden.width[i - 1] : inputs(s);
		float *by = w->by[i % 2];
		layers_relu_back(q, n, out, by, w->layer[i]);
		at -= out;
		layers_column_sums(q, n, out, by, NULL, GAIN, r->parts, p->dense_gradient + at);
		at -= out * in;
		product_by_weight(q, n, out, in, GAIN, by, i > 0 ? w->layer[i - 1] : w->x,
				  p->dense_gradient + at);
		if (i > 0)
			product_by_input(q, n, out, in, GAIN, by, p->card.dense + at, in, 0.0f,
					 w->by[(i - 1) % 2]);
		else /* dense columns get no gradient */
			product_by_input(q, n, out, p->by_width, GAIN, by, p->card.dense + at, in,
					 0.0f, r->by);
		out = in;
	}
	wide_backward(p, r);
}

extern const struct cuda_model cuda_wdl = {"wdl",        1,   wdl_open, wdl_carve, wdl_forward,
					   wdl_backward, GAIN};
