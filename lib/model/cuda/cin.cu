/*
 * cin: see cin.h.  All of it is a product of matrices, one of which is not there: its column is
 * (h, j).  Tiles of 64 x 64 by 256 threads, which have 4 x 4 sums each.
 */
#include "model/cuda/cin.h"

#define TILE 64
#define DEEP 16 /* of a step */
#define SIDE 16 /* threads on a side of a block */
#define EACH (TILE / SIDE)
/* Of lines, for gradients by weights: few enough parts for memory, and enough blocks for a card. */
#define PART_LINES ((size_t)2048)
#define PARTS_MOST 64

/* Element (r, column) of the matrix that is not there; 0 outside. */
DEVICE_CODE float cin_product(const struct cin &c, size_t r, size_t column)
{
	if (r >= c.lines || column >= c.high * c.fields)
		return 0;
	uint32_t h = (uint32_t)column / (uint32_t)c.fields,
		 j = (uint32_t)column % (uint32_t)c.fields;
	return c.x[h * c.lines + r] * c.x0[j * c.lines + r];
}

DEVICE_CODE float cin_weight(const struct cin &c, size_t o, size_t column)
{
	return o < c.out && column < c.high * c.fields ? c.w[o * c.high * c.fields + column] : 0;
}

DEVICE_CODE float cin_by(const struct cin &c, const float *by_next, size_t r, size_t o)
{
	return r < c.lines && o < c.out ? by_next[o * c.lines + r] : 0;
}

typedef float cin_tile[DEEP][TILE + 1]; /* + 1: columns lie in different banks */

/* sum[y][x] += a[..][y] * b[..][x], for the 4 x 4 of this thread */
DEVICE_CODE void cin_multiply(const cin_tile &a, const cin_tile &b, float (&sum)[EACH][EACH])
{
	for (unsigned d = 0; d < DEEP; d++)
		for (unsigned y = 0; y < EACH; y++)
			for (unsigned x = 0; x < EACH; x++)
				sum[y][x] +=
					a[d][threadIdx.y + y * SIDE] * b[d][threadIdx.x + x * SIDE];
}

/* f(y, x, at_y, at_x) for the 4 x 4 of this thread, in the tile that begins there */
template <typename F> DEVICE_CODE void cin_each(size_t first_y, size_t first_x, F f)
{
	for (unsigned y = 0; y < EACH; y++)
		for (unsigned x = 0; x < EACH; x++)
			f(y, x, first_y + threadIdx.y + y * SIDE, first_x + threadIdx.x + x * SIDE);
}

/* A tile of outputs and lines. */
__global__ void __launch_bounds__(SIDE *SIDE) cin_forward_kernel(struct cin c, float *next)
{
	SHARED(float, weight, [DEEP][TILE + 1]);
	SHARED(float, product, [DEEP][TILE + 1]);
	size_t first_r = (size_t)blockIdx.x * TILE, first_o = (size_t)blockIdx.y * TILE;
	unsigned t = threadIdx.y * SIDE + threadIdx.x;
	float sum[EACH][EACH] = {};
	for (size_t column = 0; column < c.high * c.fields; column += DEEP) {
		for (unsigned at = t; at < DEEP * TILE; at += SIDE * SIDE) {
			weight[at % DEEP][at / DEEP] =
				cin_weight(c, first_o + at / DEEP, column + at % DEEP);
			product[at / TILE][at % TILE] =
				cin_product(c, first_r + at % TILE, column + at / TILE);
		}
		__syncthreads();
		cin_multiply(weight, product, sum);
		__syncthreads();
	}
	cin_each(first_o, first_r, [&](unsigned y, unsigned x, size_t o, size_t r) {
		if (o < c.out && r < c.lines)
			next[o * c.lines + r] = sum[y][x];
	});
}

static unsigned cin_tiles(size_t count)
{
	return (unsigned)((count + TILE - 1) / TILE);
}

void cin_forward(struct queue *q, struct cin c, float *next)
{
	queue_kernel(q, "cin_forward_kernel", dim3(cin_tiles(c.lines), cin_tiles(c.out)),
		     dim3(SIDE, SIDE), cin_forward_kernel, c, next);
}

/* ---- gradients by weights ---- */

static size_t part_lines(struct cin c)
{
	size_t lines = (c.lines + PARTS_MOST - 1) / PARTS_MOST;
	lines = (lines + DEEP - 1) / DEEP * DEEP;
	return lines > PART_LINES ? lines : PART_LINES;
}

static size_t parts_count(struct cin c)
{
	return (c.lines + part_lines(c) - 1) / part_lines(c);
}

size_t cin_parts(struct cin c)
{
	return parts_count(c) * c.out * c.high * c.fields;
}

