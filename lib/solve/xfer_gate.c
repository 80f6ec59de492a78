/* xfer_gate: see xfer_gate.h. */
#include "solve/xfer_gate.h"

/* X at step `last` if the replica, whose |h| is v, has the steps before `first`. Stops when it is
 * above `most`. */
static double drift_of(const struct xfer_drift *d, const double *norm, size_t first, size_t last,
		       double v, double most)
{
	double x = 0;
	for (size_t i = first; i <= last && !(x > most); i++) {
		v = d->momentum * v + norm[i];
		x += v;
	}
	return x;
}

size_t xfer_gates(const struct xfer_drift *d, const double *norm, size_t n, size_t ahead,
		  struct xfer_gate *gate)
{
	double v = d->history; /* |h| at the replica, with `q` steps */
	size_t q = 0, above = 0;
	for (size_t i = ahead; i < n; i++) {
		double x;
		while ((x = drift_of(d, norm, q, i, v, d->most)) > d->most && q < i)
			v = d->momentum * v + norm[q++];
		above += x > d->most;
		gate[i] = (struct xfer_gate){.replica = q, .bound = x};
	}
	return above;
}

int xfer_gate_is_due(const struct xfer_drift *d, const double *norm, size_t n)
{
	return n > 0 && drift_of(d, norm, 0, n - 1, d->history, d->most / 2) > d->most / 2;
}

void xfer_gate_limits(const struct xfer_drift *d, const double *norm, size_t n, size_t *limit)
{
	double v = d->history; /* at step i */
	for (size_t i = 0; i < n; i++) {
		double sum = d->momentum * v + norm[i];
		limit[i] = i;
		while (limit[i] + 1 < n && !(sum + norm[limit[i] + 1] > d->most / 2))
			sum += norm[++limit[i]];
		v = d->momentum * v + norm[i];
	}
}
