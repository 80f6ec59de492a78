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
 * Every ten seconds it estimates what FABRIC=mlfabric saved, or would have saved (saves.h).
 */
#ifndef PACELINE_RUN_NETWORK_H
#define PACELINE_RUN_NETWORK_H

#include "run/saves.h"
#include "run/talk.h"

#include <stddef.h>
#include <stdint.h>

struct record_out;
struct xfer_round;

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
	struct saves_way lately; /* since the last estimate; lower bounds are not known */
};

struct network_link {
	struct network_side out, in;
	uint64_t summed, summed_since; /* bytes of vectors; since the last answer, or estimate */
	struct saves_host then;        /* what its workers had done at the last estimate */
	char unmeasured[16];           /* why; "": it is measured */
	uint64_t world; /* of the fabric that said this, as sup_host has it; 0: nothing is known */
};

struct sup_network {
	struct question question, told; /* told: to the lead */
	double logged_at, estimated_at; /* clock_mono() */
	double saved, logged; /* seconds, by FABRIC=mlfabric; of these, in the log */
	struct saves_job lately; /* since the last estimate; sums: in bytes */
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
/* A link was not busy for longer than these seconds, whatever its rate was taken to be. */
void network_bound(struct network_side *side, double seconds);
/* Pure. Seconds that a byte of a vector takes in a ring of these hosts, and by shares; is_ring where
 * shares take as long, or the slowest link is not known. Another one's lower bound is taken as its
 * rate, so that the difference is rather too small. */
void network_round(const struct network_link *const *link, size_t count, struct xfer_round *round);

void sup_network_tick(struct supervisor *s);
/* What went over the links since the last time, if it is known what it cost. */
void sup_network_log(struct supervisor *s);
/* FABRIC, as it is in effect; NULL: it makes no difference (as trainctl says when it begins where it
 * makes none, cmd/trainctl/begin.c). */
const char *sup_network_fabric(const struct supervisor *s);
/* Fields of a host's status record; nothing if nothing is known. */
void sup_network_add(struct record_out *o, const struct network_link *link);

#endif
