/*
 * warm: the page faults of a large memory, taken by a thread before somebody needs it.  A fresh
 * memory costs several times as much as the copy into it, and on a virtual machine ten times that.
 */
#ifndef PACELINE_PS_WARM_H
#define PACELINE_PS_WARM_H

#include <stddef.h>

struct warm;

/* What is in it stays as it is, so it may be used at once, or even given back: then this was in
 * vain. NULL: there is no thread, or no need of one. On kernels before 5.14 it does nothing. */
struct warm *warm_begin(void *at, size_t bytes);
void warm_end(struct warm *w); /* NULL is fine */

#endif
