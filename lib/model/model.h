/*
 * model: the functions that are trained.  A model computes a loss and gradients from a mini-batch
 * and its parameters, and nothing else.  It knows no server, no optimiser and no clock, and no file
 * but its own `model` record.  The same code trains (worker) and scores (predict, trainctl).
 *
 *   lr     logistic regression: sigmoid(bias + sum dense.weight * x + sum w[key] * value)
 *   wdl    wide & deep (Cheng et al., 2016, arXiv:1606.07792): the wide part is lr; the deep part
 *          gives each field's embedding, side by side with the dense inputs, to ReLU layers and one
 *          output; sigmoid of the sum of both.  Needs the same number of keys in every row.
 *   audit  no model: every sample adds exactly 1 to the row whose key is its row number, and to
 *          `counts` numbers of the dense vector
 *   lda    topics of documents by Gibbs sampling; all parameters are counts (lda.c)
 *
 * Parameters are those of lib/param/layout.h: one flat dense vector, and one table of rows with
 * `model_width()` floats each.  The caller holds them: a model never allocates parameters.
 */
#ifndef PACELINE_MODEL_MODEL_H
#define PACELINE_MODEL_MODEL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct layout;

#define MODEL_HIDDEN_MAX 8

/* All models; the first one is the default. A new model is a word here, a shape (shape.c), and a
 * file (kind.h). */
#define MODELS(FIRST, MORE) FIRST(lr) MORE(wdl) MORE(audit) MORE(lda)

#define MODEL_WORD(name) #name
#define MODEL_COMMA_WORD(name) ", " #name
#define MODEL_BAR_WORD(name) "|" #name
#define MODEL_NAMES MODELS(MODEL_WORD, MODEL_COMMA_WORD)   /* "lr, wdl, audit, lda" */
#define MODEL_CHOICES MODELS(MODEL_WORD, MODEL_BAR_WORD) /* "lr|wdl|audit|lda" */

struct model_spec {
	char name[16];
	uint32_t dense_inputs; /* dense columns of the data */
	uint32_t fields;       /* keys in each row; 0: the number differs (libsvm) */
	uint32_t embed;        /* wdl: floats in an embedding */
	uint32_t hidden[MODEL_HIDDEN_MAX]; /* wdl: widths of the hidden layers */
	uint32_t hidden_count;
	uint32_t hash_bits;    /* keys are below 2^hash_bits */
	uint32_t topics;       /* lda, as all up to longest */
	double alpha, beta;    /* parameters of the Dirichlet priors of topics and of words */
	uint64_t words;        /* how many different ones the training data have */
	uint64_t longest;      /* words in the longest of their documents */
	double l2;             /* only recorded: the servers' optimiser applies it */
	uint64_t seed;
	uint64_t samples;      /* rows of the training data; audit has a row of the table for each */
	uint32_t counts;       /* audit: and so many dense parameters */
};

/* Sets lr, embed 16, hidden 64 and 32, hash_bits 20, topics 100, alpha 0.1, beta 0.01, seed 1; the
 * caller sets the sizes of the data. */
void model_spec_default(struct model_spec *spec);
/* Reads "64,32" into hidden and hidden_count. */
int model_spec_hidden(struct model_spec *spec, const char *text, struct error *err);
/* ERROR_CONFIG: an unknown name (the text lists the known ones), wdl on rows without fixed fields,
 * lda on rows that are no documents, sizes out of range, or too many samples for the keys. */
int model_spec_check(const struct model_spec *spec, struct error *err);
/* The file `model` of a checkpoint, one record: `model version=1 name= dense-inputs= fields= embed=
 * hidden= hash-bits= l2= seed= samples= [counts=] [topics= alpha= beta= words= longest=]`.
 * model_spec_read() checks what it reads. */
int model_spec_read(const char *path, struct model_spec *spec, struct error *err);
int model_spec_write(const char *path, const struct model_spec *spec, struct error *err);

/* Adds tensors and table to an empty layout (lib/param/layout.h) and sets its seed. */
int model_layout(const struct model_spec *spec, struct layout *layout, struct error *err);
/* Floats in the dense vector, and in a row of the table. */
uint64_t model_dense_count(const struct model_spec *spec);
uint32_t model_width(const struct model_spec *spec);
/* Whether its speed depends on the kernels of OpenBLAS. */
int model_uses_blas(const struct model_spec *spec);
/* Keys are below this number. */
uint64_t model_key_count(const struct model_spec *spec);

/* Which rows of the table a sample has. */
struct model_keys {
	int are_rows; /* audit: only the one whose key is its row number, not what the data say */
	/* lda: besides, rows of its own behind those of its words, with room for one number and
	 * another for each of its words. Their keys are MODEL_OWN_KEYS + own_rows * its row number
	 * and those behind it. 0: none. */
	uint32_t own_rows;  /* of the longest document */
	uint32_t own_width; /* numbers in one */
};
#define MODEL_OWN_KEYS (UINT32_C(1) << 31) /* keys of the data are below it */

struct model_keys model_keys(const struct model_spec *spec);

/* How many rows of its own a sample with so many words has. */
static inline size_t model_own_count(const struct model_keys *keys, double words)
{
	return keys->own_rows ? (size_t)words / keys->own_width + 1 : 0;
}

/* A mini-batch. All arrays belong to the caller and are only read. Keys are given as positions in
 * the batch's array of unique rows. */
struct model_batch {
	size_t count;
	const float *dense;     /* [count][dense_inputs]; NULL when there are none */
	const float *label;     /* [count], 0 or 1 */
	const float *weight;    /* [count]; NULL: all 1 */
	/* [count + 1]: sample i has keys index[offset[i]..offset[i + 1]-1] */
	const uint32_t *offset;
	const uint32_t *index;  /* position of a key's row in `rows` */
	const float *value;     /* as index; NULL: all 1. lda: how often a word occurs */
	const uint64_t *row;    /* [count] number in the data; lda and audit look at it */
};

struct model;

/* Checks the spec. Scratch memory grows with the largest batch seen. */
int model_new(struct model **out, const struct model_spec *spec, struct error *err);
void model_free(struct model *m); /* NULL is fine */

/* dense: the whole dense vector; rows: [unique][width]. ADDS the gradient of the loss, summed over
 * the samples (each multiplied by its weight), to dense_gradient and row_gradient. These have the
 * same shapes, and the caller zeroes them. Also adds the samples' log loss (nats), before any
 * update, to *loss_sum. -1 only if memory runs out. */
int model_train(struct model *m, const struct model_batch *batch, const float *dense,
		const float *rows, float *dense_gradient, float *row_gradient, double *loss_sum,
		struct error *err);

/* From now on model_train() tells this function which floats of dense_gradient it will not change
 * any more, while it computes the others: ranges from the end of the vector to its beginning. All
 * others are final when model_train() returns. NULL: nobody is told. */
typedef void model_final_fn(void *owner, size_t begin, size_t count);
void model_on_final(struct model *m, model_final_fn *final, void *owner);

/* Writes the probability of label 1 for each sample to score[count]. audit, lda: ERROR_CONFIG. */
int model_predict(struct model *m, const struct model_batch *batch, const float *dense,
		  const float *rows, float *score, struct error *err);

/* lda: how well documents that it has not seen are explained (document completion). Words in odd
 * places tell a document's topics; score = the geometric mean of the probabilities of the others,
 * words = how many these are (0: the score is 1). Others: ERROR_CONFIG. */
int model_complete(struct model *m, const struct model_batch *batch, const float *dense,
		   const float *rows, float *score, float *words, struct error *err);

#endif