/* A tile of outputs and columns, over the lines of one part. */
__global__ void __launch_bounds__(SIDE *SIDE)
	cin_weight_kernel(struct cin c, size_t lines, const float *by_next, float *parts)
{
	SHARED(float, by, [DEEP][TILE + 1]);
	SHARED(float, product, [DEEP][TILE + 1]);
	size_t columns = c.high * c.fields, first_c = (size_t)blockIdx.x * TILE,
	       first_o = (size_t)blockIdx.y * TILE, begin = blockIdx.z * lines;
	size_t end = begin + lines < c.lines ? begin + lines : c.lines;
	unsigned t = threadIdx.y * SIDE + threadIdx.x;
	float sum[EACH][EACH] = {};
	for (size_t r = begin; r < end; r += DEEP) {
		for (unsigned at = t; at < DEEP * TILE; at += SIDE * SIDE) {
			size_t line = r + at % DEEP < end ? r + at % DEEP : c.lines;
			by[at % DEEP][at / DEEP] = cin_by(c, by_next, line, first_o + at / DEEP);
			product[at % DEEP][at / DEEP] = cin_product(c, line, first_c + at / DEEP);
		}
		__syncthreads();
		cin_multiply(by, product, sum);
		__syncthreads();
	}
	cin_each(first_o, first_c, [&](unsigned y, unsigned x, size_t o, size_t column) {
		if (o < c.out && column < columns)
			parts[(blockIdx.z * c.out + o) * columns + column] = sum[y][x];
	});
}

__global__ void cin_parts_kernel(size_t parts, size_t count, const float *of_parts, float *to)
{
	for (size_t at = thread_number(); at < count; at += thread_count()) {
		float sum = 0;
		for (size_t p = 0; p < parts; p++)
			sum += of_parts[p * count + at];
		to[at] += sum;
	}
}

void cin_by_weight(struct queue *q, struct cin c, const float *by_next, float *parts, float *by_w)
{
	size_t columns = c.high * c.fields, count = parts_count(c);
	if (count == 0)
		return;
	queue_kernel(q, "cin_weight_kernel",
		     dim3(cin_tiles(columns), cin_tiles(c.out), (unsigned)count), dim3(SIDE, SIDE),
		     cin_weight_kernel, c, part_lines(c), by_next, parts);
	queue_kernel(q, "cin_parts_kernel", queue_grid(c.out * columns), QUEUE_BLOCK,
		     cin_parts_kernel, count, c.out * columns, parts, by_w);
}

/* ---- gradients by inputs ---- */

/* 64 lines, all columns: for each h the gradients by the products x[h] * x0[j] of a tile of j. They
 * are summed over j for x[h], by 16 lanes, and over h for x0[j], which this thread keeps. */
__global__ void __launch_bounds__(SIDE *SIDE)
	cin_input_kernel(struct cin c, const float *by_next, float *by_x, float *by_x0)
{
	SHARED(float, by, [DEEP][TILE + 1]);
	SHARED(float, weight, [DEEP][TILE + 1]);
	size_t first_r = (size_t)blockIdx.x * TILE, lines = c.lines;
	unsigned t = threadIdx.y * SIDE + threadIdx.x;
	for (size_t first_j = 0; first_j < c.fields; first_j += TILE) {
		float x0[EACH][EACH], sum_x0[EACH][EACH] = {};
		cin_each(first_r, first_j, [&](unsigned y, unsigned x, size_t r, size_t j) {
			x0[y][x] = r < lines && j < c.fields ? c.x0[j * lines + r] : 0;
		});
		for (size_t h = 0; h < c.high; h++) {
			float of[EACH][EACH] = {};
			for (size_t o = 0; o < c.out; o += DEEP) {
				for (unsigned at = t; at < DEEP * TILE; at += SIDE * SIDE) {
					size_t j = first_j + at % TILE;
					by[at / TILE][at % TILE] = cin_by(
						c, by_next, first_r + at % TILE, o + at / TILE);
					weight[at / TILE][at % TILE] =
						j < c.fields ? cin_weight(c, o + at / TILE,
									  h * c.fields + j)
							     : 0;
				}
				__syncthreads();
				cin_multiply(by, weight, of);
				__syncthreads();
			}
			for (unsigned y = 0; y < EACH; y++) {
				size_t r = first_r + threadIdx.y + y * SIDE;
				float high = r < lines ? c.x[h * lines + r] : 0, sum = 0;
				for (unsigned x = 0; x < EACH; x++) {
					sum += of[y][x] * x0[y][x];
					sum_x0[y][x] += of[y][x] * high;
				}
				for (int lanes = SIDE / 2; lanes > 0; lanes /= 2)
					sum += __shfl_xor_sync(ALL_LANES, sum, lanes);
				if (threadIdx.x == 0 && r < lines)
					by_x[h * lines + r] += sum;
			}
		}
		cin_each(first_r, first_j, [&](unsigned y, unsigned x, size_t r, size_t j) {
			if (r < lines && j < c.fields)
				by_x0[j * lines + r] += sum_x0[y][x];
		});
	}
}

