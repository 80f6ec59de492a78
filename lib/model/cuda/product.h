/*
 * product: dense products by cuBLAS.  All matrices are row-major, as everywhere in lib/model;
 * cuBLAS sees them transposed.  ld is how many floats a row of
 * weights has, of which the first are meant.  One stream: the sums' order is
 * fixed for a card and a version of cuBLAS.
 */
#ifndef PACELINE_MODEL_CUDA_PRODUCT_H
#define PACELINE_MODEL_CUDA_PRODUCT_H

#include "model/cuda/device.h"

/* y[n][out] = gain * x[n][in] w[out][in of ld]^T + keep * y */
void product_forward(struct queue *q, size_t n, size_t out, size_t in, float gain, const float *x,
		     const float *w, size_t ld, float keep, float *y);
/* by_x[n][in] = gain * by_y[n][out] w[out][in of ld] + keep * by_x */
void product_by_input(struct queue *q, size_t n, size_t out, size_t in, float gain,
		      const float *by_y, const float *w, size_t ld, float keep, float *by_x);
/* by_w[out][in of ld] += gain * by_y[n][out]^T x[n][in] */
void product_by_weight(struct queue *q, size_t n, size_t out, size_t in, float gain,
		       const float *by_y, const float *x, float *by_w, size_t ld);

#endif
