/*
 * xdeepfm: xDeepFM (Lian et al., 2018, arXiv:1803.05170).  Beside wide and deep (deep.h) there is a
 * compressed interaction network (CIN).  Its maps are vectors of `embed` elements.  The first maps,
 * x[0], are the embeddings; map o of layer k is
 *   x[k][o] = sum over h, j of weight[k][o][h fields + j] * (x[k-1][h] * x[0][j])
 * where vectors are multiplied element by element.  The sum of each map's elements has a weight in
 * the output.  There is no activation, and all maps of a layer go on, which the paper found best.
 *
 * Without an activation, most of that need not be computed.  The maps of the last layer meet only
 * in the output, so one map does, whose weights `last` are the sum of theirs times the output's.
 * And the products of the first layer are the same for (h, j) and (j, h): its weights are added up
 * in pairs.  A batch of 39 fields and two layers of 64 maps takes a fifth of the products then.
 *
 * A block is computed by products of matrices that have a column for each element of each sample.
 */
#include "model/deep.h"
#include "model/first.h"
#include "model/own.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_COLUMNS 512 /* they stay in the cache, with SLICE_ROWS products of each */
#define BLOCK_ROWS_MIN 16  /* of samples: layers of fewer are slow */
#define SLICE_ROWS 256
#define CIN_MAX 1024

static const struct model_option xdeepfm_options[] = {
	MODEL_OPTION_EMBED("16"),
	MODEL_OPTION_HIDDEN,
	{"cin", MODEL_WIDTHS, MODEL_OWN(struct xdeepfm_options, cin), "64-64", 1, CIN_MAX, NULL,
	 "maps of the layers of the interaction network"},
	{0},
};

static const struct model_widths *cin_widths(const struct model_spec *s)
{
	return &((const struct xdeepfm_options *)model_own(s))->cin;
}

/* Maps of x[k]. */
static size_t cin_maps(const struct model_spec *s, size_t k)
{
	return k == 0 ? s->fields : cin_widths(s)->width[k - 1];
}

static int xdeepfm_layout(const struct model_spec *s, struct layout *l, struct error *err)
{
	uint64_t all = 0;
	if (model_wide_layout(s, l, err) != 0)
		return -1;
	for (size_t k = 1; k <= cin_widths(s)->count; k++) {
		char name[32];
		uint64_t in = (uint64_t)cin_maps(s, k - 1) * s->fields;
		snprintf(name, sizeof name, "cin%zu.weight", k);
		if (layout_add_tensor(l, name, cin_maps(s, k), in, LAYOUT_NORMAL,
				      1 / sqrt((double)in), LAYOUT_OPTIMIZER, err) != 0)
			return -1;
		all += cin_maps(s, k);
	}
	if (layout_add_tensor(l, "cin.weight", 1, all, LAYOUT_NORMAL,
			      MODEL_OUTPUT_SCALE / sqrt((double)all), LAYOUT_OPTIMIZER, err) != 0)
		return -1;
	return deep_layout_end(s, l, err);
}

/* ---- where all is ---- */

/* Matrices of a block have a row for each map or product, `stride` floats long. */
struct cin {
	size_t layers, fields, embed, stride;
	size_t high;     /* maps that go into the last layer */
	size_t products; /* rows of a slice */
	size_t pairs_floats, floats;
	size_t weight[MODEL_WIDTHS_MAX], output[MODEL_WIDTHS_MAX]; /* in dense vectors */
	float *x[MODEL_WIDTHS_MAX];  /* x[0] ..; the last layer's are not computed */
	float *by[MODEL_WIDTHS_MAX]; /* gradients by them */
	float *slice;                /* some products, or gradients by them */
	float *line;                 /* a number for each column */
	float *last, *by_last;       /* [high][fields] */
	float *pairs, *by_pairs;     /* the first layer's weights, added up, if it is not the last */
};

/* Pairs (h, j) with h <= j whose first one is below `high`. */
static size_t pairs_below(size_t fields, size_t high)
{
	return high * (2 * fields - high + 1) / 2;
}

static size_t pairs_count(size_t fields)
{
	return pairs_below(fields, fields);
}

static size_t cin_rows(const struct model_spec *s)
{
	size_t rows = BLOCK_COLUMNS / s->embed;
	return rows > BLOCK_ROWS_MIN ? rows : BLOCK_ROWS_MIN;
}