void cin_by_input(struct queue *q, struct cin c, const float *by_next, float *by_x, float *by_x0)
{
	queue_kernel(q, "cin_input_kernel", cin_tiles(c.lines), dim3(SIDE, SIDE), cin_input_kernel,
		     c, by_next, by_x, by_x0);
}

/* ---- embeddings, maps, outputs ---- */

/* Neighbours write side by side. A line has several floats, so there are less than 2^32 of them. */
__global__ void maps_kernel(size_t n, size_t fields, uint32_t embed, const float *x, size_t ld,
			    float *x0)
{
	size_t lines = n * embed;
	matrix_each(fields, lines, [&](size_t j, size_t r) {
		size_t i = (uint32_t)r / embed, e = (uint32_t)r % embed;
		x0[j * lines + r] = x[i * ld + j * embed + e];
	});
}

void cin_maps(struct queue *q, size_t n, size_t fields, size_t embed, const float *x, size_t ld,
	      float *x0)
{
	queue_kernel(q, "maps_kernel", matrix_grid(fields, n * embed), matrix_block(n * embed),
		     maps_kernel, n, fields, (uint32_t)embed, x, ld, x0);
}

__global__ void maps_back_kernel(size_t n, uint32_t embed, size_t columns, const float *a,
				 const float *b, float *x, size_t ld)
{
	size_t lines = n * embed;
	matrix_each(n, columns, [&](size_t i, size_t column) {
		size_t j = (uint32_t)column / embed,
		       at = j * lines + i * embed + column - j * embed;
		x[i * ld + column] += a[at] + (b ? b[at] : 0.0f);
	});
}

void cin_maps_back(struct queue *q, size_t n, size_t fields, size_t embed, const float *a,
		   const float *b, float *x, size_t ld)
{
	size_t columns = fields * embed;
	queue_kernel(q, "maps_back_kernel", matrix_grid(n, columns), matrix_block(columns),
		     maps_back_kernel, n, (uint32_t)embed, columns, a, b, x, ld);
}

__global__ void line_kernel(size_t lines, size_t high, const float *weight, const float *x,
			    float *by, float *line)
{
	for (size_t r = thread_number(); r < lines; r += thread_count()) {
		float sum = 0;
		for (size_t h = 0; h < high; h++) {
			float v = by[h * lines + r] + (weight ? weight[h] : 0.0f);
			by[h * lines + r] = v;
			sum += v * x[h * lines + r];
		}
		line[r] = sum;
	}
}

void cin_line(struct queue *q, size_t lines, size_t high, const float *weight, const float *x,
	      float *by, float *line)
{
	queue_kernel(q, "line_kernel", queue_grid(lines), QUEUE_BLOCK, line_kernel, lines, high,
		     weight, x, by, line);
}

__global__ void sum_kernel(size_t n, size_t embed, const float *line, float *z)
{
	for (size_t i = thread_number(); i < n; i += thread_count()) {
		float sum = 0;
		for (size_t e = 0; e < embed; e++)
			sum += line[i * embed + e];
		z[i] += sum;
	}
}

void cin_sum(struct queue *q, size_t n, size_t embed, const float *line, float *z)
{
	queue_kernel(q, "sum_kernel", queue_grid(n), QUEUE_BLOCK, sum_kernel, n, embed, line, z);
}

__global__ void sum_back_kernel(size_t n, size_t embed, const float *delta, float *line)
{
	matrix_each(n, embed, [&](size_t i, size_t e) { line[i * embed + e] = delta[i]; });
}

void cin_sum_back(struct queue *q, size_t n, size_t embed, const float *delta, float *line)
{
	queue_kernel(q, "sum_back_kernel", matrix_grid(n, embed), matrix_block(embed),
		     sum_back_kernel, n, embed, delta, line);
}

__global__ void scale_kernel(size_t lines, size_t high, const float *line, const float *x,
			     float *by, float *scaled)
{
	matrix_each(high, lines, [&](size_t h, size_t r) {
		scaled[h * lines + r] = x[h * lines + r] * line[r];
		by[h * lines + r] *= line[r];
	});
}

void cin_scale(struct queue *q, size_t lines, size_t high, const float *line, const float *x,
	       float *by, float *scaled)
{
	queue_kernel(q, "scale_kernel", matrix_grid(high, lines), matrix_block(lines), scale_kernel,
		     lines, high, line, x, by, scaled);
}
