/*
 * service: shardd(8) without its command line: a queue, its journal, and a socket.
 *
 * The queue says in lines what changed, the journal keeps them, and the server's flush hook
 * commits before answers leave.  A change is made only when its lines have room in the journal;
 * after a commit that failed nothing is acknowledged, and server_run() ends with ERROR_IO.
 *
 * When the sender of a settle lives and dies with this boot of the machine (boot= in shardd(8)),
 * its lines are written without waiting: fdatasync comes with the next change of another kind.
 */
#ifndef PACELINE_SHARD_SERVICE_H
#define PACELINE_SHARD_SERVICE_H

#include "base/error.h"
#include "shard/journal.h"
#include "shard/queue.h"

struct service;

/* Which parameters were given: the others come from the journal, or stay as they are in a new
 * queue. */
struct service_given {
	int samples, batch, batches, epochs, shuffle, seed, retries, lease, partitions, migrate;
};

struct service_options {
	const char *socket;
	const char *dir; /* of the journal */
	enum journal_sync sync;
	uint64_t compact_bytes;             /* of changes, before the journal is begun anew */
	struct queue_parameters parameters; /* with defaults where not given */
	uint64_t retries;
	double lease;
	double migrate; /* how far traversals may differ since the last moves; 0: without limit */
	int settle_only; /* there is a lead and a supervisor: rows count only by settle, and only
			    fail is a death */
	struct service_given given;
};

/* Locks, replays, makes ready to listen. ERROR_CONFIG: the journal is of other parameters;
 * ERROR_DATA: it is damaged (place file:line); ERROR_TEMPFAIL: another instance runs; ERROR_USAGE:
 * there is no journal, and samples were not given. Strings are borrowed. */
int service_new(struct service **out, const struct service_options *options, struct error *err);
/* To be run (server_run()); the service's own. */
struct server *service_server(const struct service *s);
/* The orderly end, after server_run(): all lines are on disk then. */
int service_end(struct service *s, struct error *err);
void service_free(struct service *s); /* NULL is fine */

#endif
