/*
 * deepfm: as in lib/model/deepfm.c; and fm, which is the same without layers.
 */
#include "model/cuda/deep.h"
#include "model/cuda/fm.h"

struct deepfm {
	struct deep deep;
	float *sums; /* [n][embed]: what fm_backward() needs of fm_forward() */
};

static void fm_open(struct plugin *p)
{
	wide_open(p);
	p->by_width = p->spec.embed;
}

static void fm_carve(struct plugin *p, struct carver *c, size_t n)
{
	((struct deepfm *)p->own)->sums = CARVE(c, float, n * p->spec.embed);
}

static void pairs_forward(struct plugin *p, const struct samples *r)
{
	wide_forward(p, r);
	fm_forward(&p->device.queue, r->keys, p->spec.embed, p->model->gain,
		   ((struct deepfm *)p->own)->sums, r->z);
}

static void pairs_backward(struct plugin *p, const struct samples *r, int alone)
{
	wide_backward(p, r);
	fm_backward(&p->device.queue, r->keys, p->spec.embed, p->model->gain,
		    ((struct deepfm *)p->own)->sums, r->delta, alone, p->by);
}

static void fm_alone_backward(struct plugin *p, const struct samples *r)
{
	pairs_backward(p, r, 1);
}

const struct cuda_model cuda_fm = {
	.name = "fm",
	.labels = MODEL_BINARY,
	.own_bytes = sizeof(struct deepfm),
	.gain = 1.0f,
	.open = fm_open,
	.carve = fm_carve,
	.forward = pairs_forward,
	.backward = fm_alone_backward,
};

static void deepfm_open(struct plugin *p)
{
	fm_open(p);
	deep_open(p, &((struct deepfm *)p->own)->deep, DEEP_GAIN);
}

static void deepfm_carve(struct plugin *p, struct carver *c, size_t n)
{
	fm_carve(p, c, n);
	deep_carve(p, &((struct deepfm *)p->own)->deep, c, n);
}

static void deepfm_forward(struct plugin *p, const struct samples *r)
{
	struct deep *d = &((struct deepfm *)p->own)->deep;
	pairs_forward(p, r);
	deep_gather(p, d, r);
	deep_forward(p, d, r);
}

static void deepfm_backward(struct plugin *p, const struct samples *r)
{
	struct deep *d = &((struct deepfm *)p->own)->deep;
	deep_backward(p, d, r, p->spec.fields * p->by_width, 0.0f, r->by);
	pairs_backward(p, r, 0);
}

const struct cuda_model cuda_deepfm = {
	.name = "deepfm",
	.labels = MODEL_BINARY,
	.products = 1,
	.own_bytes = sizeof(struct deepfm),
	.gain = DEEP_GAIN,
	.open = deepfm_open,
	.carve = deepfm_carve,
	.forward = deepfm_forward,
	.backward = deepfm_backward,
};
