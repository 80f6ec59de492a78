/*
 * fork: a cut of the parameters by copy-on-write.  The child has the parameters as they were at the
 * fork and writes the part file; the parent trains on at once and hears of the end by a pipe.
 */
#ifndef PACELINE_PS_FORK_H
#define PACELINE_PS_FORK_H

#include "base/error.h"
#include "param/store.h"
#include "wire/server.h"

#define FORK_SECONDS_MAX 1800.0 /* a child that writes longer is killed: the disk hangs */

struct fork_result {
	int ok;
	uint64_t bytes, sum; /* of the part file */
	double stall;        /* seconds that the fork took */
	char why[512];       /* when not ok */
};

typedef void fork_done_fn(const struct fork_result *result, void *arg);

struct fork_child;

/* done is called from the event loop, once; then *out is gone. */
int fork_start(struct fork_child **out, struct server *server, const struct store *store,
	       const char *path, fork_done_fn *done, void *arg, struct error *err);
/* Kills the child; done is not called. NULL is fine. */
void fork_stop(struct fork_child *f);

#endif
