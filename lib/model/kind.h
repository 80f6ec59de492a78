/*
 * kind: what a model's file has, and the pieces that models share.  Private to lib/model.
 *
 * A model is a `const struct model_kind model_NAME` in NAME.c.  A batch goes through it in blocks:
 * forward() computes the outputs z of a block, loss.c makes the gradient by z of them and of the
 * labels, backward() adds the gradients by the parameters.  A model that has no outputs has train()
 * instead.
 *
 * trainctl uses these files, too, for layouts and options.  It must never load OpenBLAS, which
 * starts threads when it is loaded, while trainctl forks.  So a model calls matrix products only
 * through its struct model, which the programs have that train or score.
 */
#ifndef PACELINE_MODEL_KIND_H
#define PACELINE_MODEL_KIND_H

#include "model/backend.h"
#include "model/option.h"
#include "model/pool.h"
#include "param/layout.h"

#include <cblas.h>

/* The functions of OpenBLAS that models use. */
struct model_blas {
	__typeof__(&cblas_sgemm) gemm;
	__typeof__(&cblas_sgemv) gemv;
};

enum model_loss {
	MODEL_LOG,           /* log loss of sigmoid(z) */
	MODEL_SOFTMAX,       /* cross entropy of softmax(z) */
	MODEL_SQUARED,       /* (z - label)^2 / 2 */
	MODEL_HINGE,         /* max(0, 1 - y z), y = -1 or 1 for the labels 0 and 1 */
	MODEL_SQUARED_HINGE, /* its square, halved */
};

/* The card that computes a model (card.c). */
struct card {
	const struct model_backend *backend; /* NULL: the CPU computes */
	void *state;
	size_t fits; /* see model_fits() */
	/* Of a part of a batch: by row of the batch, the place among its own, from 1; the row of
	 * each of these; its index; its rows and their gradients. */
	struct words place, row, index;
	struct pool rows;
};

struct model {
	struct model_spec spec;
	const struct model_kind *kind;
	const struct model_blas *blas;
	enum model_loss loss;
	double fold_fraction; /* see model_fold_fraction() */
	uint32_t outputs;
	struct layout layout;
	size_t dense_count; /* floats in the dense vector, and in a row of the table */
	uint32_t width;
	struct pool z;       /* outputs of a block, and then the gradient by them */
	struct pool scratch; /* activations of a batch */
	void *own;           /* private to the kind; NULL until used */
	model_final_fn *final; /* see model_on_final(); NULL: nobody is told */
	void *final_owner;
	struct card card;
};

/* What a batch is trained with; scored: the gradients are NULL. */
struct model_step {
	const struct model_batch *batch; /* the whole one */
	const float *dense, *rows;
	float *dense_gradient, *row_gradient;
};

/* Some rows of it. */
struct model_block {
	size_t begin;             /* the first of them in the whole batch */
	struct model_batch batch;
	int is_last;
};

struct model_kind {
	const char *name;
	unsigned labels;      /* what they may be: enum model_labels, added up; 0: it has none */
	unsigned uses_blas;   /* its speed depends on the kernels of OpenBLAS */
	unsigned documents;   /* its samples are documents (FORMAT=bag), and no others */
	const struct model_option *options; /* ended by a row without a name; NULL: none */

	/* ---- what it is; never fails but where it says so, as the spec was checked ---- */
	int (*check)(const struct model_spec *spec, struct error *err); /* NULL: nothing to check */
	/* Adds tensors, in the order in which they lie in the dense vector, and the table. */
	int (*layout)(const struct model_spec *spec, struct layout *l, struct error *err);
	/* The least floats that training takes beside parameters and gradients; NULL: few. */
	uint64_t (*scratch)(const struct model_spec *spec);
	struct model_keys (*keys)(const struct model_spec *spec); /* NULL: only those of the data */
	/* NULL: log loss for binary labels, cross entropy for classes, squared for real ones */
	enum model_loss (*loss)(const struct model_spec *spec);

	/* ---- computing ---- */
	/* NULL: nothing to prepare for a batch. */
	int (*begin)(struct model *m, const struct model_step *s, struct error *err);
	/* How many rows the next block has, of `left`; NULL: all. */
	size_t (*block)(const struct model *m, size_t left);
	void (*forward)(struct model *m, const struct model_step *s, const struct model_block *k,
			float *z);
	/* by: [count][outputs], the gradient by z. ADDS to the step's gradients. */
	void (*backward)(struct model *m, const struct model_step *s, const struct model_block *k,
			 float *by);
	void (*end)(struct model *m, const struct model_step *s); /* after the last block, if trained */
	/* Instead of all these, of a model without outputs. */
	int (*train)(struct model *m, const struct model_step *s, double *loss_sum,
		     struct error *err);
	/* As model_complete(); NULL: its samples are no documents */
	int (*complete)(struct model *m, const struct model_batch *b, const float *dense,
			const float *rows, float *score, float *words, struct error *err);
	void (*free)(struct model *m); /* frees what `own` points to; NULL: there is nothing */
};

