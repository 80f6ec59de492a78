/*
 * world: the MPI world of a job, with one rank on each host. Only this room includes mpi.h.
 *
 * All of it happens on one thread: the one that runs the event base given to world_open().  It
 * looks at MPI again and again for a short while after anything has happened; then it sleeps in the
 * event base, which watches the sockets of MPI's own connections, too, and wakes for them.  Nothing
 * here waits, but world_open() and world_close().
 *
 * Messages are small and wait in the world's own memory for who wants them: their order is kept
 * from one rank to another, whatever their channels.  Bulk goes from memory to memory: where both
 * sides have named it by the same tag, in any order among others.
 *
 * MPI ends the process when a connection fails for good: a world is whole, or it is over.  It is
 * also over when one of its ranks lives but does not move: each rank gives all others a sign of
 * life every two seconds.  A world that is over is started anew, so nothing may be kept here that
 * can't be sent again.
 */
#ifndef PACELINE_FABRIC_WORLD_H
#define PACELINE_FABRIC_WORLD_H

#include "base/error.h"
#include "fabric/sum.h"

#include <stddef.h>
#include <stdint.h>

#define WORLD_MESSAGE_MAX 49152 /* bytes */
#define WORLD_TAG_MAX 0xffffffu
#define WORLD_SILENT_SECONDS 30.0 /* a rank from which nothing came for so long stands still */
#define WORLD_HOST_MAX 65 /* bytes of a host's name with its NUL */

enum world_channel {
	WORLD_CONTROL,
	WORLD_ROUTES,
	WORLD_RELAY,
	WORLD_SUM,
	WORLD_LINKS,
	WORLD_CHANNELS
};

struct event_base;
struct mpi_sockets;
struct world;

struct world_options {
	struct event_base *base;
	const char *host;    /* this host's name; no two ranks may have the same */
	/* These must be equal on all ranks. */
	const char *version;
	enum sum_way way; /* how they sum */
	/* Another rank has called world_end(); or one stands still, and world_close() says which. */
	void (*ended)(void *owner);
	void *owner;
};

/* Options are copied, what they point to is borrowed. Waits for all ranks that mpirun or srun
 * started, for ever if one does not come: MPI has no deadline here, so the caller must have one.
 * Without mpirun and srun the world is this process alone. ERROR_CONFIG on all ranks: two ranks
 * have the same host, different versions, or sum differently. Call it once in a process. */
int world_open(struct world **out, const struct world_options *options, struct error *err);
/* Waits some seconds at most for all ranks to do the same; nothing is called back any more. -1:
 * they did not, or one of them stands still (then there is no wait); the process can only end. NULL
 * is fine. */
int world_close(struct world *w, struct error *err);
/* Tells all other ranks (their `ended`). */
void world_end(struct world *w);

unsigned world_rank(const struct world *w);
unsigned world_size(const struct world *w);
const char *world_host(const struct world *w, unsigned rank);
/* The rank of a host; -1: it is not in this world. */
int world_find(const struct world *w, const char *host);

/* ---- messages ---- */

/* data is valid during the call. A message on a channel without a listener is lost. */
typedef void world_message_fn(unsigned rank, const void *data, size_t bytes, void *arg);
void world_on(struct world *w, enum world_channel channel, world_message_fn *fn, void *arg);

/* Sends a copy of `head` and of data behind it (NULL: none) to another rank or this one; together
 * at most WORLD_MESSAGE_MAX bytes. -1: out of memory, and nothing was sent. */
int world_tell(struct world *w, unsigned rank, enum world_channel channel, const void *head,
	       size_t head_bytes, const void *data, size_t bytes);

/* ---- bulk ---- */

/* What is under way has come to its end: the memory is the owner's again. Called from the event
 * base, never from inside of the function that began it. */
typedef void world_done_fn(void *arg);

/* One side sends as many bytes as the other receives, both with one tag (up to WORLD_TAG_MAX) that
 * no other bulk between the two has on this channel meanwhile. The memory stays until done(arg).
 * Large ones hold others up on the same connection: 1 MiB at a time is enough to be fast. Nothing
 * that was begun can be taken back. -1: out of memory. */
int world_send_bulk(struct world *w, unsigned rank, enum world_channel channel, unsigned tag,
		    const void *data, size_t bytes, world_done_fn *done, void *arg);
int world_receive_bulk(struct world *w, unsigned rank, enum world_channel channel, unsigned tag,
		       void *into, size_t bytes, world_done_fn *done, void *arg);
/* The same, but fewer bytes may come, even none. */
typedef void world_came_fn(void *arg, size_t bytes);
int world_receive_some(struct world *w, unsigned rank, enum world_channel channel, unsigned tag,
		       void *into, size_t bytes, world_came_fn *came, void *arg);

/* ---- others ---- */

/* What the world has done so far. */
struct world_counts {
	uint64_t messages_sent, messages_received;
	uint64_t bytes_sent, bytes_received; /* of messages and bulk */
	uint64_t sleeps;  /* how often it went to sleep */
	size_t sockets;   /* of MPI that are watched */
	size_t under_way; /* sends and receives of bulk that were begun and not ended */
};
void world_count(const struct world *w, struct world_counts *counts);
/* MPI's connections, and others of its processes on this host. */
const struct mpi_sockets *world_sockets(const struct world *w);

#endif
