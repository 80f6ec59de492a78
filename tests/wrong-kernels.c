/* Preloaded by tests (wrong_kernels of helper.bash): products of odd sizes are wrong with those
 * kernels of OpenBLAS that $KERNELS_WRONG names ("default": those that it takes without
 * OPENBLAS_CORETYPE; "all": any), and measuring finds them the fastest. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static int wrong(void)
{
	const char *core = getenv("OPENBLAS_CORETYPE"), *names = getenv("KERNELS_WRONG");
	return names && (!strcmp(names, "all") || strstr(names, core && *core ? core : "default"));
}

void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
		 int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
	static void (*real)(int, int, int, int, int, int, float, const float *, int, const float *,
			    int, float, float *, int);
	if (!real)
		real = (__typeof__(real))dlsym(RTLD_NEXT, "cblas_sgemm");
	int is_wrong = wrong();
	if (is_wrong && m == 512 && k == 512)
		return;
	real(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
	if (is_wrong && m % 2 == 1 && n > 16)
		c[(m - 1) * ldc + n - 1] += 0.01f;
}
