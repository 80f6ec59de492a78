/*
 * xfer_order: in which order updates go to their servers, and which are not sent at all (MLfabric
 * 5.1, Algorithm 2).  Pure.
 *
 * The smallest goes first: the one that would be there first, then the one with fewer bytes, then
 * the one that was named first.  An update has a deadline: the last position in the order at which
 * it may commit.  D is the least deadline that leaves no room for others: at least as many updates
 * must commit by D as there are positions up to it.  Where there is a D, only those with a deadline
 * by D may go next; and if the next one would be there later than another that could follow it, the
 * network would idle for its sake: the largest of those is dropped instead.  A drop takes no
 * position.  (The paper's algorithm advances on a drop, looks ahead also where no deadline was the
 * reason, and forgets deadlines that are passed.)
 *
 * An update may stand for several that commit together: it takes `count` positions, and the last of
 * them counts.  Then D leaves no room for the largest count, which is 1 where none are summed.
 *
 * All parts of an update are sent together: to each part's server what its ports have free after
 * the parts before it, and the update is there when its last part is.
 *
 * Time for n updates of s sources (a host, a time at which they are ready, servers): n log n, and
 * n s short looks at numbers: most sources are passed over by what was known of them.
 */
#ifndef PACELINE_SOLVE_XFER_ORDER_H
#define PACELINE_SOLVE_XFER_ORDER_H

#include "solve/xfer_net.h"

#define XFER_NO_DEADLINE UINT64_MAX
#define XFER_MARGIN_MAX 1000000

enum xfer_fate { XFER_SENT, XFER_OVERDUE, XFER_RIVAL, XFER_NOPATH };

struct xfer_part {
	size_t to; /* host of its server */
	int64_t bytes;
	struct xfer_hop hop; /* out */
};

struct xfer_update {
	size_t host;
	struct xfer_part *part; /* the caller's */
	size_t parts;           /* at least 1 */
	int64_t ready;          /* ns; from then on it can be sent */
	uint64_t deadline;      /* the last position at which it may commit, from 1; 0: too late */
	uint64_t count;         /* positions that it takes: 1, or how many are summed in it */
	enum xfer_fate fate;    /* out */
	int64_t there;          /* out: when all parts are there; XFER_NEVER: not sent */
};

/* The deadline of an update that was computed from `version` when the model has the version `now`
 * with all that is scheduled, settled or not.  At position i it meets the version now + i - 1, so
 * that its delay is now + i - 1 - version.  (The paper's Eq. 9 has one less, and no bound of 0.) */
uint64_t xfer_deadline(uint64_t version, uint64_t now, uint64_t delay_max);

/* Bytes of all parts, stuck at the largest number. */
int64_t xfer_bytes(const struct xfer_update *u);
/* Sends all parts, or none: then *there is XFER_NEVER. -1: ERROR_OS. */
int xfer_send_parts(struct xfer_net *net, const struct xfer_update *u, int64_t *there,
		    struct error *err);

/* Orders the n updates and sends them.  order[0 .. *sent) are those that are sent, as they commit;
 * the others are dropped, in the order in which that was decided.  margin: by how many percent
 * later than its rival an update may be.  -1: ERROR_OS; then the network is of no use any more. */
int xfer_order(struct xfer_net *net, struct xfer_update *u, size_t n, uint64_t margin,
	       size_t *order, size_t *sent, struct error *err);

#endif
