/*
 * duration: how long a batch takes, and how large a batch fits into a time.  batch and accum share
 * it, so that both mean the same by equal times.
 */
#ifndef PACELINE_SOLVE_DURATION_H
#define PACELINE_SOLVE_DURATION_H

#include <stdint.h>
#include <string.h>

/* Times that differ by less than this part of their size count as equal: fixed, speed, the
 * quotient, the sum and the product are each off by 2^-53, so what is equal for the decimal
 * numbers of the input differs by 2^-50 at most. */
#define DURATION_EQUAL 0x1p-49

/* `steps` steps of `size` samples; grows with size. */
static inline double duration_of(double speed, double fixed, uint64_t steps, uint64_t size)
{
	return (double)steps * (fixed + (double)size / speed);
}

/* The largest size in [low, high] whose time is at most t; low when there is none. */
uint64_t duration_fits(double speed, double fixed, uint64_t steps, double t, uint64_t low,
		       uint64_t high);

/* Doubles >= 0 are ordered as their bit patterns, so a time is found by bisection on the bits. */
static inline uint64_t duration_bits(double t)
{
	uint64_t bits;
	memcpy(&bits, &t, sizeof bits);
	return bits;
}

static inline double duration_of_bits(uint64_t bits)
{
	double t;
	memcpy(&t, &bits, sizeof t);
	return t;
}

#endif
