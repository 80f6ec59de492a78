/*
 * softmax: multinomial logistic regression.  Class k has the output bias[k] + sum dense.weight[k] *
 * x
 * + sum row[k] * value, where a key's row has a weight for each class.
 */
#include "model/kind.h"

#include <string.h>

#define BLOCK_ROWS 512 /* outputs of so many rows stay in the cache */

static int softmax_layout(const struct model_spec *s, struct layout *l, struct error *err)
{
	if (layout_add_tensor(l, "bias", s->classes, 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER, err) != 0)
		return -1;
	if (s->dense_inputs > 0 && layout_add_tensor(l, "dense.weight", s->classes, s->dense_inputs,
						     LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER, err) != 0)
		return -1;
	return model_keys_layout(s, l, s->classes, s->classes, 0, err);
}

static size_t softmax_block(const struct model *m, size_t left)
{
	(void)m;
	return left < BLOCK_ROWS ? left : BLOCK_ROWS;
}

static void softmax_forward(struct model *m, const struct model_step *s,
			    const struct model_block *k, float *z)
{
	const struct model_batch *b = &k->batch;
	blasint classes = (blasint)m->outputs, inputs = (blasint)m->spec.dense_inputs;
	const float *weight = s->dense + classes;
	for (size_t i = 0; i < b->count; i++) {
		float *restrict to = z + i * m->outputs;
		memcpy(to, s->dense, m->outputs * sizeof *to);
		for (uint32_t j = b->offset[i]; j < b->offset[i + 1]; j++) {
			const float *row = s->rows + (size_t)b->index[j] * m->outputs;
			float value = b->value ? b->value[j] : 1;
			for (uint32_t c = 0; c < m->outputs; c++)
				to[c] += value * row[c];
		}
	}
	if (inputs > 0)
		m->blas->gemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)b->count, classes,
			      inputs, 1.0f, b->dense, inputs, weight, inputs, 1.0f, z, classes);
}

static void softmax_backward(struct model *m, const struct model_step *s,
			     const struct model_block *k, float *by)
{
	const struct model_batch *b = &k->batch;
	blasint classes = (blasint)m->outputs, inputs = (blasint)m->spec.dense_inputs;
	for (size_t i = 0; i < b->count; i++) {
		const float *from = by + i * m->outputs;
		for (uint32_t c = 0; c < m->outputs; c++)
			s->dense_gradient[c] += from[c];
		for (uint32_t j = b->offset[i]; j < b->offset[i + 1]; j++) {
			float *restrict row = s->row_gradient + (size_t)b->index[j] * m->outputs;
			float value = b->value ? b->value[j] : 1;
			for (uint32_t c = 0; c < m->outputs; c++)
				row[c] += value * from[c];
		}
	}
	if (inputs > 0)
		m->blas->gemm(CblasRowMajor, CblasTrans, CblasNoTrans, classes, inputs,
			      (blasint)b->count, 1.0f, by, classes, b->dense, inputs, 1.0f,
			      s->dense_gradient + classes, inputs);
}

const struct model_kind model_softmax = {
	.name = "softmax",
	.labels = MODEL_CLASS,
	.uses_blas = 1,
	.layout = softmax_layout,
	.block = softmax_block,
	.forward = softmax_forward,
	.backward = softmax_backward,
};
