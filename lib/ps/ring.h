/*
 * ring: which bytes of a memory are in use, when they are given back in the order in which they were
 * taken.  The bytes of one taking are in one piece.
 */
#ifndef PACELINE_PS_RING_H
#define PACELINE_PS_RING_H

#include <stddef.h>

/* All zero at first, except size. */
struct ring {
	size_t size;          /* of the memory */
	size_t begin, finish; /* the oldest byte in use; the next free one */
	size_t inside;        /* takings that were not given back */
};

/* 1: bytes from *from on are taken. 0: there is no room now. */
static inline int ring_take(struct ring *r, size_t bytes, size_t *from)
{
	if (r->inside == 0)
		r->begin = r->finish = 0;
	int wraps = r->finish >= r->begin && r->size - r->finish < bytes;
	size_t at = wraps ? 0 : r->finish;
	/* Behind the oldest byte finish must stay before begin: if they were equal, all would seem
	 * free. */
	if (wraps ? r->begin <= bytes : r->finish < r->begin && r->begin - r->finish <= bytes)
		return 0;
	r->finish = at + bytes;
	r->inside++;
	*from = at;
	return 1;
}

/* Gives the oldest taking back. */
static inline void ring_give(struct ring *r, size_t from, size_t bytes)
{
	r->begin = from + bytes;
	r->inside--;
}

#endif
