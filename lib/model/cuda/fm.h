/*
 * fm: factorisation machines (Rendle, 2010, ICDM, equations 1 and 5), and the part of that name in
 * deepfm.  A sample's keys have embeddings v[e]; with s[e] = sum v[e] * value,
 *   z += 1/2 sum_e (s[e]^2 - sum (v[e] * value)^2)
 */
#ifndef PACELINE_MODEL_CUDA_FM_H
#define PACELINE_MODEL_CUDA_FM_H

#include "model/cuda/rows.h"

/* Adds to z[n], and keeps s[n][embed]. Embeddings are columns 1 and on of a row, times gain. */
void fm_forward(struct queue *q, struct keys k, size_t embed, const float *rows, float gain,
		float *s, float *z);
/* Adds to by the gradient by the (multiplied) embeddings: by[k * embed + e] of occurrence k. */
void fm_backward(struct queue *q, struct keys k, size_t embed, const float *rows, float gain,
		 const float *s, const float *delta, float *by);

#endif
