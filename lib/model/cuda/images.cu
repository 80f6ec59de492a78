/*
 * images: see images.h.  Backward, each input collects what comes to it: nothing is scattered.
 */
#include "model/cuda/images.h"

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

/* A line has 9 floats at least, so a card's memory holds less than 2^32 of them. */
__global__ void windows_kernel(struct images s, const float *x, float *to)
{
	uint32_t size = (uint32_t)(s.height * s.width), width = (uint32_t)s.width;
	size_t columns = s.channels * IMAGES_WINDOW;
	matrix_each(s.n * size, columns, [&](size_t line, size_t column) {
		uint32_t pixel = (uint32_t)line % size, place = (uint32_t)column % IMAGES_WINDOW;
		/* 1 less than it says: the window begins one to the left and above */
		size_t row = pixel / width + place / 3, left = pixel % width + place % 3;
		int inside = row > 0 && row <= s.height && left > 0 && left <= s.width;
		to[line * columns + column] =
			inside ? x[pixel_at(s, (uint32_t)line / size, column / IMAGES_WINDOW,
					    row - 1, left - 1)]
			       : 0.0f;
	});
}

void images_windows(struct queue *q, struct images s, const float *x, float *to)
{
	size_t columns = s.channels * IMAGES_WINDOW;
	queue_kernel(q, "windows_kernel", matrix_grid(s.n * s.height * s.width, columns),
		     matrix_block(columns), windows_kernel, s, x, to);
}

/* A thread an input: 9 terms in order. */
__global__ void windows_back_kernel(struct images s, const float *by, float *by_x)
{
	size_t columns = s.channels * IMAGES_WINDOW, size = s.height * s.width;
	for (size_t at = thread_number(); at < s.n * s.channels * size; at += thread_count()) {
		size_t channel = at % s.channels, pixel = at / s.channels % size,
		       image = at / s.channels / size;
		size_t y = pixel / s.width, x = pixel % s.width;
		float sum = 0;
		for (size_t w = 0; w < IMAGES_WINDOW; w++) {
			/* the pixel whose window has this input at its place w, 1 more than it is
			 */
			size_t row = y + 2 - w / 3, column = x + 2 - w % 3;
			if (row > 0 && row <= s.height && column > 0 && column <= s.width)
				sum += by[(image * size + (row - 1) * s.width + column - 1) *
						  columns +
					  channel * IMAGES_WINDOW + w];
		}
		by_x[pixel_at(s, image, channel, y, x)] = sum;
	}
}

void images_windows_back(struct queue *q, struct images s, const float *by, float *by_x)
{
	queue_kernel(q, "windows_back_kernel", queue_grid(pixels(s)), QUEUE_BLOCK,
		     windows_back_kernel, s, by, by_x);
}

/* A place among the pooled ones: a line of them, with a channel. */
struct pooled {
	uint32_t image, row, column;
};

DEVICE_CODE struct pooled pooled_of(const struct images &s, size_t line)
{
	uint32_t width = (uint32_t)s.width / 2, size = (uint32_t)s.height / 2 * width,
		 at = (uint32_t)line % size;
	return {(uint32_t)line / size, at / width, at % width};
}

DEVICE_CODE size_t pooled_at(const struct images &s, const struct pooled &p, size_t channel,
			     int planes)
{
	size_t height = s.height / 2, width = s.width / 2;
	if (planes)
		return ((p.image * s.channels + channel) * height + p.row) * width + p.column;
	return ((p.image * height + p.row) * width + p.column) * s.channels + channel;
}

__global__ void pool_kernel(struct images s, const float *x, const float *bias, int planes,
			    float *to, uint8_t *which)
{
	matrix_each(s.n * (s.height / 2) * (s.width / 2), s.channels, [&](size_t line, size_t ch) {
		struct pooled p = pooled_of(s, line);
		float most = 0;
		uint8_t best = 0;
		for (uint8_t i = 0; i < 4; i++) {
			float v = x[((p.image * s.height + 2 * p.row + i / 2) * s.width +
				     2 * p.column + i % 2) *
					    s.channels +
				    ch];
			if (i == 0 || v > most || v != v) { /* a NaN must not be lost */
				most = v;
				best = i;
			}
		}
		most += bias[ch];
		size_t at = pooled_at(s, p, ch, planes);
		to[at] = most < 0.0f ? 0.0f : most;
		which[at] = best;
	});
}

void images_pool(struct queue *q, struct images s, const float *x, const float *bias, int planes,
		 float *to, uint8_t *which)
{
	queue_kernel(q, "pool_kernel",
		     matrix_grid(s.n * (s.height / 2) * (s.width / 2), s.channels),
		     matrix_block(s.channels), pool_kernel, s, x, bias, planes, to, which);
}

/* A last row or column that is left over gets nothing. */
__global__ void pool_back_kernel(struct images s, const float *to, const float *by,
				 const uint8_t *which, int planes, float *by_x)
{
	uint32_t width = (uint32_t)s.width, size = (uint32_t)s.height * width;
	matrix_each(s.n * size, s.channels, [&](size_t line, size_t ch) {
		uint32_t pixel = (uint32_t)line % size, y = pixel / width, x = pixel % width;
		struct pooled p = {(uint32_t)line / size, y / 2, x / 2};
		float g = 0;
		if (p.row < s.height / 2 && p.column < s.width / 2) {
			size_t at = pooled_at(s, p, ch, planes);
			g = which[at] == y % 2 * 2 + x % 2 && to[at] > 0.0f ? by[at] : 0.0f;
		}
		by_x[line * s.channels + ch] = g;
	});
}

void images_pool_back(struct queue *q, struct images s, const float *to, const float *by,
		      const uint8_t *which, int planes, float *by_x)
{
	queue_kernel(q, "pool_back_kernel", matrix_grid(s.n * s.height * s.width, s.channels),
		     matrix_block(s.channels), pool_back_kernel, s, to, by, which, planes, by_x);
}
