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
