/*
 * conv: layers of convolutions over the dense columns, which are an image, and a product for each
 * class.  A layer is a convolution of 3 x 3 with a border of zeros, a ReLU, and the maximum of each
 * 2 x 2; a last row or column that is left over is dropped.
 *
 * The dense vector has conv1.weight [out][in * 9], conv1.bias, ..., output.weight [classes][in],
 * output.bias: all as torch.nn.Conv2d and torch.nn.Linear have them, and the same planes, rows and
 * columns in the same order.
 *
 * A convolution is a product of its weights and of a matrix of windows (im2col): its column is a
 * pixel, with all inputs that the pixel's window sees.  The batch is computed in blocks of a few
 * images, whose windows stay in the cache until they are used again, for the weights' gradient.
 */
#include "model/kind.h"
#include "model/own.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 9
#define BLOCK_FLOATS ((size_t)1 << 19) /* of all windows of a block */

static const struct model_option conv_model_options[] = {
	{"channels", MODEL_WIDTHS, MODEL_OWN(struct conv_options, channels), "32-64", 1, 4096, NULL,
	 "outputs of the convolutions"},
	{"image", MODEL_WIDTHS, MODEL_OWN(struct conv_options, image), "32-32-3", 1, 4096, NULL,
	 "height, width and channels of an image"},
	{0}};

/* Of one image. */
struct conv_layer {
	size_t in, out, height, width; /* channels; pixels before the maximum */
};

static size_t layer_pixels(const struct conv_layer *l)
{
	return l->height * l->width;
}

static size_t layer_pooled(const struct conv_layer *l)
{
	return (l->height / 2) * (l->width / 2);
}

/* Returns how many there are. */
static size_t conv_layers(const struct model_spec *s, struct conv_layer layer[MODEL_WIDTHS_MAX])
{
	const struct conv_options *o = model_own(s);
	struct conv_layer l = {0, o->image.width[2], o->image.width[0], o->image.width[1]};
	for (uint32_t i = 0; i < o->channels.count; i++) {
		l.in = l.out;
		l.out = o->channels.width[i];
		layer[i] = l;
		l.height /= 2;
		l.width /= 2;
	}
	return o->channels.count;
}

static int conv_check(const struct model_spec *s, struct error *err)
{
	const struct conv_options *o = model_own(s);
	const uint32_t *image = o->image.width;
	struct conv_layer layer[MODEL_WIDTHS_MAX];
	if (o->image.count != 3)
		return error_set(err, ERROR_CONFIG, "image",
				 "%u numbers, not height, width and channels (28-28-1)",
				 o->image.count);
	if ((uint64_t)image[0] * image[1] * image[2] != s->dense_inputs)
		return error_set(err, ERROR_CONFIG, "image",
				 "an image of %u-%u-%u has %llu values, and the data have %u dense "
				 "columns",
				 image[0], image[1], image[2],
				 (unsigned long long)image[0] * image[1] * image[2],
				 s->dense_inputs);
	if (layer_pooled(&layer[conv_layers(s, layer) - 1]) == 0)
		return error_set(err, ERROR_CONFIG, "channels",
				 "nothing is left of an image of %u-%u after %u layers, each of which "
				 "halves it",
				 image[0], image[1], o->channels.count);
	return 0;
}

/* Initial weights: He et al., 2015 (arXiv:1502.01852). */
static int conv_layout(const struct model_spec *s, struct layout *l, struct error *err)
{
	struct conv_layer layer[MODEL_WIDTHS_MAX];
	size_t count = conv_layers(s, layer);
	size_t in = layer[count - 1].out * layer_pooled(&layer[count - 1]);
	for (size_t i = 0; i < count; i++) {
		size_t inputs = layer[i].in * WINDOW;
		char name[32];
		snprintf(name, sizeof name, "conv%zu.weight", i + 1);
		if (layout_add_tensor(l, name, layer[i].out, inputs, LAYOUT_NORMAL,
				      sqrt(2.0 / (double)inputs), LAYOUT_OPTIMIZER, err) != 0)
			return -1;
		snprintf(name, sizeof name, "conv%zu.bias", i + 1);
		if (layout_add_tensor(l, name, layer[i].out, 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER,
				      err) != 0)
			return -1;
	}
	if (layout_add_tensor(l, "output.weight", s->classes, in, LAYOUT_NORMAL,
			      MODEL_OUTPUT_SCALE / sqrt((double)in), LAYOUT_OPTIMIZER, err) != 0 ||
	    layout_add_tensor(l, "output.bias", s->classes, 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER,
			      err) != 0)
		return -1;
	return model_keys_layout(s, l, 1, 1, 0, err); /* keys say nothing to it */
}

