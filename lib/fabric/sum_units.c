/*
 * The dense vector of a round in units: the ring's buckets, or the segments of the shares.  Each is
 * ready here when the client has named all of it, and has a checksum of its own.
 */
#include "fabric/sum_internal.h"

#include <stdlib.h>
#include <xxhash.h>

int units_make(struct round *rd, uint64_t floats)
{
	uint64_t units = rd->floats / floats + (rd->floats % floats != 0);

	if (units > UINT32_MAX)
		return -1;
	rd->unit_floats = floats;
	rd->unit = calloc(units + 1, sizeof *rd->unit);
	if (!rd->unit)
		return -1;
	rd->units = (uint32_t)units;
	rd->left += units;
	return 0;
}

void units_end(struct round *rd)
{
	ranges_free(&rd->parts);
	free(rd->unit);
	rd->unit = NULL;
	rd->units = 0;
}

size_t unit_floats(const struct round *rd, uint32_t i)
{
	uint64_t rest = rd->floats - i * rd->unit_floats;

	return (size_t)(rest < rd->unit_floats ? rest : rd->unit_floats);
}

float *unit_at(const struct round *rd, uint32_t i)
{
	return rd->dense + i * rd->unit_floats;
}

void units_part(struct round *rd, uint64_t begin, uint64_t end)
{
	while (begin < end) {
		uint32_t i = (uint32_t)(begin / rd->unit_floats);
		uint64_t behind_it = (i + UINT64_C(1)) * rd->unit_floats;
		uint64_t to = end < behind_it ? end : behind_it;
		rd->unit[i].filled += to - begin;
		begin = to;
		if (rd->unit[i].filled < unit_floats(rd, i))
			continue;
		rd->unit[i].ready = 1;
		round_one_less(rd);
		rd->way->ready(rd, i);
	}
}

void unit_check(struct round *rd, uint32_t i)
{
	struct unit *u = &rd->unit[i];

	u->check = XXH3_64bits(unit_at(rd, i), unit_floats(rd, i) * sizeof(float));
	u->checked = 1;
}

uint64_t units_check(struct round *rd)
{
	uint64_t check = 0;

	for (uint32_t i = 0; i < rd->units; i++) {
		if (!rd->unit[i].checked)
			unit_check(rd, i);
		check = XXH3_64bits_withSeed(&rd->unit[i].check, sizeof check, check);
	}
	return check;
}
