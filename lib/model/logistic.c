/*
 * logistic: sigmoid and log loss of many logits at once.  It must never hide a NaN: the loss of a NaN is a NaN.
 */
#include "model/exp.h"
#include "model/kind.h"

#define LANES 16

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
