/*
 * model: the functions that are trained.  A model computes a loss and gradients from a mini-batch
 * and its parameters, and nothing else.  It knows no server, no optimiser and no clock, and no file
 * but its own `model` record.  The same code trains (worker) and scores (predict, trainctl).
 *
 * Each model is one file, which says at its head what it computes (kind.h says what is in it), and
 * one word in MODELS.
 *
 * Parameters are those of lib/param/layout.h: tensors by name, which are one flat dense vector, and
 * one table of rows with `model_width()` floats each.  The caller holds them: a model never
 * allocates parameters.  One table is enough for all models that are known: what a key has (a
 * weight, an embedding, an embedding for each other field) lies side by side in its row, which
 * travels and is saved as one; and keys of different columns never meet, as each column hashes
 * them with a seed of its own.
 */
#ifndef PACELINE_MODEL_MODEL_H
#define PACELINE_MODEL_MODEL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct layout;

/* All models; the first one is the default. */
#define MODELS(FIRST, MORE) \
	FIRST(lr) MORE(wdl) MORE(fm) MORE(deepfm) MORE(dcn) MORE(xdeepfm) MORE(ffm) MORE(mlp) \
	MORE(conv) MORE(softmax) MORE(svm) MORE(linear) MORE(audit) MORE(lda)

#define MODEL_WORD(name) #name
#define MODEL_COMMA_WORD(name) ", " #name
#define MODEL_BAR_WORD(name) "|" #name
#define MODEL_NAMES MODELS(MODEL_WORD, MODEL_COMMA_WORD)   /* "lr, wdl, ..." */
#define MODEL_CHOICES MODELS(MODEL_WORD, MODEL_BAR_WORD) /* "lr|wdl|..." */

/* What a label is. A model has one kind, or one of several that its option `labels` chooses. */
enum model_labels {
	MODEL_BINARY = 1, /* 0 or 1; one output, whose score is the probability of 1 */
	MODEL_CLASS = 2,  /* 0 .. classes - 1; an output each, whose scores are probabilities */
	MODEL_REAL = 4,   /* any finite number; one output, which is the score */
};
#define MODEL_LABELS "binary|class|real"
#define MODEL_CLASSES_MAX 65536

#define MODEL_WIDTHS_MAX 8
struct model_widths {
	uint32_t count;
	uint32_t width[MODEL_WIDTHS_MAX];
};

#define MODEL_OWN_BYTES 128

struct model_spec {
	char name[16];
	uint32_t dense_inputs; /* dense columns of the data */
	uint32_t fields;       /* keys in each row; 0: the number differs (libsvm) */
	uint32_t hash_bits;    /* keys are below 2^hash_bits */
	uint32_t classes;      /* MODEL_CLASS: how many there are; else 0 */
	double l2;             /* only recorded: the servers' optimiser applies it */
	uint64_t seed;
	uint64_t samples;      /* rows of the training data; audit has a row of the table for each */

	/* Options that several models have (kind.h). */
	uint32_t labels;            /* a number of MODEL_LABELS, from 0 */
	uint32_t embed;             /* floats in an embedding */
	struct model_widths hidden; /* hidden layers */

	/* Those of one model: a struct of its file. */
	_Alignas(8) unsigned char own[MODEL_OWN_BYTES];
};

/* Sets this model with its options' defaults, hash_bits 20 and seed 1; the caller sets what the data
 * say. A name that is not known is for model_spec_check() to refuse. */
void model_spec_default(struct model_spec *spec, const char *name);
/* ERROR_CONFIG: an unknown name (the text lists the known ones), wdl and others on rows without
 * fixed fields, lda on rows that are no documents, sizes out of range, too many samples for the
 * keys, or fewer than two classes where labels are classes. */
int model_spec_check(const struct model_spec *spec, struct error *err);
/* The file `model` of a checkpoint, one record: `model version=1 name= dense-inputs= fields=
 * hash-bits= l2= seed= samples= [classes=]`, then the model's options, each by its name. An option
 * that is missing has its default, as it is newer than the file; one that this model does not have
 * is ignored. model_spec_read() checks what it reads. */
int model_spec_read(const char *path, struct model_spec *spec, struct error *err);
int model_spec_write(const char *path, const struct model_spec *spec, struct error *err);

/* The i-th model; NULL: there are no more. */
const char *model_name_at(size_t i);
/* What its labels may be, enum model_labels added up; 0: it has none, or there is no such model. */
unsigned model_takes_labels(const char *name);
/* What they are; 0: it has none. */
unsigned model_labels_of(const struct model_spec *spec);
/* Whether its samples are documents (FORMAT=bag). */
int model_has_documents(const char *name);
/* Scores of a sample. */
uint32_t model_outputs(const struct model_spec *spec);

