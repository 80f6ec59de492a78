/* Seconds of rounds, and the one in the middle. */
#ifndef PACELINE_BENCH_ROUNDS_H
#define PACELINE_BENCH_ROUNDS_H

#include <stdlib.h>
#include <time.h>

static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline int rounds_ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts them. */
static inline double median(double *seconds, size_t n)
{
	qsort(seconds, n, sizeof *seconds, rounds_ascending);
	return seconds[n / 2];
}

#endif
