/*
 * lr: logistic regression, and the wide part of others.  The gradients by rows are plugin.cu's.
 */
#include "model/cuda/layers.h"
#include "model/cuda/plugin.h"

void wide_forward(struct plugin *p, const struct range *r)
{
	rows_wide(&p->device.queue, r->keys, p->card.rows, p->width, r->x, p->spec.dense_inputs,
		  p->card.dense, r->z);
}

void wide_backward(struct plugin *p, const struct range *r)
{
	struct queue *q = &p->device.queue;
	size_t n = r->keys.n;
	layers_column_sums(q, n, 1, r->delta, NULL, 1.0f, r->parts, p->dense_gradient);
	layers_column_sums(q, n, p->spec.dense_inputs, r->x, r->delta, 1.0f, r->parts,
			   p->dense_gradient + 1);
}

static int lr_open(struct plugin *p, struct error *err)
{
	(void)err;
	p->dense_count = 1 + (size_t)p->spec.dense_inputs;
	p->width = 1;
	p->widest = p->dense_count;
	return 0;
}

static void lr_carve(struct plugin *p, struct carver *c, size_t n)
{
	(void)p, (void)c, (void)n;
}

extern const struct cuda_model cuda_lr = {"lr",          0,   lr_open, lr_carve, wide_forward,
					  wide_backward, 1.0f};
