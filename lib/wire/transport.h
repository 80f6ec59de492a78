/*
 * transport: byte streams between processes, by the name of a server.
 *
 * Only this file knows the kind of socket: Unix stream sockets, whose names are paths of any
 * length.  Another kind (a relay to another host, TCP) would be told apart by its name here, and
 * nowhere else.  No descriptor blocks or survives an exec.
 */
#ifndef PACELINE_WIRE_TRANSPORT_H
#define PACELINE_WIRE_TRANSPORT_H

#include "base/error.h"

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* -1: ERROR_UNAVAILABLE when nobody listens, ERROR_TEMPFAIL when too many wait there already or memory lacks,
 * ERROR_NOPERM when the listener is neither our user's nor root's (for root anybody's will do). */
int transport_connect(const char *name, int *fd, struct error *err);

/* A name at which a server listens. */
struct transport_listener {
	int fd; /* -1: none */
	int inherited; /* fd and name are the service manager's */
	dev_t dev;
	ino_t ino;
};

/* Removes a socket that nobody listens on any more. 0 when there is none; ERROR_TEMPFAIL when
 * someone does. */
int transport_remove_dead(const char *name, struct error *err);
/* Removes a dead socket first. ERROR_TEMPFAIL: someone listens there. For this user only. */
int transport_listen(struct transport_listener *l, const char *name, struct error *err);
/* A listening socket that was there when this process began. */
int transport_inherit(struct transport_listener *l, int fd, const char *name, struct error *err);
/* Removes the name, unless another process has it by now. fd -1: nothing. */
void transport_unlisten(struct transport_listener *l, const char *name);
/* Accepts a client: its descriptor, or -1 with errno. */
int transport_accept(const struct transport_listener *l);

/* The user and process that connected, or that listen there; -1: not known. */
int transport_who(int fd, uid_t *uid, pid_t *pid);

enum transport_result {
	TRANSPORT_LATER = 0, /* nothing for now */
	TRANSPORT_END = -1,  /* the other side says no more; it may still read */
	TRANSPORT_LOST = -2  /* with errno */
};

/* Bytes read, or enum transport_result. A descriptor that came with them goes to *passed (NULL:
 * none is wanted) when that is -1; further ones are closed. */
ssize_t transport_read(int fd, const struct iovec *piece, size_t count, int *passed);
/* Bytes written, TRANSPORT_LATER or TRANSPORT_LOST; `pass` >= 0 goes with them. */
ssize_t transport_write(int fd, const struct iovec *piece, size_t count, int pass);
/* Takes what has been written off the front of the pieces; returns how many are left. */
size_t transport_advance(struct iovec *piece, size_t count, size_t written);

/* Waits until fd is ready for `what` (poll(2)); *got (may be NULL) says for what. -1:
 * ERROR_TEMPFAIL at the deadline (by clock_mono()). */
int transport_wait(int fd, short what, double deadline, short *got, const char *name,
		   struct error *err);
/* Whether the other side has gone for good: it neither says anything more nor reads. */
int transport_is_gone(int fd);

/* One datagram, if someone takes it at once: for service managers. name: a path, or @NAME. */
void transport_tell(const char *name, const char *text);

#endif
