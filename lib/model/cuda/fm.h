/*
 * fm: factorisation machines (Rendle, 2010, ICDM, equations 1 and 5), and the part of that name in
 * deepfm.  A sample's keys have embeddings v[e]; with s[e] = sum v[e] * value,
 *   z += 1/2 sum_e (s[e]^2 - sum (v[e] * value)^2)
 */
#ifndef PACELINE_MODEL_CUDA_FM_H
#define PACELINE_MODEL_CUDA_FM_H

#include "model/cuda/rows.h"

/* Adds to z[n], and keeps s[n][embed]. Embeddings are the ends of rows, times gain. */
void fm_forward(struct queue *q, struct keys k, size_t embed, float gain, float *s, float *z);
/* by[k * embed + e], of the whole batch: the gradient by the (multiplied) embedding of occurrence
 * k. It is added to what is there, or if `alone`, written. */
void fm_backward(struct queue *q, struct keys k, size_t embed, float gain, const float *s,
		 const float *delta, int alone, float *by);

#endif
