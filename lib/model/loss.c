/*
 * loss: what a model's outputs cost, given the labels, and the scores that they stand for.  Those
 * of binary labels with log loss, which is by far the most frequent one, are in logistic.c.
 */
#include "model/exp.h"
#include "model/kind.h"

static double loss_weight(const float *weight, size_t i)
{
	return weight ? (double)weight[i] : 1;
}

/* Makes z[outputs] exp(z - *most), *most the largest one: exp(z) alone might be infinite. Returns
 * the sum; a NaN in z makes it one, too. */
static double softmax_row(uint32_t outputs, float *z, float *most)
{
	float sum = 0, odd = 0;
	*most = z[0];
	for (uint32_t k = 0; k < outputs; k++) {
		*most = z[k] > *most ? z[k] : *most;
		odd += z[k] * 0.0f;
	}
	for (uint32_t k = 0; k < outputs; k++) {
		z[k] = exp_negative(z[k] - *most);
		sum += z[k];
	}
	return (double)(sum + odd);
}

static double loss_softmax(uint32_t outputs, size_t count, float *z, const float *label,
			   const float *weight)
{
	double loss = 0;
	for (size_t i = 0; i < count; i++, z += outputs) {
		double w = loss_weight(weight, i);
		uint32_t right = (uint32_t)label[i];
		float of_right = z[right], most;
		double sum = softmax_row(outputs, z, &most);
		float scale = (float)(w / sum);
		loss += w * (log(sum) + (double)most - (double)of_right);
		for (uint32_t k = 0; k < outputs; k++)
			z[k] *= scale;
		z[right] -= (float)w;
	}
	return loss;
}

static double loss_squared(size_t count, float *z, const float *label, const float *weight)
{
	double loss = 0;
	for (size_t i = 0; i < count; i++) {
		double w = loss_weight(weight, i), d = (double)z[i] - (double)label[i];
		loss += w * d * d / 2;
		z[i] = (float)(w * d);
	}
	return loss;
}

/* Where nothing is missing the gradient is 0; a NaN is missing everything. */
static double loss_hinge(int squared, size_t count, float *z, const float *label,
			 const float *weight)
{
	double loss = 0;
	for (size_t i = 0; i < count; i++) {
		double w = loss_weight(weight, i), y = label[i] > 0 ? 1 : -1;
		double missing = 1 - y * (double)z[i];
		missing = missing <= 0 ? 0 : missing;
		loss += w * (squared ? missing * missing / 2 : missing);
		z[i] = (float)(-w * y * (squared ? missing : missing > 0));
	}
	return loss;
}

double model_loss(const struct model *m, size_t count, float *z, const float *label,
		  const float *weight)
{
	switch (m->loss) {
	case MODEL_LOG:
		return model_logistic(count, z, label, weight, z);
	case MODEL_SOFTMAX:
		return loss_softmax(m->outputs, count, z, label, weight);
	case MODEL_SQUARED:
		return loss_squared(count, z, label, weight);
	case MODEL_HINGE:
	case MODEL_SQUARED_HINGE:
		return loss_hinge(m->loss == MODEL_SQUARED_HINGE, count, z, label, weight);
	}
	return NAN;
}

/* A margin of an svm becomes a score from 0 to 1 as a logit does: it ranks samples, and is 0.5
 * where the sides meet. */
void model_scores(const struct model *m, size_t count, float *z)
{
	uint32_t outputs = m->outputs;
	if (m->loss == MODEL_SQUARED)
		return;
	if (m->loss != MODEL_SOFTMAX) {
		model_sigmoid(count, z);
		return;
	}
	for (size_t i = 0; i < count; i++, z += outputs) {
		float most;
		double sum = softmax_row(outputs, z, &most);
		for (uint32_t k = 0; k < outputs; k++)
			z[k] = (float)((double)z[k] / sum);
	}
}
