/*
 * grow: arrays that get longer as they fill.  The room at least doubles, so that adding n items one
 * by one copies fewer than 2n of them.
 */
#ifndef PACELINE_BASE_GROW_H
#define PACELINE_BASE_GROW_H

#include <stddef.h>

/* Makes room for `count` items in an array that has room for `room` of them (both variables, the
 * array NULL and the room 0 at first):
 *
 *     if (GROW(list->item, list->room, list->count + 1) != 0)
 *             return error_set(err, ERROR_OS, NULL, "out of memory");
 *
 * -1: there is no memory, or no such size; array and room are as they were. New items are not
 * cleared. How much room there is then does not depend on the items' size: of several arrays with
 * one room all but the last are grown with a copy of the room. */
#define GROW(array, room, count)                                                                   \
	((count) <= (room) ? 0 : grow_array(&(array), &(room), (count), sizeof *(array)))

/* array_at: the address of the pointer. Use GROW(). */
int grow_array(void *array_at, size_t *room, size_t count, size_t item_bytes);

#endif
