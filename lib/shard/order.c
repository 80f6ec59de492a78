/* order: see order.h. Published, too: they must never change. */
#include "shard/order.h"

#include "base/random.h"

uint64_t order_epoch_seed(uint64_t seed, uint64_t epoch)
{
	uint64_t state = ~seed + epoch;
	return random_next(&state);
}

uint64_t order_piece_seed(uint64_t seed, uint64_t id)
{
	uint64_t state = seed + id;
	return random_next(&state) >> 1;
}
