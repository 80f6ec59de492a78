/*
 * xdeepfm: as in lib/model/xdeepfm.c, which says why the last layer of the network (cin.h) is never
 * computed: its maps meet only in the output, so one map does, with weights `last` = output weights
 * . weight[last layer].  That is left to products of matrices, which have a column for each line.
 */
#include "model/cuda/cin.h"
#include "model/cuda/deep.h"
#include "model/cuda/layers.h"
#include "model/cuda/product.h"
#include "model/own.h"

struct xdeepfm {
	struct deep deep;
	size_t top;                        /* layers - 1: the maps x[top] go into the last layer */
	size_t maps[MODEL_WIDTHS_MAX + 1]; /* of x[0], the fields, and of what each layer gives */
	size_t weight[MODEL_WIDTHS_MAX], output[MODEL_WIDTHS_MAX]; /* in dense vectors */
	float *x[MODEL_WIDTHS_MAX], *by[MODEL_WIDTHS_MAX];         /* [maps][lines] */
	float *by_first;       /* [fields][lines]: what comes to x[0] as x of the first layer */
	float *line;           /* [lines] */
	float *scaled;         /* [maps[top]][lines] */
	float *last, *by_last; /* [maps[top] * fields] */
	float *parts;
};

static void xdeepfm_open(struct plugin *p)
{
	struct xdeepfm *x = (struct xdeepfm *)p->own;
	const struct model_widths *cin = &((const struct xdeepfm_options *)p->spec.own)->cin;
	wide_open(p);
	p->by_width = p->spec.embed;
	x->top = cin->count - 1;
	x->maps[0] = p->spec.fields;
	for (size_t k = 0; k <= x->top; k++) {
		x->maps[k + 1] = cin->width[k];
		x->weight[k] = plugin_matrix(p, x->maps[k + 1], x->maps[k] * p->spec.fields);
	}
	for (size_t k = 0; k <= x->top; k++)
		x->output[k] = plugin_matrix(p, 1, x->maps[k + 1]);
	deep_open(p, &x->deep, DEEP_GAIN);
}

/* The layer from x[k] to x[k + 1]. Its weights are not there while memory is counted. */
static struct cin layer_of(const struct plugin *p, const struct xdeepfm *x, size_t n, size_t k)
{
	return {n * p->spec.embed,
		p->spec.fields,
		x->maps[k],
		x->maps[k + 1],
		x->x[0],
		x->x[k],
		p->card.dense ? p->card.dense + x->weight[k] : NULL};
}

static void xdeepfm_carve(struct plugin *p, struct carver *c, size_t n)
{
	struct xdeepfm *x = (struct xdeepfm *)p->own;
	size_t lines = n * p->spec.embed, fields = p->spec.fields, parts = 0;
	for (size_t k = 0; k <= x->top; k++) {
		x->x[k] = CARVE(c, float, x->maps[k] * lines);
		x->by[k] = CARVE(c, float, x->maps[k] * lines);
	}
	for (size_t k = 0; k < x->top; k++) {
		size_t of_layer = cin_parts(layer_of(p, x, n, k));
		parts = parts > of_layer ? parts : of_layer;
	}
	x->by_first = CARVE(c, float, x->top > 0 ? fields * lines : 0);
	x->line = CARVE(c, float, lines);
	x->scaled = CARVE(c, float, x->maps[x->top] * lines);
	x->last = CARVE(c, float, x->maps[x->top] * fields);
	x->by_last = CARVE(c, float, x->maps[x->top] * fields);
	x->parts = CARVE(c, float, parts);
	deep_carve(p, &x->deep, c, n);
}

/* by[top] becomes the gradient of z by x[top]. */
static void xdeepfm_output(struct plugin *p, struct xdeepfm *x, const struct samples *r)
{
	struct queue *q = &p->device.queue;
	const float *dense = p->card.dense;
	size_t lines = r->keys.n * p->spec.embed, fields = p->spec.fields, top = x->top,
	       high = x->maps[top], out = x->maps[top + 1];
	product_by_input(q, 1, out, high * fields, 1.0f, dense + x->output[top],
			 dense + x->weight[top], high * fields, 0.0f, x->last);
	product_by_input(q, high, fields, lines, 1.0f, x->last, x->x[0], lines, 0.0f, x->by[top]);
	cin_line(q, lines, high, top > 0 ? dense + x->output[top - 1] : NULL, x->x[top], x->by[top],
		 x->line);
	for (size_t k = 1; k < top; k++) /* line[lines] += output[maps] x[maps][lines] */
		product_by_input(q, 1, x->maps[k], lines, 1.0f, dense + x->output[k - 1], x->x[k],
				 lines, 1.0f, x->line);
	cin_sum(q, r->keys.n, p->spec.embed, x->line, r->z);
}

