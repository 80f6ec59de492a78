/*
 * lr: logistic regression, sigmoid(bias + sum dense.weight * x + sum w[key] * value).  It is also
 * the wide part of wdl.  There is one weight for each dense column and one for each key.  It is
 * memory bound: so a row's keys are touched only once forward and once backward.
 */
#include "model/kind.h"

int model_wide_layout(const struct model_spec *spec, struct layout *l, struct error *err)
{
	if (layout_add_tensor(l, "bias", 1, 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER, err) != 0)
		return -1;
	if (spec->dense_inputs == 0)
		return 0;
	return layout_add_tensor(l, "dense.weight", spec->dense_inputs, 1, LAYOUT_ZERO, 0,
				 LAYOUT_OPTIMIZER, err);
}

static float keys_dot(const struct model_batch *b, size_t i, const float *rows, uint32_t width)
{
	float z = 0;
	const uint32_t *index = b->index;
	uint32_t stop = b->offset[i + 1];
	if (b->value)
		for (uint32_t k = b->offset[i]; k < stop; k++)
			z += rows[(size_t)index[k] * width] * b->value[k];
	else
		for (uint32_t k = b->offset[i]; k < stop; k++)
			z += rows[(size_t)index[k] * width];
	return z;
}

void model_wide_forward(const struct model *m, const struct model_batch *b, const float *dense,
			const float *rows, float *z)
{
	blasint count = (blasint)b->count, inputs = (blasint)m->spec.dense_inputs;
	for (size_t i = 0; i < b->count; i++)
		z[i] = dense[0] + keys_dot(b, i, rows, m->width);
	if (inputs > 0)
		m->blas->gemv(CblasRowMajor, CblasNoTrans, count, inputs, 1.0f, b->dense, inputs,
			      dense + 1, 1, 1.0f, z, 1);
}

void model_wide_backward(const struct model *m, const struct model_batch *b, const float *delta,
			 float *dense_gradient, float *row_gradient)
{
	blasint count = (blasint)b->count, inputs = (blasint)m->spec.dense_inputs;
	uint32_t width = m->width;
	double bias = 0;
	for (size_t i = 0; i < b->count; i++) {
		float d = delta[i];
		bias += (double)d;
		uint32_t stop = b->offset[i + 1];
		if (b->value)
			for (uint32_t k = b->offset[i]; k < stop; k++)
				row_gradient[(size_t)b->index[k] * width] += d * b->value[k];
		else
			for (uint32_t k = b->offset[i]; k < stop; k++)
				row_gradient[(size_t)b->index[k] * width] += d;
	}
	dense_gradient[0] += (float)bias;
	if (inputs > 0)
		m->blas->gemv(CblasRowMajor, CblasTrans, count, inputs, 1.0f, b->dense, inputs, delta,
			      1, 1.0f, dense_gradient + 1, 1);
}

int model_lr_layout(const struct model_spec *spec, struct layout *l, struct error *err)
{
	return model_wide_layout(spec, l, err) != 0 ? -1 : model_keys_layout(spec, l, 1, 1, 0, err);
}

void model_lr_forward(struct model *m, const struct model_step *s, const struct model_block *k,
		      float *z)
{
	model_wide_forward(m, &k->batch, s->dense, s->rows, z);
}

void model_lr_backward(struct model *m, const struct model_step *s, const struct model_block *k,
		       float *by)
{
	model_wide_backward(m, &k->batch, by, s->dense_gradient, s->row_gradient);
}

const struct model_kind model_lr = {
	.name = "lr",
	.labels = MODEL_BINARY,
	.layout = model_lr_layout,
	.forward = model_lr_forward,
	.backward = model_lr_backward,
};
