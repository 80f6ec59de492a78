/*
 * xfer_share: who sums which part of a model in a round, by the rates of the hosts.  Pure.
 *
 * In a round each of N hosts with workers sends the others' parts and gets its own from all, then
 * sends its sum to all.  A host with the share s moves S(1 + (N - 2) s) bytes each way, so in a
 * time T it can have s = (r T/S - 1)/(N - 2), where r = min(in, out); one without workers has s = r
 * T/(N S). T is such that the shares are 1 together.  A host too slow for a share sends and
 * receives only. Where the ring would not be slower, 2(N - 1)/N S/r of the slowest host, it is the
 * ring.
 */
#ifndef PACELINE_SOLVE_XFER_SHARE_H
#define PACELINE_SOLVE_XFER_SHARE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct xfer_member {
	double rate;  /* bytes/s, > 0: the smaller of in and out */
	int works;    /* it has workers */
	double share; /* out */
};

struct xfer_round {
	double seconds; /* with the shares */
	double ring;    /* as a ring of the hosts with workers */
	int is_ring;
};

/* For rates that were measured in rounds: a host that is slower than the fastest one, but not by
 * half, counts as fast. One that sums nothing sends the vector once, and others up to
 * 1 + (n - 2)/(n - 1) times: when all take as long, it seems slower than they are, though never by
 * half. */
void xfer_level(struct xfer_member *m, size_t n);

/* bytes: of the model. At least one member works. -1: ERROR_OS. */
int xfer_shares(struct xfer_member *m, size_t n, double bytes, struct xfer_round *round,
		struct error *err);

/* owner[segment]: members in turn, each with as many of the segments as its share, to less than
 * one. -1: ERROR_OS. */
int xfer_owners(const struct xfer_member *m, size_t n, size_t *owner, size_t segments,
		struct error *err);

#endif
