/*
 * sums: the requests on fabric.sock for sums over hosts (sum.h), in the present world.
 *
 * One client on each host, its replica, has a sum open.  Dense vectors and rows are in memory that
 * the replica has mapped (server.h); sums are made there.
 */
#ifndef PACELINE_FABRIC_SUMS_H
#define PACELINE_FABRIC_SUMS_H

#include "fabric/sum.h"
#include "record/record.h"
#include "wire/server.h"

struct links;
struct sums;
struct world;

/* For server_options.more_verbs, with the sums as their owner. */
#define SUMS_VERBS 5
extern const struct verb sums_verbs[SUMS_VERBS];

/* broken is called when a message can't be sent for lack of memory. The sums of all hosts would
 * wait for it, so the world must end. */
int sums_new(struct sums **out, void (*broken)(void *owner), void *owner, struct error *err);
/* Until then, and again after sums_leave(), every request is refused. The links are borrowed. */
int sums_enter(struct sums *s, struct world *w, const struct links *links, enum sum_way way,
	       struct error *err);
/* After world_close(). */
void sums_leave(struct sums *s);
/* After server_free(). NULL is fine. */
void sums_free(struct sums *s);

/* For server_options.closed. */
void sums_closed(struct sums *s, struct connection *c);
/* Of dense vectors that this host has summed with others. */
uint64_t sums_bytes(const struct sums *s);
/* The rates of links may have changed. */
void sums_follow(struct sums *s);
/* Fields of a stat record. */
void sums_stat(const struct sums *s, struct record_out *o);

#endif
