/*
 * order: what the lead tells those who have the parameters, as a struct and as the request of
 * paceline-protocol(7): a part in this process gets the one, a part behind a socket the other, and
 * both obey alike.
 *
 * Parts, each with some of the parameters, are told hold, apply, throw, cut; and, when parameters
 * move from one to the other (lead_move.c), prepare, give, adopt, or keep.  Replicas, each with
 * all of them, are told sum, apply (which names a sum, not pushes), fill, throw, cut.
 */
#ifndef PACELINE_LEAD_ORDER_H
#define PACELINE_LEAD_ORDER_H

#include "base/error.h"
#include "base/option.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

#define ORDER_PUSHES_MAX 65536               /* of one order */
#define ORDER_COUNT_MAX (UINT64_C(1) << 48)  /* samples of a push */
#define ORDER_BYTES_MAX (UINT64_C(64) << 20) /* of its payload */
#define ORDER_ANYWHERE UINT64_MAX
#define ORDER_SOCKET_MAX 1024

enum order_kind {
	ORDER_HOLD,  /* keep push[] until an apply or a throw; what is not there is said. A replica:
			these are the lead's; the sum of epoch that waits for another one fails */
	ORDER_APPLY, /* push[] is committed: `units` units, behind `iteration` of them */
	ORDER_THROW, /* what is staged of worker up to generation goes; with `one`, one push */
	ORDER_CUT,   /* behind the last apply, at iteration: write this part into directory path */
	ORDER_SUM,   /* a replica: sum what member[] push for iteration, under this epoch */
	ORDER_FILL,  /* a replica: forget all, and copy the parameters of the one at socket from, which
			is at iteration; unless a sum or a fill of a later epoch was told before */
	ORDER_PREPARE, /* find what servers[] says that you will give, and make room for what will come */
	ORDER_GIVE,    /* nothing is applied until it is over: give it away, and keep it */
	ORDER_ADOPT,   /* servers[] is in force, at iteration; what was given is not yours any more */
	ORDER_KEEP,    /* the attempt is over: all as before */
	ORDER_HEAT,    /* how much is asked of which places; nothing is changed */
	ORDERS
};

/* A part of a map (param/map.h), and who has it. */
struct order_server {
	char id[OPTION_ID_MAX];
	char socket[ORDER_SOCKET_MAX];
	uint64_t dense_begin, key_begin;
	int joins; /* it was in no map before */
};

/* A staged push, by its name. */
struct order_push {
	char worker[OPTION_ID_MAX];
	uint64_t generation, sequence;
	uint64_t unit;  /* from 0 within the order, ascending */
	uint64_t count; /* samples, as its push to the lead said */
	/* Samples of the whole batch, or count: a last, short batch is divided by that. No more
	 * than the largest batch that anybody has had settled: whoever claims more would make the
	 * unit's mean small for all others. 0: as the push said. */
	uint64_t size;
	double scale;
};

/* Whose gradient is in a sum: what it stages at its replica for that iteration. */
struct order_member {
	char worker[OPTION_ID_MAX];
	uint64_t generation;
	char replica[OPTION_ID_MAX]; /* where it pushes */
	double scale;                /* what its gradient weighs */
};

/* Belongs to who gives it, and is valid until that call returns. */
struct order {
	enum order_kind kind;
	uint64_t incarnation;
	uint64_t iteration, units;
	/* cut, prepare, over a socket: the answer comes at once, and says pending while it is not done;
	 * asked again, with the same attempt, until it is. Answers come in the order of what was asked: all
	 * others, and with them training, would wait until the disk has it. */
	int later;
	const struct order_push *push;
	size_t pushes;
	const char *worker;
	uint64_t generation, sequence;
	int one; /* throw: of that generation this sequence; 0: all, and later ones are refused */
	const char *path;
	const char *base; /* cut: rows that have not changed since the cut of this name may be left
			     out; NULL: none may */
	/* Sums. Epochs are never used again, and grow: (term of the lead << 32) + a counter. */
	uint64_t epoch; /* sum, fill, a replica's hold; apply: of the sum that is committed, 0: push[] is */
	const struct order_member *member;
	size_t members;
	const char *replicas; /* who sum together: r0,r2 */
	int check;            /* sum: the answer says a checksum of it */
	/* apply of a sum: the mean is the sum divided by this; 0: nobody trained, and only the
	 * iteration goes on, for which no sum is needed. */
	double divisor;
	uint64_t samples;
	const char *from; /* fill */
	/* A move, and a cut: its next one may have the same path. Attempts grow; only what is asked for
	 * again has the same. */
	uint64_t attempt, version; /* version: of the map, of prepare and adopt */
	const struct order_server *server;
	size_t servers;
};

/* What became of it. */
struct order_result {
	const char *code; /* of a refusal; NULL: done */
	const char *text; /* then: for people */
	uint64_t iteration;
	int repeated;     /* it was done before */
	const char *file; /* of a cut: what was written, */
	uint64_t bytes, sum; /* sum: of a sum that is checked, too */
	double stall; /* and the seconds that the part stood still */
	uint64_t epoch; /* of a sum */
	uint64_t attempt; /* of a move */
	int pending;      /* see later */
	/* Of heat: the work of each of ranges of its places that are alike, separated by commas, and
	 * of an element of the dense vector: floats a unit, counted in so many units. */
	const char *heat;
	double element, heat_units;
};

/* Who hears of it: missing for each push that is not there, diverged for each whose gradient can't
 * be summed (then nothing was), then done, once, now or later. */
struct order_answer {
	void (*missing)(uint32_t part, const char *worker, uint64_t generation, uint64_t sequence,
			void *arg);
	void (*diverged)(uint32_t part, const char *worker, uint64_t generation, const char *why,
			 void *arg);
	void (*done)(uint32_t part, const struct order_result *result, void *arg);
	void *arg;
	uint32_t part; /* of those that the same order was given to */
};

/* The order as a request: text[head] is its record, text[head .. head + bytes] the payload. To be
 * freed. NULL: no memory. */
char *order_write(const struct order *o, size_t *head, size_t *bytes);

/* The order that a request is; order_clear() frees its arrays, its strings are those of r.
 * ERROR_DATA says what is wrong. payload may lie in memory that others write. */
int order_read(struct order *o, const struct record *r, const void *payload, size_t bytes,
	       struct error *err);
void order_clear(struct order *o);

#endif
