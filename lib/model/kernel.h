/*
 * kernel: which of OpenBLAS' kernels are right on this processor, and which of those is fastest.
 *
 * OpenBLAS picks its kernels by the processor's name when the library loads and does not know every
 * name; the right ones can be twice as fast, and some compute wrong results on processors that came
 * later.  So none is used before its results are compared with those of a plain loop.
 * OPENBLAS_CORETYPE overrides the choice, and is read at loading only, so each candidate is tried
 * in a process of its own; one that is wrong or crashes has lost.  The winner is remembered in a
 * file, for this processor and this library.
 */
#ifndef PACELINE_MODEL_KERNEL_H
#define PACELINE_MODEL_KERNEL_H

#include "base/error.h"

#include <stddef.h>

#define KERNEL_NAME_MAX 32

/* The kernels that this process runs, as OpenBLAS calls them. */
const char *kernel_name(void);

/* Compares this process' products with those of a plain loop, as models ask for them: sizes that
 * are no multiple of anything, both matrices as they are and transposed, rows apart. Some
 * milliseconds. -1: one differs by more than rounding, or writes where it should not; err
 * (ERROR_CONFIG) says which. */
int kernel_judge(struct error *err);

/* Single-precision matrix products of this process: GFLOP/s. */
double kernel_measure(void);

/* The fastest right kernels' name for OPENBLAS_CORETYPE into name, "" when OpenBLAS' own choice is
 * as good. program and probe: `program probe` must judge, and when all was right print
 * kernel_measure() and a newline. cache: file; NULL: none. wrong: kernels that were judged wrong
 * here ("" OpenBLAS' own choice), which are not taken from the cache either; NULL: none was. A
 * cache that can't be used is no error; -1 when nothing could be measured, or nothing was right. */
int kernel_choose(const char *program, const char *probe, const char *cache, const char *wrong,
		  char name[KERNEL_NAME_MAX], struct error *err);

/* Forgets what was remembered for this processor and this library, because it was wrong: the next
 * start measures anew. */
void kernel_forget(const char *cache);

#endif
