/*
 * product: see product.h.  The library is opened by name, with what is called: the plug-in is small
 * and loads without it.
 */
#include "model/cuda/product.h"

#include <dlfcn.h>
#include <stdlib.h>

/* Without a place of its own, cuBLAS may choose another kernel (and order) when memory is short. */
#define WORK_BYTES ((size_t)32 << 20)

struct blas {
	void *library;
	cublasHandle_t handle;
	struct room work;
	decltype(&cublasCreate_v2) create;
	decltype(&cublasDestroy_v2) destroy;
	decltype(&cublasSetStream_v2) set_stream;
	decltype(&cublasSetMathMode) set_math;
	decltype(&cublasSetWorkspace_v2) set_work;
	decltype(&cublasSgemm_v2_64) sgemm;
};

template <typename F> static int blas_find(struct blas *b, F *function, const char *name)
{
	*function = (F)dlsym(b->library, name);
	return *function ? 0 : -1;
}

static int blas_load(struct blas *b, struct error *err)
{
	static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !b->library; i++)
		b->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!b->library)
		return cuda_error(err, ERROR_UNAVAILABLE, "cuda",
				  "no cuBLAS on this host: libcublas.so.13 is not found");
	if (blas_find(b, &b->create, "cublasCreate_v2") != 0 ||
	    blas_find(b, &b->destroy, "cublasDestroy_v2") != 0 ||
	    blas_find(b, &b->set_stream, "cublasSetStream_v2") != 0 ||
	    blas_find(b, &b->set_math, "cublasSetMathMode") != 0 ||
	    blas_find(b, &b->set_work, "cublasSetWorkspace_v2") != 0 ||
	    blas_find(b, &b->sgemm, "cublasSgemm_v2_64") != 0)
		return cuda_error(err, ERROR_UNAVAILABLE, "cuda",
				  "libcublas.so lacks calls of version 12: it is another version");
	return 0;
}

int blas_open(struct blas **out, cudaStream_t stream, int tf32, struct error *err)
{
	struct blas *b = (struct blas *)calloc(1, sizeof(*b));
	if (!b)
		return cuda_error(err, ERROR_OS, "", "out of memory");
	if (blas_load(b, err) != 0 || room_grow(&b->work, WORK_BYTES, err) != 0) {
		blas_free(b);
		return -1;
	}
	cublasStatus_t result = b->create(&b->handle);
	if (result != CUBLAS_STATUS_SUCCESS)
		b->handle = NULL;
	else if ((result = b->set_stream(b->handle, stream)) == CUBLAS_STATUS_SUCCESS &&
		 (result = b->set_work(b->handle, b->work.at, WORK_BYTES)) == CUBLAS_STATUS_SUCCESS)
		result = b->set_math(b->handle,
				     tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH);
	if (result != CUBLAS_STATUS_SUCCESS) {
		blas_free(b);
		return cuda_error(
			err, result == CUBLAS_STATUS_ALLOC_FAILED ? ERROR_OS : ERROR_UNAVAILABLE,
			"cuda", "cuBLAS does not start: status %d", (int)result);
	}
	*out = b;
	return 0;
}

void blas_free(struct blas *b)
{
	if (!b)
		return;
	if (b->handle)
		b->destroy(b->handle);
	room_free(&b->work);
	if (b->library)
		dlclose(b->library);
	free(b);
}

/* c[m][n] = gain * op(a) op(b) + keep * c, column-major */
static void product(struct queue *q, const char *what, cublasOperation_t ta, cublasOperation_t tb,
		    size_t m, size_t n, size_t k, float gain, const float *a, size_t lda,
		    const float *b, size_t ldb, float keep, float *c, size_t ldc)
{
	if (q->failed || m == 0 || n == 0)
		return;
	cublasStatus_t result =
		q->blas->sgemm(q->blas->handle, ta, tb, (int64_t)m, (int64_t)n, (int64_t)k, &gain,
			       a, (int64_t)lda, b, (int64_t)ldb, &keep, c, (int64_t)ldc);
	if (result != CUBLAS_STATUS_SUCCESS)
		queue_keep(q, QUEUE_BLAS + (int)result, what);
}

void product_forward(struct queue *q, size_t n, size_t out, size_t in, float gain, const float *x,
		     const float *w, size_t ld, float keep, float *y)
{
	product(q, "product_forward", CUBLAS_OP_T, CUBLAS_OP_N, out, n, in, gain, w, ld, x, in,
		keep, y, out);
}

void product_by_input(struct queue *q, size_t n, size_t out, size_t in, float gain,
		      const float *by_y, const float *w, size_t ld, float keep, float *by_x)
{
	product(q, "product_by_input", CUBLAS_OP_N, CUBLAS_OP_N, in, n, out, gain, w, ld, by_y, out,
		keep, by_x, in);
}

void product_by_weight(struct queue *q, size_t n, size_t out, size_t in, float gain,
		       const float *by_y, const float *x, float *by_w, size_t ld)
{
	product(q, "product_by_weight", CUBLAS_OP_N, CUBLAS_OP_T, in, out, n, gain, x, in, by_y,
		out, 1.0f, by_w, ld);
}
