/*
 * audit: counts, in the model itself, how often each sample was applied.  The gradient of a sample
 * is 1 for the row with the sample's number, and the table adds gradients as they are.  So after a
 * whole job of E epochs, every row must be E.  The same holds for the sample's numbers in the dense
 * vector, whose gradients go other ways. It must never look at labels or weights.
 */
#include "model/kind.h"

static int audit_train(struct model *m, const struct model_batch *b, const float *dense,
		       const float *rows, float *dense_gradient, float *row_gradient,
		       double *loss_sum, struct error *err)
{
	(void)dense, (void)rows, (void)loss_sum, (void)err;
	uint32_t counts = m->spec.counts;
	for (size_t i = 0; i < b->count; i++) {
		for (uint32_t k = b->offset[i]; k < b->offset[i + 1]; k++)
			row_gradient[b->index[k]] += 1.0f;
		for (uint32_t k = 0; k < counts; k++)
			dense_gradient[b->row[i] * counts + k] += 1.0f;
	}
	return 0;
}

const struct model_kind model_audit = {
	.name = "audit",
	.train = audit_train,
};
