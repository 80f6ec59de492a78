/*
 * audit: counts, in the model itself, how often each sample was applied.  Its gradient is 1 for the
 * row of the sample's number and its table adds gradients as they are, so a finished job of E epochs
 * must export E everywhere.  Must never look at labels or weights.
 */
#include "param/layout.h"
#include "model/kind.h"

static int audit_check(const struct model_spec *spec, struct error *err)
{
	if (spec->samples < 1 || spec->samples > UINT32_MAX)
		return error_set(err, ERROR_CONFIG, "samples", "audit takes 1..%u rows, not %llu",
				 UINT32_MAX, (unsigned long long)spec->samples);
	return 0;
}

static int audit_layout(const struct model_spec *spec, struct layout *l, struct error *err)
{
	layout_start(l, spec->seed);
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
	(void)spec;
	return 0;
}

static uint32_t audit_width(const struct model_spec *spec)
{
	(void)spec;
	return 1;
}

static int audit_train(struct model *m, const struct model_batch *b, const float *dense,
		       const float *rows, float *dense_gradient, float *row_gradient,
		       double *loss_sum, struct error *err)
{
	(void)m, (void)dense, (void)rows, (void)dense_gradient, (void)loss_sum, (void)err;
	for (size_t i = 0; i < b->count; i++)
		for (uint32_t k = b->offset[i]; k < b->offset[i + 1]; k++)
			row_gradient[b->index[k]] += 1.0f;
	return 0;
}

const struct model_kind model_audit = {
	.name = "audit",
	.check = audit_check,
	.layout = audit_layout,
	.dense_count = audit_dense_count,
	.width = audit_width,
	.train = audit_train,
	.keys_are_rows = 1,
};
