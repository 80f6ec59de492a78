/* filter_internal: what both kinds of filter need. Private to lib/agent/filter*.c. */
#ifndef PACELINE_AGENT_FILTER_INTERNAL_H
#define PACELINE_AGENT_FILTER_INTERNAL_H

#include "agent/filter.h"
#include "agent/pieces.h"
#include "meter/meter.h"

#include <poll.h>

#define FILTER_VARIABLES 8 /* room in env[] for so many of ours */

struct filter {
	const struct agent_options *o;
	struct pieces *pieces;
	struct meter *meter;
	const char **env;  /* the command's: the caller's, room for ours */
	size_t env_count;  /* without ours */
	double stop_at;    /* clock_mono() when *stop was seen; 0: it was not */
	double renewed_at; /* leases */
	uint64_t fences;   /* without a shard done in between */
	uint64_t through;  /* shards that are done */
};

int filter_start(struct filter *f, const struct agent_options *o, struct error *err);
void filter_end(struct filter *f);

/* Begins a new generation; the files must be the queue's. WORK_OK, WORK_STOP or -1; ERROR_TEMPFAIL
 * also if another process keeps using the id. */
int filter_hello(struct filter *f, struct error *err);
int filter_stopped(struct filter *f);
/* Seconds that commands have to finish, and then to end: none after a second signal. */
double filter_grace(const struct filter *f);
/* After a stop, makes *seconds shorter, so that a second signal is seen. */
void filter_look(const struct filter *f, double *seconds);
/* Whether to renew what we hold now; makes *seconds shorter so that we are in time. Also without a
 * lease, because an agent that has lost its shards learns it so. */
int filter_renews(struct filter *f, double *seconds);
/* Makes a piece's rows those that remain; a shuffled piece is not changed. */
void filter_trim(struct piece *p);
/* "shard 3 (epoch 0, rows 300 to 399)" */
void filter_describe(const struct piece *p, char *out, size_t max);
/* Reports the time of one shard. */
void filter_report(struct filter *f, const struct piece *p, double seconds);
/* poll(2) for so long at most. */
void filter_poll(struct pollfd *fd, size_t count, double seconds);
/* At the end: if shards are held, logs each of them; -1: ERROR_NEGATIVE. */
int filter_check_held(struct filter *f, uint64_t held, struct error *err);

#endif
