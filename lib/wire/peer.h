/*
 * peer: an asynchronous client on an event base, for programs that are servers themselves (the
 * lead towards shardd and the other servers, trainctl towards all).
 *
 * Reconnects by itself, with a pause that doubles from 10 ms to 1 s.  Requests are answered in
 * order.  When the connection goes, every request still open is told so (reply with r == NULL) and
 * nothing is sent again: the owner decides in `up` what to repeat.
 */
#ifndef PACELINE_WIRE_PEER_H
#define PACELINE_WIRE_PEER_H

#include "record/record.h"

struct event_base;
struct peer;

/* r: a data record, or the closing one (type ok or err) when `closing`; NULL with closing set when
 * the connection went first. r is valid during the call only. A payload is thrown away: daemons ask
 * each other for no bulk data. */
typedef void peer_reply_fn(const struct record *r, int closing, void *arg);

struct peer_options {
	const char *path;
	/* Connected and greeted. r is the greeting. May be NULL. */
	void (*up)(struct peer *p, const struct record *r, void *owner);
	/* Was up and is not any more (all its open requests have been told). May be NULL. */
	void (*down)(struct peer *p, void *owner);
	void *owner;
	/* A connection whose oldest request waits longer is dropped; 0: never. */
	double answer_seconds;
	size_t output_bytes_max; /* peer_send() refuses beyond this; 0: 64 MiB */
};

/* Begins to connect at once. Options are copied, and path and owner are borrowed. NULL: no
 * memory. */
struct peer *peer_new(struct event_base *base, const struct peer_options *options);
void peer_free(struct peer *p); /* open requests are told; `down` is not called; NULL is fine */
int peer_is_up(const struct peer *p);

/* Sends a whole request (record with newline, payload behind it when the record announced one;
 * payload may be NULL). -1: not up, or too much is waiting: nothing was sent and reply will not be
 * called. reply may be NULL. */
int peer_send(struct peer *p, const char *line, size_t len, const void *payload, size_t bytes,
	      peer_reply_fn *reply, void *arg);
/* The same; text is the whole request, and is not copied: release(of) is called when it is written
 * or will never be, possibly within this call. */
int peer_send_ref(struct peer *p, const char *text, size_t len, void (*release)(void *of), void *of,
		  peer_reply_fn *reply, void *arg);
/* The same without a payload, and with a descriptor beside the record, which stays the caller's and
 * may be closed at once. */
int peer_send_with(struct peer *p, const char *line, size_t len, int fd, peer_reply_fn *reply,
		   void *arg);
/* Writes now what was sent, as far as the socket takes it: for a caller about to work or to sleep.
 * Calls nothing back: the loop drops a lost connection later. */
void peer_flush(struct peer *p);

#endif