/* Adds tensors and table to an empty layout (lib/param/layout.h) and sets its seed. */
int model_layout(const struct model_spec *spec, struct layout *layout, struct error *err);
/* Floats in the dense vector, and in a row of the table. */
uint64_t model_dense_count(const struct model_spec *spec);
uint32_t model_width(const struct model_spec *spec);
/* The least floats that training takes beside parameters and gradients. */
uint64_t model_scratch(const struct model_spec *spec);
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
	const float *label;     /* [count], as model_labels_of() says */
	const float *weight;    /* [count]; NULL: all 1 */
	/* [count + 1]: sample i has keys index[offset[i]..offset[i + 1]-1] */
	const uint32_t *offset;
	const uint32_t *index;  /* position of a key's row in `rows` */
	const float *value;     /* as index; NULL: all 1. lda: how often a word occurs */
	size_t unique;          /* positions are below it; only looked at on a card */
	const uint64_t *row;    /* [count] number in the data; lda and audit look at it */
	/* Only looked at on a card. serial: of what the arrays hold: two numbers, never the same rows;
	 * 0: that is not known. next: will probably follow, so its rows may be copied while this batch
	 * is computed; NULL: not known. */
	uint64_t serial;
	const struct model_batch *next;
};

/* What computes. Parameters and gradients stay in the caller's memory. auto: a card if there is one,
 * else the CPU; several cards, in ascending order: each computes a part of a batch; tf32: matrix
 * products have about 3 digits, and take less time. */
#define MODEL_DEVICES "cpu|cuda[:N[+N]...][+tf32]|auto"
struct model_device {
	const char *name;
	/* With cuda and auto: of the user among those that share this host's cards. They take one
	 * after the other; one that can't be had is passed over. */
	uint64_t rank;
};
/* Whether it is one of MODEL_DEVICES, and whether it may mean a card. */
int model_device_ok(const char *name);
int model_device_is_card(const char *name);
/* How many cards this host has, of which none is taken. -1: the model can't be computed on this
 * device. ERROR_UNAVAILABLE: not on this host; ERROR_CONFIG: not at all. */
int model_device_look(const struct model_spec *spec, const char *name, struct error *err);

struct model;

/* Checks the spec. Scratch memory grows with the largest batch seen. device: NULL: the CPU. Errors
 * as those of model_device_look(). */
int model_new(struct model **out, const struct model_spec *spec, const struct model_device *device,
	      struct error *err);
void model_free(struct model *m); /* NULL is fine */
/* "NVIDIA H100, 81559 MiB"; NULL: the CPU computes. */
const char *model_card(const struct model *m);
/* Bytes of the card's memory that nobody has; 0: not known. */
size_t model_card_left(const struct model *m);
/* So many samples fit the card's memory, because more did not; 0: all did so far. Larger batches
 * are computed in parts. */
size_t model_fits(const struct model *m);
/* That is known from before. */
void model_limit(struct model *m, size_t fits);

/* Which columns are folded (lib/model/first.h): with embeddings of 16 those with at most so many
 * categories for each row of a batch. kernel_choose() measures the fraction from which on folding
 * would lose. A model that is not told takes MODEL_FOLD_FRACTION, which loses on no processor that
 * was measured. Sums are added in another order then: two runs with the same bits need the same. */
#define MODEL_FOLD_FRACTION 0.25
void model_fold_fraction(struct model *m, double fraction);

/* dense: the whole dense vector; rows: [unique][width]. ADDS the gradient of the loss, summed over
 * the samples (each multiplied by its weight), to dense_gradient and row_gradient. These have the
 * same shapes, and the caller zeroes them. Also adds the samples' loss (of binary labels and of
 * classes in nats), before any update, to *loss_sum. -1 if memory runs out, or, ERROR_TEMPFAIL, if
 * the card answers no more. */
int model_train(struct model *m, const struct model_batch *batch, const float *dense,
		const float *rows, float *dense_gradient, float *row_gradient, double *loss_sum,
		struct error *err);

/* From now on model_train() tells this function which floats of dense_gradient it will not change
 * any more, while it computes the others: ranges from the end of the vector to its beginning. All
 * others are final when model_train() returns. NULL: nobody is told. */
typedef void model_final_fn(void *owner, size_t begin, size_t count);
void model_on_final(struct model *m, model_final_fn *final, void *owner);

/* Writes each sample's scores (enum model_labels) to score[count][outputs]. audit, lda:
 * ERROR_CONFIG. */
int model_predict(struct model *m, const struct model_batch *batch, const float *dense,
		  const float *rows, float *score, struct error *err);

/* lda: how well documents that it has not seen are explained (document completion). Words in odd
 * places tell a document's topics; score = the geometric mean of the probabilities of the others,
 * words = how many these are (0: the score is 1). Others: ERROR_CONFIG. */
int model_complete(struct model *m, const struct model_batch *batch, const float *dense,
		   const float *rows, float *score, float *words, struct error *err);

#endif
