/*
 * plugin: a model on a card: where its batch, parameters and sums lie there, and what each model
 * does with them.  Private to lib/model/cuda.
 */
#ifndef PACELINE_MODEL_CUDA_PLUGIN_H
#define PACELINE_MODEL_CUDA_PLUGIN_H

#include "model/backend.h"
#include "model/cuda/loss.h"
#include "model/cuda/rows.h"

/* All models that a card computes; audit and lda count, and wait for memory only. */
#define CUDA_MODELS(M)                                                                             \
	M(lr)                                                                                      \
	M(svm) M(linear) M(softmax) M(fm) M(ffm) M(wdl) M(deepfm) M(dcn) M(xdeepfm) M(mlp) M(conv)

/* Memory is allocated whole and carved. With `at` NULL, a carver only counts. */
struct carver {
	char *at;
	size_t used;
};
void *carve(struct carver *c, size_t bytes);
#define CARVE(c, type, count) ((type *)carve(c, (size_t)(count) * sizeof(type)))

/* The samples of a batch, on the card. */
struct samples {
	struct keys keys;                /* keys.n samples */
	const float *x, *label, *weight; /* x: [n][dense_inputs]; weight may be NULL */
	float *z, *delta;                /* [n][outputs]; delta only in training */
	float *by;                       /* plugin.by from its first key on */
	float *parts;                    /* layers_parts(n, plugin.widest) */
};

/* What a batch is computed from: parameters and rows. `sorted` is that of struct occurrences. */
struct input {
	float *dense, *rows, *x, *label, *weight, *value;
	uint32_t *offset, *index;
	void *sorted;
};

/* What the kernels of a batch are given. */
struct graph_of {
	const void *memory, *slot, *value, *weight, *rows;
	size_t count, keys;
};

/* Where the rows of a batch lie, on the card and in the pinned memory that they are copied from. */
struct slot {
	struct room memory, pinned;
	struct input card, host; /* but parameters */
	size_t count, keys, unique; /* keys, unique: 0 where the model looks at no keys */
	int is_sorted;
	struct occurrences occurrences; /* on the card */
	struct model_batch ahead;       /* it was brought ahead; serial 0: none was */
	/* The kernels of a batch as a graph; NULL: none. last: of the batch before. */
	cudaGraphExec_t graph;
	struct graph_of last;
};

struct plugin {
	struct model_spec spec;
	const struct cuda_model *model;
	struct device device;
	enum loss kind;

	/* Shapes. A key's row has `weights` floats that delta is the gradient by, one for each
	 * output or none, and then by_width others, whose gradients backward() writes. */
	size_t outputs, dense_count, weights, by_width, widest;
	size_t part_rows; /* sums of columns are of so many rows for each sample, at most */
	size_t piece;     /* floats */

	/* The batch: its rows are in slot[now]; what it is computed from; and all other memory of
	 * the card that it needs. */
	struct slot slot[2];
	int now;
	struct input card;
	struct room memory;

	/* The one that will probably follow: its rows are brought to the other slot while the card
	 * computes, in a queue of their own. */
	struct model_batch next; /* its count is 0 where it is not known */
	struct queue ahead;
	cudaEvent_t arrived;
	int no_ahead; /* there was no memory for it once */

	/* Parameters are copied from pinned memory, that of `first` if it is not NULL, and what
	 * comes back, to it. counts: the host's, to sort with. */
	const struct plugin *first;
	struct room parameters_pinned, sums_pinned, counts;
	float *came; /* on the host: the dense gradient, that of rows; or outputs */
	double *loss_came;
	size_t row_floats; /* in this batch */

	/* Of all samples: outputs, gradients by them; and by[keys][by_width]. piece_sums: scratch
	 * of the gradients by rows. */
	float *z, *delta, *by, *piece_sums;

	/* Sums, and scratch. */
	float *dense_gradient, *row_gradient, *parts;
	double *loss, *loss_parts, *loss_each;
	void *own; /* of the model */

	int no_graphs; /* one could not be made */
	cudaEvent_t told[64];
};

/* A model, in a file. */
struct cuda_model {
	const char *name;
	unsigned labels;      /* as in struct model_kind */
	int products = 0;     /* 1: it needs cuBLAS */
	size_t own_bytes = 0; /* of plugin.own */
	float gain;           /* of embeddings */
	/* Says which parameters there are, in the order of the dense vector, and fills weights and
	 * by_width. */
	void (*open)(struct plugin *p);
	/* Scratch for n samples. */
	void (*carve)(struct plugin *p, struct carver *c, size_t n) = NULL;
	void (*forward)(struct plugin *p, const struct samples *r); /* writes z */
	/* delta is there; adds to dense_gradient, writes by. */
	void (*backward)(struct plugin *p, const struct samples *r);
	enum loss (*loss)(const struct model_spec *spec) = NULL; /* of its labels, if there is none */
};

/* ---- for cards.cu: on the current card. Who calls waits for what they queue. ---- */

int plugin_look(const struct model_spec *spec, const char *device, struct error *err);
int plugin_open(struct plugin **out, const struct model_spec *spec, const char *device,
		struct error *err);
void plugin_free(struct plugin *p);
/* A batch: begin, compute, back, ahead; or begin, scores. */
int plugin_begin(struct plugin *p, const struct model_load *l, struct error *err);
int plugin_compute(struct plugin *p, struct error *err);
/* The sums come to the host, the dense gradient from its end on, in pieces; told[i] is behind the
 * i-th. */
void plugin_back(struct plugin *p);
/* Brings the rows of the next batch. Where that fails, they are brought when it begins. */
void plugin_ahead(struct plugin *p);
void plugin_scores(struct plugin *p); /* come to `came` */

/* ---- for models ---- */

/* Where the next parameters begin in the dense vector: a vector, whose gradient
 * layers_column_sums() may add up, or a matrix. */
size_t plugin_vector(struct plugin *p, size_t count);
size_t plugin_matrix(struct plugin *p, size_t rows, size_t columns);

/* The wide part, which is all of lr: its parameters are the first of a model. */
void wide_open(struct plugin *p);
void wide_forward(struct plugin *p, const struct samples *r);
void wide_backward(struct plugin *p, const struct samples *r);

#define CUDA_MODEL(name) extern const struct cuda_model cuda_##name;
CUDA_MODELS(CUDA_MODEL)
#undef CUDA_MODEL

#endif
