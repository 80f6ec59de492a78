/*
 * wdl: wide & deep.  The wide part is lr's.  The deep part is a few matrix products by OpenBLAS,
 * which take all the time.  The batch is computed in blocks of rows that stay in the cache, with
 * all their activations.
 *
 * The dense vector has bias, dense.weight, then for each layer its weight [out][in] (as in
 * torch.nn.Linear) and bias, then output.weight [1][in].  The input of the first layer is the
 * embeddings of all fields in order, then the dense columns.
 *
 * Embeddings, weights and biases of the deep part are multiplied by WDL_GAIN where they are used,
 * and stored 1/WDL_GAIN times as large.  Adagrad and Adam move a parameter by about the learning
 * rate, whatever its scale; so in effect the steps of the deep part are WDL_GAIN times as large.
 * Then one learning rate suits both parts: on census data (24,000 rows, six epochs, batch 256, lr
 * 0.05) the AUC's deviation between seeds falls from 0.0011 to 0.0006, with the mean 0.001 lower,
 * and the worst of some hundred seeds rises.
 */
#include "model/first.h"
#include "model/kind.h"

#include <cblas.h>
#include <string.h>

#define BLOCK_ROWS 512
/* Rows of the last block, if gradients are sent while they are computed. Only this block makes them
 * final, so its computation has to last as long as sending them. If that matters, the model's
 * layers are too large for the cache in any case. */
#define LAST_ROWS 2048
#define LAST_FLOATS_MIN ((uint64_t)1 << 20)

/* A gradient that becomes final is told in pieces of so many floats. But a piece has at least so
 * many outputs, as a product with few rows is slow. */
#define FINAL_FLOATS ((size_t)1 << 18)
#define FINAL_OUTPUTS_MIN 64

/* One block of rows with its activations, carved from the model's scratch memory. */
struct block {
	struct model_batch batch;
	size_t begin;                   /* its first row in the batch */
	float *z;                       /* [rows] */
	/* Outputs of the layers; the first layer's are in first.h. */
	float *layer[MODEL_HIDDEN_MAX];
	float *back[2];                 /* gradients by the outputs of the others, taking turns */
};

static int block_carve(struct model *m, struct block *k, size_t rows, struct error *err)
{
	const struct model_spec *s = &m->spec;
	size_t widest = 0, floats = rows;
	for (uint32_t i = 1; i < s->hidden_count; i++) {
		floats += rows * s->hidden[i];
		widest = widest > s->hidden[i] ? widest : s->hidden[i];
	}
	if (pool_grow(&m->scratch, floats + 2 * rows * widest, err) != 0)
		return -1;
	float *p = m->scratch.data;
	k->z = p;
	p += rows;
	for (uint32_t i = 1; i < s->hidden_count; i++) {
		k->layer[i] = p;
		p += rows * s->hidden[i];
	}
	k->back[0] = p;
	k->back[1] = p + rows * widest;
	return 0;
}

/* Begins the first layer for a batch; gradients NULL: forward only. */
static int begin_first(struct model *m, const struct model_batch *b, size_t block,
		       const float *dense, const float *rows, float *dense_gradient,
		       float *row_gradient, struct error *err)
{
	size_t at = model_wide_count(&m->spec);
	struct first_batch first = {.spec = &m->spec,
				    .batch = b,
				    .rows = rows,
				    .weight = dense + at,
				    .gain = WDL_GAIN,
				    .block = block,
				    .weight_gradient = dense_gradient ? dense_gradient + at : NULL,
				    .row_gradient = row_gradient};
	if (!m->own && !(m->own = first_new()))
		return error_set(err, ERROR_OS, "", "out of memory");
	return first_begin(m->own, &first, err);
}

static void wdl_block_take(struct block *k, const struct model_spec *s, const struct model_batch *b,
			   size_t begin, size_t count)
{
	k->begin = begin;
	k->batch = *b;
	k->batch.count = count;
	k->batch.offset += begin;
	k->batch.label = b->label ? b->label + begin : NULL;
	k->batch.weight = b->weight ? b->weight + begin : NULL;
	k->batch.dense = b->dense ? b->dense + begin * s->dense_inputs : NULL;
}

