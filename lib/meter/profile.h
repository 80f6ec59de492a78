/*
 * profile: what a device is like, from the times of steps of several sizes (AntDT VI-B, Eq. 4: the
 * saturation point below which a smaller batch is not faster).
 *
 *     a step of n samples takes launch + max(n, saturation) / speed seconds
 *
 * Pure.
 */
#ifndef PACELINE_METER_PROFILE_H
#define PACELINE_METER_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#define PROFILE_FLAT 1.05 /* times that differ by no more are the same */

struct profile_point {
	uint64_t size; /* samples in a step */
	double seconds;
};

struct profile {
	double launch;       /* seconds */
	double speed;        /* samples/s */
	uint64_t saturation; /* samples, 1 or more */
};

/* Points by size, ascending; one at least, times above 0. */
void profile_fit(const struct profile_point *p, size_t count, struct profile *out);

/* How many of the points, from the first, take the same time: those below saturation. */
size_t profile_flat(const struct profile_point *p, size_t count);

#endif
