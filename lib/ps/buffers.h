/*
 * buffers: memory for the gradients of staged pushes, used again and again, because the page faults
 * of a fresh buffer of many megabytes cost as much as the copy into it.  A buffer that is given
 * back is kept for the next pushes.  It is freed when BUFFERS_IDLE_TAKES of them did not need it.
 */
#ifndef PACELINE_PS_BUFFERS_H
#define PACELINE_PS_BUFFERS_H

#include <stddef.h>

#define BUFFERS_IDLE_TAKES 256 /* a buffer that this many takes did not need is freed */

struct buffers;

struct buffers *buffers_new(void);    /* NULL: no memory */
void buffers_free(struct buffers *r); /* all must have been given back; NULL is fine */

/* Takes a buffer of at least so many bytes, aligned to 64. NULL: no memory. */
void *buffer_take(struct buffers *r, size_t bytes);
void buffer_give(void *buffer); /* NULL is fine */
/* How many buffers are kept. */
size_t buffers_idle(const struct buffers *r);

#endif
