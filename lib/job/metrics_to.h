/*
 * metrics_to: where a job's metrics go, a word of METRICS each (paceline-job(5)).
 *
 *     DIR/NAME.prom      a file
 *     DIR/               the file JOB.prom in that directory
 *     unix:SOCKET        HTTP on a Unix socket
 *     http://HOST:PORT   HTTP on a port; no HOST: 127.0.0.1. It is an address or localhost: a name
 *                        would have to be asked for, and may be another machine's tomorrow.
 *
 * Words only: nothing is opened here.
 */
#ifndef PACELINE_JOB_METRICS_TO_H
#define PACELINE_JOB_METRICS_TO_H

#include "base/error.h"

#include <sys/socket.h>

#define METRICS_TO_MAX 16 /* words */

enum metrics_to_kind { METRICS_TO_FILE, METRICS_TO_DIR, METRICS_TO_UNIX, METRICS_TO_TCP };

struct metrics_to {
	enum metrics_to_kind kind;
	const char *path; /* in the word; NULL: it is a port */
	struct sockaddr_storage address;
	socklen_t len;
};

/* to points into word. -1: ERROR_CONFIG without a place. */
int metrics_to_parse(struct metrics_to *to, const char *word, struct error *err);

#endif
