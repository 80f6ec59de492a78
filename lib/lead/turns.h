/*
 * turns: when pushes that are announced go over the network: in MLfabric's order (solve/xfer_order.h), by
 * the rates of the hosts' links as the supervisor says them (`links`).  A link without a known rate
 * is not limited; so without any rates all go at once, in the order in which they came.
 *
 * Those of several hosts are summed on one of them, and one sum goes to the servers (Algorithm 3,
 * solve/xfer_group.h), where the commits then come earlier by the margin: a group with members on
 * several hosts.  One aggregator is looked for at a time; it has a push of its own in the group.
 * (Where 8; 15 hosts wait at once for a server that receives half as fast as each of them sends,
 * the mean commit would be 12; 32 % earlier with more aggregators in one plan, by xfer-sched.  But
 * pushes come one after the other, and a group goes as soon as it is worth it, so that those that
 * come later get another aggregator: in a job of eight such hosts no plan would have had two.)
 * What a host could send to another worker's host nobody has measured: where all send to the
 * server, the rate of the way there is known, and not which end of it is the slow one.  So for such
 * a group a host without parameters is taken to send and receive as fast as it was seen to do
 * either, not long ago.  The gate sees whether that came true.
 *
 * Pure: the lead of a job asks it (lead_schedule.c), and that of a simulated one.
 */
#ifndef PACELINE_LEAD_TURNS_H
#define PACELINE_LEAD_TURNS_H

#include "base/error.h"
#include "lead/gate.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct turns; /* what is known of the links */

/* In place of *turns, which may be NULL at first, what these lines say of all links, workers and servers:
 *     link host= [out=] [in=]     worker id= host=     server id= host=
 * What makes no sense changes nothing: -1. */
int turns_read(struct turns **turns, const char *text, size_t len, struct error *err);
void turns_free(struct turns *turns); /* NULL is fine */
size_t turns_links(const struct turns *turns); /* how many are named; NULL: none */
const char *turns_host(const struct turns *turns, size_t host); /* of an offer */

/* How many bytes of a part's updates are dense; no sum has more. */
struct turns_dense {
	size_t parts; /* 0: nothing is known, and nothing is summed on another host */
	int64_t (*bytes)(size_t part, const void *arg);
	const void *arg;
};
/* A gate_schedule_fn without its last argument. log, which may be NULL, gets what xfer-sched(1) needs to come
 * to the same schedule, of the time `at`. */
int turns_schedule(const struct turns *turns, const struct turns_dense *dense, struct gate_offer *offer, size_t offers,
		   FILE *log, double at, struct error *err);

#endif
