/*
 * xfer_group: which updates go to the server directly, and which are summed on the way (MLfabric
 * 5.2, Algorithm 3), and the other way round for a model that many hosts get (10.3).  Pure.
 *
 * The ordered updates are cut into consecutive groups: the first n go directly, each further group
 * to an aggregator, which sends their sum.  Aggregators are used in the order in which they are
 * given. A group takes members while they are there and summed by the time at which the server has
 * all that goes before; an empty group takes its first member however late; the last group takes
 * all the rest; for n = 0 the first group is not bounded.  Of all n, and of all numbers of
 * aggregators, the best are taken: first the fewest aggregators, then the fewest direct ones.  (As
 * printed the algorithm leaves out the transfer of the last group, sends empty sums, and does not
 * begin each n with a fresh network.)
 *
 * A group commits whole: its last position counts for each member's deadline.
 *
 * Where a model is in several parts, a member goes to its aggregator in one piece, and the sum of
 * each part from there to its server; all parts are sent together, and the last one counts.
 *
 * Up to XFER_EXACT_MAX updates every n is looked at or ruled out; with more, n is found by
 * bisection on whether the last group makes the server wait, and its neighbours are looked at.
 */
#ifndef PACELINE_SOLVE_XFER_GROUP_H
#define PACELINE_SOLVE_XFER_GROUP_H

#include "solve/xfer_order.h"

#define XFER_EXACT_MAX 512
#define XFER_LOCAL_MAX 16
#define XFER_NO_COST ((xfer_wide)1 << 126)

enum xfer_goal {
	XFER_ALL, /* the last commit as soon as possible: synchronous training */
	XFER_EACH /* the sum of the times of all commits as small as possible */
};

struct xfer_aggregator {
	size_t host;
	int64_t sum_rate; /* bytes/s that it adds; 0: that takes no time */
};

struct xfer_batch {
	struct xfer_net *net;
	const struct xfer_update *u; /* those that are sent have the same parts: for the
				 same servers, in the same order */
	size_t *order;               /* of xfer_order(), `count` of them */
	size_t count;
	const struct xfer_aggregator *aggregator;
	size_t aggregators;
	const int64_t *dense; /* bytes by part; no sum has more. NULL, or 0: not known */
	enum xfer_goal goal;
	const size_t *limit; /* by position: the last that a group beginning there may have. NULL:
				no limit */
};

struct xfer_sum { /* of a group */
	uint64_t members;
	int64_t summed;         /* when all are */
	struct xfer_part *part; /* the caller's, as many as an update has */
};

/* What is carried out: by position, and by aggregator. The arrays are the caller's. */
struct xfer_course {
	struct xfer_hop *hop; /* to the aggregator; those of a direct one are in its parts */
	int64_t *commit;
	struct xfer_sum *sum; /* as many as there are aggregators */
};

/* way[i]: 0, or 1 + the aggregator to which the i-th of the order goes. The network stays as it is.
 * -1: ERROR_OS. */
int xfer_group(const struct xfer_batch *b, size_t *way, struct error *err);
/* The same for n direct ones and k aggregators. *cost: XFER_NO_COST if that can't be. */
int xfer_group_as(const struct xfer_batch *b, size_t n, size_t k, size_t *way, xfer_wide *cost,
		  struct error *err);
/* Sends them that way. *cost: XFER_NO_COST if there is no path or a deadline is missed; the network
 * is changed all the same. */
int xfer_carry(const struct xfer_batch *b, const size_t *way, struct xfer_course *course,
	       xfer_wide *cost, struct error *err);
/* Looks for a better order and better ways, up to XFER_LOCAL_MAX updates: from the way that is
 * given, from all direct, and from one aggregator after the other in turn; it moves one, swaps two,
 * and twenty times it does so at random and tries again.  The same input gives the same answer. */
int xfer_local(const struct xfer_batch *b, size_t *way, struct error *err);

/* Updates of one host that are ready at the same time are summed there, where that makes fewer
 * bytes and keeps the deadlines.  sum[] has room for n, part[] for n times the parts;
 * into[i] says which one has update i. Returns how many there are. -1 as SIZE_MAX: ERROR_OS. */
size_t xfer_sum_hosts(const struct xfer_update *u, size_t n, const int64_t *dense,
		      struct xfer_update *sum, struct xfer_part *part, size_t *into,
		      struct error *err);

/* The k hosts (not the server) with the largest min(in, out) at first, into aggregator[]; returns
 * how many there are. */
size_t xfer_best_hosts(const struct xfer_net *net, size_t server, size_t k,
		       struct xfer_aggregator *aggregator);

struct xfer_copy {
	size_t to, from;     /* from: out */
	struct xfer_hop hop; /* out; the end is XFER_NEVER: no path */
};

/* One copy of a model of `bytes` from `server` to each host of copy[], which are different and not
 * the server: the same groups in the network with in and out exchanged, the last group first.
 * Copies to distributors that are no destination come behind them, so copy[] has room for n + k;
 * *count is how many there are.  In the order in which they are sent. */
int xfer_distribute(struct xfer_net *net, size_t server, int64_t bytes,
		    const struct xfer_aggregator *distributor, size_t k, struct xfer_copy *copy,
		    size_t n, size_t *count, struct error *err);

#endif
