/*
 * relay: the sockets of daemons on other hosts, on this host.
 *
 * If a route names another host, the relay listens here under the daemon's usual name.  What a
 * client says goes over the world to that host, whose relay talks to the daemon as the client
 * would; the daemon's answers come back the same way.  Neither knows that the other is on another
 * host.
 *
 * There is one stream each way, byte for byte, for any client.  The relay reads lines only to find
 * what does not go through a stream: memory that a client shares (`map`).  The far relay makes a
 * mirror, as much memory, and shares it with the daemon; before a record that names a payload in
 * the memory, the payload is copied from the memory to the mirror.  What several clients of a host
 * are given goes there once (relay_link.c).
 *
 * Each conversation may have CONVERSATION_WINDOW bytes each way that the other side has not taken;
 * this is the most that is kept for one that is never read.  All conversations to one host together
 * may have LINK_WINDOW bytes that its relay has not yet handled, and a few chunks of payloads; they
 * take turns.
 */
#ifndef PACELINE_FABRIC_RELAY_H
#define PACELINE_FABRIC_RELAY_H

#include "fabric/routes.h"
#include "fabric/world.h"

struct relay;

struct relay_options {
	struct event_base *base;
	struct world *world;
	const char *run_dir; /* of the sockets */
};

/* Options are copied, what they point to is borrowed. */
int relay_new(struct relay **out, const struct relay_options *options, struct error *err);
/* Uses these routes from now on: they become the relay's, and *r is empty. Present conversations go
 * on. If the relay can't listen under a name, it tries again until it can. */
void relay_set_routes(struct relay *relay, struct routes *r);
const struct routes *relay_routes(const struct relay *relay);
/* Closes all conversations and removes the sockets. */
void relay_stop(struct relay *relay);
/* Call after the world is closed: until then MPI may still write. NULL is fine. */
void relay_free(struct relay *relay);

struct relay_counts {
	size_t near, far;     /* conversations begun here, and on other hosts */
	size_t listens;       /* sockets of other hosts, here */
	size_t kept_bytes;    /* that wait to be read here */
	uint64_t conversations; /* begun here since the start */
	uint64_t stream_bytes, payload_bytes; /* that went out from here, inline and from memory */
	uint64_t added_bytes; /* of memory that were added to another client's */
	uint64_t copied_bytes; /* of memory that were not sent: another client there had them */
};
void relay_count(const struct relay *relay, struct relay_counts *counts);
int relay_listens(const struct relay *relay, const char *socket);

#endif