/* The i-th one, the one of this name; NULL: there is none. */
const struct model_kind *model_kind_at(size_t i);
const struct model_kind *model_kind_find(const char *name);

/* ---- options that several models have ---- */

#define MODEL_OPTION_LABELS(given) \
	{"labels", MODEL_CHOICE, offsetof(struct model_spec, labels), given, 0, 0, MODEL_LABELS, \
	 "what labels are"}
#define MODEL_OPTION_EMBED(given) \
	{"embed", MODEL_COUNT, offsetof(struct model_spec, embed), given, 1, 1024, NULL, \
	 "floats in an embedding"}
#define MODEL_OPTION_HIDDEN \
	{"hidden", MODEL_WIDTHS, offsetof(struct model_spec, hidden), "64-32", 1, 65536, NULL, \
	 "widths of the hidden layers"}
/* Initial values. An output's weights: multiplied by 1/sqrt(in), which would keep the variance.
 * Embeddings start small: so the wide part learns first, and a key that was never seen in training
 * hardly changes a score. */
#define MODEL_OUTPUT_SCALE 0.5
#define MODEL_EMBED_SCALE 0.05
/* The place of an option in a model's own struct, for model_own(). */
#define MODEL_OWN(type, field) (offsetof(struct model_spec, own) + offsetof(type, field))

static inline const void *model_own(const struct model_spec *spec)
{
	return spec->own;
}

/* ---- the wide part, which is all of lr: a bias, then dense.weight; column 0 of a row is the key's
 * weight ---- */

int model_wide_layout(const struct model_spec *spec, struct layout *l, struct error *err);
/* A check() of models that need the same sparse columns in every row. */
int model_check_fields(const struct model_spec *spec, struct error *err);
/* The table with one row for each key of the data. scale: deviation of all columns but the first
 * zero_columns. */
int model_keys_layout(const struct model_spec *spec, struct layout *l, uint32_t width,
		      uint32_t zero_columns, double scale, struct error *err);
/* z[count] = the wide part's outputs. */
void model_wide_forward(const struct model *m, const struct model_batch *b, const float *dense,
			const float *rows, float *z);
/* delta[count]: gradient of the loss by the output. */
void model_wide_backward(const struct model *m, const struct model_batch *b, const float *delta,
			 float *dense_gradient, float *row_gradient);

/* The functions of lr, for models that are the wide part with another loss. */
int model_lr_layout(const struct model_spec *spec, struct layout *l, struct error *err);
void model_lr_forward(struct model *m, const struct model_step *s, const struct model_block *k,
		      float *z);
void model_lr_backward(struct model *m, const struct model_step *s, const struct model_block *k,
		       float *by);

/* ---- on a card (card.c): as model_train(), and logits for model_predict(). A batch that does not
 * fit its memory is computed in parts, whose sums are those of the batch. ---- */

/* The `count` rows from row `begin` on. */
void model_block_take(const struct model *m, const struct model_batch *b, size_t begin, size_t count,
		      struct model_block *k);
int card_open(struct card *c, const struct model_spec *spec, const struct model_device *device,
	      struct error *err);
void card_close(struct card *c);
int card_train(struct model *m, const struct model_step *s, double *loss_sum, struct error *err);
int card_logits(struct model *m, const struct model_step *s, float *z, struct error *err);

/* ---- losses (loss.c) ---- */

/* z[count][outputs] becomes the gradient by z; returns the loss, summed over the samples. A z that is
 * not a number makes the sum one too. */
double model_loss(const struct model *m, size_t count, float *z, const float *label,
		  const float *weight);
/* z[count][outputs] becomes scores. */
void model_scores(const struct model *m, size_t count, float *z);

/* delta[i] = weight * (sigmoid(z[i]) - label[i]); returns the sum of weight * log loss. delta may
 * be z. */
double model_logistic(size_t count, const float *z, const float *label, const float *weight,
		      float *delta);
/* z becomes sigmoid(z). */
void model_sigmoid(size_t count, float *z);

/* Each in its file: const struct model_kind model_NAME. */
#define MODEL_KIND(name) extern const struct model_kind model_##name;
MODELS(MODEL_KIND, MODEL_KIND)
#undef MODEL_KIND

#endif
