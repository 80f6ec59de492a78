/*
 * order: what the lead tells parts and replicas, as a struct and as a request of
 * paceline-protocol(7).  A part in this process gets the struct, a part behind a socket the
 * request; both obey alike.
 *
 * Parts, each with some of the parameters, are told hold, apply, throw, cut; and when parameters
 * move from one part to another (lead_move.c), prepare, give, adopt or cancel.  Replicas, each with
 * all parameters, are told sum, apply (which names a sum, not pushes), fill, throw, cut.
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
	ORDER_HOLD,  /* keep push[] until an apply or a throw, and say what is not there. A replica:
			the lead has these; if the sum of this round waits for others, it fails. A
			part, with a round: nothing else is held any more */
	ORDER_APPLY, /* push[] is committed: `units` units, after the first `iteration` ones */
	ORDER_THROW, /* drop what worker has staged up to generation; with `one`, one push */
	ORDER_CUT,   /* after the last apply, at iteration: write this part into directory path */
	ORDER_SUM,   /* a replica: sum what member[] push for iteration, under this round */
	ORDER_FILL,  /* a replica: forget all, and copy the parameters of the one at socket from,
			which is at iteration; unless it was told a sum or a fill of a later round
			before */
	ORDER_PREPARE, /* find what you will give by servers[], and make room for what will come */
	ORDER_GIVE,    /* send it, but keep it too; apply nothing until the move is over */
	ORDER_ADOPT,   /* servers[] is in force, at iteration; what you gave is no longer yours */
	ORDER_CANCEL,  /* the attempt has failed: all is as before */
	ORDER_HEAT,    /* say how much is here, and how much is asked of which places; changes nothing */
	ORDERS
};

/* A part of a map (param/map.h), and the server that has it. */
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
	/* Samples of the whole batch, or count: the divisor also for a short last batch. At most
	 * the largest batch that was ever settled: a worker that claims more would make the unit's
	 * mean too small for all others. The first push of a unit also has the batches of idle
	 * workers (gate_idle()). 0: as the push said. */
	uint64_t size;
	double scale;
	uint64_t delay; /* of an apply: units that it missed (delay.h) */
};

/* A member whose gradient is in a sum: the one that it stages at its replica for that iteration. */
struct order_member {
	char worker[OPTION_ID_MAX];
	uint64_t generation;
	char replica[OPTION_ID_MAX]; /* where it pushes */
	double scale;                /* weight of its gradient */
	int only_memory; /* of a cut (gate.h): another one saves, this one holds its state */
};

/* Belongs to the caller that gives it, and is valid until that call returns. */
struct order {
	enum order_kind kind;
	uint64_t incarnation;
	uint64_t iteration, units;
	uint64_t held; /* apply, of parts: what they hold under this round, and no push[]; 0: push[]
			*/
	/* cut, prepare, over a socket: the answer comes at once, and says pending while the order
	 * is not done; it is given again, with the same attempt, until it is done. Otherwise all
	 * later answers, and training, would wait for the disk, because answers come in the order
	 * of the requests. */
	int later;
	const struct order_push *push;
	size_t pushes;
	const char *worker;
	uint64_t generation, sequence;
	int one; /* throw: of that generation this sequence; 0: all, and later ones are refused */
	const char *path;
	const char *base; /* cut: rows that have not changed since the cut of this name may be left
			     out; NULL: none may */
	/* Sums. Rounds are never used again, and grow: (term of the lead << 32) + a counter. */
	uint64_t round; /* sum, fill, hold; apply of a replica: of the committed sum, 0: push[] */
	const struct order_member *member;
	size_t members;
	const char *replicas; /* those that sum together: r0,r2 */
	int check;            /* sum: the answer says a checksum of it */
	/* apply of a sum: the mean is the sum divided by this; 0: nobody trained: only the
	 * iteration goes on, and no sum is needed. */
	double divisor;
	uint64_t samples;
	const char *from; /* fill */
	/* Of a move or a cut (the next cut may have the same path). Attempts grow; only an order
	 * that is repeated has the same one. */
	uint64_t attempt, version; /* version: of the map, of prepare and adopt */
	const struct order_server *server;
	size_t servers;
};

/* The result of an order. */
struct order_result {
	const char *code; /* of a refusal; NULL: done */
	const char *text; /* then: for people */
	uint64_t iteration;
	int repeated;     /* it was done before */
	const char *file; /* of a cut: what was written, */
	uint64_t bytes, sum; /* sum: of a sum that is checked, too */
	double stall; /* and the seconds that the part stood still */
	uint64_t round; /* of a sum */
	uint64_t attempt; /* of a move */
	int pending;      /* see `later` of struct order */
	/* How many floats a unit asks for, as counted in heat_units: heat, of each range of its
	 * places (ranges of equal length, separated by commas); element, of an element of the dense
	 * vector. */
	const char *heat;
	double element, heat_units;
	uint64_t dense_bytes, row_bytes; /* of what is here, the optimizer's slots included */
};

/* Where the answer goes: missing for each push that is not there, diverged for each push whose
 * gradient can't be summed (then nothing was summed), then done, once, now or later. */
struct order_answer {
	void (*missing)(uint32_t part, const char *worker, uint64_t generation, uint64_t sequence,
			void *arg);
	void (*diverged)(uint32_t part, const char *worker, uint64_t generation, const char *why,
			 void *arg);
	void (*done)(uint32_t part, const struct order_result *result, void *arg);
	void *arg;
	uint32_t part; /* which of those that got the same order */
};

/* The order as a request: the first head bytes of text are its record, the next bytes the payload.
 * The caller frees it. NULL: no memory. */
char *order_write(const struct order *o, size_t *head, size_t *bytes);

/* Reads the order from a request; order_clear() frees its arrays, its strings are those of r.
 * ERROR_DATA says what is wrong. payload may lie in memory that others write. */
int order_read(struct order *o, const struct record *r, const void *payload, size_t bytes,
	       struct error *err);
void order_clear(struct order *o);

#endif
