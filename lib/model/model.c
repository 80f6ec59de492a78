/*
 * model: a batch goes through its model, block by block.  It must never hold parameters.  Only
 * programs that train or score link it: it brings OpenBLAS (kind.h).
 */
#include "model/kind.h"

#include <stdlib.h>

static const struct model_blas model_blas = {.gemm = cblas_sgemm, .gemv = cblas_sgemv};

static enum model_loss model_loss_of(const struct model *m)
{
	if (m->kind->loss)
		return m->kind->loss(&m->spec);
	switch (model_labels_of(&m->spec)) {
	case MODEL_CLASS:
		return MODEL_SOFTMAX;
	case MODEL_REAL:
		return MODEL_SQUARED;
	default:
		return MODEL_LOG;
	}
}

int model_new(struct model **out, const struct model_spec *spec, const struct model_device *device,
	      struct error *err)
{
	struct model *m = calloc(1, sizeof(*m));
	if (!m)
		return error_set(err, ERROR_OS, "", "out of memory");
	m->spec = *spec;
	m->kind = model_kind_find(spec->name);
	m->blas = &model_blas;
	m->fold_fraction = MODEL_FOLD_FRACTION;
	if (model_layout(spec, &m->layout, err) != 0 ||
	    (device && card_open(&m->card, spec, device, err) != 0)) {
		free(m);
		return -1;
	}
	m->dense_count = layout_dense_count(&m->layout);
	m->width = m->layout.table.width;
	m->outputs = model_outputs(spec);
	m->loss = model_loss_of(m);
	*out = m;
	return 0;
}

void model_free(struct model *m)
{
	if (!m)
		return;
	if (m->kind->free)
		m->kind->free(m);
	card_close(&m->card);
	free(m->z.data);
	free(m->scratch.data);
	free(m);
}

void model_fold_fraction(struct model *m, double fraction)
{
	m->fold_fraction = fraction;
}

void model_on_final(struct model *m, model_final_fn *final, void *owner)
{
	m->final = final;
	m->final_owner = owner;
}

static size_t block_rows(const struct model *m, size_t left)
{
	return m->kind->block ? m->kind->block(m, left) : left;
}

void model_block_take(const struct model *m, const struct model_batch *b, size_t begin, size_t count,
		      struct model_block *k)
{
	k->begin = begin;
	k->is_last = begin + count == b->count;
	k->batch = *b;
	k->batch.count = count;
	k->batch.offset += begin;
	k->batch.label = b->label ? b->label + begin : NULL;
	k->batch.weight = b->weight ? b->weight + begin : NULL;
	k->batch.dense = b->dense ? b->dense + begin * m->spec.dense_inputs : NULL;
	k->batch.row = b->row ? b->row + begin : NULL;
}

static int train_blocks(struct model *m, const struct model_step *s, double *loss_sum,
			struct error *err)
{
	const struct model_batch *b = s->batch;
	size_t count;
	if (m->kind->begin && m->kind->begin(m, s, err) != 0)
		return -1;
	for (size_t begin = 0; begin < b->count; begin += count) {
		struct model_block k;
		count = block_rows(m, b->count - begin);
		if (pool_grow(&m->z, count * m->outputs, err) != 0)
			return -1;
		float *z = m->z.data;
		model_block_take(m, b, begin, count, &k);
		m->kind->forward(m, s, &k, z);
		*loss_sum += model_loss(m, count, z, k.batch.label, k.batch.weight);
		m->kind->backward(m, s, &k, z);
	}
	if (m->kind->end)
		m->kind->end(m, s);
	return 0;
}

int model_train(struct model *m, const struct model_batch *batch, const float *dense,
		const float *rows, float *dense_gradient, float *row_gradient, double *loss_sum,
		struct error *err)
{
	const struct model_step s = {batch, dense, rows, dense_gradient, row_gradient};
	if (batch->count == 0)
		return 0;
	return (m->card.backend   ? card_train
		: m->kind->train ? m->kind->train
				 : train_blocks)(m, &s, loss_sum, err);
}

static int predict_blocks(struct model *m, const struct model_step *s, float *z, struct error *err)
{
	const struct model_batch *batch = s->batch;
	size_t count;
	if (batch->count > 0 && m->kind->begin && m->kind->begin(m, s, err) != 0)
		return -1;
	for (size_t begin = 0; begin < batch->count; begin += count) {
		struct model_block k;
		count = block_rows(m, batch->count - begin);
		model_block_take(m, batch, begin, count, &k);
		m->kind->forward(m, s, &k, z + begin * m->outputs);
	}
	return 0;
}

int model_predict(struct model *m, const struct model_batch *batch, const float *dense,
		  const float *rows, float *score, struct error *err)
{
	const struct model_step s = {.batch = batch, .dense = dense, .rows = rows};
	if (!m->kind->forward)
		return error_set(err, ERROR_CONFIG, "model", "%s has no scores", m->spec.name);
	if ((m->card.backend ? card_logits : predict_blocks)(m, &s, score, err) != 0)
		return -1;
	model_scores(m, batch->count, score);
	return 0;
}

int model_complete(struct model *m, const struct model_batch *batch, const float *dense,
		   const float *rows, float *score, float *words, struct error *err)
{
	if (!m->kind->complete)
		return error_set(err, ERROR_CONFIG, "model", "%s has no documents", m->spec.name);
	return m->kind->complete(m, batch, dense, rows, score, words, err);
}
