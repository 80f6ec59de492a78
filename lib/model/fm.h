/*
 * fm: the products of pairs of embeddings, for any model that has them.  Private to lib/model.
 *
 * A key's row is a weight, then the embedding v.  A sample's output is the sum over its pairs of keys of
 * <v_i, v_j> x_i x_j, with x the values.  That is half of |sum v_i x_i|^2 - sum |v_i x_i|^2, in a time
 * that grows with the number of keys, not of pairs (Rendle, 2010).
 */
#ifndef PACELINE_MODEL_FM_H
#define PACELINE_MODEL_FM_H

#include "model/kind.h"

/* Makes room for blocks of at most `most` rows, in m->scratch. */
int fm_begin(struct model *m, size_t most, struct error *err);
/* ADDS to z. Embeddings are multiplied by gain where they are used. fm_backward() is for the block of
 * the fm_forward() before. */
void fm_forward(struct model *m, const struct model_step *s, const struct model_block *k, float gain,
		float *z);
void fm_backward(struct model *m, const struct model_step *s, const struct model_block *k, float gain,
		 const float *by);

#endif
