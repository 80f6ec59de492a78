/*
 * order: seeds of the published shuffle (base/random.h; shardd(8), paceline-journal(5)).  Pure.
 */
#ifndef PACELINE_SHARD_ORDER_H
#define PACELINE_SHARD_ORDER_H

#include <stdint.h>

/* Seed of the order of shards in an epoch: the first number of the stream ~seed + epoch. */
uint64_t order_epoch_seed(uint64_t seed, uint64_t epoch);
/* Seed of the order of samples in a piece: the first number of the stream seed + id, halved, so
 * that it fits a signed number. */
uint64_t order_piece_seed(uint64_t seed, uint64_t id);

#endif
