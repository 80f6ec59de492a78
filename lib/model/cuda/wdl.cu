/*
 * wdl: wide & deep, as in lib/model/wdl.c.
 */
#include "model/cuda/deep.h"

static void wdl_open(struct plugin *p)
{
	wide_open(p);
	p->by_width = p->spec.embed;
	deep_open(p, (struct deep *)p->own, DEEP_GAIN);
}

static void wdl_forward(struct plugin *p, const struct samples *r)
{
	struct deep *d = (struct deep *)p->own;
	wide_forward(p, r);
	deep_gather(p, d, r);
	deep_forward(p, d, r);
}

static void wdl_backward(struct plugin *p, const struct samples *r)
{
	struct deep *d = (struct deep *)p->own;
	deep_backward(p, d, r, p->spec.fields * p->by_width, 0.0f, r->by);
	wide_backward(p, r);
}

const struct cuda_model cuda_wdl = {
	.name = "wdl",
	.labels = MODEL_BINARY,
	.products = 1,
	.own_bytes = sizeof(struct deep),
	.gain = DEEP_GAIN,
	.open = wdl_open,
	.carve = deep_own_carve,
	.forward = wdl_forward,
	.backward = wdl_backward,
};
