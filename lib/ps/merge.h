/*
 * merge: a merged difference for a standby that may be behind.
 *
 * It is not a sum of gradients, but what those have made: the dense parameters and those rows that
 * have changed since the last one, with their optimiser's slots and the number of steps.  So it has
 * the part's own bits with every optimiser, however many units it stands for, and a row that
 * a hundred of them have changed goes once.
 */
#ifndef PACELINE_PS_MERGE_H
#define PACELINE_PS_MERGE_H

#include "ps/ps_internal.h"

/* Bytes of memory for a difference of what has changed so far. */
size_t merge_room(const struct ps *p);
/* The request, in one of these buffers, with what has changed since the last one, or since
 * store_begin_changes(). NULL: no memory, or an error. */
char *merge_write(struct ps *p, struct buffers *buffers, size_t *len, struct error *err);
/* Whether its rows would keep this process, and then the standby, from other work for long. */
int merge_is_large(const struct ps *p);
/* At the standby. */
void merge_on_merge(struct request *rq, void *ps);

#endif
