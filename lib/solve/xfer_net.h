/*
 * xfer_net: what the ports of hosts have free over time, and transfers that take it (MLfabric 5.1,
 * Fig. 4).  Pure.
 *
 * Each host has two ports, `out` and `in`.  A transfer uses at each instant all that both of its
 * ports have free, until it has sent its bytes, and takes that out of both.  So a transfer that is
 * planned later never moves an earlier one.
 *
 * Times are whole nanoseconds, rates whole bytes a second, products have 128 bits: no floating
 * point, so that two programs on two machines come to the same schedule.  A transfer ends at the
 * first whole nanosecond at which all bytes are there; it takes its ports up to that one.
 */
#ifndef PACELINE_SOLVE_XFER_NET_H
#define PACELINE_SOLVE_XFER_NET_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define XFER_NEVER INT64_MAX             /* there is no path, now or later */
#define XFER_TIME_MAX (INT64_C(1) << 60) /* ns, 36 years; what would end later never does */
#define XFER_RATE_MAX (INT64_C(1) << 53) /* bytes/s */
#define XFER_BYTES_MAX (INT64_C(1) << 53)
/* Of all updates together, and of all copies of a model: sums have 64 bits. */
#define XFER_ALL_BYTES_MAX (INT64_C(1) << 62)
#define XFER_SECOND INT64_C(1000000000)

__extension__ typedef __int128 xfer_wide;
#define XFER_ANY ((xfer_wide)1 << 120)

struct xfer_step {
	int64_t at, rate; /* from `at` to the next step; the last one is for ever */
};

struct xfer_port { /* all zeros: unlimited */
	struct xfer_step *step;
	size_t count, room;
	size_t saved; /* where xfer_begin() keeps it, + 1 */
};

struct xfer_host {
	struct xfer_port out, in;
};

struct xfer_saved;

struct xfer_net { /* all zeros at first; the hosts are numbered from 0 */
	struct xfer_host *host;
	size_t hosts, room;
	/* for xfer_undo(): ports as they were */
	struct xfer_saved *saved;
	size_t saves, saved_room, open;
	struct xfer_step *old;
	size_t olds, old_room;
	struct xfer_step *scratch;
	size_t scratch_room;
};

struct xfer_hop {
	int64_t start, end; /* of the bytes: start is when the first one goes */
};

void xfer_net_clear(struct xfer_net *net);
/* One more host, unlimited; its number is net->hosts - 1. -1: ERROR_OS. */
int xfer_net_add(struct xfer_net *net, struct error *err);
/* From `at` on the port has this rate. The first call says it from 0 on, whatever its `at`; times
 * grow from call to call. -1: ERROR_OS, or ERROR_DATA where they do not. */
int xfer_port_from(struct xfer_port *p, int64_t at, int64_t rate, struct error *err);
/* What the port has at a time; XFER_RATE_MAX if it is unlimited. */
int64_t xfer_port_rate(const struct xfer_port *p, int64_t at);

/* The hop of so many bytes, sent from `ready` on; its end is XFER_NEVER if there is no path. On one
 * host they are there at once. */
struct xfer_hop xfer_ask(const struct xfer_net *net, size_t from, size_t to, int64_t bytes,
			 int64_t ready);
/* Takes what a hop needs that was asked for and has a path; nothing was sent since. -1: ERROR_OS.
 */
int xfer_take(struct xfer_net *net, size_t from, size_t to, const struct xfer_hop *hop,
	      struct error *err);
/* Only its end. */
int64_t xfer_end(const struct xfer_net *net, size_t from, size_t to, int64_t bytes, int64_t ready);
/* The same through a single port, which nothing else uses. */
int64_t xfer_port_end(const struct xfer_port *p, int64_t bytes, int64_t ready);
/* How much it lets through until then, in bytes times ns in a second; at most XFER_ANY. */
xfer_wide xfer_port_until(const struct xfer_port *p, int64_t until);
/* Both at once. -1: ERROR_OS. */
int xfer_send(struct xfer_net *net, size_t from, size_t to, int64_t bytes, int64_t ready,
	      struct xfer_hop *hop, struct error *err);

/* What is sent from here on can be undone; these nest. `outer` is what begin returned. */
size_t xfer_begin(struct xfer_net *net);
void xfer_undo(struct xfer_net *net, size_t outer);
void xfer_keep(struct xfer_net *net, size_t outer);

#endif
