/*
 * ffm: a field-aware factorisation machine (Juan et al., RecSys 2016).  A key has an embedding for
 * each field (sparse column).  lr's output, plus for each pair of a row's keys the inner product of
 * the embedding that each has for the other's field.  It needs the same fields in every row, whose
 * values are then all 1.
 *
 * A key's row is a weight, then the embeddings for the fields in order.  That for its own field is
 * never used: which one it is, the table can't know.
 */
#include "model/kind.h"

#define BLOCK_ROWS 32 /* their keys' rows stay in the cache until the backward pass */

static const struct model_option ffm_options[] = {MODEL_OPTION_EMBED("4"), {0}};

static int ffm_check(const struct model_spec *s, struct error *err)
{
	if ((uint64_t)s->fields * s->embed >= LAYOUT_WIDTH_MAX)
		return error_set(err, ERROR_CONFIG, "model",
				 "ffm: embed %u for each of %u sparse columns makes more than %u "
				 "floats a key",
				 s->embed, s->fields, LAYOUT_WIDTH_MAX - 1);
	return model_check_fields(s, err);
}

static int ffm_layout(const struct model_spec *s, struct layout *l, struct error *err)
{
	return model_wide_layout(s, l, err) != 0
		       ? -1
		       : model_keys_layout(s, l, 1 + s->fields * s->embed, 1, MODEL_EMBED_SCALE, err);
}

static size_t ffm_block(const struct model *m, size_t left)
{
	(void)m;
	return left < BLOCK_ROWS ? left : BLOCK_ROWS;
}

#define LANES 4 /* floats of embeddings that are multiplied at once */

/* The sum over the pairs of a sample's keys; v: row 0 of the table. */
static inline __attribute__((always_inline)) float
sample_pairs(const struct model *m, const uint32_t *index, const float *v, size_t embed)
{
	size_t fields = m->spec.fields;
	float sum[LANES] = {0};
	for (size_t i = 0; i < fields; i++) {
		const float *a = v + (size_t)index[i] * m->width + 1;
		for (size_t j = i + 1; j < fields; j++) {
			const float *b = v + (size_t)index[j] * m->width + 1;
			const float *for_j = a + j * embed, *for_i = b + i * embed;
			size_t e = 0;
			for (; e + LANES <= embed; e += LANES)
				for (size_t l = 0; l < LANES; l++)
					sum[l] += for_j[e + l] * for_i[e + l];
			for (; e < embed; e++)
				sum[0] += for_j[e] * for_i[e];
		}
	}
	return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* to: the gradient by row 0 of the table. Both embeddings of a pair are different ones, even where
 * both keys are the same row. */
static inline __attribute__((always_inline)) void sample_back(const struct model *m,
							      const uint32_t *index,
							      const float *v, size_t embed,
							      float by, float *to)
{
	size_t fields = m->spec.fields;
	for (size_t i = 0; i < fields; i++) {
		size_t a = (size_t)index[i] * m->width + 1;
		for (size_t j = i + 1; j < fields; j++) {
			size_t for_j = a + j * embed;
			size_t for_i = (size_t)index[j] * m->width + 1 + i * embed;
			const float *v_i = v + for_j, *v_j = v + for_i;
			float *restrict by_i = to + for_j, *restrict by_j = to + for_i;
			for (size_t e = 0; e < embed; e++) {
				by_i[e] += by * v_j[e];
				by_j[e] += by * v_i[e];
			}
		}
	}
}

static void ffm_forward(struct model *m, const struct model_step *s, const struct model_block *k,
			float *z)
{
	const struct model_batch *b = &k->batch;
	size_t embed = m->spec.embed;
	model_wide_forward(m, b, s->dense, s->rows, z);
	for (size_t i = 0; i < b->count; i++) {
		const uint32_t *index = b->index + b->offset[i];
		z[i] += embed == LANES ? sample_pairs(m, index, s->rows, LANES)
				       : sample_pairs(m, index, s->rows, embed);
	}
}

static void ffm_backward(struct model *m, const struct model_step *s, const struct model_block *k,
			 float *by)
{
	const struct model_batch *b = &k->batch;
	size_t embed = m->spec.embed;
	model_wide_backward(m, b, by, s->dense_gradient, s->row_gradient);
	for (size_t i = 0; i < b->count; i++) {
		const uint32_t *index = b->index + b->offset[i];
		if (embed == LANES)
			sample_back(m, index, s->rows, LANES, by[i], s->row_gradient);
		else
			sample_back(m, index, s->rows, embed, by[i], s->row_gradient);
	}
}

const struct model_kind model_ffm = {
	.name = "ffm",
	.labels = MODEL_BINARY,
	.options = ffm_options,
	.check = ffm_check,
	.layout = ffm_layout,
	.block = ffm_block,
	.forward = ffm_forward,
	.backward = ffm_backward,
};
