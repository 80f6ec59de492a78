/*
 * deepfm: DeepFM (Guo et al., 2017, arXiv:1703.04247).  The sum of a factorisation machine's output
 * (fm.h) and of layers over the same embeddings (deep.h).
 */
#include "model/deep.h"
#include "model/fm.h"

static int deepfm_begin(struct model *m, const struct model_step *s, struct error *err)
{
	return deep_begin(m, s, err) != 0 ? -1 : fm_begin(m, deep_most(m, s), err);
}

static void deepfm_forward(struct model *m, const struct model_step *s, const struct model_block *k,
			   float *z)
{
	model_wide_forward(m, &k->batch, s->dense, s->rows, z);
	fm_forward(m, s, k, DEEP_GAIN, z);
	deep_forward(m, s, k, z);
}

static void deepfm_backward(struct model *m, const struct model_step *s, const struct model_block *k,
			    float *by)
{
	model_wide_backward(m, &k->batch, by, s->dense_gradient, s->row_gradient);
	fm_backward(m, s, k, DEEP_GAIN, by);
	deep_backward(m, s, k, by);
}

const struct model_kind model_deepfm = {
	.name = "deepfm",
	.labels = MODEL_BINARY,
	.uses_blas = 1,
	.options = deep_options,
	.check = model_check_fields,
	.layout = deep_layout,
	.scratch = deep_scratch,
	.begin = deepfm_begin,
	.block = deep_block,
	.forward = deepfm_forward,
	.backward = deepfm_backward,
	.end = deep_end,
	.free = deep_free,
};
