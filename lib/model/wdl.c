/*
 * wdl: wide & deep (Cheng et al., 2016, arXiv:1606.07792).  The wide part is lr's; the deep part
 * (deep.h) gives each field's embedding, side by side with the dense inputs, to ReLU layers and one
 * output.  So it needs the same number of keys in every row.  The output is the sum of both.
 *
 * The dense vector has bias, dense.weight, then the tensors of the deep part.
 */
#include "model/deep.h"

/* In use, not as stored (deep.c). Embeddings start small: so the wide part learns first, and a key
 * that was never seen in training hardly changes a score. */
#define EMBED_SCALE 0.05

static const struct model_option wdl_options[] = {MODEL_OPTION_EMBED, MODEL_OPTION_HIDDEN, {0}};

static int wdl_layout(const struct model_spec *s, struct layout *l, struct error *err)
{
	if (model_wide_layout(s, l, err) != 0 || deep_layout(s, l, err) != 0)
		return -1;
	return model_keys_layout(s, l, 1 + s->embed, 1, EMBED_SCALE / (double)DEEP_GAIN, err);
}

static int wdl_begin(struct model *m, const struct model_step *s, struct error *err)
{
	if (!m->own && !(m->own = deep_new()))
		return error_set(err, ERROR_OS, "", "out of memory");
	return deep_begin(m->own, m, s, err);
}

static void wdl_forward(struct model *m, const struct model_step *s, const struct model_block *k,
			float *z)
{
	model_wide_forward(m, &k->batch, s->dense, s->rows, z);
	deep_forward(m->own, m, s, k, z);
}

static void wdl_backward(struct model *m, const struct model_step *s, const struct model_block *k,
			 float *by)
{
	model_wide_backward(m, &k->batch, by, s->dense_gradient, s->row_gradient);
	deep_backward(m->own, m, s, k, by);
}

static void wdl_end(struct model *m, const struct model_step *s)
{
	(void)s;
	deep_end(m->own);
}

static void wdl_free(struct model *m)
{
	deep_free(m->own);
}

const struct model_kind model_wdl = {
	.name = "wdl",
	.labels = MODEL_BINARY,
	.uses_blas = 1,
	.options = wdl_options,
	.check = model_check_fields,
	.layout = wdl_layout,
	.begin = wdl_begin,
	.block = deep_block,
	.forward = wdl_forward,
	.backward = wdl_backward,
	.end = wdl_end,
	.free = wdl_free,
};
