/*
 * model: the table of kinds, and the handing over to them.  Must never hold parameters.
 */
#include "model/kind.h"

#include <stdlib.h>
#include <string.h>

#define KIND(name) &model_##name,

static const struct model_kind *const kinds[] = {MODELS(KIND, KIND)};

static const struct model_kind *kind_find(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(kinds[i]->name, name) == 0)
			return kinds[i];
	return NULL;
}

/* Functions that cannot fail are called with a checked spec only. */
static const struct model_kind *kind_of(const struct model_spec *spec)
{
	const struct model_kind *kind = kind_find(spec->name);
	if (!kind)
		abort();
	return kind;
}

static int check_sizes(const struct model_spec *spec, struct error *err)
{
	if (spec->hash_bits < 1 || spec->hash_bits > 31)
		return error_set(err, ERROR_CONFIG, "hash-bits", "%u is not in 1..31",
				 spec->hash_bits);
	if (spec->dense_inputs > 4096)
		return error_set(err, ERROR_CONFIG, "dense-inputs", "%u is more than 4096",
				 spec->dense_inputs);
	if (spec->fields > 4096)
		return error_set(err, ERROR_CONFIG, "fields", "%u is more than 4096", spec->fields);
	if (!(spec->l2 >= 0 && spec->l2 <= 1e30))
		return error_set(err, ERROR_CONFIG, "l2", "%g is not in 0..1e30", spec->l2);
	return 0;
}

int model_spec_check(const struct model_spec *spec, struct error *err)
{
	const struct model_kind *kind = kind_find(spec->name);
	if (!kind)
		return error_set(err, ERROR_CONFIG, "model", "\"%s\" is not known; there are %s",
				 spec->name, MODEL_NAMES);
	if (check_sizes(spec, err) != 0)
		return -1;
	return kind->check ? kind->check(spec, err) : 0;
}

int model_layout(const struct model_spec *spec, struct layout *layout, struct error *err)
{
	if (model_spec_check(spec, err) != 0)
		return -1;
	return kind_of(spec)->layout(spec, layout, err);
}

uint64_t model_dense_count(const struct model_spec *spec)
{
	return kind_of(spec)->dense_count(spec);
}

uint32_t model_width(const struct model_spec *spec)
{
	return kind_of(spec)->width(spec);
}

int model_uses_blas(const struct model_spec *spec)
{
	return kind_of(spec)->uses_blas;
}

int model_keys_are_rows(const struct model_spec *spec)
{
	return kind_of(spec)->keys_are_rows;
}

uint64_t model_key_count(const struct model_spec *spec)
{
	return model_keys_are_rows(spec) ? spec->samples : (uint64_t)1 << spec->hash_bits;
}

int model_new(struct model **out, const struct model_spec *spec, struct error *err)
{
	if (model_spec_check(spec, err) != 0)
		return -1;
	struct model *m = calloc(1, sizeof(*m));
	if (!m)
		return error_set(err, ERROR_OS, "", "out of memory");
	m->spec = *spec;
	m->kind = kind_of(spec);
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
