/*
 * buffers: memory for the gradients of staged pushes, used again and again: the page faults of a
 * fresh buffer of many megabytes cost as much as the copy into it.  A buffer given back is kept for
 * the next pushes, and freed when BUFFERS_IDLE_TAKES of them did not need it.
 */
#ifndef PACELINE_PS_BUFFERS_H
#define PACELINE_PS_BUFFERS_H

#include <stddef.h>

#define BUFFERS_IDLE_TAKES 256 /* a buffer that this many takes did not need is freed */

struct buffers;

struct buffers *buffers_new(void);    /* NULL: no memory */
void buffers_free(struct buffers *r); /* those that are out must be back; NULL is fine */

/* bytes of memory, aligned to 64, or NULL. */
void *buffer_take(struct buffers *r, size_t bytes);
void buffer_give(void *buffer); /* NULL is fine */
size_t buffers_idle(const struct buffers *r);

#endif