/* Where the planes of a block's images lie: (channel, image) at channel * by_channel + image *
 * by_image. The planes of a channel lie one behind the other, as a product needs them; but for the
 * batch itself and for the last layer, where those of an image do. */
struct planes {
	size_t by_channel, by_image;
};

struct conv {
	struct conv_layer layer[MODEL_WIDTHS_MAX];
	size_t count, rows, inputs; /* layers; most rows of a block; inputs of the outputs */
	float *windows[MODEL_WIDTHS_MAX]; /* [in * 9][images][pixels] */
	float *pooled[MODEL_WIDTHS_MAX];
	uint32_t *which[MODEL_WIDTHS_MAX]; /* which of its four pixels each of these is */
	float *y;    /* the outputs of a convolution, or the gradient by them: [out][images][pixels] */
	float *back; /* the gradient by windows */
	float *by;   /* the gradient by pooled */
	struct words which_room;
};

static void conv_free(struct model *m)
{
	struct conv *c = m->own;
	if (c)
		free(c->which_room.data);
	free(c);
}

static size_t conv_block(const struct model *m, size_t left)
{
	struct conv_layer layer[MODEL_WIDTHS_MAX];
	size_t count = conv_layers(&m->spec, layer), floats = 0;
	for (size_t i = 0; i < count; i++)
		floats += layer[i].in * WINDOW * layer_pixels(&layer[i]);
	size_t rows = BLOCK_FLOATS / floats > 0 ? BLOCK_FLOATS / floats : 1;
	return left < rows ? left : rows;
}

