/*
 * order: the published shuffle (paceline-journal(5), shardd(8)).
 *
 * SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014) drives
 * Fisher and Yates' shuffle, so that any client in any language computes the same order from a
 * seed.  Pure functions.
 */
#ifndef PACELINE_SHARD_ORDER_H
#define PACELINE_SHARD_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* The next number of the stream; the state is the seed at first. */
uint64_t order_next(uint64_t *state);

/* a[i] = i, then for j = count-1 down to 1: r = next % (j + 1), a[j] and a[r] change places. */
void order_permute(uint32_t *a, size_t count, uint64_t seed);

/* Seed of the order of shards in an epoch: the first number of the stream ~seed + epoch. */
uint64_t order_epoch_seed(uint64_t seed, uint64_t epoch);
/* Seed of the order of samples in a piece: the first number of the stream seed + id, halved, so
 * that it fits a signed number. */
uint64_t order_piece_seed(uint64_t seed, uint64_t id);

#endif
