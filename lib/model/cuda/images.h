/*
 * images: what convolutions of 3 x 3 with a border of zeros need beside products: the inputs under
 * each pixel's window are a line of a matrix (im2col).  And maxima of 2 x 2.
 */
#ifndef PACELINE_MODEL_CUDA_IMAGES_H
#define PACELINE_MODEL_CUDA_IMAGES_H

#include "model/cuda/device.h"

#define IMAGES_WINDOW 9

/* Images x[n], of `channels` planes of height x width, one after the other (as in the files), or if
 * `by_pixel`, all channels of a pixel together (as products write them). */
struct images {
	size_t n, channels, height, width;
	int by_pixel;
};

/* to[n * height * width][channels * 9]: column (channel, y, x), as in torch.nn.Conv2d */
void images_windows(struct queue *q, struct images s, const float *x, float *to);
/* The way back: by_x = the sums of what lies in each window. */
void images_windows_back(struct queue *q, struct images s, const float *by, float *by_x);
/* x[n][height][width][channels], the outputs of a convolution, become to[n][height / 2][width /
 * 2][channels], or if `planes`, [n][channels][height / 2][width / 2]: max(0, bias + the most of
 * four). which: which of the four it was. */
void images_pool(struct queue *q, struct images s, const float *x, const float *bias, int planes,
		 float *to, uint8_t *which);
/* by_x = the gradient by x, from that by `to`. */
void images_pool_back(struct queue *q, struct images s, const float *to, const float *by,
		      const uint8_t *which, int planes, float *by_x);

#endif
