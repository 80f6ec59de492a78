/*
 * store_sum: the sum of the gradients of several pushes, before a step is made with it: for
 * replicas, where a sum goes over hosts first.
 *
 * Gradients may lie in memory that their senders can still write.  Each value is read once, so that
 * the value that was judged is the one that was added; a sender that writes meanwhile spoils only
 * its own contribution.
 *
 * The same pushes in the same order give the same bits, those of store_apply(), however many
 * threads work and however a range is cut.
 */
#ifndef PACELINE_PARAM_STORE_SUM_H
#define PACELINE_PARAM_STORE_SUM_H

#include "base/error.h"
#include "base/team.h"
#include "param/store.h"

#include <stddef.h>

/* A gradient beyond OPT_GRADIENT_MAX, or not finite. */
struct store_bad {
	int found;
	int in_rows; /* at counts the floats of the rows' gradients, not of the dense range */
	size_t at;
	float value; /* as it was when it was looked for: it may be another one by now */
};

/* out[0..count) = elements begin.. of the dense gradients of these pushes, weighted and added in
 * this order; zeros when none has any. bad[pushes] are changed only where something is found; what
 * is in out is of no use then. */
void store_sum_dense(const struct store *s, struct team *team, const struct store_push *push,
		     size_t pushes, size_t begin, size_t count, float *out, struct store_bad *bad);

/* Rows that are touched, each once, with what is added to it. Zeroed at first. */
struct row_sums {
	size_t count;
	float **row;  /* of the store */
	float *value; /* [count][width] */
	size_t room;
};

/* Those of all these pushes. bad NULL: they were judged before, and nobody writes there. ERROR_OS: no
 * memory. */
int store_sum_rows(struct store *s, struct team *team, const struct store_push *push, size_t pushes,
		   struct row_sums *out, struct store_bad *bad, struct error *err);
/* Room for so many. */
int row_sums_reserve(const struct store *s, struct row_sums *rows, size_t count, struct error *err);
void row_sums_free(struct row_sums *rows);

/* One step with a sum of all contributions: dense[store_dense_count()] (NULL: there are none) and
 * rows, divided by divisor; samples 0: there is no mean, and only what is plainly added changes. */
void store_sum_step(struct store *s, struct team *team, const float *dense,
		    const struct row_sums *rows, double divisor, uint64_t samples);

/* Checksums (XXH3) of a sum, and of what it will be added to: parameters and slots of the dense
 * range and of these rows. Rows count in their order. */
uint64_t store_sum_checksum(const struct store *s, const float *dense, const struct row_sums *rows);
uint64_t store_sum_digest(const struct store *s, const struct row_sums *rows, uint64_t checksum);

#endif
