/*
 * hash: uthash, whose own answer to lacking memory is exit(-1).
 */
#ifndef PACELINE_BASE_HASH_H
#define PACELINE_BASE_HASH_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* Behind HASH_ADD...(): there was no memory, and p is not in the table. */
#define hash_lacks(p) (!(p)->hh.tbl)

#endif