static void xdeepfm_forward(struct plugin *p, const struct samples *r)
{
	struct xdeepfm *x = (struct xdeepfm *)p->own;
	struct queue *q = &p->device.queue;
	wide_forward(p, r);
	deep_gather(p, &x->deep, r);
	deep_forward(p, &x->deep, r);
	cin_maps(q, r->keys.n, p->spec.fields, p->spec.embed, x->deep.x, x->deep.in, x->x[0]);
	for (size_t k = 0; k < x->top; k++)
		cin_forward(q, layer_of(p, x, r->keys.n, k), x->x[k + 1]);
	xdeepfm_output(p, x, r);
}

/* Begins all by[k]; adds to the gradients by the last layer's weights and by those of the output.
 */
static void xdeepfm_output_back(struct plugin *p, struct xdeepfm *x, const struct samples *r)
{
	struct queue *q = &p->device.queue;
	const float *dense = p->card.dense;
	float *gradient = p->dense_gradient;
	size_t lines = r->keys.n * p->spec.embed, fields = p->spec.fields, top = x->top,
	       high = x->maps[top], out = x->maps[top + 1], in = high * fields;
	cin_sum_back(q, r->keys.n, p->spec.embed, r->delta, x->line);
	for (size_t k = 1; k <= top; k++) {
		/* output[maps] += x[maps][lines] line[lines] */
		product_forward(q, x->maps[k], 1, lines, 1.0f, x->x[k], x->line, lines, 1.0f,
				gradient + x->output[k - 1]);
		if (k < top)
			layers_dot_back(q, x->maps[k], lines, dense + x->output[k - 1], x->line,
					1.0f, x->by[k]);
	}
	cin_scale(q, lines, high, x->line, x->x[top], x->by[top], x->scaled);
	if (top > 0)
		queue_zero(q, x->by[0], fields * lines * sizeof(float));
	product_by_weight(q, high, fields, lines, 1.0f, x->last, x->scaled, x->by[0], lines);
	product_forward(q, high, fields, lines, 1.0f, x->scaled, x->x[0], lines, 0.0f, x->by_last);
	product_by_weight(q, 1, out, in, 1.0f, dense + x->output[top], x->by_last,
			  gradient + x->weight[top], in);
	product_forward(q, out, 1, in, 1.0f, dense + x->weight[top], x->by_last, in, 1.0f,
			gradient + x->output[top]);
}

static void xdeepfm_backward(struct plugin *p, const struct samples *r)
{
	struct xdeepfm *x = (struct xdeepfm *)p->own;
	struct queue *q = &p->device.queue;
	size_t n = r->keys.n, fields = p->spec.fields, embed = p->spec.embed,
	       learnt = fields * embed;
	wide_backward(p, r);
	xdeepfm_output_back(p, x, r);
	if (x->top > 0)
		queue_zero(q, x->by_first, learnt * n * sizeof(float));
	for (size_t k = x->top; k-- > 0;) {
		struct cin c = layer_of(p, x, n, k);
		cin_by_weight(q, c, x->by[k + 1], x->parts, p->dense_gradient + x->weight[k]);
		cin_by_input(q, c, x->by[k + 1], k > 0 ? x->by[k] : x->by_first, x->by[0]);
	}
	deep_backward(p, &x->deep, r, learnt, 0.0f, r->by);
	cin_maps_back(q, n, fields, embed, x->by[0], x->top > 0 ? x->by_first : NULL, r->by,
		      learnt);
}

const struct cuda_model cuda_xdeepfm = {
	.name = "xdeepfm",
	.labels = MODEL_BINARY,
	.products = 1,
	.own_bytes = sizeof(struct xdeepfm),
	.gain = DEEP_GAIN,
	.open = xdeepfm_open,
	.carve = xdeepfm_carve,
	.forward = xdeepfm_forward,
	.backward = xdeepfm_backward,
};