static struct cin cin_sizes(const struct model_spec *s)
{
	size_t layers = cin_widths(s)->count, at = 1 + s->dense_inputs, maps = 0;
	struct cin c = {.layers = layers,
			.fields = s->fields,
			.embed = s->embed,
			.stride = cin_rows(s) * s->embed,
			.high = cin_maps(s, layers - 1),
			.products = SLICE_ROWS};
	c.products = c.products > c.fields ? c.products : c.fields;
	c.products = c.products > c.high ? c.products : c.high;
	c.pairs_floats = layers > 1 ? cin_maps(s, 1) * pairs_count(c.fields) : 0;
	for (size_t k = 0; k < layers; at += cin_maps(s, k + 1) * cin_maps(s, k) * c.fields, k++) {
		c.weight[k] = at;
		maps += cin_maps(s, k);
	}
	for (size_t k = 0; k < layers; at += cin_maps(s, k + 1), k++)
		c.output[k] = at;
	c.floats = (2 * maps + c.products + 1) * c.stride +
		   2 * (c.high * c.fields + c.pairs_floats);
	return c;
}

static uint64_t xdeepfm_scratch(const struct model_spec *s)
{
	return deep_scratch(s) + cin_sizes(s).floats;
}

static float *cin_take(float **at, size_t count)
{
	float *taken = *at;
	*at += count;
	return taken;
}

/* After xdeepfm_begin(). */
static struct cin cin_of(const struct model *m)
{
	struct cin c = cin_sizes(&m->spec);
	float *p = m->scratch.data;
	for (size_t k = 0; k < c.layers; k++) {
		c.x[k] = cin_take(&p, cin_maps(&m->spec, k) * c.stride);
		c.by[k] = cin_take(&p, cin_maps(&m->spec, k) * c.stride);
	}
	c.slice = cin_take(&p, c.products * c.stride);
	c.line = cin_take(&p, c.stride);
	c.last = cin_take(&p, c.high * c.fields);
	c.by_last = cin_take(&p, c.high * c.fields);
	c.pairs = cin_take(&p, c.pairs_floats);
	c.by_pairs = cin_take(&p, c.pairs_floats);
	return c;
}

static struct first_places cin_places(const struct cin *c)
{
	return (struct first_places){.count = c->fields,
				     .width = 1 + c->embed,
				     .embed = c->embed,
				     .by_sample = c->embed,
				     .by_column = c->stride,
				     .gain = DEEP_GAIN};
}

static size_t xdeepfm_block(const struct model *m, size_t left)
{
	size_t rows = deep_block(m, left), most = cin_rows(&m->spec);
	return rows < most ? rows : most;
}

/* ---- layers that are computed ---- */

struct cin_layer {
	size_t high, out;
	int is_first;
	size_t products; /* of which each output has a weight */
	const float *weight;
	float *by_weight, *x, *by_x, *next, *by_next;
};

/* The one from x[k] to x[k + 1]. */
static struct cin_layer cin_layer(const struct model *m, const struct model_step *s,
				  const struct cin *c, size_t k)
{
	size_t high = cin_maps(&m->spec, k);
	int is_first = k == 0;
	return (struct cin_layer){
		.high = high,
		.out = cin_maps(&m->spec, k + 1),
		.is_first = is_first,
		.products = is_first ? pairs_count(high) : high * c->fields,
		.weight = is_first ? c->pairs : s->dense + c->weight[k],
		.by_weight = !s->dense_gradient ? NULL
			     : is_first		? c->by_pairs
						: s->dense_gradient + c->weight[k],
		.x = c->x[k],
		.by_x = c->by[k],
		.next = c->x[k + 1],
		.by_next = c->by[k + 1]};
}

/* The products of map h are those with x[0][cin_from()] and those behind it; before them there are
 * cin_before() others. */
static size_t cin_from(const struct cin_layer *l, size_t h)
{
	return l->is_first ? h : 0;
}

static size_t cin_before(const struct cin *c, const struct cin_layer *l, size_t h)
{
	return l->is_first ? pairs_below(c->fields, h) : h * c->fields;
}

/* Products are computed in slices, of the maps from h to the one that is returned. */
static size_t cin_slice_end(const struct cin *c, const struct cin_layer *l, size_t h)
{
	size_t begin = cin_before(c, l, h), end = h + 1;
	while (end < l->high && cin_before(c, l, end + 1) - begin <= SLICE_ROWS)
		end++;
	return end;
}

static void cin_products(const struct cin *c, const struct cin_layer *l, size_t begin, size_t end,
			 size_t columns)
{
	float *restrict to = c->slice;
	for (size_t h = begin; h < end; h++)
		for (size_t j = cin_from(l, h); j < c->fields; j++, to += c->stride) {
			const float *a = l->x + h * c->stride, *b = c->x[0] + j * c->stride;
			for (size_t r = 0; r < columns; r++)
				to[r] = a[r] * b[r];
		}
}

