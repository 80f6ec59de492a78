/*
 * cin: see cin.h.  All of it is a product of matrices, one of which is not there: its line r is
 * (sample, e), its column (h, j).  Tiles of 64 x 64 by 256 threads, which have 4 x 4 sums each.
 */
#include "model/cuda/cin.h"

#define TILE 64
#define DEEP 16 /* of a step */
#define SIDE 16 /* threads on a side of a block */
#define EACH (TILE / SIDE)
/* Of lines, for gradients by weights: few enough parts for memory, and enough blocks for a card. */
#define PART_LINES ((size_t)2048)
#define PARTS_MOST 64

/* Where vector `of` of line r lies in an array of `high` vectors a sample. */
DEVICE_CODE size_t cin_at(size_t r, size_t embed, size_t high, size_t of)
{
	return (r / embed * high + of) * embed + r % embed;
}

/* Element (r, column) of the matrix that is not there; 0 outside. */
DEVICE_CODE float cin_product(struct cin c, size_t r, size_t column)
{
	if (r >= c.n * c.embed || column >= c.high * c.fields)
		return 0;
	return c.x[cin_at(r, c.embed, c.high, column / c.fields)] *
	       c.x0[cin_at(r, c.embed, c.fields, column % c.fields)];
}

DEVICE_CODE float cin_weight(struct cin c, size_t o, size_t column)
{
	return o < c.out && column < c.high * c.fields ? c.w[o * c.high * c.fields + column] : 0;
}

DEVICE_CODE float cin_by(struct cin c, const float *by_next, size_t r, size_t o)
{
	return r < c.n * c.embed && o < c.out ? by_next[cin_at(r, c.embed, c.out, o)] : 0;
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
		if (o < c.out && r < c.n * c.embed)
			next[cin_at(r, c.embed, c.out, o)] = sum[y][x];
	});
}

static unsigned cin_tiles(size_t count)
{
	return (unsigned)((count + TILE - 1) / TILE);
}

void cin_forward(struct queue *q, struct cin c, float *next)
{
	queue_kernel(q, "cin_forward_kernel", dim3(cin_tiles(c.n * c.embed), cin_tiles(c.out)),
		     dim3(SIDE, SIDE), cin_forward_kernel, c, next);
}

/* ---- gradients by weights ---- */

static size_t part_lines(struct cin c)
{
	size_t lines = (c.n * c.embed + PARTS_MOST - 1) / PARTS_MOST;
	lines = (lines + DEEP - 1) / DEEP * DEEP;
	return lines > PART_LINES ? lines : PART_LINES;
}

static size_t parts_count(struct cin c)
{
	return (c.n * c.embed + part_lines(c) - 1) / part_lines(c);
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
	size_t end = begin + lines < c.n * c.embed ? begin + lines : c.n * c.embed;
	unsigned t = threadIdx.y * SIDE + threadIdx.x;
	float sum[EACH][EACH] = {};
	for (size_t r = begin; r < end; r += DEEP) {
		for (unsigned at = t; at < DEEP * TILE; at += SIDE * SIDE) {
			size_t line = r + at % DEEP < end ? r + at % DEEP : c.n * c.embed;
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
	size_t first_r = (size_t)blockIdx.x * TILE, lines = c.n * c.embed;
	unsigned t = threadIdx.y * SIDE + threadIdx.x;
	for (size_t first_j = 0; first_j < c.fields; first_j += TILE) {
		float x0[EACH][EACH], sum_x0[EACH][EACH] = {};
		cin_each(first_r, first_j, [&](unsigned y, unsigned x, size_t r, size_t j) {
			x0[y][x] = r < lines && j < c.fields ? c.x0[cin_at(r, c.embed, c.fields, j)]
							     : 0;
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
				float high = r < lines ? c.x[cin_at(r, c.embed, c.high, h)] : 0,
				      sum = 0;
				for (unsigned x = 0; x < EACH; x++) {
					sum += of[y][x] * x0[y][x];
					sum_x0[y][x] += of[y][x] * high;
				}
				for (int lanes = SIDE / 2; lanes > 0; lanes /= 2)
					sum += __shfl_xor_sync(ALL_LANES, sum, lanes);
				if (threadIdx.x == 0 && r < lines) {
					float *to = by_x + cin_at(r, c.embed, c.high, h);
					*to = first_j > 0 ? *to + sum : sum;
				}
			}
		}
		cin_each(first_r, first_j, [&](unsigned y, unsigned x, size_t r, size_t j) {
			if (r < lines && j < c.fields)
				by_x0[cin_at(r, c.embed, c.fields, j)] += sum_x0[y][x];
		});
	}
}

void cin_by_input(struct queue *q, struct cin c, const float *by_next, float *by_x, float *by_x0)
{
	queue_kernel(q, "cin_input_kernel", cin_tiles(c.n * c.embed), dim3(SIDE, SIDE),
		     cin_input_kernel, c, by_next, by_x, by_x0);
}

/* ---- sums over a vector ---- */

__global__ void cin_pool_kernel(size_t vectors, size_t embed, const float *next, float *to)
{
	for (size_t at = thread_number(); at < vectors; at += thread_count()) {
		float sum = 0;
		for (size_t e = 0; e < embed; e++)
			sum += next[at * embed + e];
		to[at] = sum;
	}
}

void cin_pool(struct queue *q, struct cin c, const float *next, float *to)
{
	queue_kernel(q, "cin_pool_kernel", queue_grid(c.n * c.out), QUEUE_BLOCK, cin_pool_kernel,
		     c.n * c.out, c.embed, next, to);
}

__global__ void cin_pool_back_kernel(size_t count, size_t embed, const float *by, float *by_next)
{
	for (size_t at = thread_number(); at < count; at += thread_count())
		by_next[at] += by[at / embed];
}

void cin_pool_back(struct queue *q, struct cin c, const float *by, float *by_next)
{
	queue_kernel(q, "cin_pool_back_kernel", queue_grid(c.n * c.out * c.embed), QUEUE_BLOCK,
		     cin_pool_back_kernel, c.n * c.out * c.embed, c.embed, by, by_next);
}
