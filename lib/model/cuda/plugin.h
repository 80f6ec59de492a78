/*
 * plugin: a model on a card: where its batch, parameters and sums lie there, and what each model
 * does with them.  Private to lib/model/cuda.  The kernels of cin, conv, cross and fm belong to no
 * such model yet: only tests call them.
 */
#ifndef PACELINE_MODEL_CUDA_PLUGIN_H
#define PACELINE_MODEL_CUDA_PLUGIN_H

#include "model/backend.h"
#include "model/cuda/rows.h"

/* Memory is allocated whole and carved. With `at` NULL, a carver only counts. */
struct carver {
	char *at;
	size_t used;
};
void *carve(struct carver *c, size_t bytes);
#define CARVE(c, type, count) ((type *)carve(c, (size_t)(count) * sizeof(type)))

/* A range of the batch, on the card. */
struct range {
	struct keys keys;                /* keys.n samples */
	const float *x, *label, *weight; /* weight may be NULL */
	float *z, *delta;                /* [n]; delta only in training */
	float *by;                       /* [n][plugin.by_width]: gradients by embeddings */
	float *parts;                    /* layers_parts(n, plugin.widest) */
};

/* What a batch is computed from. `sorted` is that of struct occurrences. */
struct input {
	float *dense, *rows, *x, *label, *weight, *value;
	uint32_t *offset, *index;
	void *sorted;
};

/* What the kernels of a range are given. */
struct graph_of {
	const void *input, *whole, *sums, *work, *value, *weight;
	size_t count, keys;
};

struct plugin {
	struct model_spec spec;
	const struct cuda_model *model;
	struct device device;
	size_t dense_count, width, by_width, widest;

	/* The batch, and the parameters, copied from pinned memory of the same layout. next: the
	 * host's, to sort with. */
	struct room input, input_pinned, next;
	struct input card, host;
	int is_under_way; /* the card may still work on it */
	size_t count, keys, unique;
	struct occurrences occurrences; /* on the card */

	/* Of the whole batch: what gradients by rows are made of. */
	struct room whole;
	float *z, *delta, *by, *piece_sums;

	/* Sums: dense_gradient, row_gradient, loss; and scratch of a range. */
	struct room sums, sums_pinned, work;
	float *dense_gradient, *row_gradient;
	double *loss, *loss_parts;
	float *parts;
	void *own; /* of the model */

	/* The kernels of a batch in one step, as a graph; NULL: none. last: of the batch before. */
	cudaGraphExec_t graph;
	struct graph_of last;
	int no_graphs; /* it failed once */
	cudaEvent_t told[64];
};

/* Each is a file; the names are in plugin.cu. */
struct cuda_model {
	const char *name;
	int products; /* needs cuBLAS */
	/* Fills dense_count, width, by_width and widest (the most columns that are summed). -1: no
	 * memory. */
	int (*open)(struct plugin *p, struct error *err);
	/* Scratch for ranges of n samples. */
	void (*carve)(struct plugin *p, struct carver *c, size_t n);
	void (*forward)(struct plugin *p, const struct range *r);  /* writes z */
	void (*backward)(struct plugin *p, const struct range *r); /* delta is there; adds to
								      dense_gradient, writes by */
	float gain;                                                /* of embeddings */
};

extern const struct cuda_model cuda_lr, cuda_wdl;

/* The wide part, which is all of lr. */
void wide_forward(struct plugin *p, const struct range *r);
void wide_backward(struct plugin *p, const struct range *r);

#endif
