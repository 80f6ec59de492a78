/*
 * kind: what model.c asks of each model, and the pieces they share.  Private to lib/model.
 */
#ifndef PACELINE_MODEL_KIND_H
#define PACELINE_MODEL_KIND_H

#include "model/model.h"

struct first;

struct model {
	struct model_spec spec;
	const struct model_kind *kind;
	float *scratch; /* grows, never shrinks */
	size_t scratch_room;
	struct first *first; /* wdl's; NULL until used */
};

struct model_kind {
	const char *name;
	int (*check)(const struct model_spec *spec, struct error *err);
	int (*layout)(const struct model_spec *spec, struct layout *l, struct error *err);
	uint64_t (*dense_count)(const struct model_spec *spec);
	uint32_t (*width)(const struct model_spec *spec);
	int (*train)(struct model *m, const struct model_batch *b, const float *dense,
		     const float *rows, float *dense_gradient, float *row_gradient,
		     double *loss_sum, struct error *err);
	/* score holds logits afterwards; model.c makes probabilities of them. NULL: has none */
	int (*logits)(struct model *m, const struct model_batch *b, const float *dense,
		      const float *rows, float *score, struct error *err);
	int uses_blas, keys_are_rows;
};

extern const struct model_kind model_lr, model_wdl, model_audit;

/* At least `floats` floats, contents lost, aligned to 64 bytes; NULL: no memory, err filled. */
float *model_scratch(struct model *m, size_t floats, struct error *err);

/* The wide part, which is all of lr: its dense parameters are the bias and then dense.weight, and
 * column 0 of a row is the key's weight. */
uint64_t model_wide_count(const struct model_spec *spec);
int model_wide_layout(const struct model_spec *spec, struct layout *l, struct error *err);
/* z[count] = the wide part's logits. */
void model_wide_forward(const struct model_spec *spec, const struct model_batch *b,
			const float *dense, const float *rows, uint32_t width, float *z);
/* delta[count]: gradient of the loss by the logit. */
void model_wide_backward(const struct model_spec *spec, const struct model_batch *b,
			 const float *delta, uint32_t width, float *dense_gradient,
			 float *row_gradient);

/* delta[i] = weight * (sigmoid(z[i]) - label[i]); returns the sum of weight * log loss. delta may be
 * z. A z that is not a number makes the sum one too. */
double model_logistic(size_t count, const float *z, const float *label, const float *weight,
		      float *delta);
/* z becomes sigmoid(z). */
void model_sigmoid(size_t count, float *z);

#endif
