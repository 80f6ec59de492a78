/*
 * parts: the parts of the parameters, as the lead sees them.  All get the same orders in the same
 * sequence, and each answers in its own time.  The caller does not know which parts are servers of
 * their own, and which one, if any, is in this process.
 *
 * Orders that say what is committed (apply, throw) can't fail: a part that refuses one lacks
 * something that is in the journal, and only a rollback makes them agree again.
 *
 * Parts come and go (lead_move.c).  Those that join only get the orders of a move, until they are
 * in a map that was given.  Those that are no longer in the map go when they have answered.
 */
#ifndef PACELINE_LEAD_PARTS_H
#define PACELINE_LEAD_PARTS_H

#include "base/error.h"
#include "lead/order.h"
#include "wire/server.h"

#include <stddef.h>
#include <stdint.h>

#define PART_PAYLOAD_BYTES_MAX (UINT64_C(1) << 34) /* of a push or pull */

struct event_base;
struct lead_parts;
struct map;

enum part_staged {
	PART_STAGED, /* the request is still to be answered */
	PART_BAD,    /* answered: it can't be staged; the same worker may send another */
	PART_UNFIT   /* answered: it can't be, and the worker has no other gradient */
};

/* A part in this process: it gets the gradient of a push to the lead. */
struct part_here {
	void *part;
	void (*obey)(void *part, const struct order *o, const struct order_answer *a);
	/* The gradient of a push, from its request. unfit: why it is refused anyhow, or NULL. */
	enum part_staged (*stage)(void *part, struct request *rq, const char *unfit);
	uint64_t (*iteration)(const void *part);              /* units applied */
	void (*stat)(const void *part, struct record_out *o); /* its fields of `stat`, */
	void (*standby)(const void *part, struct record_out *o); /* and those of its standby */
};

struct lead_parts_options {
	const struct part_here *here; /* part 0; copied; NULL: all are elsewhere */
	const char *const *sockets;   /* of the others, in order */
	size_t count;
	const struct map *map; /* in force; copied; NULL: there are no parts */
	uint64_t incarnation;
	/* Units that are committed: all parts must have applied them, except for orders that they
	 * have not answered. */
	uint64_t (*iteration)(void *owner);
	/* All parts are connected, or one is not any more. At first those elsewhere are not. */
	void (*ready)(int all, void *owner);
	/* A part that joins is there, or is not any more, or is not what it should be. */
	void (*joiners)(void *owner);
	void (*broken)(const struct error *err, void *owner);
	void *owner;
};

int lead_parts_new(struct lead_parts **out, const struct lead_parts_options *options,
		   struct error *err);
int lead_parts_start(struct lead_parts *p, struct event_base *base, struct error *err);
void lead_parts_stop(struct lead_parts *p); /* closes connections; orders stay, for an heir */
void lead_parts_free(struct lead_parts *p); /* NULL is fine */

size_t lead_parts_count(const struct lead_parts *p);
int lead_parts_ready(const struct lead_parts *p);
/* The boot that all parts and this process live in, so that a power cut ends them together; "":
 * there are no parts, or the boots are different or not all known. */
const char *lead_parts_boot(const struct lead_parts *p);
const char *lead_parts_name(const struct lead_parts *p, uint32_t part); /* a socket, or `part 0` */
const struct part_here *lead_parts_here(const struct lead_parts *p);    /* NULL: none */
/* Which part has which parameters; NULL: there are no parts. */
const struct map *lead_parts_map(const struct lead_parts *p);
/* Before lead_parts_start(): this map is in force. */
void lead_parts_go_by(struct lead_parts *p, const struct map *map);

/* Gives an order to all parts: first to those elsewhere, so that they work while the one here does.
 * Orders of a move also go to parts that join, which are numbered after all others. Each part
 * answers to a->missing and a->done, some before this returns. A part that is lost is asked again
 * when it is back, except for a cut: then done says code=lost. a NULL: a refusal breaks the
 * lead. */
void lead_parts_give(struct lead_parts *p, struct order *o, const struct order_answer *a);

/* ---- parts that come and go ---- */

/* A part joins; it is connected to once lead_parts_start() was called. -1: ERROR_OS. */
int lead_parts_join(struct lead_parts *p, const char *socket, struct error *err);
/* Number i of the parts that join, in the order of joining; NULL: there is none. */
const char *lead_parts_joiner(const struct lead_parts *p, size_t i);
int lead_parts_joiner_ready(const struct lead_parts *p, size_t i);
const char *lead_parts_joiner_wrong(const struct lead_parts *p, size_t i); /* or NULL */
void lead_parts_forget_joiners(struct lead_parts *p);
/* The name that the server with this socket has told; "": none yet. */
const char *lead_parts_id(const struct lead_parts *p, const char *socket);
/* Call when the order adopt was given: the part here, if any, and these are the parts now, by this
 * map; each was a part before, or joins. -1: no memory, and nothing has changed. */
int lead_parts_are(struct lead_parts *p, const char *const *sockets, size_t count,
		   const struct map *map);
/* A part that is in force or joins, and is not connected; NULL: all are connected. */
const char *lead_parts_lost(const struct lead_parts *p);
/* Before lead_parts_start(): these are the others. */
int lead_parts_begin(struct lead_parts *p, const char *const *sockets, size_t count,
		     struct error *err);

/* ---- handing over the lead ---- */

/* Walks the orders that the next lead has to say again: in sequence, as text (order_write()); units
 * is 0 except for an apply. -1 from fn ends the walk. */
typedef int lead_parts_owed_fn(uint32_t part, uint64_t iteration, uint64_t units, const char *text,
			       size_t head, size_t bytes, void *arg, struct error *err);
int lead_parts_owed(const struct lead_parts *p, lead_parts_owed_fn *fn, void *arg,
		    struct error *err);
/* Adds an order of the earlier lead that has no answer yet; before lead_parts_start(). Takes
 * text. */
int lead_parts_owe(struct lead_parts *p, uint32_t part, uint64_t iteration, uint64_t units,
		   char *text, size_t head, size_t bytes, struct error *err);

#endif
