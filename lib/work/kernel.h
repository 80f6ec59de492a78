/*
 * kernel: which of OpenBLAS' kernels is fastest on this processor.
 *
 * OpenBLAS picks its kernels by the processor's name when the library loads and does not know every
 * name; the right ones can be twice as fast.  OPENBLAS_CORETYPE overrides, and is read at loading
 * only, so each candidate is measured in a process of its own; one that crashes has lost.  The
 * winner is remembered in a file, for this processor and this library.
 */
#ifndef PACELINE_WORK_KERNEL_H
#define PACELINE_WORK_KERNEL_H

#include "base/error.h"

#include <stddef.h>

#define KERNEL_NAME_MAX 32

/* Single-precision matrix products of this process: GFLOP/s. */
double kernel_measure(void);

/* The fastest kernels' name for OPENBLAS_CORETYPE into name, "" when OpenBLAS' own choice is as good.
 * program and probe: `program probe` must print kernel_measure() and a newline. cache: file; NULL:
 * none. A cache that can't be used is no error; -1 when nothing at all could be measured. */
int kernel_choose(const char *program, const char *probe, const char *cache,
		  char name[KERNEL_NAME_MAX], struct error *err);

#endif
