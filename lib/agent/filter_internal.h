/* filter_internal: what both kinds of filter need. Private to lib/agent/filter*.c. */
#ifndef PACELINE_AGENT_FILTER_INTERNAL_H
#define PACELINE_AGENT_FILTER_INTERNAL_H

#include "agent/filter.h"
#include "agent/pieces.h"
#include "meter/meter.h"

#include <poll.h>

#define FILTER_VARIABLES 8 /* room for so many more in env[] */

struct filter {
	const struct filter_options *o;
	struct pieces *pieces;
	struct meter *meter;
	const char **env;  /* the command's: the caller's, room for ours */
	size_t env_count;  /* without ours */
	double stop_at;    /* clock_mono() when *stop was seen; 0: it was not */
	double renewed_at; /* leases */
	uint64_t fences;   /* without a shard done in between */
	uint64_t through;  /* shards that are done */
};

int filter_start(struct filter *f, const struct filter_options *o, struct error *err);
void filter_end(struct filter *f);

/* A new generation; the files have to be the queue's. WORK_OK, WORK_STOP or -1: ERROR_TEMPFAIL, too,
 * when somebody else keeps using the id. */
int filter_hello(struct filter *f, struct error *err);
int filter_stopped(struct filter *f);
/* Seconds that commands have to finish, and then to end: none after a second signal. */
double filter_grace(const struct filter *f);
/* Once stopped, *seconds is made shorter to see a second signal. */
void filter_look(const struct filter *f, double *seconds);
/* Whether what we hold is to be renewed now; *seconds is made shorter to be there in time. Without a
 * lease, too: one that lost its shards hears it so. */
int filter_renews(struct filter *f, double *seconds);
/* Positions that remain, as rows; a shuffled piece is left as it is. */
void filter_trim(struct piece *p);
/* "shard 3 (epoch 0, rows 300 to 399)" */
void filter_describe(const struct piece *p, char *out, size_t max);
/* What one shard took. */
void filter_report(struct filter *f, const struct piece *p, double seconds);
/* poll(2) for so long at most. */
void filter_poll(struct pollfd *fd, size_t count, double seconds);
/* At the end: ERROR_NEGATIVE, and each is logged, when some are held. */
int filter_check_held(struct filter *f, uint64_t held, struct error *err);

#endif
