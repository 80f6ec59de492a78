/*
 * conv: see conv.h.  Backward, each input collects what comes to it: nothing is scattered.
 */
#include "model/cuda/conv.h"

DEVICE_CODE size_t pixel_at(struct images s, size_t image, size_t channel, size_t y, size_t x)
{
	size_t pixel = y * s.width + x, size = s.height * s.width;
	if (s.by_pixel)
		return (image * size + pixel) * s.channels + channel;
	return (image * s.channels + channel) * size + pixel;
}

static size_t pixels(struct images s)
{
	return s.n * s.channels * s.height * s.width;
}

__global__ void windows_kernel(struct images s, const float *x, float *to)
{
	size_t columns = s.channels * CONV_WINDOW, size = s.height * s.width;
	for (size_t at = thread_number(); at < s.n * size * columns; at += thread_count()) {
		size_t line = at / columns, column = at % columns, pixel = line % size;
		/* 1 less than it says: the window begins one to the left and above */
		size_t row = pixel / s.width + column % CONV_WINDOW / 3,
		       left = pixel % s.width + column % 3;
		int inside = row > 0 && row <= s.height && left > 0 && left <= s.width;
		to[at] = inside ? x[pixel_at(s, line / size, column / CONV_WINDOW, row - 1,
					     left - 1)]
				: 0.0f;
	}
}

void conv_windows(struct queue *q, struct images s, const float *x, float *to)
{
	queue_kernel(q, "windows_kernel", queue_grid(pixels(s) * CONV_WINDOW), QUEUE_BLOCK,
		     windows_kernel, s, x, to);
}

/* A thread an input: 9 terms in order. */
__global__ void windows_back_kernel(struct images s, const float *by, float *by_x)
{
	size_t columns = s.channels * CONV_WINDOW, size = s.height * s.width;
	for (size_t at = thread_number(); at < s.n * s.channels * size; at += thread_count()) {
		size_t channel = at % s.channels, pixel = at / s.channels % size,
		       image = at / s.channels / size;
		size_t y = pixel / s.width, x = pixel % s.width;
		float sum = 0;
		for (size_t w = 0; w < CONV_WINDOW; w++) {
			/* the pixel whose window has this input at its place w, 1 more than it is
			 */
			size_t row = y + 2 - w / 3, column = x + 2 - w % 3;
			if (row > 0 && row <= s.height && column > 0 && column <= s.width)
				sum += by[(image * size + (row - 1) * s.width + column - 1) *
						  columns +
					  channel * CONV_WINDOW + w];
		}
		by_x[pixel_at(s, image, channel, y, x)] = sum;
	}
}

void conv_windows_back(struct queue *q, struct images s, const float *by, float *by_x)
{
	queue_kernel(q, "windows_back_kernel", queue_grid(pixels(s)), QUEUE_BLOCK,
		     windows_back_kernel, s, by, by_x);
}

__global__ void pool_kernel(struct images s, const float *x, float *to, uint8_t *which)
{
	size_t height = s.height / 2, width = s.width / 2;
	for (size_t at = thread_number(); at < s.n * height * width * s.channels;
	     at += thread_count()) {
		size_t channel = at % s.channels, place = at / s.channels, column = place % width,
		       row = place / width % height, image = place / width / height;
		float most = x[pixel_at(s, image, channel, 2 * row, 2 * column)];
		uint8_t best = 0;
		for (uint8_t i = 1; i < 4; i++) {
			float v =
				x[pixel_at(s, image, channel, 2 * row + i / 2, 2 * column + i % 2)];
			if (!(v <= most)) { /* a NaN is the largest: it must not be lost */
				most = v;
				best = i;
			}
		}
		to[at] = most;
		which[at] = best;
	}
}

void conv_pool(struct queue *q, struct images s, const float *x, float *to, uint8_t *which)
{
	queue_kernel(q, "pool_kernel",
		     queue_grid(s.n * (s.height / 2) * (s.width / 2) * s.channels), QUEUE_BLOCK,
		     pool_kernel, s, x, to, which);
}

__global__ void pool_back_kernel(struct images s, const float *by, const uint8_t *which,
				 float *by_x)
{
	size_t height = s.height / 2, width = s.width / 2;
	for (size_t at = thread_number(); at < s.n * s.height * s.width * s.channels;
	     at += thread_count()) {
		size_t channel = at % s.channels, place = at / s.channels, column = place % s.width,
		       row = place / s.width % s.height, image = place / s.width / s.height;
		size_t pool =
			((image * height + row / 2) * width + column / 2) * s.channels + channel;
		int is_in = row / 2 < height && column / 2 < width;
		by_x[at] = is_in && which[pool] == row % 2 * 2 + column % 2 ? by[pool] : 0.0f;
	}
}

void conv_pool_back(struct queue *q, struct images s, const float *by, const uint8_t *which,
		    float *by_x)
{
	queue_kernel(q, "pool_back_kernel", queue_grid(pixels(s)), QUEUE_BLOCK, pool_back_kernel, s,
		     by, which, by_x);
}
