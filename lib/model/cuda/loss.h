/*
 * loss: what a model's outputs cost, and the gradient by them: as in lib/model/loss.c.
 */
#ifndef PACELINE_MODEL_CUDA_LOSS_H
#define PACELINE_MODEL_CUDA_LOSS_H

#include "model/cuda/device.h"

enum loss { LOSS_LOG, LOSS_SQUARED, LOSS_HINGE, LOSS_SQUARED_HINGE, LOSS_SOFTMAX };

/* delta[n][outputs]: the gradient by z; *loss += the sum of weight * loss. weight NULL: all 1.
 * delta may be z. Only LOSS_SOFTMAX has more than one output; its label is a class's number, and
 * one that is none gives a loss that is a NaN. each: [n] of scratch, for LOSS_SOFTMAX; parts:
 * [loss_parts(n)]. */
size_t loss_parts(size_t n);
void loss_of(struct queue *q, enum loss kind, size_t n, size_t outputs, const float *z,
	     const float *label, const float *weight, float *delta, double *each, double *parts,
	     double *loss);

#endif
