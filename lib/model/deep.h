/*
 * deep: layers with a ReLU and one output over the embeddings of all fields, in order, and the dense
 * columns: the deep part of wdl, for any model that has one.  Private to lib/model.
 *
 * Its tensors are the last ones of the dense vector: for each layer hidden1.weight [out][in] (as in
 * torch.nn.Linear), hidden1.bias, ..., then output.weight [1][in].  A key's row is a weight, then the
 * embedding; the options are embed and hidden.
 */
#ifndef PACELINE_MODEL_DEEP_H
#define PACELINE_MODEL_DEEP_H

#include "model/kind.h"

/* Its parameters, and embeddings, are multiplied by it where they are used. */
#define DEEP_GAIN 0.4f

struct deep;

int deep_layout(const struct model_spec *spec, struct layout *l, struct error *err);
struct deep *deep_new(void); /* NULL: no memory */
void deep_free(struct deep *d); /* NULL is fine */
/* As the functions of a model_kind. forward ADDS its output to z. end: after the last block, if it is
 * trained. */
size_t deep_most(const struct model *m, const struct model_step *s); /* most rows in a block */
size_t deep_block(const struct model *m, size_t left);
int deep_begin(struct deep *d, struct model *m, const struct model_step *s, struct error *err);
void deep_forward(struct deep *d, const struct model *m, const struct model_step *s,
		  const struct model_block *k, float *z);
void deep_backward(struct deep *d, const struct model *m, const struct model_step *s,
		   const struct model_block *k, const float *by_z);
void deep_end(struct deep *d);

#endif
