/*
 * deep: layers with a ReLU, and a product for each output, over the embeddings of all fields, in
 * order, and the dense columns: the deep part of a model, beside the wide part of lr or alone
 * (mlp).  Private to lib/model.
 *
 * The dense vector ends with, for each layer, hidden1.weight [out][in] (as in torch.nn.Linear),
 * hidden1.bias, ..., then output.weight [outputs][in].  Before them there are bias and dense.weight
 * of a wide part, and tensors of the model's own.  A key's row ends with its embedding; before it
 * there is the weight of a wide part.
 */
#ifndef PACELINE_MODEL_DEEP_H
#define PACELINE_MODEL_DEEP_H

#include "model/kind.h"

/* Beside a wide part, its parameters, and embeddings, are multiplied by it where they are used. */
#define DEEP_GAIN 0.4f

#define DEEP_BLOCK_ROWS 512 /* of a batch; deep_most() says when there may be more */

extern const struct model_option deep_options[];

/* The functions of a model_kind. They keep what they need in m->own. layout is that of a whole
 * model with a wide part; forward ADDS the layers' outputs to z. */
int deep_layout(const struct model_spec *spec, struct layout *l, struct error *err);
/* The same without the wide part, for a model that has tensors of its own between both. */
int deep_layout_end(const struct model_spec *spec, struct layout *l, struct error *err);
uint64_t deep_scratch(const struct model_spec *s);
int deep_begin(struct model *m, const struct model_step *s, struct error *err);
/* The same for layers that are alone; a bias for each output is the model's business. */
int deep_alone_layout(const struct model_spec *spec, struct layout *l, struct error *err);
int deep_alone_begin(struct model *m, const struct model_step *s, struct error *err);
size_t deep_block(const struct model *m, size_t left);
void deep_forward(struct model *m, const struct model_step *s, const struct model_block *k,
		  float *z);
void deep_backward(struct model *m, const struct model_step *s, const struct model_block *k,
		   float *by_z);
void deep_end(struct model *m, const struct model_step *s);
void deep_free(struct model *m);

size_t deep_most(const struct model *m, const struct model_step *s); /* most rows in a block */

#endif
