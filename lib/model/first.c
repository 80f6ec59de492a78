/*
 * first: see first.h.  Must give what the plain product gives, up to rounding, whatever is folded.
 */
#include "model/first.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

/* A batch smaller than this is not worth the counting; a column is folded when its rows are at
 * least so many times its categories. */
#define FOLD_ROWS_MIN 512
#define FOLD_RATIO 8

struct pool {
	float *data;
	size_t room;
};

struct words {
	uint32_t *data;
	size_t room;
};

struct first {
	struct first_batch b;
	size_t out, embed, begin, count; /* begin, count: the block */
	/* Columns that are not folded, and the dense ones: inputs of the plain product. */
	struct words plain;
	size_t plain_count, plain_in;
	const float *weight; /* theirs, [out][plain_in] */
	float *weight_gradient;
	struct pool weight_room, weight_gradient_room, x, by_x;
	/* Folded columns: category c of column j is number base[j] + c among all of them; row i has
	 * category slot[j * rows + i]. */
	struct words folded, base, slot, key;
	size_t folded_count;
	struct pool embedding, by_embedding, product, sum;
	struct words stamp, local; /* while categories are counted */
};

struct first *first_new(void)
{
	return calloc(1, sizeof(struct first));
}

void first_free(struct first *f)
{
	if (!f)
		return;
	struct pool *pools[] = {&f->weight_room, &f->weight_gradient_room, &f->x, &f->by_x,
				&f->embedding,	 &f->by_embedding, &f->product, &f->sum};
	struct words *words[] = {&f->plain, &f->folded, &f->base, &f->slot,
				 &f->key,   &f->stamp,	&f->local};
	for (size_t i = 0; i < sizeof(pools) / sizeof(*pools); i++)
		free(pools[i]->data);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		free(words[i]->data);
	free(f);
}

static int grow(void *data, size_t *room, size_t count, struct error *err)
{
	void **p = data;
	size_t bytes;
	if (count <= *room && *p)
		return 0;
	if (__builtin_mul_overflow(count + 16, (size_t)4, &bytes) || bytes > SIZE_MAX - 64)
		return error_set(err, ERROR_OS, "", "a batch too large for memory");
	bytes = (bytes + 63) / 64 * 64;
	free(*p);
	*room = 0;
	*p = aligned_alloc(64, bytes);
	if (!*p)
		return error_set(err, ERROR_OS, "", "no memory for %zu bytes of activations",
				 bytes);
	*room = bytes / 4;
	return 0;
}

static int grow_pool(struct pool *p, size_t count, struct error *err)
{
	return grow(&p->data, &p->room, count, err);
}

static int grow_words(struct words *w, size_t count, struct error *err)
{
	return grow(&w->data, &w->room, count, err);
}

/* ---- which columns are folded ---- */

/* Categories of column `field`, numbered in order of first touch from `from` on; 0: too many. */
static size_t count_categories(struct first *f, uint32_t field, size_t from, size_t most)
{
	const struct model_batch *b = f->b.batch;
	uint32_t *slot = f->slot.data + f->folded_count * b->count;
	uint32_t *stamp = f->stamp.data, *local = f->local.data, found = 0;
	for (size_t i = 0; i < b->count; i++) {
		uint32_t key = b->index[b->offset[i] + field];
		if (stamp[key] != field + 1) {
			if (found == most)
				return 0;
			stamp[key] = field + 1;
			local[key] = found;
			f->key.data[from + found++] = key;
		}
		slot[i] = local[key];
	}
	return found;
}

static int plan(struct first *f, struct error *err)
{
	const struct model_batch *b = f->b.batch;
	uint32_t fields = f->b.spec->fields, highest = 0;
	size_t most = b->count / FOLD_RATIO;
	f->plain_count = f->folded_count = 0;
	if (grow_words(&f->plain, fields, err) < 0 || grow_words(&f->folded, fields, err) < 0 ||
	    grow_words(&f->base, fields + 1, err) < 0)
		return -1;
	f->base.data[0] = 0;
	if (b->count < FOLD_ROWS_MIN || !f->b.weight_gradient) {
		for (uint32_t i = 0; i < fields; i++)
			f->plain.data[f->plain_count++] = i;
		return 0;
	}
	for (uint32_t k = b->offset[0]; k < b->offset[b->count]; k++)
		highest = b->index[k] > highest ? b->index[k] : highest;
	if (grow_words(&f->stamp, (size_t)highest + 1, err) < 0 ||
	    grow_words(&f->local, (size_t)highest + 1, err) < 0 ||
	    grow_words(&f->slot, fields * b->count, err) < 0 ||
	    grow_words(&f->key, fields * most, err) < 0)
		return -1;
	memset(f->stamp.data, 0, ((size_t)highest + 1) * sizeof(uint32_t));
	for (uint32_t i = 0; i < fields; i++) {
		size_t from = f->base.data[f->folded_count];
		size_t found = count_categories(f, i, from, most);
		if (found == 0) {
			f->plain.data[f->plain_count++] = i;
		} else {
			f->folded.data[f->folded_count++] = i;
			f->base.data[f->folded_count] = (uint32_t)(from + found);
		}
	}
	return 0;
}

