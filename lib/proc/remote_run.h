/*
 * remote_run: one node on another host, seen from this end: what node-host(8) does in the place of
 * a node's program.
 */
#ifndef PACELINE_PROC_REMOTE_RUN_H
#define PACELINE_PROC_REMOTE_RUN_H

#include "base/error.h"
#include "proc/end.h"
#include "proc/remote.h"

struct remote_run {
	struct remote_options host;
	const char *const *make, *const *bring; /* as in struct node_start; NULL-terminated, or NULL */
	const char *const *lock; /* as in struct node_start */
	struct limits limits;
	int keeps;                              /* as in struct launch */
	char *const *argv;                      /* program with its path there, and arguments */
};

/* Runs it to its end. SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 are passed on; they stay blocked here.
 * If SIGUSR1 is ignored here, as where a node begins (parent.h), it is when the command begins there.
 * -1: ERROR_UNAVAILABLE: the host was not reached or is lost; else why it was not started. */
int remote_run(const struct remote_run *what, struct node_end *end, struct error *err);

/* A file there, and its path here. */
struct remote_pair {
	const char *path, *to;
};

/* Brings files from there over one connection, each whole or not at all. One that fails does not
 * stop the others; err tells of the first one that failed. */
int remote_fetch(const struct remote_options *host, const struct remote_pair *pair, size_t count,
		 struct error *err);

#endif
