/*
 * fork: writes parameters by copy-on-write, into a file or to another process.  The child has them
 * as they were at the fork; the parent trains on at once and hears of the end by a pipe.
 */
#ifndef PACELINE_PS_FORK_H
#define PACELINE_PS_FORK_H

#include "base/error.h"
#include "wire/server.h"

#include <stdint.h>

#define FORK_SECONDS_MAX 1800.0 /* a child that writes longer is killed: the disk hangs */

struct fork_result {
	int ok;
	uint64_t bytes, sum; /* of what was written */
	double stall;        /* seconds that the fork took */
	char why[512];       /* when not ok */
};

typedef void fork_done_fn(const struct fork_result *result, void *arg);

struct fork_child;

struct fork_job {
	/* Called in the child; fd is `keep` there. */
	int (*work)(void *owner, int fd, uint64_t *bytes, uint64_t *sum, struct error *err);
	void *owner;
	const char *name; /* of what is written, for messages */
	int keep;         /* a descriptor that the child needs; -1: none */
	double since;     /* when the stall began (clock_mono()) */
};

/* done is called from the event loop, once; then *out is gone. */
int fork_start(struct fork_child **out, struct server *server, const struct fork_job *job,
	       fork_done_fn *done, void *arg, struct error *err);
/* Kills the child; done is not called. NULL is fine. */
void fork_stop(struct fork_child *f);

#endif
