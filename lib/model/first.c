/*
 * first: see first.h.  Its result must be that of the plain product, up to rounding, whatever is
 * folded.
 */
#include "model/first.h"

#include "model/fold.h"

#include <stdlib.h>
#include <string.h>

struct first {
	struct first_batch b;
	size_t out, embed, begin, count; /* begin, count: the block */
	struct fold fold;
	/* The plain columns: those that are not folded, and the dense ones. They are inputs of one
	 * product. */
	struct words plain;
	size_t plain_count, plain_in;
	const float *weight; /* weights of the plain columns, [out][plain_in] */
	float *weight_gradient;
	struct pool weight_room, weight_gradient_room, x, by_x;
	const float *inputs; /* of the block: in x, or in the batch */
	/* Of the block; if columns are folded, of all rows. */
	struct pool y, by_y;
};

struct first *first_new(void)
{
	return calloc(1, sizeof(struct first));
}

void first_free(struct first *f)
{
	if (!f)
		return;
	fold_clear(&f->fold);
	free(f->plain.data);
	free(f->weight_room.data);
	free(f->weight_gradient_room.data);
	free(f->x.data);
	free(f->by_x.data);
	free(f->y.data);
	free(f->by_y.data);
	free(f);
}

/* ---- the start of a batch ---- */

static int list_plain(struct first *f, struct error *err)
{
	uint32_t fields = f->b.model->spec.fields;
	size_t next = 0;
	f->plain_count = 0;
	if (words_grow(&f->plain, fields, err) != 0)
		return -1;
	for (uint32_t i = 0; i < fields; i++)
		if (next < f->fold.count && f->fold.columns.data[next] == i)
			next++;
		else
			f->plain.data[f->plain_count++] = i;
	f->plain_in = f->plain_count * f->embed + f->b.model->spec.dense_inputs;
	return 0;
}

/* Puts the plain columns of W side by side, so that one product takes them all. */
static int pack_weight(struct first *f, struct error *err)
{
	const struct model_spec *s = &f->b.model->spec;
	size_t in = first_inputs(s), embed = f->embed, dense = s->dense_inputs;
	if (f->fold.count == 0) {
		f->weight = f->b.weight;
		f->weight_gradient = f->b.weight_gradient;
		return 0;
	}
	if (pool_grow(&f->weight_room, f->out * f->plain_in, err) != 0 ||
	    pool_grow(&f->weight_gradient_room, f->out * f->plain_in, err) != 0)
		return -1;
	float *to = f->weight_room.data;
	for (size_t o = 0; o < f->out; o++) {
		const float *from = f->b.weight + o * in;
		for (size_t i = 0; i < f->plain_count; i++, to += embed)
			memcpy(to, from + f->plain.data[i] * embed, embed * sizeof(float));
		memcpy(to, from + in - dense, dense * sizeof(float));
		to += dense;
	}
	memset(f->weight_gradient_room.data, 0, f->out * f->plain_in * sizeof(float));
	f->weight = f->weight_room.data;
	f->weight_gradient = f->weight_gradient_room.data;
	return 0;
}

int first_begin(struct first *f, const struct first_batch *b, struct error *err)
{
	f->b = *b;
	f->out = b->model->spec.hidden.width[0];
	f->embed = b->model->spec.embed;
	if (fold_begin(&f->fold, b, err) != 0 || list_plain(f, err) != 0 || pack_weight(f, err) != 0)
		return -1;
	size_t rows = f->fold.count > 0 ? b->batch->count : b->block;
	if ((f->plain_count > 0 && pool_grow(&f->x, b->block * f->plain_in, err) != 0) ||
	    pool_grow(&f->by_x, b->block * f->plain_count * f->embed, err) != 0 ||
	    pool_grow(&f->y, rows * f->out, err) != 0 || pool_grow(&f->by_y, rows * f->out, err) != 0)
		return -1;
	if (f->fold.count > 0)
		fold_forward(&f->fold, f->y.data);
	return 0;
}

/* ---- a block ---- */

void first_gather(const struct first_places *p, const struct model_batch *b, const float *rows,
		  float *x)
{
	for (size_t i = 0; i < b->count; i++, x += p->by_sample) {
		const uint32_t *index = b->index + b->offset[i];
		for (size_t j = 0; j < p->count; j++) {
			size_t at = index[p->columns ? p->columns[j] : j];
			const float *from = rows + (at + 1) * p->width - p->embed;
			float *restrict to = x + j * p->by_column;
			for (size_t e = 0; e < p->embed; e++)
				to[e] = p->gain * from[e];
		}
		if (p->dense > 0)
			memcpy(x + p->count * p->embed, b->dense + i * p->dense,
			       p->dense * sizeof(float));
	}
}

