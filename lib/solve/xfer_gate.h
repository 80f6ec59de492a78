/*
 * xfer_gate: how far a server may be ahead of its replica (MLfabric 5.3).  Pure.
 *
 * With momentum g a step is h = g h + u, w += h.  From norms alone, for any lead: V = |h| at the
 * replica and X = 0; each step makes V = g V + |u| and X += V; X bounds the distance of the two
 * models. (The paper's Eq. 11 has |u_1||h_0| where |u_2||h_0| is right: its bound is up to 1.39
 * times too low.)
 *
 * The server commits a step only when the replica has acknowledged as many steps as its gate says:
 * the least number, not less than the gate before, with which X stays within the bound.  A step
 * that is above the bound alone waits for all before it.
 */
#ifndef PACELINE_SOLVE_XFER_GATE_H
#define PACELINE_SOLVE_XFER_GATE_H

#include <stddef.h>

struct xfer_gate {
	size_t replica; /* steps that the replica must have */
	double bound;   /* X then */
};

struct xfer_drift {
	double momentum; /* 0 <= g < 1 */
	double history;  /* |h| at the replica */
	double most;     /* the bound */
};

/* norm[0..n): of the steps that the replica lacks, of which the server has the first `ahead`.
 * gate[i] is for step i, from `ahead` on.  Returns how many of those are above the bound alone. */
size_t xfer_gates(const struct xfer_drift *d, const double *norm, size_t n, size_t ahead,
		  struct xfer_gate *gate);

/* Whether more than half the bound is used when all n are committed: then the replica gets all of
 * them, so that they can be summed on the way.  (As few as leave half would be a few more with each
 * schedule, and nothing to sum.)  As long as it is not due, no gate holds anything up. */
int xfer_gate_is_due(const struct xfer_drift *d, const double *norm, size_t n);

/* limit[i]: the last step that a group beginning with step i may have (xfer_group.h): with g |h|
 * its sum stays within half the bound. */
void xfer_gate_limits(const struct xfer_drift *d, const double *norm, size_t n, size_t *limit);

#endif
