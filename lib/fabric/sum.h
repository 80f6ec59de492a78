/*
 * sum: one host's part in summing vectors and rows over hosts.
 *
 * One sum is a round: a number that grows, the hosts that take part, a dense vector, and rows by
 * key.  Each host's client opens it, says part by part what is ready, and waits.  Only equal rounds
 * from exactly the listed hosts are added; the result has the same bits on all of them.
 *
 * Dense vectors are cut into buckets, each bucket into a chunk a host.  A chunk goes along the ring
 * of hosts twice: first each host adds its own to what comes and sends it on, and the last one has
 * the sum; then the sum goes along as it is (Patarasuk and Yuan, "Bandwidth optimal all-reduce
 * algorithms for clusters of workstations", 2009).  Buckets start as soon as they are ready here,
 * in any order, and many are on their way at once.  All happens in the client's memory.
 *
 * Where the rates of the hosts' links are known, there may be shares in place of the ring
 * (sum_shares.c): each host owns a part of the vector, gets the others' of it, adds them in the
 * order of the ring, for the same bits, and sends the sum to all.  A host with a slow link owns
 * less, or nothing; so it sends and gets the vector once, and not 2(n - 1)/n of it.
 *
 * Rows: each host sends those that it has to their owners (rowlist.h), who add them in the order of
 * hosts and send the sums to all.  Nothing else of a table travels.
 *
 * Bulk is first offered, and sent when the other side has room and is ready for it.  So a host
 * whose client is slow or silent makes others wait, but costs them no memory.  Only for a vector
 * that can go by the ring alone, and needs little room, all of it is given as soon as two hosts have
 * met, and nothing is offered: words would take longer than the vector.  When a round dies
 * (a newer one is opened here or at another host, a client leaves, hosts named different things),
 * its other hosts are told, and transfers that were promised are completed before the memory is
 * released.
 *
 * One thread. What is given to functions is the caller's; memory of a round is used until its
 * `release`.
 */
#ifndef PACELINE_FABRIC_SUM_H
#define PACELINE_FABRIC_SUM_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct sum;

/* ---- what carries it ---- */

#define SUM_PIECE_MAX (UINT64_C(1) << 30) /* bytes of rows for one host, or from it */
#define SUM_MESSAGE_MAX 32768 /* bytes of a message */

/* How dense vectors are summed: by the ring; by what is faster, the ring or shares by the rates of
 * the links; by shares, even where the ring is faster. */
enum sum_way { SUM_BY_RING, SUM_BY_RATE, SUM_BY_SHARES, SUM_WAYS };
const char *sum_way_name(enum sum_way way); /* "ring", "rate", "shares" */

struct sum_rate {
	double rate;  /* bytes/s; not known: 0 */
	int is_least; /* it is a lower bound */
};

struct sum_rates {
	struct sum_rate out, in;
};

/* Between the hosts of one world; ranks are numbers from 0. Both kinds of functions return before
 * done is called. */
struct sum_link {
	void *carrier;
	unsigned rank, size;
	const char *(*host)(void *carrier, unsigned rank);
	/* A message of two pieces, copied; those to one rank arrive in their order, at
	 * sum_message(). */
	void (*tell)(void *carrier, unsigned rank, const void *head, size_t head_bytes,
		     const void *data, size_t bytes);
	/* From memory to memory, where both have named the same tag; a shorter one than there is
	 * room for may come. The memory stays until done. */
	void (*send)(void *carrier, unsigned rank, unsigned tag, const void *data, size_t bytes,
		     void (*done)(void *arg), void *arg);
	void (*receive)(void *carrier, unsigned rank, unsigned tag, void *into, size_t bytes,
			void (*done)(void *arg, size_t came), void *arg);
	enum sum_way way; /* the same on all hosts */
	/* What is known of this host's own link; not for the ring. */
	void (*rates)(void *carrier, struct sum_rates *rates);
};

int sum_new(struct sum **out, const struct sum_link *link, struct error *err);
/* Nothing may be under way in the link any more, or come from it. NULL is fine. */
void sum_free(struct sum *s);
/* What is known of this host's link may have changed: call a few times a second. */
void sum_follow(struct sum *s);
/* What another rank has told. */
void sum_message(struct sum *s, unsigned rank, const void *data, size_t bytes);

