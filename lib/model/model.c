/*
 * model: the table of kinds, and calls of their functions.  It must never hold parameters.
 */
#include "model/kind.h"

#include <stdlib.h>
#include <string.h>

#define KIND(name) &model_##name,

static const struct model_kind *const kinds[] = {MODELS(KIND, KIND)};

/* The spec must be a checked one. */
static const struct model_kind *model_kind_of(const struct model_spec *spec)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(kinds[i]->name, spec->name) == 0)
			return kinds[i];
	abort();
}

int model_new(struct model **out, const struct model_spec *spec, struct error *err)
{
	if (model_spec_check(spec, err) != 0)
		return -1;
	struct model *m = calloc(1, sizeof(*m));
	if (!m)
		return error_set(err, ERROR_OS, "", "out of memory");
	m->spec = *spec;
	m->kind = model_kind_of(spec);
	*out = m;
	return 0;
}

void model_free(struct model *m)
{
	if (!m)
		return;
	if (m->kind->free)
		m->kind->free(m);
	free(m->scratch.data);
	free(m);
}

void model_on_final(struct model *m, model_final_fn *final, void *owner)
{
	m->final = final;
	m->final_owner = owner;
}

int model_train(struct model *m, const struct model_batch *batch, const float *dense,
		const float *rows, float *dense_gradient, float *row_gradient, double *loss_sum,
		struct error *err)
{
	if (batch->count == 0)
		return 0;
	return m->kind->train(m, batch, dense, rows, dense_gradient, row_gradient, loss_sum, err);
}

int model_predict(struct model *m, const struct model_batch *batch, const float *dense,
		  const float *rows, float *score, struct error *err)
{
	if (!m->kind->logits)
		return error_set(err, ERROR_CONFIG, "model", "%s has no scores", m->spec.name);
	if (batch->count == 0)
		return 0;
	if (m->kind->logits(m, batch, dense, rows, score, err) != 0)
		return -1;
	model_sigmoid(batch->count, score);
	return 0;
}

int model_complete(struct model *m, const struct model_batch *batch, const float *dense,
		   const float *rows, float *score, float *words, struct error *err)
{
	if (!m->kind->complete)
		return error_set(err, ERROR_CONFIG, "model", "%s has no documents", m->spec.name);
	return m->kind->complete(m, batch, dense, rows, score, words, err);
}
