/*
 * rowcache_internal: the file form of a cache, which reading and making share.
 *
 * One record in ROWCACHE_HEAD bytes, padded with zeros; the blocks, one behind the other; the
 * table: for each block where it begins and its sum.  All numbers have their least significant byte
 * first.
 */
#ifndef PACELINE_DATA_ROWCACHE_INTERNAL_H
#define PACELINE_DATA_ROWCACHE_INTERNAL_H

#include "data/rowcache.h"

#define ROWCACHE_VERSION 1 /* also when rows become other numbers than before */
#define ROWCACHE_HEAD 4096

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "blocks are read as they lie there");

enum { ROWCACHE_WEIGHTS = 1, ROWCACHE_VALUES = 2 };

/* A block: this, then label, weight (if not all are 1), dense, offset (rows + 1, if rows differ in
 * their number of keys), key, value (if not all are 1); 32 bits each. */
struct rowcache_block {
	uint32_t rows, keys, flags, zero;
};

struct rowcache_entry {
	uint64_t at, sum; /* a block without bytes is one that only the text has */
};

static inline uint64_t rowcache_blocks(uint64_t rows)
{
	return rows / ROWCACHE_EVERY + (rows % ROWCACHE_EVERY != 0);
}

/* Whether it is the same file, unchanged. */
static inline int rowcache_is_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Bytes of a block; fields: schema_fields(). */
static inline uint64_t rowcache_block_bytes(const struct rowcache_block *b, size_t dense,
					    size_t fields)
{
	uint64_t words = b->rows + (uint64_t)b->rows * dense + b->keys;
	words += b->flags & ROWCACHE_WEIGHTS ? b->rows : 0;
	words += b->flags & ROWCACHE_VALUES ? b->keys : 0;
	words += fields > 0 ? 0 : (uint64_t)b->rows + 1;
	return sizeof *b + 4 * words;
}

#endif
