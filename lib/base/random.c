#include "base/random.h"

uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

double random_uniform(uint64_t *state)
{
	return (double)(random_next(state) >> 11) * 0x1p-53;
}

void random_permute(uint32_t *a, size_t count, uint64_t seed)
{
	for (size_t i = 0; i < count; i++)
		a[i] = (uint32_t)i;
	for (size_t j = count; j-- > 1;) {
		size_t r = (size_t)(random_next(&seed) % (j + 1));
		uint32_t moved = a[j];
		a[j] = a[r];
		a[r] = moved;
	}
}
