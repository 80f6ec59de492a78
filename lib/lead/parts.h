/*
 * parts: those who have the parameters, as the lead sees them.  All are given the same orders, in
 * the same sequence, and answer each in their time; who gives one does not know which of them are
 * servers of their own and which one, if any, is in this process.
 *
 * Orders that say what is committed (apply, throw) can't fail: a part that refuses one lacks what
 * is in the journal, and only a rollback makes them agree again.
 *
 * Parts come and go (lead_move.c): those who join are given the orders of a move only, until a map
 * has been given in which they are; those who are in it no more go when they have answered.
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

enum part_staged {
	PART_STAGED, /* the request is still to be answered */
	PART_BAD,    /* answered: it can't be; the same worker may send another */
	PART_UNFIT   /* answered: the worker has no other one for these rows */
};

/* A part in this process: of a push to the lead it has the gradient. */
struct part_here {
	void *part;
	void (*obey)(void *part, const struct order *o, const struct order_answer *a);
	/* The gradient of a push, from its request. unfit: why it is refused anyhow, or NULL. */
	enum part_staged (*stage)(void *part, struct request *rq, const char *unfit);
	uint64_t (*iteration)(const void *part);              /* units applied */
	void (*stat)(const void *part, struct record_out *o); /* its fields of `stat` */
	const struct map *(*map)(const void *part);
	/* What it has, slots too. */
	void (*bytes)(const void *part, uint64_t *dense, uint64_t *rows);
};

struct lead_parts_options {
	const struct part_here *here; /* part 0; copied; NULL: all are elsewhere */
	const char *const *sockets;   /* of the others, in order */
	size_t count;
	uint64_t incarnation;
	/* Units that are committed: what all parts must have applied, but for orders that they have
	 * not answered. */
	uint64_t (*iteration)(void *owner);
	/* All parts are connected, or one is not any more. Those elsewhere are not at first. */
	void (*ready)(int all, void *owner);
	/* One who joins is there, or is not any more, or is not what it should be. */
	void (*joiners)(void *owner);
	void (*broken)(const struct error *err, void *owner);
	void *owner;
};

int lead_parts_new(struct lead_parts **out, const struct lead_parts_options *options,
		   struct error *err);
int lead_parts_start(struct lead_parts *p, struct event_base *base, struct error *err);
void lead_parts_stop(struct lead_parts *p); /* connections go; orders stay, for who takes over */
void lead_parts_free(struct lead_parts *p); /* NULL is fine */

size_t lead_parts_count(const struct lead_parts *p);
int lead_parts_ready(const struct lead_parts *p);
/* The boot that all parts and this process live in, so that a power cut ends them together; "":
 * there are none, or it is not known of all. */
const char *lead_parts_boot(const struct lead_parts *p);
const char *lead_parts_name(const struct lead_parts *p, uint32_t part); /* a socket, or `part 0` */
const struct part_here *lead_parts_here(const struct lead_parts *p);    /* NULL: none */

/* To all of them, those elsewhere first and at once, so that they work while the one here does; a
 * move's orders to those who join, too, whose answers have the numbers behind all parts';
 * each answers to a->missing and a->done, some before this returns. A part that goes is asked again
 * when it is back. Only of a cut it may stay away: then done says code=lost. a NULL: a refusal
 * breaks the lead. */
void lead_parts_give(struct lead_parts *p, struct order *o, const struct order_answer *a);

/* ---- parts that come and go ---- */

/* ERROR_OS. It is connected to when lead_parts_start() was called. */
int lead_parts_join(struct lead_parts *p, const char *socket, struct error *err);
/* Of those who join, number i, in the order of their joining; NULL: there is none. */
const char *lead_parts_joiner(const struct lead_parts *p, size_t i);
int lead_parts_joiner_ready(const struct lead_parts *p, size_t i);
const char *lead_parts_joiner_wrong(const struct lead_parts *p, size_t i); /* or NULL */
void lead_parts_forget_joiners(struct lead_parts *p);
/* The name that the server with this socket has told; "": none yet. */
const char *lead_parts_id(const struct lead_parts *p, const char *socket);
/* The order adopt was given: these are the parts now, part 0 here, then these; each was one before,
 * or joins. -1: no memory, nothing has changed. */
int lead_parts_are(struct lead_parts *p, const char *const *sockets, size_t count);
/* Somebody who is in force, or joins, and is not connected; NULL: all are. */
const char *lead_parts_lost(const struct lead_parts *p);
/* Before lead_parts_start(): these are the others. */
int lead_parts_begin(struct lead_parts *p, const char *const *sockets, size_t count,
		     struct error *err);

/* ---- handing over the lead ---- */

/* Each order that is to be said again by whoever leads: in sequence, as text (order_write()); units
 * is 0 but for an apply. -1 from fn ends the walk. */
typedef int lead_parts_owed_fn(uint32_t part, uint64_t iteration, uint64_t units, const char *text,
			       size_t head, size_t bytes, void *arg, struct error *err);
int lead_parts_owed(const struct lead_parts *p, lead_parts_owed_fn *fn, void *arg,
		    struct error *err);
/* An order of the lead before this one that has no answer yet; before lead_parts_start(). Takes
 * text. */
int lead_parts_owe(struct lead_parts *p, uint32_t part, uint64_t iteration, uint64_t units,
		   char *text, size_t head, size_t bytes, struct error *err);

#endif
