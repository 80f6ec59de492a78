/*
 * fm: a factorisation machine (Rendle, ICDM 2010): lr's output plus that of all pairs of a row's keys
 * (fm.h).  Dense columns take part in lr's output only.  It is memory bound, as lr: so a row's sums
 * are kept for the backward pass, and a block of rows stays in the cache with the rows of its keys.
 */
#include "model/fm.h"

#define BLOCK_ROWS 256
#define LANES 16 /* floats of embeddings that are summed at once, in registers */

#define EMBED_SCALE 0.05

int fm_begin(struct model *m, size_t most, struct error *err)
{
	return pool_grow(&m->scratch, most * m->spec.embed, err);
}

/* Sums `lanes` floats of the embeddings of a sample's keys; v: those of row 0 of the table. Returns
 * their part of the output, doubled. */
static inline __attribute__((always_inline)) float sum_lanes(const struct model_batch *b, size_t i,
							     const float *v, size_t width,
							     size_t lanes, float *restrict sum)
{
	float s[LANES] = {0}, squares[LANES] = {0}, twice = 0;
	for (uint32_t j = b->offset[i]; j < b->offset[i + 1]; j++) {
		const float *from = v + (size_t)b->index[j] * width;
		float x = b->value ? b->value[j] : 1;
		for (size_t e = 0; e < lanes; e++) {
			float vx = x * from[e];
			s[e] += vx;
			squares[e] += vx * vx;
		}
	}
	for (size_t e = 0; e < lanes; e++) {
		twice += s[e] * s[e] - squares[e];
		sum[e] = s[e];
	}
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
			twice += sum_lanes(b, i, v + e, m->width, LANES, sum + e);
		for (; e + 4 <= embed; e += 4)
			twice += sum_lanes(b, i, v + e, m->width, 4, sum + e);
		for (; e < embed; e++)
			twice += sum_lanes(b, i, v + e, m->width, 1, sum + e);
		z[i] += gain * gain * twice / 2;
	}
}

void fm_backward(struct model *m, const struct model_step *s, const struct model_block *k, float gain,
		 const float *by)
{
	const struct model_batch *b = &k->batch;
	size_t embed = m->spec.embed;
	const float *sum = m->scratch.data;
	for (size_t i = 0; i < b->count; i++, sum += embed)
		for (uint32_t j = b->offset[i]; j < b->offset[i + 1]; j++) {
			size_t at = (size_t)b->index[j] * m->width + 1;
			const float *v = s->rows + at;
			float *restrict to = s->row_gradient + at;
			float x = b->value ? b->value[j] : 1, by_x = gain * gain * by[i] * x;
			for (size_t e = 0; e < embed; e++)
				to[e] += by_x * (sum[e] - x * v[e]);
		}
}

/* ---- the model ---- */

static const struct model_option fm_options[] = {MODEL_OPTION_EMBED, {0}};

static int fm_layout(const struct model_spec *s, struct layout *l, struct error *err)
{
	return model_wide_layout(s, l, err) != 0
		       ? -1
		       : model_keys_layout(s, l, 1 + s->embed, 1, EMBED_SCALE, err);
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
