/*
 * deepfm: DeepFM (Guo et al., 2017, arXiv:1703.04247).  The sum of a factorisation machine's output
 * (fm.h) and of layers over the same embeddings (deep.h).
 *
 * The dense vector has bias, dense.weight, then the tensors of the deep part.
 */
#include "model/deep.h"
#include "model/fm.h"

/* In use, not as stored, as all that the deep part shares. */
#define EMBED_SCALE 0.05

static const struct model_option deepfm_options[] = {MODEL_OPTION_EMBED, MODEL_OPTION_HIDDEN, {0}};

static int deepfm_layout(const struct model_spec *s, struct layout *l, struct error *err)
{
	if (model_wide_layout(s, l, err) != 0 || deep_layout(s, l, err) != 0)
		return -1;
	return model_keys_layout(s, l, 1 + s->embed, 1, EMBED_SCALE / (double)DEEP_GAIN, err);
}

static int deepfm_begin(struct model *m, const struct model_step *s, struct error *err)
{
	if (!m->own && !(m->own = deep_new()))
		return error_set(err, ERROR_OS, "", "out of memory");
	return deep_begin(m->own, m, s, err) != 0 ? -1 : fm_begin(m, deep_most(m, s), err);
}

static void deepfm_forward(struct model *m, const struct model_step *s, const struct model_block *k,
			   float *z)
{
	model_wide_forward(m, &k->batch, s->dense, s->rows, z);
	fm_forward(m, s, k, DEEP_GAIN, z);
	deep_forward(m->own, m, s, k, z);
}

static void deepfm_backward(struct model *m, const struct model_step *s, const struct model_block *k,
			    float *by)
{
	model_wide_backward(m, &k->batch, by, s->dense_gradient, s->row_gradient);
	fm_backward(m, s, k, DEEP_GAIN, by);
	deep_backward(m->own, m, s, k, by);
}

static void deepfm_end(struct model *m, const struct model_step *s)
{
	(void)s;
	deep_end(m->own);
}

static void deepfm_free(struct model *m)
{
	deep_free(m->own);
}

const struct model_kind model_deepfm = {
	.name = "deepfm",
	.labels = MODEL_BINARY,
	.uses_blas = 1,
	.options = deepfm_options,
	.check = model_check_fields,
	.layout = deepfm_layout,
	.begin = deepfm_begin,
	.block = deep_block,
	.forward = deepfm_forward,
	.backward = deepfm_backward,
	.end = deepfm_end,
	.free = deepfm_free,
};
