/*
 * shape: which parameters each model has: its layout and sizes.  Programs that set up a job need
 * only this.  So it must never need OpenBLAS: that library starts threads when it is loaded, and
 * trainctl forks.
 */
#include "model/kind.h"
#include "param/layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct model_shape {
	const char *name;
	int (*check)(const struct model_spec *spec, struct error *err); /* NULL: nothing to check */
	int (*layout)(const struct model_spec *spec, struct layout *l, struct error *err);
	uint64_t (*dense_count)(const struct model_spec *spec);
	uint32_t (*width)(const struct model_spec *spec);
	struct model_keys (*keys)(const struct model_spec *spec); /* NULL: only those of the data */
	int uses_blas;
};

/* ---- lr ---- */

uint64_t model_wide_count(const struct model_spec *spec)
{
	return 1 + (uint64_t)spec->dense_inputs;
}

static int wide_layout(const struct model_spec *spec, struct layout *l, struct error *err)
{
	if (layout_add_tensor(l, "bias", 1, 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER, err) != 0)
		return -1;
	if (spec->dense_inputs == 0)
		return 0;
	return layout_add_tensor(l, "dense.weight", spec->dense_inputs, 1, LAYOUT_ZERO, 0,
				 LAYOUT_OPTIMIZER, err);
}

static int lr_layout(const struct model_spec *spec, struct layout *l, struct error *err)
{
	layout_start(l, spec->seed);
	if (wide_layout(spec, l, err) != 0)
		return -1;
	struct layout_table table = {.name = "keys",
				     .width = 1,
				     .rows = (uint64_t)1 << spec->hash_bits,
				     .zero_columns = 1,
				     .update = LAYOUT_OPTIMIZER,
				     .export = LAYOUT_EXPORT_ROWS};
	return layout_set_table(l, &table, err);
}

static uint32_t lr_width(const struct model_spec *spec)
{
	(void)spec;
	return 1;
}

/* ---- wdl ---- */

/* These are scales of the values in use, not of the stored ones (wdl.c). Embeddings start small: so
 * the wide part learns first, and a key that was never seen in training hardly changes a score. */
#define EMBED_SCALE 0.05
#define OUTPUT_SCALE 0.5 /* multiplied by 1/sqrt(in), which would keep the variance */

static int wdl_check(const struct model_spec *s, struct error *err)
{
	if (s->fields == 0)
		return error_set(err, ERROR_CONFIG, "model",
				 "wdl needs the same sparse columns in every row; libsvm rows "
				 "have none (lr takes them)");
	if (s->embed < 1 || s->embed > 1024)
		return error_set(err, ERROR_CONFIG, "embed", "%u is not in 1..1024", s->embed);
	if (s->hidden_count < 1 || s->hidden_count > MODEL_HIDDEN_MAX)
		return error_set(err, ERROR_CONFIG, "hidden", "%u layers, not 1..%d",
				 s->hidden_count, MODEL_HIDDEN_MAX);
	for (uint32_t i = 0; i < s->hidden_count; i++)
		if (s->hidden[i] < 1 || s->hidden[i] > 65536)
			return error_set(err, ERROR_CONFIG, "hidden", "%u is not in 1..65536",
					 s->hidden[i]);
	return 0;
}

static uint64_t wdl_dense_count(const struct model_spec *s)
{
	uint64_t count = model_wide_count(s), in = wdl_inputs(s);
	for (uint32_t i = 0; i < s->hidden_count; i++) {
		count += (in + 1) * s->hidden[i];
		in = s->hidden[i];
	}
	return count + in;
}

static uint32_t wdl_width(const struct model_spec *s)
{
	return 1 + s->embed;
}

