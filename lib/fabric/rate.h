/*
 * rate: how many bytes a link carries in a second, estimated from what its connections count.
 *
 * The kernel counts, for each TCP connection, the bytes that the other side has acknowledged and
 * the time in which there was something to send.  Their quotient is the rate of the link, also
 * where the sender is idle half of the time.  It is only a lower bound when
 *
 * - the receiver or the send buffer held the sender up,
 * - nothing ever waited for the network: then the sender was the limit, or the round trip,
 * - several connections share the link and it is not clear when it was busy at all: as long as the
 *   busiest of them at least, as long as all of them together at most.
 *
 * Pure. Times are seconds.
 */
#ifndef PACELINE_FABRIC_RATE_H
#define PACELINE_FABRIC_RATE_H

#include <stddef.h>
#include <stdint.h>

#define RATE_SAMPLES 3

/* What a connection has counted since it began. */
struct rate_counts {
	uint64_t bytes;   /* acknowledged */
	uint64_t busy;    /* microseconds with something to send, or on its way */
	uint64_t limited; /* microseconds of them in which the receiver or the buffer was the limit
			   */
};

/* What went over a link in a stretch of time. */
struct traffic {
	double bytes;
	double seconds;         /* of the stretch */
	double busy, busy_most; /* the link was busy so long, and at most so long */
	double limited;
	int waited; /* bytes waited for the network */
};

/* -1: a count has fallen, it has wrapped or began anew; nothing is known of this stretch. */
int traffic_between(struct traffic *t, const struct rate_counts *from, const struct rate_counts *to,
		    double seconds);
/* Adds what followed on the same link. */
void traffic_append(struct traffic *t, const struct traffic *next);
/* Adds what another connection had on the same link in the same stretch. The time of a few small
 * messages does not count: they wait behind the others, or for the round trip. */
void traffic_beside(struct traffic *t, const struct traffic *other);
/* It is enough for an estimate. */
int traffic_is_enough(const struct traffic *t);

struct rate {
	double value,
		error; /* bytes/s; error: of one sample, or half of what the last ones differ */
	double at;     /* when it was taken; it stays as long as nothing new is known */
	int is_least;  /* value is a lower bound, error is 0 */
	size_t count;  /* 0: there is none */
	double last[RATE_SAMPLES];
	double seen, seen_at; /* it was not slower than this then: the slower one of the last two
				 samples, of whatever kind. A single one may be a burst that a queue
				 let through */
	double seen_last;     /* the last sample */
};

/* tick: seconds, the resolution of busy times. Returns whether the sample says something new. */
int rate_take(struct rate *r, const struct traffic *t, double tick, double now);

#endif
