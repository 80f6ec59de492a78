/*
 * audit: counts, in the model itself, how often each sample was applied.  The gradient of a sample
 * is 1 for the row with the sample's number, and the table adds gradients as they are.  So after a
 * whole job of E epochs, every row must be E.  The same holds for the sample's numbers in the dense
 * vector, whose gradients go other ways. It must never look at labels or weights.
 */
#include "model/kind.h"

struct audit_options {
	uint32_t counts; /* numbers of the dense vector for each sample */
};

static const struct model_option audit_options[] = {
	{"counts", MODEL_COUNT, MODEL_OWN(struct audit_options, counts), "0", 0, 1024, NULL,
	 "dense parameters for each row"},
	{0}};

static uint32_t audit_counts(const struct model_spec *spec)
{
	return ((const struct audit_options *)model_own(spec))->counts;
}

static int audit_check(const struct model_spec *spec, struct error *err)
{
	if (spec->samples < 1 || spec->samples > UINT32_MAX)
		return error_set(err, ERROR_CONFIG, "samples", "audit takes 1..%u rows, not %llu",
				 UINT32_MAX, (unsigned long long)spec->samples);
	return 0;
}

static int audit_layout(const struct model_spec *spec, struct layout *l, struct error *err)
{
	uint32_t counts = audit_counts(spec);
	if (counts > 0 && layout_add_tensor(l, "counts", spec->samples, counts, LAYOUT_ZERO, 0,
					    LAYOUT_ADD, err) != 0)
		return -1;
	struct layout_table table = {.name = "audit",
				     .width = 1,
				     .rows = spec->samples,
				     .zero_columns = 1,
				     .update = LAYOUT_ADD,
				     .export = LAYOUT_EXPORT_DENSE};
	return layout_set_table(l, &table, err);
}

static struct model_keys audit_keys(const struct model_spec *spec)
{
	(void)spec;
	return (struct model_keys){.are_rows = 1};
}

static int audit_train(struct model *m, const struct model_step *s, double *loss_sum,
		       struct error *err)
{
	const struct model_batch *b = s->batch;
	uint32_t counts = audit_counts(&m->spec);
	(void)loss_sum, (void)err;
	for (size_t i = 0; i < b->count; i++) {
		for (uint32_t k = b->offset[i]; k < b->offset[i + 1]; k++)
			s->row_gradient[b->index[k]] += 1.0f;
		for (uint32_t k = 0; k < counts; k++)
			s->dense_gradient[b->row[i] * counts + k] += 1.0f;
	}
	return 0;
}

const struct model_kind model_audit = {
	.name = "audit",
	.options = audit_options,
	.check = audit_check,
	.layout = audit_layout,
	.keys = audit_keys,
	.train = audit_train,
};