/* ---- the start of a batch ---- */

static size_t inputs(const struct model_spec *s)
{
	return (size_t)s->fields * s->embed + s->dense_inputs;
}

/* The plain columns of W side by side, so that one product takes them all. */
static int pack_weight(struct first *f, struct error *err)
{
	size_t in = inputs(f->b.spec), embed = f->embed, dense = f->b.spec->dense_inputs;
	if (f->folded_count == 0) {
		f->weight = f->b.weight;
		f->weight_gradient = f->b.weight_gradient;
		return 0;
	}
	if (grow_pool(&f->weight_room, f->out * f->plain_in, err) < 0 ||
	    grow_pool(&f->weight_gradient_room, f->out * f->plain_in, err) < 0)
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

/* Embeddings of all categories of the folded columns, and their products with W. */
static int multiply_folded(struct first *f, struct error *err)
{
	size_t total = f->base.data[f->folded_count], width = 1 + f->embed, in = inputs(f->b.spec);
	if (grow_pool(&f->embedding, total * f->embed, err) < 0 ||
	    grow_pool(&f->by_embedding, total * f->embed, err) < 0 ||
	    grow_pool(&f->product, total * f->out, err) < 0 ||
	    grow_pool(&f->sum, total * f->out, err) < 0)
		return -1;
	for (size_t c = 0; c < total; c++)
		for (size_t e = 0; e < f->embed; e++)
			f->embedding.data[c * f->embed + e] =
				f->b.gain * f->b.rows[f->key.data[c] * width + 1 + e];
	for (size_t j = 0; j < f->folded_count; j++) {
		size_t base = f->base.data[j], count = f->base.data[j + 1] - base;
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)count,
			    (blasint)f->out, (blasint)f->embed, f->b.gain,
			    f->embedding.data + base * f->embed, (blasint)f->embed,
			    f->b.weight + f->folded.data[j] * f->embed, (blasint)in, 0.0f,
			    f->product.data + base * f->out, (blasint)f->out);
	}
	memset(f->sum.data, 0, total * f->out * sizeof(float));
	return 0;
}

int first_begin(struct first *f, const struct first_batch *b, struct error *err)
{
	f->b = *b;
	f->out = b->spec->hidden[0];
	f->embed = b->spec->embed;
	if (plan(f, err) < 0)
		return -1;
	f->plain_in = f->plain_count * f->embed + b->spec->dense_inputs;
	if (pack_weight(f, err) < 0 || multiply_folded(f, err) < 0 ||
	    grow_pool(&f->x, FIRST_BLOCK_ROWS * f->plain_in, err) < 0)
		return -1;
	return grow_pool(&f->by_x, FIRST_BLOCK_ROWS * f->plain_count * f->embed, err);
}

/* ---- a block ---- */

/* x = the plain inputs of the block. */
static void gather(struct first *f)
{
	const struct model_batch *b = f->b.batch;
	size_t dense = f->b.spec->dense_inputs, width = 1 + f->embed;
	float *x = f->x.data;
	for (size_t i = f->begin; i < f->begin + f->count; i++) {
		const uint32_t *index = b->index + b->offset[i];
		for (size_t j = 0; j < f->plain_count; j++, x += f->embed) {
			const float *row = f->b.rows + index[f->plain.data[j]] * width + 1;
			for (size_t e = 0; e < f->embed; e++)
				x[e] = f->b.gain * row[e];
		}
		if (dense > 0)
			memcpy(x, b->dense + i * dense, dense * sizeof(float));
		x += dense;
	}
}

typedef float vector __attribute__((vector_size(64)));
#define LANES 16

