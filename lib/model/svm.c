/*
 * svm: a linear support vector machine (Cortes, Vapnik, 1995) in its primal form: lr's function
 * with a hinge loss, or its square (L2-SVM), and the optimiser's L2 penalty.  As in Pegasos
 * (Shalev-Shwartz et al., ICML 2007) gradients are those of mini-batches.
 */
#include "model/kind.h"
#include "model/own.h"

static const struct model_option svm_options[] = {
	{"loss", MODEL_CHOICE, MODEL_OWN(struct svm_options, loss), "hinge", 0, 0,
	 "hinge|squared-hinge", "what a row within the margin costs"},
	{0}};

static enum model_loss svm_loss(const struct model_spec *spec)
{
	const struct svm_options *o = model_own(spec);
	return o->loss == 0 ? MODEL_HINGE : MODEL_SQUARED_HINGE;
}

const struct model_kind model_svm = {
	.name = "svm",
	.labels = MODEL_BINARY,
	.options = svm_options,
	.layout = model_lr_layout,
	.loss = svm_loss,
	.forward = model_lr_forward,
	.backward = model_lr_backward,
};
