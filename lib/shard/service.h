/*
 * service: shardd(8) without its command line: a queue, its journal, and a socket.
 *
 * The queue puts each change into lines, the journal keeps them, and the server's flush hook
 * commits them before answers are sent.  A change is made only if the journal has room for its
 * lines.  After a commit that failed nothing is acknowledged, and server_run() ends with ERROR_IO.
 *
 * If the sender of a settle ends with this boot of the machine (boot= in shardd(8)), the settle's
 * lines are written without waiting for the disk: fdatasync comes with the next change of another
 * kind.
 */
#ifndef PACELINE_SHARD_SERVICE_H
#define PACELINE_SHARD_SERVICE_H

#include "base/error.h"
#include "shard/journal.h"
#include "shard/queue.h"

struct service;

/* Which parameters were given. The others come from the journal, or keep their defaults in a new
 * queue. */
struct service_given {
	int samples, batches, epochs, apart, shuffle, seed, retries, lease, partitions, migrate;
};

struct service_options {
	const char *socket;
	const char *dir; /* of the journal */
	enum journal_sync sync;
	/* Bytes of changes after which the journal is begun anew. */
	uint64_t compact_bytes;
	struct queue_parameters parameters; /* those that were not given have their defaults */
	uint64_t retries;
	double lease;
	/* How far passes may differ since the last moves; 0: without limit. */
	double migrate;
	/* There are a lead and a supervisor: rows count only by settle, and only `fail` is a
	 * death. */
	int settle_only;
	struct service_given given;
};

/* Locks and replays the journal, and gets ready to listen. ERROR_CONFIG: the journal is of other
 * parameters. ERROR_DATA: it is damaged (place file:line). ERROR_TEMPFAIL: another instance runs.
 * ERROR_USAGE: there is no journal, and samples were not given. Strings are borrowed. */
int service_new(struct service **out, const struct service_options *options, struct error *err);
/* For server_run(); it belongs to the service. */
struct server *service_server(const struct service *s);
/* The orderly end, after server_run(): puts all lines on disk. */
int service_end(struct service *s, struct error *err);
void service_free(struct service *s); /* NULL is fine */

#endif
