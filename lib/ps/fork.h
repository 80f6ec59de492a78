/*
 * fork: writes parameters by copy-on-write, into a file or to another process.  The child has them
 * as they were at the fork.  The parent goes on at once, and a pipe tells it of the end.
 */
#ifndef PACELINE_PS_FORK_H
#define PACELINE_PS_FORK_H

#include "base/error.h"
#include "wire/server.h"

#include <stdint.h>

#define FORK_SECONDS_MAX 1800.0 /* a child that writes for longer is killed: its disk hangs */

struct fork_result {
	int ok;
	uint64_t bytes, sum; /* length and checksum of what was written */
	double stall;        /* seconds that the fork took */
	char why[512];       /* when not ok */
};

typedef void fork_done_fn(const struct fork_result *result, void *arg);

struct fork_child;

struct fork_job {
	/* Called in the child, where fd stands for `keep`. */
	int (*work)(void *owner, int fd, uint64_t *bytes, uint64_t *sum, struct error *err);
	void *owner;
	const char *name; /* name of what is written, for messages */
	int keep;         /* a descriptor that the child needs; -1: none */
	double since;     /* when the stall began (clock_mono()) */
};

/* Starts the child. done is called once, by the event loop; then *out is freed. */
int fork_start(struct fork_child **out, struct server *server, const struct fork_job *job,
	       fork_done_fn *done, void *arg, struct error *err);
/* Kills the child; done is not called. NULL is fine. */
void fork_stop(struct fork_child *f);

#endif
