/*
 * lr: logistic regression, which is also the wide part of wdl.  There is one weight for each dense
 * column and one for each key.  It is memory bound: so a row's keys are touched only once forward
 * and once backward.
 */
#include "model/kind.h"

#include <cblas.h>
#include <string.h>

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

void model_wide_forward(const struct model_spec *spec, const struct model_batch *b,
			const float *dense, const float *rows, uint32_t width, float *z)
{
	for (size_t i = 0; i < b->count; i++)
		z[i] = dense[0] + keys_dot(b, i, rows, width);
	if (spec->dense_inputs > 0)
		cblas_sgemv(CblasRowMajor, CblasNoTrans, (blasint)b->count,
			    (blasint)spec->dense_inputs, 1.0f, b->dense,
			    (blasint)spec->dense_inputs, dense + 1, 1, 1.0f, z, 1);
}

void model_wide_backward(const struct model_spec *spec, const struct model_batch *b,
			 const float *delta, uint32_t width, float *dense_gradient,
			 float *row_gradient)
{
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
	if (spec->dense_inputs > 0)
		cblas_sgemv(CblasRowMajor, CblasTrans, (blasint)b->count,
			    (blasint)spec->dense_inputs, 1.0f, b->dense,
			    (blasint)spec->dense_inputs, delta, 1, 1.0f, dense_gradient + 1, 1);
}

static int lr_train(struct model *m, const struct model_batch *b, const float *dense,
		    const float *rows, float *dense_gradient, float *row_gradient,
		    double *loss_sum, struct error *err)
{
	if (pool_grow(&m->scratch, b->count, err) != 0)
		return -1;
	float *z = m->scratch.data;
	model_wide_forward(&m->spec, b, dense, rows, 1, z);
	*loss_sum += model_logistic(b->count, z, b->label, b->weight, z);
	model_wide_backward(&m->spec, b, z, 1, dense_gradient, row_gradient);
	return 0;
}

static int lr_logits(struct model *m, const struct model_batch *b, const float *dense,
		     const float *rows, float *score, struct error *err)
{
	(void)err;
	model_wide_forward(&m->spec, b, dense, rows, 1, score);
	return 0;
}

const struct model_kind model_lr = {
	.name = "lr",
	.train = lr_train,
	.logits = lr_logits,
};
