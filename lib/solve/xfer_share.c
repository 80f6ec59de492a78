/* xfer_share: see xfer_share.h. */
#include "solve/xfer_share.h"

#include <math.h>
#include <stdlib.h>

#define SHARE_SLOW 0.5 /* as fast as the fastest, at most */
/* Times that are equal for the numbers of the input differ by less as doubles. */
#define SHARE_EQUAL 1e-12

static int compare_fastest(const void *x, const void *y)
{
	const struct xfer_member *a = *(struct xfer_member *const *)x;
	const struct xfer_member *b = *(struct xfer_member *const *)y;
	return a->rate > b->rate ? -1 : a->rate < b->rate;
}

/* T for more than two that work: as if those without workers had all, then with one after the other
 * of the others, as long as T is more than it needs to send and receive. */
static double share_seconds(struct xfer_member **by_rate, size_t n, size_t works, double bytes)
{
	double others = (double)works - 2, idle = 0, sum = 0, count = 0;
	for (size_t i = 0; i < n; i++)
		idle += by_rate[i]->works ? 0 : by_rate[i]->rate / (double)works;
	double t = idle > 0 ? bytes / idle : INFINITY;
	for (size_t i = 0; i < n; i++) {
		if (!by_rate[i]->works)
			continue;
		if (by_rate[i]->rate * t <= bytes)
			break; /* and all behind it */
		sum += by_rate[i]->rate;
		count++;
		t = bytes * (1 + count / others) / (sum / others + idle);
	}
	return t;
}

void xfer_level(struct xfer_member *m, size_t n)
{
	double best = 0;
	for (size_t i = 0; i < n; i++)
		best = fmax(best, m[i].rate);
	for (size_t i = 0; i < n; i++)
		if (m[i].rate > SHARE_SLOW * best)
			m[i].rate = best;
}

int xfer_shares(struct xfer_member *m, size_t n, double bytes, struct xfer_round *round,
		struct error *err)
{
	struct xfer_member **by_rate = calloc(n + 1, sizeof *by_rate);
	double slowest = INFINITY, total = 0;
	size_t works = 0;
	if (!by_rate)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu hosts", n);
	for (size_t i = 0; i < n; i++) {
		by_rate[i] = &m[i];
		works += m[i].works != 0;
		if (m[i].works && m[i].rate < slowest)
			slowest = m[i].rate;
	}
	qsort(by_rate, n, sizeof *by_rate, compare_fastest);
	double t = bytes / slowest; /* everybody sends and gets the model once */
	double solved = works > 2 ? share_seconds(by_rate, n, works, bytes) : 0;
	free(by_rate);
	for (size_t i = 0; i < n; i++) {
		double filled = m[i].rate * solved / bytes;
		if (works <= 2) /* the same for any shares */
			m[i].share = m[i].works ? 1 / (double)works : 0;
		else if (m[i].works)
			m[i].share = filled > 1 ? (filled - 1) / ((double)works - 2) : 0;
		else
			m[i].share = filled / (double)works;
		total += m[i].share;
	}
	for (size_t i = 0; i < n; i++) /* what rounding left */
		m[i].share /= total;
	t = works > 1 ? fmax(t, solved) : 0;
	double ring = 2 * ((double)works - 1) / (double)works * bytes / slowest;
	*round = (struct xfer_round){
		.seconds = t, .ring = ring, .is_ring = t >= ring * (1 - SHARE_EQUAL)};
	return 0;
}

struct remainder {
	double part;
	size_t i;
};

static int compare_remainders(const void *x, const void *y)
{
	const struct remainder *a = x, *b = y;
	if (a->part != b->part)
		return a->part > b->part ? -1 : 1;
	return a->i < b->i ? -1 : a->i > b->i;
}

int xfer_owners(const struct xfer_member *m, size_t n, size_t *owner, size_t segments,
		struct error *err)
{
	struct remainder *rest = calloc(n + 1, sizeof *rest);
	size_t *has = calloc(n + 1, sizeof *has), left = segments, next = 0;
	if (!rest || !has) {
		free(rest);
		free(has);
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu hosts", n);
	}
	for (size_t i = 0; i < n; i++) {
		double want = m[i].share * (double)segments;
		has[i] = (size_t)want < left ? (size_t)want : left;
		left -= has[i];
		rest[i] = (struct remainder){.part = want - (double)has[i], .i = i};
	}
	/* The largest remainders get what is left: less than one each. */
	qsort(rest, n, sizeof *rest, compare_remainders);
	for (size_t i = 0; i < left && i < n; i++)
		has[rest[i].i]++;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < has[i] && next < segments; k++)
			owner[next++] = i;
	free(rest);
	free(has);
	return 0;
}
