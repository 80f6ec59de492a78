/*
 * kind: what model.c asks of each model, and the pieces they share.  Private to lib/model.
 */
#ifndef PACELINE_MODEL_KIND_H
#define PACELINE_MODEL_KIND_H

#include "model/model.h"
#include "model/pool.h"

struct model {
	struct model_spec spec;
	const struct model_kind *kind;
	struct pool scratch; /* activations of a batch */
	void *own;           /* private to the kind; NULL until used */
	model_final_fn *final; /* see model_on_final(); NULL: nobody is told */
	void *final_owner;
};

struct model_kind {
	const char *name;
	int (*train)(struct model *m, const struct model_batch *b, const float *dense,
		     const float *rows, float *dense_gradient, float *row_gradient,
		     double *loss_sum, struct error *err);
	/* Writes logits to score; model.c makes probabilities of them. NULL: the kind has none. */
	int (*logits)(struct model *m, const struct model_batch *b, const float *dense,
		      const float *rows, float *score, struct error *err);
	/* As model_complete(); NULL: its samples are no documents */
	int (*complete)(struct model *m, const struct model_batch *b, const float *dense,
			const float *rows, float *score, float *words, struct error *err);
	void (*free)(struct model *m); /* frees what `own` points to; NULL: there is nothing */
};

/* Each in its file: const struct model_kind model_NAME. */
#define MODEL_KIND(name) extern const struct model_kind model_##name;
MODELS(MODEL_KIND, MODEL_KIND)
#undef MODEL_KIND

/* wdl: all parameters of the deep part are multiplied by it where they are used (wdl.c). */
#define WDL_GAIN 0.4f

/* lda: groups of documents that have totals of their own. */
#define LDA_GROUPS 64

/* Inputs of wdl's deep part, in floats. */
static inline size_t wdl_inputs(const struct model_spec *s)
{
	return (size_t)s->fields * s->embed + s->dense_inputs;
}

/* The wide part, which is all of lr: its dense parameters are the bias and then dense.weight, and
 * column 0 of a row is the key's weight. */
uint64_t model_wide_count(const struct model_spec *spec);
/* z[count] = the wide part's logits. */
void model_wide_forward(const struct model_spec *spec, const struct model_batch *b,
			const float *dense, const float *rows, uint32_t width, float *z);
/* delta[count]: gradient of the loss by the logit. */
void model_wide_backward(const struct model_spec *spec, const struct model_batch *b,
			 const float *delta, uint32_t width, float *dense_gradient,
			 float *row_gradient);

/* delta[i] = weight * (sigmoid(z[i]) - label[i]); returns the sum of weight * log loss. delta may
 * be z. A z that is not a number makes the sum one too. */
double model_logistic(size_t count, const float *z, const float *label, const float *weight,
		      float *delta);
/* z becomes sigmoid(z). */
void model_sigmoid(size_t count, float *z);

#endif