/* Initial weights of layers with a ReLU: He et al., 2015 (arXiv:1502.01852). */
static int wdl_layout(const struct model_spec *s, struct layout *l, struct error *err)
{
	layout_start(l, s->seed);
	if (wide_layout(s, l, err) != 0)
		return -1;
	uint64_t in = wdl_inputs(s);
	for (uint32_t i = 0; i < s->hidden_count; i++) {
		char name[32];
		snprintf(name, sizeof(name), "hidden%u.weight", i + 1);
		if (layout_add_tensor(l, name, s->hidden[i], in, LAYOUT_NORMAL,
				      sqrt(2.0 / (double)in) / (double)WDL_GAIN, LAYOUT_OPTIMIZER,
				      err) != 0)
			return -1;
		snprintf(name, sizeof(name), "hidden%u.bias", i + 1);
		if (layout_add_tensor(l, name, s->hidden[i], 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER,
				      err) != 0)
			return -1;
		in = s->hidden[i];
	}
	if (layout_add_tensor(l, "output.weight", 1, in, LAYOUT_NORMAL,
			      OUTPUT_SCALE / sqrt((double)in) / (double)WDL_GAIN, LAYOUT_OPTIMIZER,
			      err) != 0)
		return -1;
	struct layout_table table = {.name = "keys",
				     .width = 1 + s->embed,
				     .rows = (uint64_t)1 << s->hash_bits,
				     .zero_columns = 1,
				     .scale = EMBED_SCALE / (double)WDL_GAIN,
				     .update = LAYOUT_OPTIMIZER,
				     .export = LAYOUT_EXPORT_ROWS};
	return layout_set_table(l, &table, err);
}

/* ---- audit ---- */

static int audit_check(const struct model_spec *spec, struct error *err)
{
	if (spec->samples < 1 || spec->samples > UINT32_MAX)
		return error_set(err, ERROR_CONFIG, "samples", "audit takes 1..%u rows, not %llu",
				 UINT32_MAX, (unsigned long long)spec->samples);
	if (spec->counts > 1024)
		return error_set(err, ERROR_CONFIG, "counts", "%u is not in 0..1024", spec->counts);
	return 0;
}

static int audit_layout(const struct model_spec *spec, struct layout *l, struct error *err)
{
	layout_start(l, spec->seed);
	if (spec->counts > 0 && layout_add_tensor(l, "counts", spec->samples, spec->counts,
						  LAYOUT_ZERO, 0, LAYOUT_ADD, err) != 0)
		return -1;
	struct layout_table table = {.name = "audit",
				     .width = 1,
				     .rows = spec->samples,
				     .zero_columns = 1,
				     .update = LAYOUT_ADD,
				     .export = LAYOUT_EXPORT_DENSE};
	return layout_set_table(l, &table, err);
}

static uint64_t audit_dense_count(const struct model_spec *spec)
{
	return spec->samples * spec->counts;
}

static uint32_t audit_width(const struct model_spec *spec)
{
	(void)spec;
	return 1;
}

static struct model_keys audit_keys(const struct model_spec *spec)
{
	(void)spec;
	return (struct model_keys){.are_rows = 1};
}

/* ---- lda ---- */

static struct model_keys lda_keys(const struct model_spec *s)
{
	return (struct model_keys){.own_rows = (uint32_t)(s->longest / s->topics + 1),
				   .own_width = s->topics};
}

static int lda_check(const struct model_spec *s, struct error *err)
{
	if (s->fields > 0 || s->dense_inputs > 0 || s->hash_bits != 31)
		return error_set(err, ERROR_CONFIG, "model",
				 "lda needs rows that are documents (FORMAT=bag)");
	if (s->topics < 2 || s->topics > LAYOUT_WIDTH_MAX)
		return error_set(err, ERROR_CONFIG, "topics", "%u is not in 2..%u", s->topics,
				 LAYOUT_WIDTH_MAX);
	if (!(s->alpha >= 1e-9 && s->alpha <= 1e9) || !(s->beta >= 1e-9 && s->beta <= 1e9))
		return error_set(err, ERROR_CONFIG, "alpha, beta", "%g or %g is not in 1e-9..1e9",
				 s->alpha, s->beta);
	if (s->words < 1)
		return error_set(err, ERROR_CONFIG, "words", "lda needs at least one");
	/* The largest key of all is left out: batches count keys from 1. */
	uint64_t rows = s->longest / s->topics + 1;
	if (rows > (MODEL_OWN_KEYS - 1) / (s->samples ? s->samples : 1))
		return error_set(err, ERROR_CONFIG, "model",
				 "%llu documents with room for %llu words each need more than 2^31 "
				 "rows; more topics make rows longer",
				 (unsigned long long)s->samples, (unsigned long long)s->longest);
	return 0;
}

