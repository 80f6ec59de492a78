/*
 * deep: layers with a ReLU over the embeddings of all fields and the dense columns, and a product
 * for each output: as in lib/model/deep.c, the same parameters in the same places.
 */
#ifndef PACELINE_MODEL_CUDA_DEEP_H
#define PACELINE_MODEL_CUDA_DEEP_H

#include "model/cuda/plugin.h"

/* As in lib/model/deep.h: beside a wide part, what parameters are multiplied by. */
#define DEEP_GAIN 0.4f

struct deep {
	float gain;
	size_t in; /* fields * embed + dense_inputs */
	size_t weight[MODEL_WIDTHS_MAX], bias[MODEL_WIDTHS_MAX], output; /* in the dense vector */
	const float *x; /* [n][in]: in the room, or the batch's own */
	float *room;
	float *layer[MODEL_WIDTHS_MAX]; /* outputs */
	float *by[2];                   /* gradients by them, taking turns */
};

void deep_open(struct plugin *p, struct deep *d, float gain);
void deep_carve(struct plugin *p, struct deep *d, struct carver *c, size_t n);
/* The same for a model that has nothing else of its own. */
void deep_own_carve(struct plugin *p, struct carver *c, size_t n);
/* x = the inputs; then what the layers say of them is added to z. */
void deep_gather(struct plugin *p, struct deep *d, const struct samples *r);
void deep_forward(struct plugin *p, const struct deep *d, const struct samples *r);
/* by_x[n][learnt] = keep * by_x + the gradient by the first columns of x */
void deep_backward(struct plugin *p, const struct deep *d, const struct samples *r, size_t learnt,
		   float keep, float *by_x);

#endif
