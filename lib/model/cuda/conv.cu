/*
 * conv: as in lib/model/conv.c.  A convolution is a product of windows (images.h) and weights; what
 * goes on to the next layer is, after bias and ReLU, the most of each 2 x 2.  The channels of a
 * pixel lie together, as products write them, but for the batch itself and the last layer.
 */
#include "model/cuda/images.h"
#include "model/cuda/layers.h"
#include "model/cuda/plugin.h"
#include "model/cuda/product.h"
#include "model/own.h"

struct conv {
	size_t layers, inputs; /* inputs: of the outputs */
	struct images x[MODEL_WIDTHS_MAX]; /* what each layer gets; n is not set */
	struct images y[MODEL_WIDTHS_MAX]; /* what its convolution gives */
	size_t weight[MODEL_WIDTHS_MAX], bias[MODEL_WIDTHS_MAX], output, output_bias;
	float *windows[MODEL_WIDTHS_MAX]; /* [n * pixels][in * 9] */
	float *pooled[MODEL_WIDTHS_MAX];
	uint8_t *which[MODEL_WIDTHS_MAX];
	float *out;  /* outputs of a convolution, or the gradient by them: [n * pixels][out] */
	float *back; /* the gradient by windows */
	float *by;   /* the gradient by pooled */
};

static size_t pooled_count(const struct images *y)
{
	return (y->height / 2) * (y->width / 2) * y->channels;
}

static void conv_open(struct plugin *p)
{
	struct conv *c = (struct conv *)p->own;
	const struct conv_options *o = (const struct conv_options *)p->spec.own;
	struct images x = {0, o->image.width[2], o->image.width[0], o->image.width[1], 0};
	c->layers = o->channels.count;
	p->part_rows = x.height * x.width;
	for (size_t i = 0; i < c->layers; i++) {
		size_t out = o->channels.width[i];
		c->x[i] = x;
		c->y[i] = {0, out, x.height, x.width, 1};
		c->weight[i] = plugin_matrix(p, out, x.channels * IMAGES_WINDOW);
		c->bias[i] = plugin_vector(p, out);
		c->inputs = pooled_count(&c->y[i]);
		x = {0, out, x.height / 2, x.width / 2, 1};
	}
	c->output = plugin_matrix(p, p->outputs, c->inputs);
	c->output_bias = plugin_vector(p, p->outputs);
}

static void conv_carve(struct plugin *p, struct carver *to, size_t n)
{
	struct conv *c = (struct conv *)p->own;
	size_t out = 0, back = 0, by = 0;
	for (size_t i = 0; i < c->layers; i++) {
		size_t pixels = c->x[i].height * c->x[i].width,
		       windows = pixels * c->x[i].channels * IMAGES_WINDOW,
		       outputs = pixels * c->y[i].channels, pooled = pooled_count(&c->y[i]);
		c->windows[i] = CARVE(to, float, n *windows);
		c->pooled[i] = CARVE(to, float, n *pooled);
		c->which[i] = CARVE(to, uint8_t, n * pooled);
		out = out > outputs ? out : outputs;
		back = i == 0 || back > windows ? back : windows;
		by = by > pooled ? by : pooled;
	}
	c->out = CARVE(to, float, n *out);
	c->back = CARVE(to, float, n *back);
	c->by = CARVE(to, float, n *by);
}

static struct images images_of(struct images one, size_t n)
{
	one.n = n;
	return one;
}

static void conv_forward(struct plugin *p, const struct samples *r)
{
	struct conv *c = (struct conv *)p->own;
	struct queue *q = &p->device.queue;
	const float *dense = p->card.dense, *x = r->x;
	size_t n = r->keys.n;
	for (size_t i = 0; i < c->layers; i++) {
		struct images in = images_of(c->x[i], n), y = images_of(c->y[i], n);
		size_t windows = in.channels * IMAGES_WINDOW;
		images_windows(q, in, x, c->windows[i]);
		product_forward(q, n * in.height * in.width, y.channels, windows, 1.0f,
				c->windows[i], dense + c->weight[i], windows, 0.0f, c->out);
		images_pool(q, y, c->out, dense + c->bias[i], i + 1 == c->layers, c->pooled[i],
			    c->which[i]);
		x = c->pooled[i];
	}
	layers_bias(q, n, p->outputs, r->z, dense + c->output_bias);
	product_forward(q, n, p->outputs, c->inputs, 1.0f, x, dense + c->output, c->inputs, 1.0f,
			r->z);
}

static void conv_backward(struct plugin *p, const struct samples *r)
{
	struct conv *c = (struct conv *)p->own;
	struct queue *q = &p->device.queue;
	const float *dense = p->card.dense;
	float *gradient = p->dense_gradient;
	size_t n = r->keys.n, last = c->layers - 1;
	layers_column_sums(q, n, p->outputs, r->delta, NULL, 1.0f, r->parts,
			   gradient + c->output_bias);
	product_by_weight(q, n, p->outputs, c->inputs, 1.0f, r->delta, c->pooled[last],
			  gradient + c->output, c->inputs);
	product_by_input(q, n, p->outputs, c->inputs, 1.0f, r->delta, dense + c->output, c->inputs,
			 0.0f, c->by);
	for (size_t i = c->layers; i-- > 0;) {
		struct images in = images_of(c->x[i], n), y = images_of(c->y[i], n);
		size_t lines = n * in.height * in.width, windows = in.channels * IMAGES_WINDOW;
		images_pool_back(q, y, c->pooled[i], c->by, c->which[i], i == last, c->out);
		layers_column_sums(q, lines, y.channels, c->out, NULL, 1.0f, r->parts,
				   gradient + c->bias[i]);
		product_by_weight(q, lines, y.channels, windows, 1.0f, c->out, c->windows[i],
				  gradient + c->weight[i], windows);
		if (i == 0) /* images learn nothing */
			break;
		product_by_input(q, lines, y.channels, windows, 1.0f, c->out, dense + c->weight[i],
				 windows, 0.0f, c->back);
		images_windows_back(q, in, c->back, c->by);
	}
}

const struct cuda_model cuda_conv = {
	.name = "conv",
	.labels = MODEL_CLASS,
	.products = 1,
	.own_bytes = sizeof(struct conv),
	.gain = 1.0f,
	.open = conv_open,
	.carve = conv_carve,
	.forward = conv_forward,
	.backward = conv_backward,
};
