/*
 * random: numbers and orders that a seed determines (SplitMix64: Steele, Lea, Flood, "Fast
 * splittable pseudorandom number generators", 2014; Fisher and Yates' shuffle).
 *
 * The shuffle is published (paceline-protocol(7), shardd(8)), so that any client in any language
 * computes the same order from a seed: it must never change, or old journals and other clients
 * would see other rows.
 */
#ifndef PACELINE_BASE_RANDOM_H
#define PACELINE_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* The next number of the stream; the state is the seed at first. */
uint64_t random_next(uint64_t *state);
/* In [0, 1). */
double random_uniform(uint64_t *state);

/* a[i] = i, then for j = count-1 down to 1: r = next % (j + 1), a[j] and a[r] change places. */
void random_permute(uint32_t *a, size_t count, uint64_t seed);

#endif
