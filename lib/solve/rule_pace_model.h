/*
 * rule_pace_model: what pace believes about the nodes; for rule_pace*.c only.
 *
 * A worker's batch of x samples takes t(x) = fixed + x/speed seconds.  One point of that line is
 * what it reported in the short window.  If the last report differs from the window by more than
 * JUMP, it is that report alone, because the speed has jumped and the window shows the past; but
 * not if single batches are known to be spikes.  The slope comes from a second window with other
 * sizes, and lies between two limits: no delay at all (all time grows with the samples), and as
 * fast as the fastest of its kind (all its slowness is delay).  Without a second size the first
 * limit is taken, so each decision goes a part of the way to the right size, never beyond it, and
 * the next one sees the slope.
 *
 * A node's trouble is what it takes longer than the median of its kind: as seconds a batch (a
 * delay) or as seconds a sample (a slow machine).  Its age is how long it has been there: the part
 * of the long window, or of the life of a younger node, that the trouble of the long window fills.
 * It is expected to last for age*ln(1 + left/age) seconds of the left ones: what has lasted for
 * `age` lasts for another t with probability age/(age + t).
 */
#ifndef PACELINE_SOLVE_RULE_PACE_MODEL_H
#define PACELINE_SOLVE_RULE_PACE_MODEL_H

#include "solve/crew.h"

struct pace_node {
	double time, size;  /* the point: seconds, samples */
	double slope;       /* seconds a sample */
	double cured_slope; /* of the median of its kind, without delay */
	double trouble;     /* seconds a batch beyond the median's */
	double age;         /* seconds */
};

/* One a node of the crew, to be freed. NULL: ERROR_OS. Where nothing is known of a node, its time
 * is 0 and its slope that of the others. */
struct pace_node *pace_model(const struct crew *c, const struct snapshot *s, int spiky,
			     struct error *err);

/* Seconds for a batch of x samples. */
double pace_time(const struct pace_node *p, double x);
/* Seconds of `left` that the trouble is expected to last. */
double pace_lasts(const struct pace_node *p, double left);

/* The middle one; the lower of two; NAN for none. Reorders v. */
double pace_median(double *v, size_t n);

#endif
