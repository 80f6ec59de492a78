/*
 * wdl: wide & deep (Cheng et al., 2016, arXiv:1606.07792).  The wide part is lr's; the deep part
 * (deep.h) gives each field's embedding, side by side with the dense inputs, to ReLU layers and one
 * output.  So it needs the same number of keys in every row.  The output is the sum of both.
 */
#include "model/deep.h"

static void wdl_forward(struct model *m, const struct model_step *s, const struct model_block *k,
			float *z)
{
	model_wide_forward(m, &k->batch, s->dense, s->rows, z);
	deep_forward(m, s, k, z);
}

static void wdl_backward(struct model *m, const struct model_step *s, const struct model_block *k,
			 float *by)
{
	model_wide_backward(m, &k->batch, by, s->dense_gradient, s->row_gradient);
	deep_backward(m, s, k, by);
}

const struct model_kind model_wdl = {
	.name = "wdl",
	.labels = MODEL_BINARY,
	.uses_blas = 1,
	.options = deep_options,
	.check = model_check_fields,
	.layout = deep_layout,
	.scratch = deep_scratch,
	.begin = deep_begin,
	.block = deep_block,
	.forward = wdl_forward,
	.backward = wdl_backward,
	.end = deep_end,
	.free = deep_free,
};