static inline vector load(const float *p)
{
	vector v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static inline void store(float *p, vector v)
{
	memcpy(p, &v, sizeof(v));
}

/* y += the products of this row's categories; four vectors stay in registers meanwhile. */
static void add_products(const struct first *f, size_t row, float *y)
{
	const uint32_t *slot = f->slot.data + row;
	size_t rows = f->b.batch->count, out = f->out, o = 0;
	for (; o + 4 * LANES <= out; o += 4 * LANES) {
		vector a = load(y + o), b = load(y + o + LANES);
		vector c = load(y + o + 2 * LANES), d = load(y + o + 3 * LANES);
		for (size_t j = 0; j < f->folded_count; j++) {
			size_t number = f->base.data[j] + slot[j * rows];
			const float *p = f->product.data + number * out + o;
			a += load(p);
			b += load(p + LANES);
			c += load(p + 2 * LANES);
			d += load(p + 3 * LANES);
		}
		store(y + o, a);
		store(y + o + LANES, b);
		store(y + o + 2 * LANES, c);
		store(y + o + 3 * LANES, d);
	}
	for (size_t j = 0; o < out && j < f->folded_count; j++) {
		const float *p = f->product.data + (f->base.data[j] + slot[j * rows]) * out;
		for (size_t l = o; l < out; l++)
			y[l] += p[l];
	}
}

void first_forward(struct first *f, size_t begin, size_t count, float *y)
{
	f->begin = begin;
	f->count = count;
	gather(f);
	if (f->plain_in > 0)
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)count,
			    (blasint)f->out, (blasint)f->plain_in, f->b.gain, f->x.data,
			    (blasint)f->plain_in, f->weight, (blasint)f->plain_in, 0.0f, y,
			    (blasint)f->out);
	else
		memset(y, 0, count * f->out * sizeof(float));
	for (size_t i = 0; f->folded_count > 0 && i < count; i++)
		add_products(f, begin + i, y + i * f->out);
}

static void add_rows(struct first *f, const float *by_x)
{
	const struct model_batch *b = f->b.batch;
	size_t width = 1 + f->embed;
	for (size_t i = f->begin; i < f->begin + f->count; i++) {
		const uint32_t *index = b->index + b->offset[i];
		for (size_t j = 0; j < f->plain_count; j++, by_x += f->embed) {
			float *restrict to =
				f->b.row_gradient + index[f->plain.data[j]] * width + 1;
			for (size_t e = 0; e < f->embed; e++)
				to[e] += f->b.gain * by_x[e];
		}
	}
}

/* Sums for each category, over the rows that have it. */
static void add_to_sums(struct first *f, const float *by_y)
{
	size_t rows = f->b.batch->count, out = f->out;
	for (size_t i = 0; i < f->count; i++, by_y += out) {
		const uint32_t *slot = f->slot.data + f->begin + i;
		for (size_t j = 0; j < f->folded_count; j++) {
			size_t number = f->base.data[j] + slot[j * rows];
			float *restrict to = f->sum.data + number * out;
			for (size_t o = 0; o < out; o++)
				to[o] += by_y[o];
		}
	}
}

void first_backward(struct first *f, const float *by_y)
{
	blasint n = (blasint)f->count, out = (blasint)f->out, in = (blasint)f->plain_in;
	blasint learnt = (blasint)(f->plain_count * f->embed); /* the dense columns are not */
	if (in > 0)
		cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, n, f->b.gain, by_y,
			    out, f->x.data, in, 1.0f, f->weight_gradient, in);
	if (learnt > 0) {
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, learnt, out, f->b.gain,
			    by_y, out, f->weight, in, 0.0f, f->by_x.data, learnt);
		add_rows(f, f->by_x.data);
	}
	add_to_sums(f, by_y);
}

/* ---- the end of a batch ---- */

static void unpack_gradient(struct first *f)
{
	size_t in = inputs(f->b.spec), embed = f->embed, dense = f->b.spec->dense_inputs;
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
	size_t in = inputs(f->b.spec), width = 1 + f->embed, total = f->base.data[f->folded_count];
	if (f->folded_count == 0)
		return;
	unpack_gradient(f);
	for (size_t j = 0; j < f->folded_count; j++) {
		size_t base = f->base.data[j], column = f->folded.data[j] * f->embed;
		blasint count = (blasint)(f->base.data[j + 1] - base), out = (blasint)f->out;
		blasint embed = (blasint)f->embed;
		const float *sum = f->sum.data + base * f->out;
		cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, embed, count, f->b.gain,
			    sum, out, f->embedding.data + base * f->embed, embed, 1.0f,
			    f->b.weight_gradient + column, (blasint)in);
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, count, embed, out,
			    f->b.gain, sum, out, f->b.weight + column, (blasint)in, 0.0f,
			    f->by_embedding.data + base * f->embed, embed);
	}
	for (size_t c = 0; c < total; c++)
		for (size_t e = 0; e < f->embed; e++)
			f->b.row_gradient[f->key.data[c] * width + 1 + e] +=
				f->b.gain * f->by_embedding.data[c * f->embed + e];
}
