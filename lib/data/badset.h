/*
 * badset: the numbers of the bad rows met so far, each once, so that a row met again in a later
 * epoch does not count twice against the limit.  Open addressing; grows with what it holds.
 */
#ifndef PACELINE_DATA_BADSET_H
#define PACELINE_DATA_BADSET_H

#include <stddef.h>
#include <stdint.h>

struct badset {
	uint64_t *slot; /* row number + 1; 0: free */
	size_t room, count;
};

int badset_has(const struct badset *b, uint64_t row);
int badset_add(struct badset *b, uint64_t row); /* -1: out of memory */
void badset_free(struct badset *b);

#endif