static size_t conv_most(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Divides memory for blocks of c->rows images. */
static int conv_carve(struct model *m, struct conv *c, struct error *err)
{
	size_t windows = 0, pooled = 0, y = 0, back = 0, by = 0;
	for (size_t i = 0; i < c->count; i++) {
		const struct conv_layer *l = &c->layer[i];
		size_t inputs = l->in * WINDOW * layer_pixels(l);
		size_t outputs = l->out * layer_pooled(l);
		windows += inputs;
		pooled += outputs;
		y = conv_most(y, l->out * layer_pixels(l));
		back = conv_most(back, i > 0 ? inputs : 0);
		by = conv_most(by, outputs);
	}
	if (pool_grow(&m->scratch, c->rows * (windows + pooled + y + back + by), err) != 0 ||
	    words_grow(&c->which_room, c->rows * pooled, err) != 0)
		return -1;
	float *p = m->scratch.data;
	uint32_t *which = c->which_room.data;
	for (size_t i = 0; i < c->count; i++) {
		const struct conv_layer *l = &c->layer[i];
		c->windows[i] = p;
		p += c->rows * l->in * WINDOW * layer_pixels(l);
		c->pooled[i] = p;
		p += c->rows * l->out * layer_pooled(l);
		c->which[i] = which;
		which += c->rows * l->out * layer_pooled(l);
	}
	c->y = p;
	c->back = p + c->rows * y;
	c->by = p + c->rows * (y + back);
	return 0;
}

static int conv_begin(struct model *m, const struct model_step *s, struct error *err)
{
	struct conv *c = m->own;
	if (!c && !(m->own = c = calloc(1, sizeof *c)))
		return error_set(err, ERROR_OS, "", "out of memory");
	c->count = conv_layers(&m->spec, c->layer);
	c->rows = conv_block(m, s->batch->count);
	c->inputs = c->layer[c->count - 1].out * layer_pooled(&c->layer[c->count - 1]);
	return conv_carve(m, c, err);
}

/* The outputs of layer i. */
static struct planes pooled_planes(const struct conv *c, size_t i, size_t images)
{
	size_t pixels = layer_pooled(&c->layer[i]);
	return i + 1 == c->count ? (struct planes){pixels, c->inputs}
				 : (struct planes){images * pixels, pixels};
}

/* ---- windows ---- */

/* Where the pixels are whose window has an input at place k: pixel p sees input p + shift there,
 * for begin <= p < end, but not in the column `edge` (== width: in all of them). */
struct shift {
	size_t begin, end, edge;
	ptrdiff_t shift;
};

static struct shift shift_of(const struct conv_layer *l, size_t k)
{
	size_t row = k / 3, column = k % 3, pixels = layer_pixels(l);
	ptrdiff_t shift = ((ptrdiff_t)row - 1) * (ptrdiff_t)l->width + (ptrdiff_t)column - 1;
	size_t away = (size_t)(shift < 0 ? -shift : shift);
	away = away < pixels ? away : pixels;
	return (struct shift){.begin = shift < 0 ? away : 0,
			      .end = shift < 0 ? pixels : pixels - away,
			      .edge = column == 0 ? 0 : column == 2 ? l->width - 1 : l->width,
			      .shift = shift};
}

/* What is at the edge is zeros. */
static void clear_edge(const struct conv_layer *l, const struct shift *s, float *plane)
{
	for (size_t p = s->edge; s->edge < l->width && p < layer_pixels(l); p += l->width)
		plane[p] = 0;
}

/* windows[in * 9][images][pixels]: rows (channel, y, x), as in torch.nn.Conv2d. */
static void conv_windows(const struct conv_layer *l, size_t images, const float *x,
			 struct planes at, float *windows)
{
	size_t pixels = layer_pixels(l);
	for (size_t channel = 0; channel < l->in; channel++)
		for (size_t k = 0; k < WINDOW; k++) {
			struct shift s = shift_of(l, k);
			for (size_t i = 0; i < images; i++, windows += pixels) {
				const float *from = x + channel * at.by_channel + i * at.by_image;
				memset(windows, 0, s.begin * sizeof *windows);
				if (s.end > s.begin)
					memcpy(windows + s.begin,
					       from + ((ptrdiff_t)s.begin + s.shift),
					       (s.end - s.begin) * sizeof *windows);
				memset(windows + s.end, 0, (pixels - s.end) * sizeof *windows);
				clear_edge(l, &s, windows);
			}
		}
}

/* The way back: each input collects what comes to it, window by window. It changes `back`. */
static void conv_windows_back(const struct conv_layer *l, size_t images, float *back, float *by,
			      struct planes at)
{
	size_t pixels = layer_pixels(l);
	for (size_t channel = 0; channel < l->in; channel++)
		for (size_t k = 0; k < WINDOW; k++) {
			struct shift s = shift_of(l, k);
			for (size_t i = 0; i < images; i++, back += pixels) {
				float *restrict to = by + channel * at.by_channel + i * at.by_image;
				clear_edge(l, &s, back);
				if (k == 0)
					memset(to, 0, pixels * sizeof *to);
				if (s.begin == s.end)
					continue;
				to += (ptrdiff_t)s.begin + s.shift;
				for (size_t p = 0; p < s.end - s.begin; p++)
					to[p] += back[s.begin + p];
			}
		}
}

/* ---- bias, ReLU and maximum ---- */

/* The maximum first: neither the bias nor the ReLU changes which pixel it is. A NaN is the largest,
 * so that it is not lost. */
static void pool_plane(const struct conv_layer *l, const float *restrict y, float bias,
		       float *restrict to, uint32_t *restrict which)
{
	size_t width = l->width / 2;
	for (size_t row = 0; row < l->height / 2; row++, to += width, which += width) {
		const float *a = y + 2 * row * l->width, *b = a + l->width;
		for (size_t x = 0; x < width; x++) {
			const float four[4] = {a[2 * x], a[2 * x + 1], b[2 * x], b[2 * x + 1]};
			float most = four[0];
			uint32_t best = 0;
			for (uint32_t i = 1; i < 4; i++) {
				int is_more = (four[i] > most) | (four[i] != four[i]);
				most = is_more ? four[i] : most;
				best = is_more ? i : best;
			}
			most += bias;
			to[x] = most < 0 ? 0 : most;
			which[x] = best;
		}
	}
}

/* y = the gradient by it, from the one by `to`; returns the one by the bias. */
static float pool_plane_back(const struct conv_layer *l, const float *restrict to,
			     const float *restrict by, const uint32_t *restrict which,
			     float *restrict y)
{
	size_t width = l->width / 2;
	float sum = 0;
	if (l->height % 2 || l->width % 2) /* what was left over */
		memset(y, 0, layer_pixels(l) * sizeof *y);
	for (size_t row = 0; row < l->height / 2; row++, to += width, by += width, which += width) {
		float *a = y + 2 * row * l->width, *b = a + l->width;
		for (size_t x = 0; x < width; x++) {
			float g = to[x] > 0 ? by[x] : 0;
			sum += g;
			a[2 * x] = which[x] == 0 ? g : 0;
			a[2 * x + 1] = which[x] == 1 ? g : 0;
			b[2 * x] = which[x] == 2 ? g : 0;
			b[2 * x + 1] = which[x] == 3 ? g : 0;
		}
	}
	return sum;
}

/* ---- a block ---- */

static void conv_forward(struct model *m, const struct model_step *s, const struct model_block *k,
			 float *z)
{
	struct conv *c = m->own;
	size_t images = k->batch.count;
	const float *weight = s->dense;
	/* The batch has the planes of an image one behind the other. */
	const float *x = k->batch.dense;
	struct planes at = {layer_pixels(&c->layer[0]), m->spec.dense_inputs};
	for (size_t i = 0; i < c->count; i++) {
		const struct conv_layer *l = &c->layer[i];
		size_t inputs = l->in * WINDOW, pixels = layer_pixels(l), pooled = layer_pooled(l);
		blasint n = (blasint)(images * pixels);
		const float *bias = weight + l->out * inputs;
		conv_windows(l, images, x, at, c->windows[i]);
		m->blas->gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)l->out, n,
			      (blasint)inputs, 1.0f, weight, (blasint)inputs, c->windows[i], n, 0.0f,
			      c->y, n);
		x = c->pooled[i];
		at = pooled_planes(c, i, images);
		for (size_t o = 0; o < l->out; o++)
			for (size_t j = 0; j < images; j++)
				pool_plane(l, c->y + (o * images + j) * pixels, bias[o],
					   c->pooled[i] + o * at.by_channel + j * at.by_image,
					   c->which[i] + (o * images + j) * pooled);
		weight = bias + l->out;
	}
	const float *bias = weight + m->outputs * c->inputs;
	for (size_t j = 0; j < images; j++)
		memcpy(z + j * m->outputs, bias, m->outputs * sizeof *z);
	m->blas->gemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)images, (blasint)m->outputs,
		      (blasint)c->inputs, 1.0f, x, (blasint)c->inputs, weight,
		      (blasint)c->inputs, 1.0f, z, (blasint)m->outputs);
}

