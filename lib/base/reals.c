/* reals: see reals.h. */
#include "base/reals.h"

#include <stdlib.h>

static int reals_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int u64_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

void u64_sort(uint64_t *v, size_t n)
{
	qsort(v, n, sizeof *v, u64_compare);
}

void reals_sort(double *v, size_t n)
{
	qsort(v, n, sizeof *v, reals_compare);
}

double reals_median(double *v, size_t n)
{
	reals_sort(v, n);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}
