/*
 * cublas: the calls of cuBLAS that Paceline uses, as plain loops (machine.h).  Matrices are
 * column-major, as there.  The library is loaded by dlopen(), so that is here, too.
 */
#ifndef CUDACPU_CUBLAS_H
#define CUDACPU_CUBLAS_H

#include "nccl.h"

#include <dlfcn.h>

enum cublasStatus_t {
	CUBLAS_STATUS_SUCCESS = 0,
	CUBLAS_STATUS_ALLOC_FAILED = 3,
	CUBLAS_STATUS_INVALID_VALUE = 7
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasMath_t { CUBLAS_DEFAULT_MATH = 0, CUBLAS_TF32_TENSOR_OP_MATH = 3 };

struct cublasContext {
	cudaStream_t stream = NULL;
};
typedef cublasContext *cublasHandle_t;

extern "C" {

inline cublasStatus_t cublasCreate_v2(cublasHandle_t *to)
{
	if (cudacpu::fails())
		return CUBLAS_STATUS_ALLOC_FAILED;
	*to = new cublasContext;
	return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
	delete handle;
	cudacpu::set.live--;
	return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
	handle->stream = stream;
	return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t)
{
	return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void *at, size_t bytes)
{
	cudacpu::check_place(at, bytes, true, "cuBLAS's work space");
	return CUBLAS_STATUS_SUCCESS;
}

/* C[m][n] = alpha * op(A) op(B) + beta * C */
inline cublasStatus_t cublasSgemm_v2_64(cublasHandle_t handle, cublasOperation_t ta,
					cublasOperation_t tb, int64_t m, int64_t n, int64_t k,
					const float *alpha, const float *a, int64_t lda,
					const float *b, int64_t ldb, const float *beta, float *c,
					int64_t ldc)
{
	if (m < 0 || n < 0 || k < 0 || lda < max<int64_t>(1, ta == CUBLAS_OP_N ? m : k) ||
	    ldb < max<int64_t>(1, tb == CUBLAS_OP_N ? k : n) || ldc < max<int64_t>(1, m))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (m == 0 || n == 0)
		return CUBLAS_STATUS_SUCCESS;
	cudacpu::check_place(c, ((size_t)(n - 1) * (size_t)ldc + (size_t)m) * sizeof(float), true,
			     "a product");
	cudacpu::stream_add(handle->stream, [=, alpha = *alpha, beta = *beta] {
		for (int64_t j = 0; j < n; j++)
			for (int64_t i = 0; i < m; i++) {
				float sum = 0;
				for (int64_t l = 0; l < k; l++) {
					size_t x = ta == CUBLAS_OP_N
							   ? (size_t)l * (size_t)lda + (size_t)i
							   : (size_t)i * (size_t)lda + (size_t)l;
					size_t y = tb == CUBLAS_OP_N
							   ? (size_t)j * (size_t)ldb + (size_t)l
							   : (size_t)l * (size_t)ldb + (size_t)j;
					sum += a[x] * b[y];
				}
				float *to = c + (size_t)j * (size_t)ldc + (size_t)i;
				*to = beta == 0 ? alpha * sum
						: alpha * sum + beta * *to; /* 0: it may be a NaN */
			}
	});
	return CUBLAS_STATUS_SUCCESS;
}
}

namespace cudacpu
{

inline void *library(const char *name)
{
	if (strcmp(name, "libnccl.so.2") == 0)
		return (set.nccl = (int)told_number("nccl", (size_t)set.nccl)) ? &set : NULL;
	return set.blas && strncmp(name, "libcublas.so", 12) == 0 ? &set : NULL;
}

inline void *symbol(void *, const char *name)
{
	static const struct {
		const char *name;
		void *function;
	} all[] = {{"cublasCreate_v2", (void *)cublasCreate_v2},
		   {"cublasDestroy_v2", (void *)cublasDestroy_v2},
		   {"cublasSetStream_v2", (void *)cublasSetStream_v2},
		   {"cublasSetMathMode", (void *)cublasSetMathMode},
		   {"cublasSetWorkspace_v2", (void *)cublasSetWorkspace_v2},
		   {"cublasSgemm_v2_64", (void *)cublasSgemm_v2_64},
		   {"ncclCommInitAll", (void *)ncclCommInitAll},
		   {"ncclCommDestroy", (void *)ncclCommDestroy},
		   {"ncclCommAbort", (void *)ncclCommAbort},
		   {"ncclGroupStart", (void *)ncclGroupStart},
		   {"ncclGroupEnd", (void *)ncclGroupEnd},
		   {"ncclReduce", (void *)ncclReduce}};
	for (const auto &one : all)
		if (strcmp(one.name, name) == 0)
			return one.function;
	return NULL;
}

} // namespace cudacpu

#define dlopen(name, flags) cudacpu::library(name)
#define dlsym(from, name) cudacpu::symbol(from, name)
#define dlclose(from) (void)(from)

#endif
