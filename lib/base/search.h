/* search: in numbers that grow. */
#ifndef PACELINE_BASE_SEARCH_H
#define PACELINE_BASE_SEARCH_H

#include <stddef.h>
#include <stdint.h>

/* The last i below n whose key is at most x; 0 when there is none. Keys stand `stride` bytes apart
 * and grow; of equal ones it is the last. */
static inline size_t search_last(const uint64_t *key, size_t stride, size_t n, uint64_t x)
{
	size_t low = 0, high = n;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (*(const uint64_t *)(const void *)((const char *)key + middle * stride) <= x)
			low = middle;
		else
			high = middle;
	}
	return low;
}

#endif
