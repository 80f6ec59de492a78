/*
 * cin: the compressed interaction network of xdeepfm (Lian et al., 2018, arXiv:1803.05170, equation
 * 6).  A feature map has `high` vectors of `embed` elements a sample; with x0 the `fields`
 * embeddings and x the map before, next[o][e] = sum over h, j of w[o][h * fields + j] * x[h][e] *
 * x0[j][e].  The products x * x0 are made in shared memory, tile by tile, and never stored.
 */
#ifndef PACELINE_MODEL_CUDA_CIN_H
#define PACELINE_MODEL_CUDA_CIN_H

#include "model/cuda/device.h"

struct cin {
	size_t n, embed, fields, high, out;
	const float *x0; /* [n][fields][embed] */
	const float *x;  /* [n][high][embed] */
	const float *w;  /* [out][high * fields] */
};

/* next[n][out][embed] */
void cin_forward(struct queue *q, struct cin c, float *next);
/* by_next: as next. by_w is added to; parts: [cin_parts()]. */
size_t cin_parts(struct cin c);
void cin_by_weight(struct queue *q, struct cin c, const float *by_next, float *parts, float *by_w);
/* by_x is written, by_x0 is added to. They must not be the same. */
void cin_by_input(struct queue *q, struct cin c, const float *by_next, float *by_x, float *by_x0);
/* to[n][out] = the sums of each vector's elements, and back: adds by[n][out] to all of by_next. */
void cin_pool(struct queue *q, struct cin c, const float *next, float *to);
void cin_pool_back(struct queue *q, struct cin c, const float *by, float *by_next);

#endif
