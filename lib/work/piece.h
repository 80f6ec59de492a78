/*
 * piece: what shardd hands out, and the order in which its rows are trained
 * (paceline-protocol(7), THE LIFE OF A SHARD).
 */
#ifndef PACELINE_WORK_PIECE_H
#define PACELINE_WORK_PIECE_H

#include "base/error.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

/* Position p of a piece (0 <= p < length) is row begin + p, or, when shuffled, begin + order[p],
 * order being random_permute(order, length, seed).
 * Only positions skip .. skip+take-1 are still to be trained. */
struct piece {
	uint64_t id, epoch, begin, length, seed, skip, take;
	int shuffled;
};

#define PIECE_LENGTH_MAX 0x7fffffffu

/* From a `shard` record; ERROR_DATA for one that makes no sense or names rows beyond samples. */
int piece_parse(struct piece *p, const struct record *r, uint64_t samples, int shuffled,
		struct error *err);

#endif
