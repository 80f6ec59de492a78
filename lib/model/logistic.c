/*
 * logistic: sigmoid and log loss of many logits at once.  The exponential is a polynomial without
 * branches, so that compilers turn the loops into vector code; libm's would be called once for each
 * value.  It must never hide a NaN: the loss of a NaN is a NaN.
 */
#include "model/kind.h"

#include <math.h>

#define LANES 16

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

/* With e = exp(-|z|), sigmoid(z) is 1/(1+e) or e/(1+e). */
static inline float sigmoid(float z)
{
	float e = exp_negative(-fabsf(z));
	return (z >= 0.0f ? 1.0f : e) / (1.0f + e);
}

void model_sigmoid(size_t count, float *z)
{
	for (size_t i = 0; i < count; i++)
		z[i] = sigmoid(z[i]);
}

static double logistic_weighted(size_t count, const float *z, const float *label,
				const float *weight, float *delta)
{
	double loss = 0;
	for (size_t i = 0; i < count; i++) {
		float x = z[i], y = label[i];
		float e = exp_negative(-fabsf(x));
		loss += (double)weight[i] *
			((double)(x > 0 ? x : 0) - (double)x * (double)y + log1p((double)e));
		delta[i] = weight[i] * ((x >= 0.0f ? 1.0f : e) / (1.0f + e) - y);
	}
	return loss;
}

/* The loss is max(z,0) - z*y + log(1+e). The sum of logarithms is computed as the logarithm of a
 * product, with one call for every few hundred samples: 512 factors of at most 2 fit in a
 * double. */
double model_logistic(size_t count, const float *z, const float *label, const float *weight,
		      float *delta)
{
	if (weight)
		return logistic_weighted(count, z, label, weight, delta);
	double loss = 0;
	size_t i = 0;
	while (i < count) {
		double sum[LANES] = {0}, product[LANES];
		for (size_t l = 0; l < LANES; l++)
			product[l] = 1;
		size_t stop = i + 512 * LANES < count ? i + 512 * LANES : count;
		for (; i + LANES <= stop; i += LANES)
			for (size_t l = 0; l < LANES; l++) {
				float x = z[i + l], y = label[i + l];
				float e = exp_negative(-fabsf(x));
				sum[l] += (double)((x > 0 ? x : 0) - x * y);
				product[l] *= 1.0 + (double)e;
				delta[i + l] = (x >= 0.0f ? 1.0f : e) / (1.0f + e) - y;
			}
		for (; stop == count && i < stop; i++) {
			float x = z[i], y = label[i];
			float e = exp_negative(-fabsf(x));
			loss += (double)((x > 0 ? x : 0) - x * y) + log1p((double)e);
			delta[i] = (x >= 0.0f ? 1.0f : e) / (1.0f + e) - y;
		}
		for (size_t l = 0; l < LANES; l++)
			loss += sum[l] + log(product[l]);
	}
	return loss;
}
