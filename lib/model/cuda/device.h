/*
 * device: what all .cu files share: a queue of work for the card, its memory, cuBLAS.  Private to
 * lib/model/cuda, which is a plug-in (lib/model/backend.h): it calls nothing of Paceline's other
 * rooms.
 *
 * Work is queued in one stream and runs in order, later.  The first call that fails is kept in the
 * queue, and all that follow do nothing; so only who waits asks (queue_wait).
 */
#ifndef PACELINE_MODEL_CUDA_DEVICE_H
#define PACELINE_MODEL_CUDA_DEVICE_H

#include "base/error.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

/* An array that all threads of a block share. tests/cudacpu has another definition. */
#ifndef SHARED
#define SHARED(type, name, size) __shared__ type name size
#endif

struct queue {
	cudaStream_t stream;
	int failed;       /* a cudaError_t, or a cublasStatus_t + QUEUE_BLAS; 0: nothing so far */
	const char *what; /* the first call that failed */
	const struct blas *blas;
};
#define QUEUE_BLAS 100000

static inline void queue_keep(struct queue *q, int result, const char *what)
{
	if (q->failed || !result)
		return;
	q->failed = result;
	q->what = what;
}

/* Queues a kernel. The size of the grid may be 0: then there is nothing to do. */
template <typename... P, typename... A>
void queue_kernel(struct queue *q, const char *what, dim3 grid, dim3 block, void (*kernel)(P...),
		  A... arguments)
{
	cudaLaunchConfig_t config = {};
	if (q->failed || grid.x == 0 || grid.y == 0)
		return;
	config.gridDim = grid;
	config.blockDim = block;
	config.stream = q->stream;
	queue_keep(q, cudaLaunchKernelEx(&config, kernel, P(arguments)...), what);
}

/* The grid for so many threads in blocks of 256. There is a most, so loops go in
 * strides of all threads.
 */
#define QUEUE_BLOCK 256
#define QUEUE_Y_MAX 65535 /* of a card; in x there may be 2^31 - 1 */
static inline dim3 queue_grid(size_t threads)
{
	size_t blocks = (threads + QUEUE_BLOCK - 1) / QUEUE_BLOCK;
	return dim3((unsigned)(blocks < 0x7fffffff ? blocks : 0x7fffffff));
}

/* The grid and the block for matrix_each(): as many threads side by side as there are columns, so
 * that few idle. */
static inline dim3 matrix_block(size_t columns)
{
	unsigned lanes = 1;
	while (lanes < columns && lanes < 32)
		lanes *= 2;
	return dim3(lanes, QUEUE_BLOCK / lanes);
}
static inline dim3 matrix_grid(size_t n, size_t columns)
{
	dim3 block = matrix_block(columns);
	size_t down = (n + block.y - 1) / block.y, across = (columns + block.x - 1) / block.x;
	return dim3((unsigned)(down < 0x7fffffff ? down : 0x7fffffff),
		    (unsigned)(across < QUEUE_Y_MAX ? across : QUEUE_Y_MAX));
}

void queue_to_card(struct queue *q, void *to, const void *pinned, size_t bytes);
void queue_to_host(struct queue *q, void *pinned, const void *from, size_t bytes);
void queue_zero(struct queue *q, void *at, size_t bytes);
/* Waits until all is done. What went wrong: ERROR_OS: no memory; ERROR_TEMPFAIL: the card does not
 * answer any more, another may. */
int queue_wait(struct queue *q, struct error *err);
int queue_tell(const struct queue *q, struct error *err);

/* Memory that grows and keeps nothing when it does; zeroed it is empty. */
struct room {
	void *at;
	size_t bytes;
};
/* Of the card. Waits for the queue if memory moves. */
int room_grow(struct room *r, size_t bytes, struct error *err);
void room_free(struct room *r);
/* Pinned memory of the host. */
int pinned_grow(struct room *r, size_t bytes, struct error *err);
void pinned_free(struct room *r);

/* cuBLAS, which takes 60 ms and 600 MB of files to load: only models with products do. */
struct blas;
int blas_open(struct blas **out, cudaStream_t stream, int tf32, struct error *err);
void blas_free(struct blas *b);

/* Fills err, as error_set() of lib/base does. */
int cuda_error(struct error *err, int code, const char *place, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* A card: its number, and a stream for all work. name: cuda[:NUMBER][+tf32]. */
struct device {
	struct queue queue;
	struct blas *blas; /* NULL: not asked for */
	int tf32, number;
	char about[160];
};
/* How many cards this host has; -1: none of those that the name may mean can be used. */
int device_look(const char *name, struct error *err);
/* Bytes of the current card's memory that nobody has. */
size_t device_left(void);
int device_open(struct device *d, const char *name, int products, struct error *err);
void device_close(struct device *d);

#ifdef __CUDACC__
#define DEVICE_CODE __device__ __forceinline__
#else
#define DEVICE_CODE inline
#endif

/* The number of the calling thread in a grid of one dimension, and how many there are. */
DEVICE_CODE size_t thread_number()
{
	return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

DEVICE_CODE size_t thread_count()
{
	return (size_t)gridDim.x * blockDim.x;
}

/* f(row, column) for each element of a matrix [n][columns]. It needs no division, which takes
 * longer than what most kernels do with an element. */
template <typename F> DEVICE_CODE void matrix_each(size_t n, size_t columns, F f)
{
	size_t down = (size_t)gridDim.x * blockDim.y, across = (size_t)gridDim.y * blockDim.x;
	for (size_t i = (size_t)blockIdx.x * blockDim.y + threadIdx.y; i < n; i += down)
		for (size_t j = (size_t)blockIdx.y * blockDim.x + threadIdx.x; j < columns;
		     j += across)
			f(i, j);
}

#define WARP 32
#define ALL_LANES 0xffffffffu

/* The sum of a warp's values, in all its lanes. */
DEVICE_CODE float warp_sum(float v)
{
	for (int by = WARP / 2; by > 0; by /= 2)
		v += __shfl_xor_sync(ALL_LANES, v, by);
	return v;
}

DEVICE_CODE float warp_max(float v)
{
	for (int by = WARP / 2; by > 0; by /= 2)
		v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, by));
	return v;
}

#endif
