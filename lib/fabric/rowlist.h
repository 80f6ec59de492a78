/*
 * rowlist: rows of floats by key, as they travel and as clients give and get them: first all keys,
 * ascending, each once, then the rows in the same order, without a gap between.  Numbers only.
 */
#ifndef PACELINE_FABRIC_ROWLIST_H
#define PACELINE_FABRIC_ROWLIST_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct rowlist {
	const uint32_t *key;
	const float *row;
	size_t count;
};

/* Bytes of so many rows; 0 when there are none, or more than a size_t tells (count > 0 then). */
size_t rowlist_bytes(uint64_t count, uint32_t width);
/* The list that lies at memory. */
struct rowlist rowlist_at(const void *memory, size_t count);

/*
 * Copies count rows from memory that somebody else may write meanwhile into lists by owner, one
 * behind the other in one block of rowlist_bytes(): list[owner] is what is that owner's. ERROR_DATA
 * naming the first key that does not ascend; ERROR_OS.
 */
int rowlist_split(const void *memory, size_t count, uint32_t width, size_t owners, void *block,
		  struct rowlist *list, struct error *err);

/* How many keys n lists have together; a key in several of them counts once. at[n] is scratch. */
size_t rowlist_count(const struct rowlist *list, size_t n, size_t *at);
/* Their sum into memory with room for rowlist_bytes(rowlist_count()): rows of one key are added in
 * the order of the lists, so that the same lists give the same bits. */
void rowlist_merge(const struct rowlist *list, size_t n, uint32_t width, size_t count, void *memory,
		   size_t *at);

#endif
