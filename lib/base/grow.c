#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 256 /* of a new array; four items at least */

int grow_array(void *array_at, size_t *room, size_t count, size_t item_bytes)
{
	size_t more = *room, bytes;
	void *array;
	if (count <= *room)
		return 0;
	if (__builtin_mul_overflow(more, 2, &more) || more < count)
		more = count;
	if (*room == 0 && more < FIRST_BYTES / item_bytes)
		more = FIRST_BYTES / item_bytes;
	if (more < 4)
		more = 4;
	if (__builtin_mul_overflow(more, item_bytes, &bytes))
		return -1;
	/* The caller's pointer has a type of its own, and may not be read as a void *. */
	memcpy(&array, array_at, sizeof array);
	array = realloc(array, bytes);
	if (!array)
		return -1;
	memcpy(array_at, &array, sizeof array);
	*room = more;
	return 0;
}
