/*
 * piece: see piece.h.  What shardd says is checked here once; nothing behind it looks again.
 */
#include "work/piece.h"

int piece_parse(struct piece *p, const struct record *r, uint64_t samples, int shuffled,
		struct error *err)
{
	*p = (struct piece){.shuffled = shuffled};
	if (record_u64(r, "id", 0, UINT64_MAX, &p->id, err) < 0 ||
	    record_u64_opt(r, "epoch", 0, UINT64_MAX, &p->epoch, err) < 0 ||
	    record_u64(r, "begin", 0, samples, &p->begin, err) < 0 ||
	    record_u64(r, "length", 1, PIECE_LENGTH_MAX, &p->length, err) < 0 ||
	    record_u64_opt(r, "seed", 0, UINT64_MAX, &p->seed, err) < 0 ||
	    record_u64_opt(r, "skip", 0, p->length, &p->skip, err) < 0)
		return -1;
	p->take = p->length - p->skip;
	if (record_u64_opt(r, "take", 0, p->length - p->skip, &p->take, err) < 0)
		return -1;
	if (p->length > samples - p->begin)
		return error_set(err, ERROR_DATA, "shard",
				 "rows %llu to %llu are not in %llu samples",
				 (unsigned long long)p->begin,
				 (unsigned long long)(p->begin + p->length),
				 (unsigned long long)samples);
	return 0;
}

static uint64_t splitmix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void piece_order(uint32_t *order, size_t count, uint64_t seed)
{
	for (size_t j = 0; j < count; j++)
		order[j] = (uint32_t)j;
	for (size_t j = count; j-- > 1;) {
		size_t r = (size_t)(splitmix(&seed) % (j + 1));
		uint32_t t = order[j];
		order[j] = order[r];
		order[r] = t;
	}
}