/* by: the gradient by the layer's outputs. Leaves the one by its inputs there, but for the first
 * layer, whose inputs learn nothing. at: where its weights begin. */
static void layer_backward(struct model *m, const struct model_step *s, size_t i, size_t images,
			   size_t at)
{
	struct conv *c = m->own;
	const struct conv_layer *l = &c->layer[i];
	size_t pixels = layer_pixels(l), pooled = layer_pooled(l);
	blasint inputs = (blasint)(l->in * WINDOW), n = (blasint)(images * pixels),
		out = (blasint)l->out;
	struct planes planes = pooled_planes(c, i, images);
	float *by_bias = s->dense_gradient + at + l->out * (size_t)inputs;
	for (size_t o = 0; o < l->out; o++)
		for (size_t j = 0; j < images; j++) {
			size_t plane = o * planes.by_channel + j * planes.by_image;
			by_bias[o] += pool_plane_back(l, c->pooled[i] + plane, c->by + plane,
						      c->which[i] + (o * images + j) * pooled,
						      c->y + (o * images + j) * pixels);
		}
	m->blas->gemm(CblasRowMajor, CblasNoTrans, CblasTrans, out, inputs, n, 1.0f, c->y, n,
		      c->windows[i], n, 1.0f, s->dense_gradient + at, inputs);
	if (i == 0)
		return;
	m->blas->gemm(CblasRowMajor, CblasTrans, CblasNoTrans, inputs, n, out, 1.0f, s->dense + at,
		      inputs, c->y, n, 0.0f, c->back, n);
	conv_windows_back(l, images, c->back, c->by, pooled_planes(c, i - 1, images));
}

/* This goes through the dense vector from its end. */
static void conv_backward(struct model *m, const struct model_step *s, const struct model_block *k,
			  float *by_z)
{
	struct conv *c = m->own;
	size_t images = k->batch.count, at = m->dense_count - m->outputs;
	blasint n = (blasint)images, outputs = (blasint)m->outputs, inputs = (blasint)c->inputs;
	for (size_t j = 0; j < images; j++)
		for (size_t o = 0; o < m->outputs; o++)
			s->dense_gradient[at + o] += by_z[j * m->outputs + o];
	at -= m->outputs * c->inputs;
	m->blas->gemm(CblasRowMajor, CblasTrans, CblasNoTrans, outputs, inputs, n, 1.0f, by_z, outputs,
		      c->pooled[c->count - 1], inputs, 1.0f, s->dense_gradient + at, inputs);
	m->blas->gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, inputs, outputs, 1.0f, by_z,
		      outputs, s->dense + at, inputs, 0.0f, c->by, inputs);
	for (size_t i = c->count; i-- > 0;) {
		at -= c->layer[i].out * (c->layer[i].in * WINDOW + 1);
		layer_backward(m, s, i, images, at);
	}
}

const struct model_kind model_conv = {
	.name = "conv",
	.labels = MODEL_CLASS,
	.uses_blas = 1,
	.options = conv_model_options,
	.check = conv_check,
	.layout = conv_layout,
	.begin = conv_begin,
	.block = conv_block,
	.forward = conv_forward,
	.backward = conv_backward,
	.free = conv_free,
};
