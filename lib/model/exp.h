/*
 * exp: the exponential as a polynomial without branches, so that compilers turn loops into vector
 * code; libm's would be called once for each value.  Private to lib/model.
 */
#ifndef PACELINE_MODEL_EXP_H
#define PACELINE_MODEL_EXP_H

#include <math.h>
#include <stdint.h>

/* exp(x) for x <= 0, with a relative error below 2e-7. Below -87 it is exp(-87), which is as good
 * as 0 here. Range reduction and polynomial are those of Cephes' expf (Moshier, 1987). */
static inline float exp_negative(float x)
{
	x = x > -87.0f ? x : -87.0f; /* NaN as well: its integer conversion would be undefined */
	float n = rintf(x * 1.44269504088896341f);
	float r = x - n * 0.693359375f;
	r = r + n * 2.12194440e-4f;
	float p = 1.9875691500e-4f;
	p = p * r + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = p * r * r + r + 1.0f;
	union {
		int32_t i;
		float f;
	} scale = {.i = ((int32_t)n + 127) * (1 << 23)};
	return p * scale.f;
}

#endif
