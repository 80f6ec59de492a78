/*
 * fm: a factorisation machine (Rendle, ICDM 2010): lr's output plus that of all pairs of a row's keys
 * (fm.h).  Dense columns take part in lr's output only.  It is memory bound, as lr: so a row's sums
 * are kept for the backward pass, and a block of rows stays in the cache with the rows of its keys.
 */
#include "model/fm.h"

#include "model/piece.h"

#define BLOCK_ROWS 256
#define LANES 16 /* floats of embeddings that are summed at once, in registers */
#define PIECES (LANES / PIECE)

int fm_begin(struct model *m, size_t most, struct error *err)
{
	return pool_grow(&m->scratch, most * m->spec.embed, err);
}

/* Sums LANES floats of the embeddings of a sample's keys, or in sum_few() `lanes` of them; v: those
 * of row 0 of the table. Returns their part of the output, doubled. */
static float sum_lanes(const struct model_batch *b, size_t i, const float *v, size_t width,
		       float *sum)
{
	piece s[PIECES] = {0}, squares[PIECES] = {0};
	float twice = 0;
	for (uint32_t j = b->offset[i]; j < b->offset[i + 1]; j++) {
		const float *from = v + (size_t)b->index[j] * width;
		float x = b->value ? b->value[j] : 1;
		for (size_t p = 0; p < PIECES; p++) {
			piece vx = x * piece_load(from + p * PIECE);
			s[p] += vx;
			squares[p] += vx * vx;
		}
	}
	for (size_t p = 0; p < PIECES; p++) {
		piece pairs = s[p] * s[p] - squares[p];
		for (size_t e = 0; e < PIECE; e++)
			twice += pairs[e];
		piece_store(sum + p * PIECE, s[p]);
	}
	return twice;
}

static float sum_few(const struct model_batch *b, size_t i, const float *v, size_t width,
		     size_t lanes, float *restrict sum)
{
	float squares[LANES] = {0}, twice = 0;
	memset(sum, 0, lanes * sizeof(*sum));
	for (uint32_t j = b->offset[i]; j < b->offset[i + 1]; j++) {
		const float *from = v + (size_t)b->index[j] * width;
		float x = b->value ? b->value[j] : 1;
		for (size_t e = 0; e < lanes; e++) {
			float vx = x * from[e];
			sum[e] += vx;
			squares[e] += vx * vx;
		}
	}
	for (size_t e = 0; e < lanes; e++)
		twice += sum[e] * sum[e] - squares[e];
	return twice;
}

void fm_forward(struct model *m, const struct model_step *s, const struct model_block *k, float gain,
		float *z)
{
	const struct model_batch *b = &k->batch;
	size_t embed = m->spec.embed;
	float *sum = m->scratch.data;
	for (size_t i = 0; i < b->count; i++, sum += embed) {
		const float *v = s->rows + 1;
		float twice = 0;
		size_t e = 0;
		for (; e + LANES <= embed; e += LANES)
			twice += sum_lanes(b, i, v + e, m->width, sum + e);
		if (e < embed)
			twice += sum_few(b, i, v + e, m->width, embed - e, sum + e);
		z[i] += gain * gain * twice / 2;
	}
}

/* Adds the gradients by LANES floats of the embeddings of a sample's keys, or in add_few() by
 * `lanes` of them. by: the gradient by the output. */
static void add_lanes(const struct model_batch *b, size_t i, const float *v, float *gradient,
		      size_t width, const float *sum, float by)
{
	piece s[PIECES];
	memcpy(s, sum, sizeof(s));
	for (uint32_t j = b->offset[i]; j < b->offset[i + 1]; j++) {
		size_t at = (size_t)b->index[j] * width;
		float x = b->value ? b->value[j] : 1, by_x = by * x;
		for (size_t p = 0; p < PIECES; p++) {
			float *to = gradient + at + p * PIECE;
			piece apart = s[p] - x * piece_load(v + at + p * PIECE);
			piece_store(to, piece_load(to) + by_x * apart);
		}
	}
}

static void add_few(const struct model_batch *b, size_t i, const float *v, float *restrict gradient,
		    size_t width, size_t lanes, const float *sum, float by)
{
	for (uint32_t j = b->offset[i]; j < b->offset[i + 1]; j++) {
		size_t at = (size_t)b->index[j] * width;
		float x = b->value ? b->value[j] : 1, by_x = by * x;
		for (size_t e = 0; e < lanes; e++)
			gradient[at + e] += by_x * (sum[e] - x * v[at + e]);
	}
}

void fm_backward(struct model *m, const struct model_step *s, const struct model_block *k, float gain,
		 const float *by)
{
	const struct model_batch *b = &k->batch;
	size_t embed = m->spec.embed;
	const float *sum = m->scratch.data, *v = s->rows + 1;
	float *to = s->row_gradient + 1;
	for (size_t i = 0; i < b->count; i++, sum += embed) {
		float by_pairs = gain * gain * by[i];
		size_t e = 0;
		for (; e + LANES <= embed; e += LANES)
			add_lanes(b, i, v + e, to + e, m->width, sum + e, by_pairs);
		if (e < embed)
			add_few(b, i, v + e, to + e, m->width, embed - e, sum + e, by_pairs);
	}
}

/* ---- the model ---- */

static const struct model_option fm_options[] = {MODEL_OPTION_EMBED("16"), {0}};

static int fm_layout(const struct model_spec *s, struct layout *l, struct error *err)
{
	return model_wide_layout(s, l, err) != 0
		       ? -1
		       : model_keys_layout(s, l, 1 + s->embed, 1, MODEL_EMBED_SCALE, err);
}

static int fm_model_begin(struct model *m, const struct model_step *s, struct error *err)
{
	(void)s;
	return fm_begin(m, BLOCK_ROWS, err);
}

static size_t fm_block(const struct model *m, size_t left)
{
	(void)m;
	return left < BLOCK_ROWS ? left : BLOCK_ROWS;
}

static void fm_model_forward(struct model *m, const struct model_step *s, const struct model_block *k,
			     float *z)
{
	model_wide_forward(m, &k->batch, s->dense, s->rows, z);
	fm_forward(m, s, k, 1, z);
}

static void fm_model_backward(struct model *m, const struct model_step *s,
			      const struct model_block *k, float *by)
{
	model_wide_backward(m, &k->batch, by, s->dense_gradient, s->row_gradient);
	fm_backward(m, s, k, 1, by);
}

const struct model_kind model_fm = {
	.name = "fm",
	.labels = MODEL_BINARY,
	.options = fm_options,
	.layout = fm_layout,
	.begin = fm_model_begin,
	.block = fm_block,
	.forward = fm_model_forward,
	.backward = fm_model_backward,
};
