/*
 * server: a Unix stream socket on which records are asked and answered (paceline-protocol(7)).
 *
 * One verb is one table row; help, arity errors and counters come from the table.  Requests may be
 * pipelined; answers keep their order, also when a handler answers later.  Nothing a peer sends
 * ends the process: a bad line is answered `err code=bad-request`, an over-long one closes that
 * client only.
 *
 * A turn of the loop: everything that has arrived is read and handled; then the owner's `flush`
 * hook runs once (group commit: one fdatasync for all of it); then answers are written.  So an
 * answer never leaves before the hook that follows its handler has returned 0.
 *
 * Payloads: a request whose last key is `bytes=N` is followed by N raw bytes.  A client on the same
 * host may instead send `map bytes=N` with a memfd (sealed against shrinking) in SCM_RIGHTS, once;
 * afterwards `map-offset-bytes=O map-bytes=N` stands in place of `bytes=N`, and the payload is in
 * that memory.  Handlers see no difference.
 *
 * Built-in verbs, on every server: `help` (a `verb name= required= optional=` each), `counters`
 * (a `counter verb= requests= errors=` each), `map`.
 */
#ifndef PACELINE_WIRE_SERVER_H
#define PACELINE_WIRE_SERVER_H

#include "base/error.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SERVER_BEGUN_SECONDS 60.0

struct event_base;
struct server;
struct connection;
struct request;
struct payload;

struct verb {
	const char *name;
	const char *required; /* keys that must be there, separated by blanks */
	const char *optional; /* keys that may be; others are ignored (formats grow) */
	/* Must answer (request_ok, request_err, request_bad) now, or request_defer(). */
	void (*handler)(struct request *rq, void *owner);
	uint64_t payload_bytes_max; /* 0: a payload is refused; a longer one closes the client */
	const char *help;           /* one line, for people */
};

struct server_options {
	const char *path;     /* socket; mode 0600; its directory is made 0700 when missing */
	const char *role;     /* greeting: paceline role=ROLE version=1 [greeting_fields] */
	const char *greeting_fields; /* "id=ps0 part=0/2" or NULL */
	const struct verb *verbs;
	size_t verb_count;
	/* Names of verbs, separated by blanks, that tell and ask nothing (a report): if they
	 * arrived whole, they are carried out even when their client went before it was greeted or
	 * answered. No other request of a client known to be gone is. NULL: none. */
	const char *one_way;
	void *owner;          /* given to handlers and hooks */
	/* More verbs, with an owner of their own: for a program that is two things on one
	 * socket. */
	const struct verb *more_verbs;
	size_t more_count;
	void *more_owner;
	/* Called once a turn before answers are written; -1 ends server_run() with its error and
	 * writes nothing more. May be NULL. */
	int (*flush)(void *owner, struct error *err);
	/* The connection is going; its deferred requests have been cancelled. May be NULL. */
	void (*closed)(struct connection *c, void *owner);
	size_t clients_max;       /* 0: 16384 */
	/* A client with more bytes of unread answers is closed; 0: 64 MiB. What counts is bytes
	 * that a write has left over, without those of request_put_ref(); so a single answer may
	 * be larger. A client that leaves 256 KiB unread is not read from. */
	size_t output_bytes_max;
	/* Bytes of all payloads that are being read; 0: 256 MiB. Those that do not fit wait; one
	 * alone may be longer, up to its verb's limit. */
	uint64_t payloads_bytes_max;
	/* Seconds for the rest of a line or payload that was begun, plus 1 s for each MiB
	 * announced; 0: SERVER_BEGUN_SECONDS. A payload that stops while others wait for its room
	 * has a sixth of it. */
	double begun_seconds;
	/* A client without request or deferred answer for this long is closed; 0: never. */
	double idle_seconds;
	double drain_seconds;     /* at the end: unread answers are waited for this long; 0: 1 s */
	/* Called at SIGTERM and SIGINT in place of server_stop(), for an owner whose end takes
	 * time. NULL: they stop the server. */
	void (*signalled)(int signal, void *owner);
	int beside; /* in a thread beside the program's work: it leaves signals alone */
};

/* Takes path.lock by flock (a second instance: ERROR_TEMPFAIL). Greeting and options are copied,
 * verbs and owner are borrowed. SIGTERM and SIGINT are caught from here on; the soft limit of open
 * files is raised for clients_max as far as the hard one allows. */
int server_new(struct server **out, const struct server_options *options, struct error *err);
/* For socket activation: the inherited descriptor that notify_listen_fd() found, before
 * server_run(); its name is the service manager's and is not removed at the end. */
int server_use_fd(struct server *s, int listen_fd, struct error *err);
/* Removes a dead socket and listens. server_run() does it when this was not called: a socket that
 * exists means that the server is ready. ERROR_TEMPFAIL: someone else listens there. */
int server_listen(struct server *s, struct error *err);
/* Listens no more, and removes the socket, before the rest of the end. */
void server_unlisten(struct server *s);
/* Closes clients, removes the socket, releases the lock. */
void server_free(struct server *s);
/* In a child after fork(): closes the descriptors of the server, so that the child keeps neither
 * name, lock nor clients alive when its parent dies, and gives the signals their usual meaning.
 * Nothing of s may be used there afterwards. */
void server_forked(struct server *s);

/* Greets clients with these fields from now on. -1: they are too long, or no memory. */
int server_greet(struct server *s, const char *fields, struct error *err);

struct event_base *server_base(struct server *s); /* for timers and peers of the owner */

