/*
 * census: what lda has to know of all documents before it sees the first one, and whether floats
 * can count them; and its own part of a spec, where that is kept.
 */
#ifndef PACELINE_MODEL_CENSUS_H
#define PACELINE_MODEL_CENSUS_H

#include "model/model.h"

#define LDA_GROUPS 64 /* of documents, which have totals of their own */

struct lda_options {
	uint32_t topics;
	double alpha, beta; /* parameters of the Dirichlet priors of topics and of words */
	uint64_t words;     /* how many different ones the training data have */
	uint64_t longest;   /* words in the longest of their documents */
};

static inline struct lda_options *lda_options(struct model_spec *spec)
{
	return (void *)spec->own;
}

struct census;

int census_new(struct census **out, struct error *err);
void census_free(struct census *c); /* NULL is fine */

/* The document in row `row`: count words, value[i] times key[i]. ERROR_DATA: a word, or all words
 * of a group of documents, occur more than 2^24 times; whole numbers of floats end there. */
int census_add(struct census *c, uint64_t row, const uint32_t *key, const float *value,
	       size_t count, struct error *err);
/* Sets words and longest. */
void census_end(const struct census *c, struct model_spec *spec);

#endif
