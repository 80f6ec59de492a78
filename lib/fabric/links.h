/*
 * links: how fast the network between the hosts of a world is, measured by what goes over it
 * anyway.
 *
 * Each host reads what the kernel counts for MPI's connections (TCP_INFO), in windows of 250 ms,
 * and tells the host at the other end, which can't know when the sender had nothing to send.  From
 * its connections together it estimates its own port, in both directions, and tells rank 0: that
 * knows the ports of all hosts.  Nothing is sent to measure.
 *
 * The two ends of a connection have the same two addresses.  Each host tells the others those of
 * connections whose other end it does not know; who has the same one answers.
 */
#ifndef PACELINE_FABRIC_LINKS_H
#define PACELINE_FABRIC_LINKS_H

#include "base/error.h"

#include <stdint.h>

struct event_base;
struct links;
struct request;
struct sum_rates;
struct world;

/* summed(owner): bytes of dense vectors that this host has summed, which it tells, too.
 * measured(owner): rates may have changed. */
int links_new(struct links **out, struct event_base *base, struct world *w,
	      uint64_t (*summed)(const void *owner), void (*measured)(void *owner), void *owner,
	      struct error *err);
/* NULL is fine. */
void links_free(struct links *l);
/* Of this host's own port. */
void links_own(const struct links *l, struct sum_rates *rates);
/* The records of the verb links. */
void links_answer(const struct links *l, struct request *rq);

#endif