void first_scatter(const struct first_places *p, const struct model_batch *b, const float *by_x,
		   float *row_gradient)
{
	for (size_t i = 0; i < b->count; i++, by_x += p->by_sample) {
		const uint32_t *index = b->index + b->offset[i];
		for (size_t j = 0; j < p->count; j++) {
			size_t at = index[p->columns ? p->columns[j] : j];
			const float *from = by_x + j * p->by_column;
			float *restrict to = row_gradient + (at + 1) * p->width - p->embed;
			for (size_t e = 0; e < p->embed; e++)
				to[e] += p->gain * from[e];
		}
	}
}

/* The rows of the block, and where their plain inputs lie. */
static struct model_batch first_block(const struct first *f)
{
	struct model_batch b = *f->b.batch;
	b.count = f->count;
	b.offset += f->begin;
	b.dense = b.dense ? b.dense + f->begin * f->b.model->spec.dense_inputs : NULL;
	return b;
}

static struct first_places plain_places(const struct first *f, size_t by_sample)
{
	return (struct first_places){.columns = f->plain.data,
				     .count = f->plain_count,
				     .width = f->b.model->width,
				     .embed = f->embed,
				     .dense = f->b.model->spec.dense_inputs,
				     .by_sample = by_sample,
				     .by_column = f->embed,
				     .gain = f->b.gain};
}

static float *of_block(const struct first *f, const struct pool *p)
{
	return p->data + (f->fold.count > 0 ? f->begin * f->out : 0);
}

float *first_forward(struct first *f, size_t begin, size_t count)
{
	blasint out = (blasint)f->out, in = (blasint)f->plain_in;
	f->begin = begin;
	f->count = count;
	float *y = of_block(f, &f->y);
	if (in == 0)
		return y;
	struct model_batch block = first_block(f);
	f->inputs = block.dense;
	if (f->plain_count > 0) { /* dense columns alone lie there as they are needed */
		struct first_places places = plain_places(f, f->plain_in);
		first_gather(&places, &block, f->b.rows, f->x.data);
		f->inputs = f->x.data;
	}
	f->b.model->blas->gemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)count, out, in,
			       f->b.gain, f->inputs, in, f->weight, in,
			       f->fold.count > 0 ? 1.0f : 0.0f, y, out);
	return y;
}

float *first_by_y(const struct first *f)
{
	return of_block(f, &f->by_y);
}

void first_backward(struct first *f)
{
	const float *by_y = first_by_y(f);
	blasint n = (blasint)f->count, out = (blasint)f->out, in = (blasint)f->plain_in;
	blasint learnt = (blasint)(f->plain_count * f->embed); /* dense columns get no gradient */
	const struct model_blas *blas = f->b.model->blas;
	if (in > 0)
		blas->gemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, n, f->b.gain, by_y, out,
			   f->inputs, in, 1.0f, f->weight_gradient, in);
	if (learnt > 0) {
		blas->gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, learnt, out, f->b.gain, by_y,
			   out, f->weight, in, 0.0f, f->by_x.data, learnt);
		struct model_batch block = first_block(f);
		struct first_places places = plain_places(f, (size_t)learnt);
		first_scatter(&places, &block, f->by_x.data, f->b.row_gradient);
	}
}

/* ---- the end of a batch ---- */

static void unpack_gradient(struct first *f)
{
	const struct model_spec *s = &f->b.model->spec;
	size_t in = first_inputs(s), embed = f->embed, dense = s->dense_inputs;
	const float *from = f->weight_gradient;
	for (size_t o = 0; o < f->out; o++) {
		float *to = f->b.weight_gradient + o * in;
		for (size_t i = 0; i < f->plain_count; i++, from += embed)
			for (size_t e = 0; e < embed; e++)
				to[f->plain.data[i] * embed + e] += from[e];
		for (size_t d = 0; d < dense; d++)
			to[in - dense + d] += *from++;
	}
}

void first_end(struct first *f)
{
	if (f->fold.count == 0)
		return;
	unpack_gradient(f);
	fold_backward(&f->fold, f->by_y.data);
}
