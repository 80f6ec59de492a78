/*
 * store_sum: the sum of the gradients of several pushes, and the step with it, as separate
 * functions.  Replicas need this: they sum over hosts in between.
 *
 * Gradients may lie in memory that their senders can still write.  Each value is read once, so the
 * value that is judged is the one that is added.  A sender that writes meanwhile spoils only its
 * own contribution.
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
	int in_rows; /* `at` counts floats of row_gradient, not elements of dense */
	size_t at;
	float value; /* read for the message; it may differ from the judged one by now */
	int is_infinite; /* this one, or a later one, is not finite */
};

/* Computes out[count]: elements begin .. begin+count-1 of the dense gradients of these pushes,
 * weighted and added in this order; zeros if no push has a dense gradient. bad[pushes] change only
 * where a bad gradient is found; then out can't be applied. team NULL: the caller alone. */
void store_sum_dense(const struct store *s, struct team *team, const struct store_push *push,
		     size_t pushes, size_t begin, size_t count, float *out, struct store_bad *bad);

/* Rows that are touched, each once, and what is added to each. All zero at first. */
struct row_sums {
	size_t count;
	float **row;  /* of the store */
	float *value; /* [count][width] */
	size_t room;
};

/* Sums the rows of all these pushes. bad NULL: they were judged before, and nobody else writes
 * there. ERROR_OS: no memory. */
int store_sum_rows(struct store *s, struct team *team, const struct store_push *push, size_t pushes,
		   struct row_sums *out, struct store_bad *bad, struct error *err);
/* Makes room for count rows; what was in it is lost. */
int row_sums_reserve(const struct store *s, struct row_sums *rows, size_t count, struct error *err);
void row_sums_free(struct row_sums *rows);

/* One step with a sum of all contributions: dense[store_dense_count()] (NULL: there is none) and
 * rows, both divided by divisor. samples 0: there is no mean, and only tensors and tables that are
 * plainly added (LAYOUT_ADD) change. */
void store_sum_step(struct store *s, struct team *team, const float *dense,
		    const struct row_sums *rows, double divisor, uint64_t samples);

/* Checksums (XXH3): _checksum() of a sum; _digest() goes on from such a checksum with the values to
 * which the sum will be added: parameters and slots of the dense range and of these rows. The order
 * of the rows matters. */
uint64_t store_sum_checksum(const struct store *s, const float *dense, const struct row_sums *rows);
uint64_t store_sum_digest(const struct store *s, const struct row_sums *rows, uint64_t checksum);

#endif
