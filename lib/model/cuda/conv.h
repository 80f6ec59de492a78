/*
 * conv: convolutions of 3 x 3 with a border of zeros, as products: the inputs under each pixel's
 * window are a line of a matrix (im2col).  And maxima of 2 x 2.
 */
#ifndef PACELINE_MODEL_CUDA_CONV_H
#define PACELINE_MODEL_CUDA_CONV_H

#include "model/cuda/device.h"

#define CONV_WINDOW 9

/* Images x[n], of `channels` planes of height x width, one after the other (as in the files), or if
 * `by_pixel`, all channels of a pixel together (as products write them). */
struct images {
	size_t n, channels, height, width;
	int by_pixel;
};

/* to[n * height * width][channels * 9]: column (channel, y, x), as in torch.nn.Conv2d */
void conv_windows(struct queue *q, struct images s, const float *x, float *to);
/* The way back: by_x = the sums of what lies in each window. */
void conv_windows_back(struct queue *q, struct images s, const float *by, float *by_x);
/* to[n][height / 2][width / 2][channels], and which of four it was. Images are by_pixel. */
void conv_pool(struct queue *q, struct images s, const float *x, float *to, uint8_t *which);
void conv_pool_back(struct queue *q, struct images s, const float *by, const uint8_t *which,
		    float *by_x);

#endif
