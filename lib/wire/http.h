/*
 * http: one page over HTTP, at a TCP port, at a Unix socket, or at several.  HTTP itself is
 * libevent's (evhttp).
 *
 * It runs in the event loop of a program with more important work, and clients may be slow or
 * hostile: HTTP_CLIENTS_MAX connections at once, each for one request without a body, and closed at
 * its deadline in any case.  Others wait in the kernel's queue.  The page is made again at most
 * once a second, however often it is asked for.
 */
#ifndef PACELINE_WIRE_HTTP_H
#define PACELINE_WIRE_HTTP_H

#include "base/error.h"

#include <stddef.h>
#include <sys/socket.h>

#define HTTP_CLIENTS_MAX 16
#define HTTP_PAGE_SECONDS 1.0
#define HTTP_NAME_MAX 80

struct event_base;
struct http;

struct http_options {
	struct event_base *base;
	const char *path;  /* of the page: "/metrics" */
	const char *type;  /* its Content-Type */
	const char *about; /* the text for any other path (404) */
	double seconds;    /* until a client has its page */
	/* The page as it is now, valid until the next call. -1: the client is told why (503). */
	int (*page)(void *owner, const char **text, size_t *len, struct error *err);
	void *owner;
};

/* Options are borrowed where they point to something. */
int http_new(struct http **out, const struct http_options *options, struct error *err);
void http_free(struct http *h); /* NULL is fine */

/* name (HTTP_NAME_MAX bytes) becomes "http://ADDRESS:PORT"; for port 0 with the one that the kernel
 * chose. A port that is in use: ERROR_TEMPFAIL. */
int http_listen_tcp(struct http *h, const struct sockaddr *address, socklen_t len, char *name,
		    struct error *err);
/* Whether http_listen_tcp() would succeed now. */
int http_try_tcp(const struct sockaddr *address, socklen_t len, char *name, struct error *err);
/* Removes a dead socket first. The user and the group of the socket may connect: mode 0660. */
int http_listen_unix(struct http *h, const char *path, struct error *err);

#endif
