/*
 * fetch: what will soon be touched comes from memory while something else is done.
 *
 * Into the second level of the cache, also what will be written: the first level can wait for fewer lines at a
 * time, so a walk over many objects of several lines is a sixth slower with it (sim-scale, trainsim(1)).
 */
#ifndef PACELINE_BASE_FETCH_H
#define PACELINE_BASE_FETCH_H

#include <stddef.h>
#include <stdint.h>

/* So many bytes there; `at` may be anything, also NULL. */
static inline void fetch_ahead(const void *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 64)
		__builtin_prefetch((const void *)((uintptr_t)at + i), 0, 2);
}

#endif