static void add_bias_relu(float *restrict y, const float *restrict bias, size_t rows, size_t out)
{
	for (size_t i = 0; i < rows; i++, y += out)
		for (size_t j = 0; j < out; j++) {
			float v = y[j] + WDL_GAIN * bias[j];
			y[j] = v < 0.0f ? 0.0f : v; /* NaN stays */
		}
}

/* Sets to 0 in by[][] what the ReLU did not let through, and adds its column sums to bias. */
static void relu_back(float *restrict by, const float *restrict y, float *restrict bias,
		      size_t rows, size_t out)
{
	for (size_t i = 0; i < rows; i++, y += out, by += out)
		for (size_t j = 0; j < out; j++) {
			float g = y[j] > 0.0f ? by[j] : 0.0f;
			by[j] = g;
			bias[j] += WDL_GAIN * g;
		}
}

static void forward(struct block *k, struct model *m, const float *dense, const float *rows)
{
	const struct model_spec *s = &m->spec;
	blasint n = (blasint)k->batch.count, in = 0;
	const float *p = dense + model_wide_count(s);
	model_wide_forward(s, &k->batch, dense, rows, 1 + s->embed, k->z);
	for (uint32_t i = 0; i < s->hidden_count; i++) {
		blasint out = (blasint)s->hidden[i];
		if (i == 0)
			k->layer[0] = first_forward(m->own, k->begin, (size_t)n);
		else
			cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, out, in, WDL_GAIN,
				    k->layer[i - 1], in, p, in, 0.0f, k->layer[i], out);
		p += (size_t)out * (i ? (size_t)in : wdl_inputs(s));
		add_bias_relu(k->layer[i], p, (size_t)n, (size_t)out);
		p += out;
		in = out;
	}
	cblas_sgemv(CblasRowMajor, CblasNoTrans, n, in, WDL_GAIN, k->layer[s->hidden_count - 1], in, p,
		    1, 1.0f, k->z, 1);
}

static void tell_final(const struct model *m, size_t begin, size_t count)
{
	m->final(m->final_owner, begin, count);
}

/* Adds the gradient by a layer's weights [out][in]. x: the layer's input; by: the gradient by its
 * output. */
static void weight_backward(blasint n, blasint out, blasint in, const float *by, blasint by_width,
			    const float *x, float *gradient)
{
	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, n, WDL_GAIN, by, by_width, x, in,
		    1.0f, gradient, in);
}

/* The same if final gradients are told; `behind` more floats after these weights are final, too. It
 * goes in pieces, so that the first of a large layer are sent while the others are computed. */
static void weight_backward_told(const struct model *m, blasint n, blasint out, blasint in,
				 const float *by, const float *x, float *gradient, size_t at,
				 size_t behind)
{
	blasint piece = (blasint)(FINAL_FLOATS / (size_t)in);
	piece = piece < FINAL_OUTPUTS_MIN ? FINAL_OUTPUTS_MIN : piece;
	for (blasint end = out, begin; end > 0; end = begin) {
		begin = end > piece + piece / 2 ? end - piece : 0;
		size_t first = (size_t)begin * (size_t)in, count = (size_t)(end - begin) * (size_t)in;
		weight_backward(n, end - begin, in, by + begin, out, x, gradient + first);
		tell_final(m, at + first, count + behind);
		behind = 0;
	}
}

