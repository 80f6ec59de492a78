/*
 * lmf: logistic matrix factorisation (Johnson, 2014): lr's output plus the inner product of the
 * embeddings of the first two categories, a user and an item.  Not a model of the kit, but of a
 * test (new-model.bats): what somebody writes who adds one.
 */
#include "model/kind.h"

#define EMBED_SCALE 0.3

static int lmf_check(const struct model_spec *s, struct error *err)
{
	return s->fields >= 2 ? 0
			      : error_set(err, ERROR_CONFIG, "model",
					  "lmf needs two sparse columns, not %u", s->fields);
}

static int lmf_layout(const struct model_spec *s, struct layout *l, struct error *err)
{
	return model_wide_layout(s, l, err) != 0
		       ? -1
		       : model_keys_layout(s, l, 1 + s->embed, 1, EMBED_SCALE, err);
}

static void lmf_forward(struct model *m, const struct model_step *s, const struct model_block *k,
			float *z)
{
	const struct model_batch *b = &k->batch;
	model_wide_forward(m, b, s->dense, s->rows, z);
	for (size_t i = 0; i < b->count; i++) {
		const uint32_t *key = b->index + b->offset[i];
		const float *user = s->rows + (size_t)key[0] * m->width + 1;
		const float *item = s->rows + (size_t)key[1] * m->width + 1;
		for (uint32_t e = 0; e < m->spec.embed; e++)
			z[i] += user[e] * item[e];
	}
}

static void lmf_backward(struct model *m, const struct model_step *s, const struct model_block *k,
			 float *by)
{
	const struct model_batch *b = &k->batch;
	model_wide_backward(m, b, by, s->dense_gradient, s->row_gradient);
	for (size_t i = 0; i < b->count; i++) {
		const uint32_t *key = b->index + b->offset[i];
		size_t user = (size_t)key[0] * m->width + 1, item = (size_t)key[1] * m->width + 1;
		for (uint32_t e = 0; e < m->spec.embed; e++) {
			s->row_gradient[user + e] += by[i] * s->rows[item + e];
			s->row_gradient[item + e] += by[i] * s->rows[user + e];
		}
	}
}

static const struct model_option options[] = {MODEL_OPTION_EMBED("8"), {0}};

const struct model_kind model_lmf = {
	.name = "lmf",
	.labels = MODEL_BINARY,
	.options = options,
	.check = lmf_check,
	.layout = lmf_layout,
	.forward = lmf_forward,
	.backward = lmf_backward,
};