/* Whether the payload of a request of this verb has begun to come, and is not complete. It is at
 * most for the time that begun_seconds gives it. */
int server_is_reading(const struct server *s, const char *verb);

/* Only in the flush hook: takes what has arrived meanwhile, without waiting for more. For costly
 * hooks, so that one run serves many requests. */
void server_gather(struct server *s);

/* Runs until server_stop(); returns 0, or -1 when a hook failed or the loop did. Announces
 * READY=1, STOPPING=1 and WATCHDOG=1 to notify_socket (NULL: nobody; main() passes
 * getenv("NOTIFY_SOCKET")); watchdog_seconds 0: none. SIGTERM and SIGINT stop it. */
int server_run(struct server *s, const char *notify_socket, double watchdog_seconds,
	       struct error *err);
void server_stop(struct server *s);

/* ---- handing over to another process ---- */

/* Writes all answers, waiting for clients to take them; reads and handles nothing meanwhile. 0: no
 * answer is under way any more. -1: clients that did not take their answers in `seconds`, or must
 * be closed anyway, are closed in the next turn: ask again then. */
int server_quiet(struct server *s, double seconds);
/* From an event's callback: server_run() returns 0 at once and does nothing more: input is not
 * read, and nobody is told anything. */
void server_abandon(struct server *s);
/* Writes into the lock who takes the name if this process ends without a word. heir NULL: nobody
 * does, as at first. */
int server_name_heir(struct server *s, const char *heir, struct error *err);
/* For that heir: 0: the process that had the name is gone, and named it; the lock names nobody any
 * more. ERROR_TEMPFAIL: that process is still there. ERROR_UNAVAILABLE: another heir is named, or
 * none. */
int server_inherit(const char *path, const char *heir, struct error *err);

/* ---- a request, from handler to answer ---- */

/* Valid until the handler returns: copy what a deferred answer needs. */
const struct record *request_record(const struct request *rq);
struct connection *request_connection(struct request *rq);

/* Whether all earlier answers to its client are written: nothing comes before its own. */
int request_is_alone(const struct request *rq);

/* The payload, or NULL; valid until the request is closed, longer with payload_hold(). */
struct payload *request_payload(struct request *rq);
/* Aligned to 8 at least. Memory that the client has mapped may change while it is read: copy what
 * is checked and then used. */
const void *payload_data(const struct payload *p);
/* Its length in bytes. */
size_t payload_bytes(const struct payload *p);
/* Whether it lies in memory that the client can still write. */
int payload_is_shared(const struct payload *p);
/* Room for one payload of so many bytes that will come over a socket: where it will be, or NULL; until
 * then, or until another one that is as large has gone. */
void *server_expect(struct server *s, size_t bytes);
struct payload *payload_hold(struct payload *p); /* one more reference; returns p */
void payload_release(struct payload *p);         /* NULL is fine */

/* Length bytes at offset (a multiple of 8) of the memory that the client has mapped, for the bulk
 * of an answer. NULL: there is no such memory. Valid while the request is open. */
void *request_mapped(struct request *rq, uint64_t offset, uint64_t length);
/* The same as a payload, valid until payload_release(), also when the request and the connection
 * have gone. NULL also when there is no room for it. */
struct payload *request_hold_mapped(struct request *rq, uint64_t offset, uint64_t length);

/* The descriptor that came beside the request; it is the caller's from now on. -1: none. */
int request_passed(struct request *rq);

/* Appends to the answer: whole records (with their newline), or raw bytes behind a record that
 * announced them. */
void request_put(struct request *rq, const void *bytes, size_t len);
void request_put_record(struct request *rq, struct record_out *o); /* calls record_end(o, NULL) */
/* The same without a copy: bytes stay where they are until release(arg) is called. */
void request_put_ref(struct request *rq, const void *bytes, size_t len,
		     void (*release)(void *arg), void *arg);

/* Closing records; the request is gone after each of them. fields_fmt NULL or "": a bare ok; values
 * must need no encoding. */
void request_ok(struct request *rq, const char *fields_fmt, ...)
	__attribute__((format(printf, 2, 3)));
void request_ok_record(struct request *rq, struct record_out *o); /* o was begun with type "ok" */
/* The same with a descriptor beside that record (SCM_RIGHTS); it stays the caller's, and may be
 * closed at once. */
void request_ok_with(struct request *rq, struct record_out *o, int fd);
void request_err(struct request *rq, const char *code, const char *text_fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* o was begun with type "err" and has its code. */
void request_err_record(struct request *rq, struct record_out *o, const char *text);
/* err code=bad-request with err's text. */
void request_bad(struct request *rq, const struct error *err);

/* The answer comes later (from a timer, another request, a peer). cancelled(rq, arg) is called
 * when the client goes first; rq is gone when it returns. May be NULL. Until then request_put()
 * streams: what is put is sent at once when no earlier answer is open (`watch`). */
void request_defer(struct request *rq, void (*cancelled)(struct request *rq, void *arg), void *arg);

/* ---- a connection ---- */
/* A pointer of the owner's for each connection; NULL at first. */
void connection_set_user(struct connection *c, void *user);
void *connection_user(const struct connection *c);
uint64_t connection_number(const struct connection *c); /* never given twice */
pid_t connection_pid(const struct connection *c);
/* For a caller that has checked server_quiet() or request_is_alone(): until the request is
 * answered, only the caller speaks with this client. */
int connection_fd(const struct connection *c);
/* Closed at the end of this turn. */
void connection_close(struct connection *c);

#endif
