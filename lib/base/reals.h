/* reals: numbers in order. */
#ifndef PACELINE_BASE_REALS_H
#define PACELINE_BASE_REALS_H

#include <stddef.h>
#include <stdint.h>

/* From the smallest; none is NAN. */
void reals_sort(double *v, size_t n);
void u64_sort(uint64_t *v, size_t n);
/* The one in the middle, of two their mean; n is not 0. Sorts v. */
double reals_median(double *v, size_t n);

#endif
