/*
 * layers: kernels of dense layers beside the products.  Matrices are row-major.
 * "Parts" is scratch of layers_parts(n, columns) floats.
 */
#ifndef PACELINE_MODEL_CUDA_LAYERS_H
#define PACELINE_MODEL_CUDA_LAYERS_H

#include "model/cuda/device.h"

/* y[n][out] = bias */
void layers_bias(struct queue *q, size_t n, size_t out, float *y, const float *bias);
/* y[n][out] = max(0, y + gain * bias); a NaN stays. */
void layers_bias_relu(struct queue *q, size_t n, size_t out, float *y, const float *bias,
		      float gain);
/* by = 0 where y is not above 0 */
void layers_relu_back(struct queue *q, size_t n, size_t out, float *by, const float *y);

/* z[n] += gain * h[n][in] w[in]: an output unit */
void layers_dot(struct queue *q, size_t n, size_t in, const float *h, const float *w, float gain,
		float *z);
/* by[n][in] = gain * delta[n] * w[in] */
void layers_dot_back(struct queue *q, size_t n, size_t in, const float *delta, const float *w,
		     float gain, float *by);

/* to[columns] += gain * sum of factor[i] * m[i][..]; factor NULL: all 1, m NULL: all 1 (and
 * columns 1). */
size_t layers_parts(size_t n, size_t columns);
void layers_column_sums(struct queue *q, size_t n, size_t columns, const float *m,
			const float *factor, float gain, float *parts, float *to);

#endif