/* ---- what clients ask ---- */

enum sum_code {
	SUM_OK = 0,
	SUM_BAD,     /* the request makes no sense; the round is unchanged */
	SUM_STALE,   /* that round isn't open here, or a newer one has taken its place somewhere */
	SUM_LOST,    /* a host is not in the world, or its client left before the end */
	SUM_ROOM,    /* the rows do not fit, or there is no memory */
	SUM_DIFFERS, /* hosts named another iteration, other hosts, another length or width */
	SUM_BUSY     /* the round is another client's */
};
const char *sum_code_name(enum sum_code code);

struct sum_result {
	uint64_t rows;
	uint64_t wire_bytes; /* that this host has sent for it */
	uint64_t check;      /* if asked for: checksum of the dense vector and the rows */
};

/* result is NULL unless code is SUM_OK. */
typedef void sum_answer_fn(void *arg, enum sum_code code, const char *why,
			   const struct sum_result *result);

#define SUM_HOSTS_MAX 1024

struct sum_round_options {
	const void *client; /* who opens it; only compared */
	uint64_t round, iteration;
	const unsigned *rank; /* the hosts, in any order, each once, this one among them */
	size_t ranks;
	float *dense; /* floats of them; NULL: none */
	uint64_t floats;
	int no_rows; /* no host has any: nothing is said of them */
	/* Nothing reads or writes dense any more. Called once, if the result was SUM_OK. */
	void (*release)(void *arg);
	void *arg;
};

/* An older round of this host dies. opened is called as soon as nothing of the older one is under
 * way any more, maybe at once; until then nothing may be written to its memory. Only called if
 * SUM_OK. */
enum sum_code sum_open(struct sum *s, const struct sum_round_options *options,
		       sum_answer_fn *opened, void *arg, struct error *err);

/* These floats of the vector hold this host's own sum now. */
enum sum_code sum_part(struct sum *s, const void *client, uint64_t round, uint64_t begin,
		       uint64_t length, struct error *err);

struct sum_rows {
	const void *rows; /* rowlist.h; copied */
	uint64_t count;
	uint32_t width;
	void *out; /* a multiple of 4, not in the dense vector; where the sums go, as a list, too */
	uint64_t out_bytes;
	void (*release)(void *arg); /* of out; as with sum_open() */
	void *arg;
};
/* All rows of this host, once; not in a round without rows. */
enum sum_code sum_rows(struct sum *s, const void *client, uint64_t round,
		       const struct sum_rows *rows, struct error *err);

/* All rows have been given; parts may still come. waited is called when the whole sum is here and
 * no host needs anything more from this one, or when the round died. One wait at a time; another
 * one after the answer gets the same answer. Only called if SUM_OK. */
enum sum_code sum_wait(struct sum *s, const void *client, uint64_t round, int check,
		       sum_answer_fn *waited, void *arg, struct error *err);

/* Ends the round, complete or not. dropped is called when its memory is free. */
enum sum_code sum_drop(struct sum *s, const void *client, uint64_t round, sum_answer_fn *dropped,
		       void *arg, struct error *err);

/* Who asked is gone: functions given with this arg are not called any more. */
void sum_forget(struct sum *s, const void *arg);
/* The client is gone, and with it its round. */
void sum_client_gone(struct sum *s, const void *client);

struct sum_counts {
	uint64_t round; /* open here; 0 and open 0: none */
	int open;
	uint64_t opened, done, died;
	uint64_t wire_bytes;
	uint64_t dense_bytes; /* of the vectors that were summed; not by a ring that was chosen */
	double owned;        /* part of the last dense vector by shares that this host has summed */
	uint64_t by_ring;    /* dense vectors for which the first host chose the ring */
	size_t under_way;    /* sends and receives of bulk */
	size_t offers;       /* that wait for room */
	size_t memory_bytes; /* kept for what is received */
};
void sum_count(const struct sum *s, struct sum_counts *counts);

#endif
