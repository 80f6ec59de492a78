/*
 * crew: the nodes that a rule decides on, how slow each is beside the others, and the split of a
 * batch over them; for rule*.c only.  See rules.h for the words.
 */
#ifndef PACELINE_SOLVE_CREW_H
#define PACELINE_SOLVE_CREW_H

#include "solve/batch.h"
#include "solve/say.h"
#include "solve/snapshot.h"

enum crew_window { CREW_SHORT, CREW_LONG };

/*
 * A node that is up and has reported nothing for longer than any node needs for a few batches: it
 * may be idle, or hang.  Its older reports are out of date, so it belongs to no crew: a silent node
 * must not look fast.  If others wait for it, nothing is decided until it reports again or is hung: this is
 * such a node, or NULL.  Nobody waits for a node that owes nothing, or shows other signs of life:
 * there is nothing for it to do, perhaps for good.
 */
const struct snapshot_node *crew_silent(const struct snapshot *s, double *seconds);

struct crew {
	size_t count;
	const struct snapshot_node **node; /* in the snapshot's order */
	double per_sample[2];              /* mean of 1/speed in each window; NAN: not known */
};

/* Nodes of a role that are up; starting: or about to be. To be freed with crew_free(), also after
 * -1 (ERROR_OS). */
int crew_gather(struct crew *c, const struct snapshot *s, enum node_role role, int starting,
		struct error *err);
void crew_free(struct crew *c);

/* How slow, over the mean of the crew; NAN: not known. */
double crew_ratio(const struct crew *c, size_t i, enum crew_window window);
/* ratio >= lambda, for ratios of decimal numbers too; NAN is not slow. */
int crew_is_slow(double ratio, double lambda);

/* ---- a split ---- */

struct split {
	struct batch_worker *w; /* one a worker of the crew, to be freed */
	double before, after;   /* seconds of the slowest worker, by the speeds given */
	int changes;            /* some size is another than reported */
	int uneven;             /* reported sizes differ by more than one */
	int sums;               /* reported sizes sum to the batch, or some are not reported yet */
};

/* Splits `batch` by speed[i], of which unknown ones (NAN, 0) become the mean of the known; each
 * gets `least` or what it holds.
 * 0: done. 1: can't be, and why (as for say_reason()) says what is missing. -1: ERROR_OS. Free s->w
 * in any case. */
int crew_split(struct split *s, const struct crew *c, const double *speed, uint64_t batch,
	       uint64_t least, char *why, struct error *err);
/* Each gets the size of its row in w. */
int crew_say_sizes(const struct crew *c, const struct batch_worker *w, const char *reason,
		   struct voice *v);

#endif
