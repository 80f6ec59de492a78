/*
 * linear: linear regression, bias + sum dense.weight * x + sum w[key] * value, by least squares. It
 * is lr with numbers as labels.
 */
#include "model/kind.h"

const struct model_kind model_linear = {
	.name = "linear",
	.labels = MODEL_REAL,
	.layout = model_lr_layout,
	.forward = model_lr_forward,
	.backward = model_lr_backward,
};
