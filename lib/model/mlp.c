/*
 * mlp: layers with a ReLU (deep.h) over the dense columns, and over embeddings of the sparse ones,
 * if there are some.  What it has for outputs depends on what labels are.
 */
#include "model/deep.h"

#include <string.h>

static const struct model_option mlp_options[] = {
	MODEL_OPTION_LABELS("class"), MODEL_OPTION_EMBED("16"), MODEL_OPTION_HIDDEN, {0}};

static int mlp_check(const struct model_spec *spec, struct error *err)
{
	if (spec->dense_inputs + spec->fields == 0)
		return error_set(err, ERROR_CONFIG, "model",
				 "mlp needs dense columns, or the same sparse columns in every row; "
				 "libsvm rows have neither (softmax and lr take them)");
	return 0;
}

static int mlp_layout(const struct model_spec *spec, struct layout *l, struct error *err)
{
	if (layout_add_tensor(l, "bias", model_outputs(spec), 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER,
			      err) != 0)
		return -1;
	return deep_alone_layout(spec, l, err);
}

static void mlp_forward(struct model *m, const struct model_step *s, const struct model_block *k,
			float *z)
{
	for (size_t i = 0; i < k->batch.count; i++)
		memcpy(z + i * m->outputs, s->dense, m->outputs * sizeof *z);
	deep_forward(m, s, k, z);
}

static void mlp_backward(struct model *m, const struct model_step *s, const struct model_block *k,
			 float *by)
{
	for (size_t i = 0; i < k->batch.count; i++)
		for (size_t j = 0; j < m->outputs; j++)
			s->dense_gradient[j] += by[i * m->outputs + j];
	deep_backward(m, s, k, by);
}

const struct model_kind model_mlp = {
	.name = "mlp",
	.labels = MODEL_BINARY | MODEL_CLASS | MODEL_REAL,
	.uses_blas = 1,
	.options = mlp_options,
	.check = mlp_check,
	.layout = mlp_layout,
	.scratch = deep_scratch,
	.begin = deep_alone_begin,
	.block = deep_block,
	.forward = mlp_forward,
	.backward = mlp_backward,
	.end = deep_end,
	.free = deep_free,
};
