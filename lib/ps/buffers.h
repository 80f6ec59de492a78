/*
 * buffers: memory for the gradients of staged pushes, used again and again: a fresh one of many
 * megabytes costs as much in page faults as the copy that it is for.  What is given back is kept
 * for the next pushes, and freed when so many came and none needed it.
 */
#ifndef PACELINE_PS_BUFFERS_H
#define PACELINE_PS_BUFFERS_H

#include <stddef.h>

#define BUFFERS_IDLE_TAKES 256 /* a buffer that was not needed for so many is freed */

struct buffers;

struct buffers *buffers_new(void);    /* NULL: no memory */
void buffers_free(struct buffers *r); /* those that are out must be back; NULL is fine */

/* bytes of memory, aligned to 64, or NULL. */
void *buffer_take(struct buffers *r, size_t bytes);
void buffer_give(void *buffer); /* NULL is fine */
size_t buffers_idle(const struct buffers *r);

#endif
