/*
 * cross: a cross layer (Wang et al., 2017, arXiv:1708.05123, equation 3):
 *   next[n][in] = x0 * (x w) + bias + x,   where (x w) is one number a sample
 */
#ifndef PACELINE_MODEL_CUDA_CROSS_H
#define PACELINE_MODEL_CUDA_CROSS_H

#include "model/cuda/device.h"

/* Keeps the numbers (x w) in dots[n]. */
void cross_forward(struct queue *q, size_t n, size_t in, const float *x0, const float *x,
		   const float *w, const float *bias, float *dots, float *next);
/* by[n][in], the gradient by `next`, becomes that by x; what comes to x0 is added to by_x0. Adds to
 * by_w and by_bias. by_dots: [n] of scratch; parts: layers_parts(n, in). */
void cross_backward(struct queue *q, size_t n, size_t in, const float *x0, const float *x,
		    const float *w, const float *dots, float *by, float *by_x0, float *by_dots,
		    float *parts, float *by_w, float *by_bias);

#endif