/* k->z has the gradient by the logits. This goes through the dense vector from its end. */
static void backward(struct block *k, struct model *m, const float *dense, float *dense_gradient,
		     float *row_gradient, int is_last)
{
	const struct model_spec *s = &m->spec;
	blasint n = (blasint)k->batch.count;
	uint32_t last = s->hidden_count - 1;
	blasint out = (blasint)s->hidden[last];
	size_t at = model_dense_count(s) - (size_t)out;
	model_wide_backward(s, &k->batch, k->z, 1 + s->embed, dense_gradient, row_gradient);
	cblas_sgemv(CblasRowMajor, CblasTrans, n, out, WDL_GAIN, k->layer[last], out, k->z, 1, 1.0f,
		    dense_gradient + at, 1);
	size_t told = model_dense_count(s); /* from here on gradients are final */
	float *by = last > 0 ? k->back[0] : first_by_y(m->own);
	for (size_t i = 0; i < (size_t)n; i++)
		for (size_t j = 0; j < (size_t)out; j++)
			by[i * (size_t)out + j] = WDL_GAIN * k->z[i] * dense[at + j];
	for (uint32_t i = last; i > 0; i--) {
		blasint in = (blasint)s->hidden[i - 1];
		float *next = i == 1		   ? first_by_y(m->own)
			      : by == k->back[0] ? k->back[1]
						 : k->back[0];
		at -= (size_t)out;
		relu_back(by, k->layer[i], dense_gradient + at, (size_t)n, (size_t)out);
		at -= (size_t)out * (size_t)in;
		if (m->final && is_last) {
			size_t weights = (size_t)out * (size_t)in;
			weight_backward_told(m, n, out, in, by, k->layer[i - 1],
					     dense_gradient + at, at, told - at - weights);
			told = at;
		} else {
			weight_backward(n, out, in, by, out, k->layer[i - 1], dense_gradient + at);
		}
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, in, out, WDL_GAIN, by, out,
			    dense + at, in, 0.0f, next, in);
		by = next;
		out = in;
	}
	at -= (size_t)out;
	relu_back(by, k->layer[0], dense_gradient + at, (size_t)n, (size_t)out);
	first_backward(m->own);
}

static size_t wdl_least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* How many rows the last block has. */
static size_t last_rows(const struct model *m, size_t rows)
{
	if (m->final && model_dense_count(&m->spec) >= LAST_FLOATS_MIN)
		return wdl_least(rows, LAST_ROWS);
	return (rows + BLOCK_ROWS - 1) % BLOCK_ROWS + 1;
}

static int wdl_train(struct model *m, const struct model_batch *b, const float *dense,
		     const float *rows, float *dense_gradient, float *row_gradient,
		     double *loss_sum, struct error *err)
{
	struct block k;
	size_t last = last_rows(m, b->count), most = last > BLOCK_ROWS ? last : BLOCK_ROWS, count;
	if (block_carve(m, &k, most, err) != 0 ||
	    begin_first(m, b, most, dense, rows, dense_gradient, row_gradient, err) != 0)
		return -1;
	for (size_t begin = 0; begin < b->count; begin += count) {
		size_t left = b->count - begin;
		count = left <= last ? left : wdl_least(left - last, BLOCK_ROWS);
		wdl_block_take(&k, &m->spec, b, begin, count);
		forward(&k, m, dense, rows);
		*loss_sum +=
			model_logistic(k.batch.count, k.z, k.batch.label, k.batch.weight, k.z);
		backward(&k, m, dense, dense_gradient, row_gradient,
			 begin + count == b->count);
	}
	first_end(m->own);
	return 0;
}

static int wdl_logits(struct model *m, const struct model_batch *b, const float *dense,
		      const float *rows, float *score, struct error *err)
{
	struct block k;
	if (block_carve(m, &k, BLOCK_ROWS, err) != 0 ||
	    begin_first(m, b, BLOCK_ROWS, dense, rows, NULL, NULL, err) != 0)
		return -1;
	for (size_t begin = 0; begin < b->count; begin += BLOCK_ROWS) {
		wdl_block_take(&k, &m->spec, b, begin, wdl_least(b->count - begin, BLOCK_ROWS));
		forward(&k, m, dense, rows);
		memcpy(score + begin, k.z, k.batch.count * sizeof(float));
	}
	return 0;
}

static void wdl_free(struct model *m)
{
	first_free(m->own);
}

const struct model_kind model_wdl = {
	.name = "wdl",
	.train = wdl_train,
	.logits = wdl_logits,
	.free = wdl_free,
};
