/*
 * kernel: which of OpenBLAS' kernels are right on this processor, and which of those is fastest.
 *
 * OpenBLAS picks its kernels by the name of the processor when the library is loaded, and does not
 * know every name.  Other kernels can be twice as fast, and some compute wrong results on newer
 * processors.  So no kernels are used before their results were compared with those of a plain
 * loop.  OPENBLAS_CORETYPE overrides the choice, but is read only when the library is loaded.  So
 * each candidate is tried in a process of its own; one that is wrong or crashes has lost.  The
 * winner is remembered in a file, for this processor and this library.
 */
#ifndef PACELINE_MODEL_KERNEL_H
#define PACELINE_MODEL_KERNEL_H

#include "base/error.h"

#include <stddef.h>

#define KERNEL_NAME_MAX 32

/* The name of the kernels that this process runs, as OpenBLAS calls them. */
const char *kernel_name(void);

/* Compares products of this process with those of a plain loop, of the kinds that models need: odd
 * sizes, both matrices plain and transposed, gaps between rows. It takes some milliseconds. -1: one
 * differs by more than rounding, or writes where it should not; err (ERROR_CONFIG) says which. */
int kernel_judge(struct error *err);

/* How fast this process is. */
struct kernel_speed {
	double gflops;     /* of single-precision matrix products */
	double fold_fraction; /* for model_fold_fraction(); 0: there was no memory to measure it */
};
void kernel_measure(struct kernel_speed *speed);

struct kernel_choice {
	/* the value for OPENBLAS_CORETYPE; "": OpenBLAS' own choice is as good */
	char name[KERNEL_NAME_MAX];
	double fold_fraction; /* of these kernels; 0: not known */
};

/* Finds the fastest kernels that are right. `program probe` must call kernel_judge() and, if all is
 * right, print what kernel_measure() finds: both numbers and a newline. cache: a file; NULL: none;
 * if it can't be used, this is no error. wrong: kernels that were found wrong here ("": OpenBLAS'
 * own choice), which are not taken from the cache either; NULL: none. -1: nothing could be
 * measured, or nothing is right. */
int kernel_choose(const char *program, const char *probe, const char *cache, const char *wrong,
		  struct kernel_choice *choice, struct error *err);

/* Forgets what is remembered for this processor and this library, because it was wrong: the next
 * start measures again. */
void kernel_forget(const char *cache);

#endif
