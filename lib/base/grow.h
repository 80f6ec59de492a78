/*
 * grow: arrays that get longer as they fill, and texts that are printed.  The room at least doubles, so
 * that adding n items one by one copies fewer than 2n of them.
 */
#ifndef PACELINE_BASE_GROW_H
#define PACELINE_BASE_GROW_H

#include <stddef.h>
#include <stdio.h>

/* Makes room for `count` items in an array that has room for `room` of them (both variables, the
 * array NULL and the room 0 at first):
 *
 *     if (GROW(list->item, list->room, list->count + 1) != 0)
 *             return error_set(err, ERROR_OS, NULL, "out of memory");
 *
 * -1: no memory, or the size is too large; array and room are unchanged. New items are not cleared.
 * The new room does not depend on the size of the items: if several arrays share one room, grow all
 * but the last with a copy of the room. */
#define GROW(array, room, count)                                                                   \
	((count) <= (room) ? 0 : grow_array(&(array), &(room), (count), sizeof *(array)))

/* array_at: the address of the pointer. Use GROW(). */
int grow_array(void *array_at, size_t *room, size_t count, size_t item_bytes);

/* open_memstream(3), but fclose() fails if memory has lacked for a part of the text. That of glibc
 * succeeds then, ferror() too, and the text is cut. Free the text in any case. */
FILE *grow_stream(char **text, size_t *len);

#endif
