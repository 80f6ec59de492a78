/*
 * routing: one set of routes, in force on all hosts.
 *
 * Rank 0 keeps it and tells it to all.  Any rank may ask for another set; it gets its answer when
 * the set is in force on all ranks.
 */
#ifndef PACELINE_FABRIC_ROUTING_H
#define PACELINE_FABRIC_ROUTING_H

#include "fabric/relay.h"
#include "fabric/world.h"

struct routing;

struct routing_options {
	struct world *world;
	struct relay *relay; /* to which routes in force are given */
	const char *file;    /* rank 0 reads it; may be NULL */
	/* For lack of memory this rank does not have the routes that others have, or can't say so. */
	void (*broken)(void *owner);
	void *owner;
};

/* Rank 0 has read the file when this returns. Options are copied, what they point to is
 * borrowed. */
int routing_new(struct routing **out, const struct routing_options *options, struct error *err);
void routing_free(struct routing *r); /* NULL is fine; nobody is answered any more */

/* why: NULL when all ranks have them. */
typedef void routing_done_fn(const char *why, void *arg);
/* These records are to be in force; done is called later, once. Returns a number for
 * routing_forget(), or 0 with err: nothing was asked. */
uint64_t routing_set(struct routing *r, const char *text, size_t len, routing_done_fn *done,
		     void *arg, struct error *err);
void routing_forget(struct routing *r, uint64_t number); /* done is not called any more */
/* Rank 0 is to read its file again. */
void routing_reread(struct routing *r);

#endif
