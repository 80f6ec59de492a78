/*
 * network: how fast the hosts' links are, as the fabric measures them (fabricd(8), links): for
 * status, for metrics, and now and then for the log of the job, with what a slow link cost; and for
 * the lead, if pushes take turns by it.
 *
 * What a link cost is the time of the bytes that it carried, less the time that they would have
 * taken on the median host's link.  One that may be nearly as fast as that, within its error, costs
 * nothing.  For this a host's link is as fast as its faster direction: beside a slow host, one
 * direction of its neighbours looks slow, too.  It is counted each second, by the rates of that
 * second: at another one a link may not be known, or a neighbour may have had to do only with the
 * slow one.
 *
 * What a ring cost, or would have cost, is the time that sums of gradients take in it by the rates
 * of the links, less the time by shares (solve/xfer_share.h).  It is the slowest link's fault.
 */
#ifndef PACELINE_RUN_NETWORK_H
#define PACELINE_RUN_NETWORK_H

#include "run/talk.h"

#include <stddef.h>
#include <stdint.h>

struct record_out;

/* Of a host, in one direction. */
struct network_side {
	double rate, error, free; /* bytes/s; NAN: not known */
	double at;                /* clock_mono() of the last sample; NAN: none */
	uint64_t is_least;        /* rate is a lower bound */
	uint64_t bytes;           /* since its fabricd began */
	uint64_t now;             /* since the last answer */
	double part;              /* network_part() */
	/* What is in no record of the log yet: bytes; those for which this rate and the median one
	 * were known, the seconds that they took at each, and what they cost. */
	uint64_t since, timed;
	double seconds, at_median, cost;
};

struct network_link {
	struct network_side out, in;
	uint64_t summed, summed_since; /* bytes of vectors; since the last answer */
	double ring_cost;              /* seconds that are in no record of the log yet */
	char unmeasured[16];           /* why; "": it is measured */
	uint64_t world; /* of the fabric that said this, as sup_host has it; 0: nothing is known */
};

struct sup_network {
	struct question question, told; /* told: to the lead */
	double logged_at;               /* clock_mono() */
	double ring_cost;               /* seconds, of all links since this trainctl began */
};

/* Pure. The median of the links' rates, of lower bounds, too, so that a cost is rather too small;
 * NAN: fewer than two are known. */
double network_median(const struct network_link *const *link, size_t count);
/* Pure. Where nearly all goes to one host, or comes from one, as that of the only server: half an
 * equal part of its port, bytes/s. Host i may have no more than that, however fast its own link is.
 * Otherwise INFINITY; NAN: not known. */
double network_part(const struct network_link *const *link, size_t count, size_t i, int is_out);
/* Counts what has gone over one side since the last answer, and what it cost: the seconds that it
 * took longer than at the median rate, if both rates are known, and it carries less than its part. */
void network_count(struct network_side *side, double median);
/* Pure. Seconds by which a ring of these hosts takes longer for a byte of a vector than shares do,
 * and whose link it is; 0 where the slowest link is not known. Another one's lower bound is taken
 * as its rate, so that this is rather too small. */
double network_ring_cost(const struct network_link *const *link, size_t count, size_t *slowest);

void sup_network_tick(struct supervisor *s);
/* What went over the links since the last time, if it is known what it cost. */
void sup_network_log(struct supervisor *s);
/* Fields of the job's status record: FABRIC, where it makes a difference; what mlfabric saves. */
void sup_network_add_fabric(struct record_out *o, const struct supervisor *s);
/* Fields of a host's status record; nothing if nothing is known. */
void sup_network_add(struct record_out *o, const struct network_link *link);

#endif