static void cin_forward(const struct model *m, const struct cin *c, const struct cin_layer *l,
			size_t columns)
{
	for (size_t h = 0, end; h < l->high; h = end) {
		end = cin_slice_end(c, l, h);
		size_t at = cin_before(c, l, h), count = cin_before(c, l, end) - at;
		cin_products(c, l, h, end, columns);
		m->blas->gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)l->out,
			      (blasint)columns, (blasint)count, 1, l->weight + at,
			      (blasint)l->products, c->slice, (blasint)c->stride, h > 0 ? 1 : 0,
			      l->next, (blasint)c->stride);
	}
}

/* to += a o b */
static void cin_add_product(float *restrict to, const float *restrict a, const float *restrict b,
			    size_t columns)
{
	for (size_t r = 0; r < columns; r++)
		to[r] += a[r] * b[r];
}

/* by_x and by[0] are added to; they may be the same. */
static void cin_backward(const struct model *m, const struct cin *c, const struct cin_layer *l,
			 size_t columns)
{
	for (size_t h = 0, end; h < l->high; h = end) {
		end = cin_slice_end(c, l, h);
		size_t at = cin_before(c, l, h), count = cin_before(c, l, end) - at;
		cin_products(c, l, h, end, columns);
		m->blas->gemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)l->out,
			      (blasint)count, (blasint)columns, 1, l->by_next, (blasint)c->stride,
			      c->slice, (blasint)c->stride, 1, l->by_weight + at,
			      (blasint)l->products);
		m->blas->gemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)count,
			      (blasint)columns, (blasint)l->out, 1, l->weight + at,
			      (blasint)l->products, l->by_next, (blasint)c->stride, 0, c->slice,
			      (blasint)c->stride);
		const float *by = c->slice;
		for (size_t i = h; i < end; i++)
			for (size_t j = cin_from(l, i); j < c->fields; j++, by += c->stride) {
				size_t a = i * c->stride, b = j * c->stride;
				cin_add_product(l->by_x + a, by, c->x[0] + b, columns);
				cin_add_product(c->by[0] + b, by, l->x + a, columns);
			}
	}
}

/* ---- the last layer, and the output ---- */

/* Adds to z. by[layers - 1] becomes the gradient of z by x[layers - 1]. */
static void cin_output(const struct model *m, const struct model_step *s, const struct cin *c,
		       size_t n, float *z)
{
	size_t top = c->layers - 1, columns = n * c->embed;
	const float *weight = top > 0 ? s->dense + c->output[top - 1] : NULL;
	float *x = c->x[top], *by = c->by[top];
	m->blas->gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)c->high, (blasint)columns,
		      (blasint)c->fields, 1, c->last, (blasint)c->fields, c->x[0],
		      (blasint)c->stride, 0, by, (blasint)c->stride);
	memset(c->line, 0, columns * sizeof(float));
	for (size_t h = 0; h < c->high; h++, x += c->stride, by += c->stride) {
		for (size_t r = 0; weight && r < columns; r++)
			by[r] += weight[h];
		cin_add_product(c->line, x, by, columns);
	}
	for (size_t k = 1; k < top; k++)
		m->blas->gemv(CblasRowMajor, CblasTrans, (blasint)cin_maps(&m->spec, k),
			      (blasint)columns, 1, c->x[k], (blasint)c->stride,
			      s->dense + c->output[k - 1], 1, 1, c->line, 1);
	for (size_t i = 0; i < n; i++)
		for (size_t e = 0; e < c->embed; e++)
			z[i] += c->line[i * c->embed + e];
}

/* Begins all by[k] but those between the first and the last. */
static void cin_output_back(const struct model *m, const struct model_step *s, const struct cin *c,
			    size_t n, const float *by_z)
{
	size_t top = c->layers - 1, columns = n * c->embed;
	for (size_t r = 0; r < columns; r++)
		c->line[r] = by_z[r / c->embed];
	for (size_t h = 0; h < c->high; h++)
		for (size_t r = 0, at = h * c->stride; r < columns; r++, at++) {
			c->slice[at] = c->x[top][at] * c->line[r];
			c->by[top][at] *= c->line[r];
		}
	m->blas->gemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)c->high, (blasint)c->fields,
		      (blasint)columns, 1, c->slice, (blasint)c->stride, c->x[0],
		      (blasint)c->stride, 1, c->by_last, (blasint)c->fields);
	m->blas->gemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)c->fields, (blasint)columns,
		      (blasint)c->high, 1, c->last, (blasint)c->fields, c->slice,
		      (blasint)c->stride, top > 0 ? 0 : 1, c->by[0], (blasint)c->stride);
	for (size_t k = 1; k <= top; k++)
		m->blas->gemv(CblasRowMajor, CblasNoTrans, (blasint)cin_maps(&m->spec, k),
			      (blasint)columns, 1, c->x[k], (blasint)c->stride, c->line, 1, 1,
			      s->dense_gradient + c->output[k - 1], 1);
	for (size_t k = 1; k < top; k++)
		for (size_t h = 0; h < cin_maps(&m->spec, k); h++)
			for (size_t r = 0; r < columns; r++)
				c->by[k][h * c->stride + r] =
					s->dense[c->output[k - 1] + h] * c->line[r];
}

