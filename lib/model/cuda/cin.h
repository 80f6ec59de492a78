/*
 * cin: the compressed interaction network of xdeepfm (Lian et al., 2018, arXiv:1803.05170, equation
 * 6).  A map has an element for each line: a sample's e-th element is line sample * embed + e.  With
 * x0 the embeddings, a map for each field, and x the `high` maps before,
 *   next[o][r] = sum over h, j of w[o][h * fields + j] * x[h][r] * x0[j][r]
 * The products x * x0 are made in shared memory, tile by tile, and never stored.
 */
#ifndef PACELINE_MODEL_CUDA_CIN_H
#define PACELINE_MODEL_CUDA_CIN_H

#include "model/cuda/device.h"

struct cin {
	size_t lines, fields, high, out;
	const float *x0; /* [fields][lines] */
	const float *x;  /* [high][lines] */
	const float *w;  /* [out][high * fields] */
};

/* next[out][lines] */
void cin_forward(struct queue *q, struct cin c, float *next);
/* by_next: as next. by_w is added to; parts: [cin_parts()]. */
size_t cin_parts(struct cin c);
void cin_by_weight(struct queue *q, struct cin c, const float *by_next, float *parts, float *by_w);
/* by_x and by_x0 are added to. They must not be the same. */
void cin_by_input(struct queue *q, struct cin c, const float *by_next, float *by_x, float *by_x0);

/* Between a sample's embeddings, of field j at x + i * ld + j * embed, and maps: x0 = x; and back,
 * x += the sum of two maps of each (b may be NULL). */
void cin_maps(struct queue *q, size_t n, size_t fields, size_t embed, const float *x, size_t ld,
	      float *x0);
void cin_maps_back(struct queue *q, size_t n, size_t fields, size_t embed, const float *a,
		   const float *b, float *x, size_t ld);

/* by[high][lines] += weight[high], if there is one; then line[lines] = the sum of x[h] * by[h]. */
void cin_line(struct queue *q, size_t lines, size_t high, const float *weight, const float *x,
	      float *by, float *line);
/* z[n] += the sum of a sample's lines; and back, line = delta of its sample. */
void cin_sum(struct queue *q, size_t n, size_t embed, const float *line, float *z);
void cin_sum_back(struct queue *q, size_t n, size_t embed, const float *delta, float *line);
/* scaled[high][lines] = x * line, and by *= line. */
void cin_scale(struct queue *q, size_t lines, size_t high, const float *line, const float *x,
	       float *by, float *scaled);

#endif
