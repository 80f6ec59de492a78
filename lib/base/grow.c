#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 4

int grow_array(void *array_at, size_t *room, size_t count, size_t item_bytes)
{
	size_t more = *room, bytes;
	void *array;
	if (count <= *room)
		return 0;
	if (__builtin_mul_overflow(more, 2, &more) || more < count)
		more = count;
	if (more < FIRST_ROOM)
		more = FIRST_ROOM;
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
