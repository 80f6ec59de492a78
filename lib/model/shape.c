/*
 * shape: the table of models, and which parameters each has.  Programs that set up a job need only
 * this.
 */
#include "model/kind.h"

#include <stdlib.h>
#include <string.h>

#define KIND(name) &model_##name,

static const struct model_kind *const kinds[] = {MODELS(KIND, KIND)};

const struct model_kind *model_kind_at(size_t i)
{
	return i < sizeof kinds / sizeof *kinds ? kinds[i] : NULL;
}

const struct model_kind *model_kind_find(const char *name)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i]->name, name) == 0)
			return kinds[i];
	return NULL;
}

/* Functions that can't fail are called only with a checked spec. */
static const struct model_kind *kind_of(const struct model_spec *spec)
{
	const struct model_kind *kind = model_kind_find(spec->name);
	if (!kind)
		abort();
	return kind;
}

const char *model_name_at(size_t i)
{
	const struct model_kind *kind = model_kind_at(i);
	return kind ? kind->name : NULL;
}

unsigned model_takes_labels(const char *name)
{
	const struct model_kind *kind = model_kind_find(name);
	return kind ? kind->labels : 0;
}

int model_has_documents(const char *name)
{
	const struct model_kind *kind = model_kind_find(name);
	return kind && kind->documents;
}

unsigned model_labels_of(const struct model_spec *spec)
{
	unsigned may = kind_of(spec)->labels;
	int is_one = (may & (may - 1)) == 0;
	return is_one ? may : may & 1u << spec->labels;
}

uint32_t model_outputs(const struct model_spec *spec)
{
	return model_labels_of(spec) == MODEL_CLASS ? spec->classes : 1;
}

static int shape_check_sizes(const struct model_spec *spec, struct error *err)
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

static int shape_check_labels(const struct model_kind *kind, const struct model_spec *spec,
			      struct error *err)
{
	unsigned labels = model_labels_of(spec);
	if (kind->labels && !labels)
		return error_set(err, ERROR_CONFIG, "labels", "%s has no labels of this kind",
				 spec->name);
	if (labels == MODEL_CLASS && (spec->classes < 2 || spec->classes > MODEL_CLASSES_MAX))
		return error_set(err, ERROR_CONFIG, "classes", "%u is not in 2..%d", spec->classes,
				 MODEL_CLASSES_MAX);
	return 0;
}

static int check_widths(const struct model_widths *w, const struct model_option *o,
			struct error *err)
{
	if (w->count < 1 || w->count > MODEL_WIDTHS_MAX)
		return error_set(err, ERROR_CONFIG, o->name, "%u layers, not 1..%d", w->count,
				 MODEL_WIDTHS_MAX);
	for (uint32_t i = 0; i < w->count; i++)
		if (w->width[i] < o->min || w->width[i] > o->max)
			return error_set(err, ERROR_CONFIG, o->name, "%u is not in %.0f..%.0f",
					 w->width[i], o->min, o->max);
	return 0;
}

/* The limits that the table of options says. */
static int check_options(const struct model_kind *kind, const struct model_spec *spec,
			 struct error *err)
{
	for (const struct model_option *o = kind->options; o && o->name; o++) {
		const void *at = (const char *)spec + o->at;
		double value = o->kind == MODEL_NUMBER  ? *(const double *)at
			       : o->kind == MODEL_COUNT ? *(const uint32_t *)at
							: o->min;
		if (!(value >= o->min && value <= o->max))
			return error_set(err, ERROR_CONFIG, o->name, "%g is not in %g..%g", value,
					 o->min, o->max);
		if (o->kind == MODEL_WIDTHS && check_widths(at, o, err) != 0)
			return -1;
	}
	return 0;
}

int model_spec_check(const struct model_spec *spec, struct error *err)
{
	const struct model_kind *kind = model_kind_find(spec->name);
	if (!kind)
		return error_set(err, ERROR_CONFIG, "model", "\"%s\" is not known; there are %s",
				 spec->name, MODEL_NAMES);
	if (shape_check_sizes(spec, err) != 0 || shape_check_labels(kind, spec, err) != 0 ||
	    check_options(kind, spec, err) != 0)
		return -1;
	struct layout l; /* there may be more parameters than one can have */
	layout_start(&l, spec->seed);
	if (kind->check && kind->check(spec, err) != 0)
		return -1;
	return kind->layout(spec, &l, err);
}

int model_layout(const struct model_spec *spec, struct layout *layout, struct error *err)
{
	if (model_spec_check(spec, err) != 0)
		return -1;
	layout_start(layout, spec->seed);
	return kind_of(spec)->layout(spec, layout, err);
}

/* Of a spec that was checked. */
static void shape_sizes(const struct model_spec *spec, uint64_t *dense, uint32_t *width)
{
	struct layout l;
	layout_start(&l, spec->seed);
	if (kind_of(spec)->layout(spec, &l, NULL) != 0)
		abort();
	*dense = layout_dense_count(&l);
	*width = l.table.width;
}

uint64_t model_dense_count(const struct model_spec *spec)
{
	uint64_t dense;
	uint32_t width;
	shape_sizes(spec, &dense, &width);
	return dense;
}

uint32_t model_width(const struct model_spec *spec)
{
	uint64_t dense;
	uint32_t width;
	shape_sizes(spec, &dense, &width);
	return width;
}

uint64_t model_scratch(const struct model_spec *spec)
{
	const struct model_kind *kind = kind_of(spec);
	return kind->scratch ? kind->scratch(spec) : 0;
}

int model_uses_blas(const struct model_spec *spec)
{
	return kind_of(spec)->uses_blas != 0;
}

struct model_keys model_keys(const struct model_spec *spec)
{
	const struct model_kind *kind = kind_of(spec);
	return kind->keys ? kind->keys(spec) : (struct model_keys){0};
}

uint64_t model_key_count(const struct model_spec *spec)
{
	struct model_keys keys = model_keys(spec);
	if (keys.are_rows)
		return spec->samples;
	return keys.own_rows ? UINT64_C(1) << 32 : UINT64_C(1) << spec->hash_bits;
}

/* ---- what several models have ---- */

int model_check_fields(const struct model_spec *spec, struct error *err)
{
	if (spec->fields == 0)
		return error_set(err, ERROR_CONFIG, "model",
				 "%s needs sparse columns (SPARSE), the same in every row; libsvm "
				 "rows and images have none; lr does without",
				 spec->name);
	return 0;
}

int model_keys_layout(const struct model_spec *spec, struct layout *l, uint32_t width,
		      uint32_t zero_columns, double scale, struct error *err)
{
	struct layout_table table = {.name = "keys",
				     .width = width,
				     .rows = (uint64_t)1 << spec->hash_bits,
				     .zero_columns = zero_columns,
				     .scale = scale,
				     .update = LAYOUT_OPTIMIZER,
				     .export = LAYOUT_EXPORT_ROWS};
	return layout_set_table(l, &table, err);
}
