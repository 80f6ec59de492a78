/*
 * model: the functions that are trained.  A model turns a mini-batch and the parameters it touches
 * into a loss and gradients, nothing else: it knows no server, no optimiser, no file but its own
 * `model` record, and no clock.  The same code trains (worker) and scores (predict, trainctl).
 *
 *   lr     logistic regression: sigmoid(bias + sum dense.weight * x + sum w[key] * value)
 *   wdl    wide & deep (Cheng et al., 2016, arXiv:1606.07792): the wide part is lr; the deep part
 *          gives each field's embedding, side by side with the dense inputs, to ReLU layers and one
 *          output; sigmoid of the sum of both.  Needs the same number of keys in every row.
 *   audit  no model: every sample adds exactly 1 to the row whose key is its row number
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
#define MODELS(FIRST, MORE) FIRST(lr) MORE(wdl) MORE(audit)

#define MODEL_WORD(name) #name
#define MODEL_COMMA_WORD(name) ", " #name
#define MODEL_BAR_WORD(name) "|" #name
#define MODEL_NAMES MODELS(MODEL_WORD, MODEL_COMMA_WORD)   /* "lr, wdl, audit" */
#define MODEL_CHOICES MODELS(MODEL_WORD, MODEL_BAR_WORD) /* "lr|wdl|audit" */

struct model_spec {
	char name[16];
	uint32_t dense_inputs; /* dense columns of the data */
	uint32_t fields;       /* keys in each row; 0: any number (libsvm) */
	uint32_t embed;        /* wdl: floats in an embedding */
	uint32_t hidden[MODEL_HIDDEN_MAX]; /* wdl: widths of the hidden layers */
	uint32_t hidden_count;
	uint32_t hash_bits;    /* keys are below 2^hash_bits */
	double l2;             /* kept for the record; the servers' optimiser applies it */
	uint64_t seed;
	uint64_t samples;      /* rows of the training data; audit has that many parameters */
};

/* lr, 16, 64 and 32, 2^20, seed 1; the sizes of the data are the caller's to fill in. */
void model_spec_default(struct model_spec *spec);
/* "64,32" into hidden and hidden_count. */
int model_spec_hidden(struct model_spec *spec, const char *text, struct error *err);
/* ERROR_CONFIG for an unknown name (the text names the known ones), wdl on rows without fixed
 * fields, sizes out of range, audit with more than 2^32 - 1 samples. */
int model_spec_check(const struct model_spec *spec, struct error *err);
/* The file `model` of a checkpoint, one record: `model version=1 name= dense-inputs= fields=
 * embed= hidden= hash-bits= l2= seed= samples=`. Reading checks. */
int model_spec_read(const char *path, struct model_spec *spec, struct error *err);
int model_spec_write(const char *path, const struct model_spec *spec, struct error *err);

/* Adds tensors and table to an empty layout (lib/param/layout.h) and sets its seed. */
int model_layout(const struct model_spec *spec, struct layout *layout, struct error *err);
/* Floats in the dense vector, and in a row of the table. */
uint64_t model_dense_count(const struct model_spec *spec);
uint32_t model_width(const struct model_spec *spec);
/* Whether the kernels of OpenBLAS matter for its speed. */
int model_uses_blas(const struct model_spec *spec);
/* Whether a row's only key is its row number (audit), not what the data say. */
int model_keys_are_rows(const struct model_spec *spec);
/* Keys are below it. */
uint64_t model_key_count(const struct model_spec *spec);

/* A mini-batch. All arrays are the caller's and only read. Keys are given as positions in the
 * array of the batch's unique rows. */
struct model_batch {
	size_t count;
	const float *dense;     /* [count][dense_inputs]; NULL when there are none */
	const float *label;     /* [count], 0 or 1 */
	const float *weight;    /* [count]; NULL: all 1 */
	const uint32_t *offset; /* [count + 1]: keys of sample i are index[offset[i]..offset[i + 1]-1] */
	const uint32_t *index;  /* position of a key's row in `rows` */
	const float *value;     /* as index; NULL: all 1 */
};

struct model;

/* Checks the spec. Scratch memory grows with the largest batch seen. */
int model_new(struct model **out, const struct model_spec *spec, struct error *err);
void model_free(struct model *m); /* NULL is fine */

/* dense: the whole dense vector; rows: [unique][width]. ADDS the sums over the samples (each times
 * its weight) of the loss' gradient to dense_gradient and row_gradient (same shapes; the caller
 * zeroes them), and the samples' log loss, before any update, to *loss_sum (nats). -1 only when
 * memory runs out. */
int model_train(struct model *m, const struct model_batch *batch, const float *dense,
		const float *rows, float *dense_gradient, float *row_gradient, double *loss_sum,
		struct error *err);

/* The next calls of model_train() tell this function which floats of dense_gradient they will not
 * change any more, while they compute the others: ranges from the vector's end to its beginning.
 * All others are final when the call returns. NULL: nobody is told. */
typedef void model_final_fn(void *owner, size_t begin, size_t count);
void model_on_final(struct model *m, model_final_fn *final, void *owner);

/* The probability of label 1 for each sample into score[count]. audit: ERROR_CONFIG. */
int model_predict(struct model *m, const struct model_batch *batch, const float *dense,
		  const float *rows, float *score, struct error *err);

#endif
