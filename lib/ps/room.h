/*
 * room: memory for the gradients of staged pushes, used again and again: a fresh one of many
 * megabytes costs as much in page faults as the copy that it is for.  What is given back is kept
 * for the next pushes, and freed when so many came and none needed it.
 */
#ifndef PACELINE_PS_ROOM_H
#define PACELINE_PS_ROOM_H

#include <stddef.h>

#define ROOMS_IDLE_TAKES 256 /* a room that was not needed for so many is freed */

struct rooms;

struct rooms *rooms_new(void);    /* NULL: no memory */
void rooms_free(struct rooms *r); /* those that are out must be back; NULL is fine */

/* bytes of memory, aligned to 64, or NULL. */
void *room_take(struct rooms *r, size_t bytes);
void room_give(void *room); /* NULL is fine */
size_t rooms_idle(const struct rooms *r);

#endif