static uint64_t lda_dense_count(const struct model_spec *s)
{
	return (uint64_t)LDA_GROUPS * s->topics;
}

static uint32_t lda_width(const struct model_spec *s)
{
	return s->topics;
}

static int lda_layout(const struct model_spec *s, struct layout *l, struct error *err)
{
	layout_start(l, s->seed);
	if (layout_add_tensor(l, "totals", LDA_GROUPS, s->topics, LAYOUT_ZERO, 0, LAYOUT_ADD,
			      err) != 0)
		return -1;
	struct layout_table table = {.name = "counts",
				     .width = s->topics,
				     .zero_columns = s->topics,
				     .update = LAYOUT_ADD,
				     .export = LAYOUT_EXPORT_ROWS};
	return layout_set_table(l, &table, err);
}

/* ---- all of them ---- */

static const struct model_shape shapes[] = {
	{.name = "lr", .layout = lr_layout, .dense_count = model_wide_count, .width = lr_width},
	{.name = "wdl",
	 .check = wdl_check,
	 .layout = wdl_layout,
	 .dense_count = wdl_dense_count,
	 .width = wdl_width,
	 .uses_blas = 1},
	{.name = "audit",
	 .check = audit_check,
	 .layout = audit_layout,
	 .dense_count = audit_dense_count,
	 .width = audit_width,
	 .keys = audit_keys},
	{.name = "lda",
	 .check = lda_check,
	 .layout = lda_layout,
	 .dense_count = lda_dense_count,
	 .width = lda_width,
	 .keys = lda_keys},
};

static const struct model_shape *shape_find(const char *name)
{
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		if (strcmp(shapes[i].name, name) == 0)
			return &shapes[i];
	return NULL;
}

/* Functions that can't fail are called only with a checked spec. */
static const struct model_shape *shape_of(const struct model_spec *spec)
{
	const struct model_shape *shape = shape_find(spec->name);
	if (!shape)
		abort();
	return shape;
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

int model_spec_check(const struct model_spec *spec, struct error *err)
{
	const struct model_shape *shape = shape_find(spec->name);
	if (!shape)
		return error_set(err, ERROR_CONFIG, "model", "\"%s\" is not known; there are %s",
				 spec->name, MODEL_NAMES);
	if (shape_check_sizes(spec, err) != 0)
		return -1;
	return shape->check ? shape->check(spec, err) : 0;
}

int model_layout(const struct model_spec *spec, struct layout *layout, struct error *err)
{
	if (model_spec_check(spec, err) != 0)
		return -1;
	return shape_of(spec)->layout(spec, layout, err);
}

uint64_t model_dense_count(const struct model_spec *spec)
{
	return shape_of(spec)->dense_count(spec);
}

uint32_t model_width(const struct model_spec *spec)
{
	return shape_of(spec)->width(spec);
}

int model_uses_blas(const struct model_spec *spec)
{
	return shape_of(spec)->uses_blas;
}

struct model_keys model_keys(const struct model_spec *spec)
{
	const struct model_shape *shape = shape_of(spec);
	return shape->keys ? shape->keys(spec) : (struct model_keys){0};
}

uint64_t model_key_count(const struct model_spec *spec)
{
	struct model_keys keys = model_keys(spec);
	if (keys.are_rows)
		return spec->samples;
	return keys.own_rows ? UINT64_C(1) << 32 : UINT64_C(1) << spec->hash_bits;
}
