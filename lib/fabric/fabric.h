/*
 * fabric: what fabricd does on its host: the world, its own socket, and the requests there.
 */
#ifndef PACELINE_FABRIC_FABRIC_H
#define PACELINE_FABRIC_FABRIC_H

#include "fabric/sum.h"
#include "wire/server.h"

struct fabric;

struct fabric_options {
	const char *run_dir; /* of the sockets */
	const char *host;    /* this one's name */
	const char *version;
	enum sum_way way;    /* of dense sums; the same on all hosts */
	const char *routes;  /* the file, read by rank 0; NULL: none */
};

/* Waits for the other ranks. Options are borrowed. */
int fabric_new(struct fabric **out, const struct fabric_options *options, struct error *err);
struct server *fabric_server(struct fabric *f); /* for daemon_run(); it is the fabric's */
/* Waits for the other ranks, some seconds at most. -1: they are not there. NULL is fine. */
int fabric_free(struct fabric *f, struct error *err);

#endif