/* ---- the model ---- */

/* Of the first layer, [out][fields][fields]: adds its weights to those of the pairs or, if there are
 * none, the gradients by the pairs to those by its weights. */
static void cin_pairs(const struct cin *c, size_t out, const float *weight, float *gradient)
{
	float *pairs = weight ? c->pairs : c->by_pairs;
	size_t i = 0;
	for (size_t o = 0; o < out; o++, pairs += pairs_count(c->fields))
		for (size_t h = 0; h < c->fields; h++)
			for (size_t j = 0; j < c->fields; j++, i++) {
				size_t pair = h < j ? pairs_below(c->fields, h) + j - h
						    : pairs_below(c->fields, j) + h - j;
				if (weight)
					pairs[pair] += weight[i];
				else
					gradient[i] += pairs[pair];
			}
}

static int xdeepfm_begin(struct model *m, const struct model_step *s, struct error *err)
{
	if (deep_begin(m, s, err) != 0 ||
	    pool_grow(&m->scratch, cin_sizes(&m->spec).floats, err) != 0)
		return -1;
	struct cin c = cin_of(m);
	size_t top = c.layers - 1, in = c.high * c.fields;
	m->blas->gemv(CblasRowMajor, CblasTrans, (blasint)cin_maps(&m->spec, top + 1), (blasint)in, 1,
		      s->dense + c.weight[top], (blasint)in, s->dense + c.output[top], 1, 0, c.last,
		      1);
	memset(c.by_last, 0, in * sizeof(float));
	memset(c.pairs, 0, 2 * c.pairs_floats * sizeof(float)); /* by_pairs lies behind it */
	if (top > 0)
		cin_pairs(&c, cin_maps(&m->spec, 1), s->dense + c.weight[0], NULL);
	return 0;
}

static void xdeepfm_forward(struct model *m, const struct model_step *s,
			    const struct model_block *k, float *z)
{
	struct cin c = cin_of(m);
	size_t n = k->batch.count;
	model_wide_forward(m, &k->batch, s->dense, s->rows, z);
	deep_forward(m, s, k, z);
	struct first_places places = cin_places(&c);
	first_gather(&places, &k->batch, s->rows, c.x[0]);
	for (size_t i = 0; i + 1 < c.layers; i++) {
		struct cin_layer l = cin_layer(m, s, &c, i);
		cin_forward(m, &c, &l, n * c.embed);
	}
	cin_output(m, s, &c, n, z);
}

static void xdeepfm_backward(struct model *m, const struct model_step *s,
			     const struct model_block *k, float *by)
{
	struct cin c = cin_of(m);
	size_t n = k->batch.count;
	model_wide_backward(m, &k->batch, by, s->dense_gradient, s->row_gradient);
	cin_output_back(m, s, &c, n, by);
	for (size_t i = c.layers - 1; i-- > 0;) {
		struct cin_layer l = cin_layer(m, s, &c, i);
		cin_backward(m, &c, &l, n * c.embed);
	}
	struct first_places places = cin_places(&c);
	first_scatter(&places, &k->batch, c.by[0], s->row_gradient);
	deep_backward(m, s, k, by);
}

static void xdeepfm_end(struct model *m, const struct model_step *s)
{
	struct cin c = cin_of(m);
	deep_end(m, s);
	size_t top = c.layers - 1, in = c.high * c.fields, out = cin_maps(&m->spec, top + 1);
	const float *weight = s->dense + c.weight[top];
	for (size_t o = 0; o < out; o++) {
		float *by = s->dense_gradient + c.weight[top] + o * in;
		float of_output = s->dense[c.output[top] + o], sum = 0;
		for (size_t i = 0; i < in; i++) {
			by[i] += of_output * c.by_last[i];
			sum += weight[o * in + i] * c.by_last[i];
		}
		s->dense_gradient[c.output[top] + o] += sum;
	}
	if (top > 0)
		cin_pairs(&c, cin_maps(&m->spec, 1), NULL, s->dense_gradient + c.weight[0]);
}

const struct model_kind model_xdeepfm = {
	.name = "xdeepfm",
	.labels = MODEL_BINARY,
	.uses_blas = 1,
	.options = xdeepfm_options,
	.check = model_check_fields,
	.layout = xdeepfm_layout,
	.scratch = xdeepfm_scratch,
	.begin = xdeepfm_begin,
	.block = xdeepfm_block,
	.forward = xdeepfm_forward,
	.backward = xdeepfm_backward,
	.end = xdeepfm_end,
	.free = deep_free,
};
