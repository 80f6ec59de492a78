/*
 * call: a blocking client with deadlines, for workers and tools.
 *
 * Every wait ends: with ERROR_UNAVAILABLE when the daemon is not there or went away, with
 * ERROR_TEMPFAIL when it does not answer in time.
 */
#ifndef PACELINE_WIRE_CALL_H
#define PACELINE_WIRE_CALL_H

#include "record/record.h"

struct call;

/* Connects and reads the greeting. While the socket is not there or refuses, tries again until
 * wait_seconds are over (0: one try). answer_seconds: longest wait for an answer. */
int call_open(struct call **out, const char *path, double wait_seconds, double answer_seconds,
	      struct error *err);
/* The two halves of call_open(), for a caller that lets others cut the connection between them
 * (call_fd()): one try to connect, then the greeting. */
int call_connect(struct call **out, const char *path, double answer_seconds, struct error *err);
int call_greet(struct call *c, struct error *err);
/* For an existing connection (fd, non-blocking; from now on it is c's), by a process that does
 * nothing else meanwhile: no greeting is read. Error places say name. -1: fd is still the
 * caller's. */
int call_adopt(struct call **out, int fd, const char *name, double answer_seconds,
	       struct error *err);
void call_close(struct call *c); /* NULL is fine */
/* Ends the connection, but not the call: for call_reopen(). */
void call_disconnect(struct call *c);
/* Connects again to the same path, once; the server that is there now gets the memory of
 * call_map(), with its content. What was under way on the old connection is gone. -1: c is not
 * connected; the caller may try again, and must close c in the end. */
int call_reopen(struct call *c, struct error *err);
/* The longest wait for an answer from now on. */
void call_set_answer(struct call *c, double seconds);
const struct record *call_greeting(const struct call *c);
/* Whether the greeting has key=1. 0 also if c is NULL. */
int call_greets_with(const struct call *c, const char *key);
int call_fd(const struct call *c); /* for poll(2) */
const char *call_path(const struct call *c);
/* Whether call_receive() would return without reading from the socket. */
int call_buffered(const struct call *c);

/* Sends a record (with newline) and its payload, if it announced one. Never blocks for ever: the
 * answer deadline applies to each pause in which nothing could be sent. */
int call_send(struct call *c, const char *line, size_t len, const void *payload, size_t bytes,
	      struct error *err);
/* The same with a record that is not ended yet. */
int call_record(struct call *c, struct record_out *r, const void *payload, size_t bytes,
		struct error *err);
/* Sends a record, and beside it a descriptor, which stays the caller's. */
int call_send_with(struct call *c, const char *line, size_t len, int fd, struct error *err);
/* The next record that arrives: data or closing. After a data record whose last key is bytes=N
 * come the payload's bytes: call_bytes() takes them (in any number of pieces), the next
 * call_receive() throws away what was not taken. Closing records never have a payload. */
int call_receive(struct call *c, struct record *r, struct error *err);
/* The same, waiting at most seconds (may be more than answer_seconds, for held-back answers);
 * -1 with ERROR_TEMPFAIL when nothing came: the connection stays usable. */
int call_receive_within(struct call *c, struct record *r, double seconds, struct error *err);
/* One turn of a wait that began at `since` (clock_mono()), for a caller that looks at something
 * else between turns, such as a flag that a signal sets. A turn is 0.05 s at first, and grows with
 * the wait to 0.5 s: a thousand workers that wait for the slowest must leave it the processors. */
int call_receive_turn(struct call *c, struct record *r, double since, struct error *err);
int call_bytes(struct call *c, void *data, size_t bytes, struct error *err);

/* The descriptor that came with what was read last; it is the caller's from now on. -1: none. */
int call_passed(struct call *c);

enum call_result { CALL_OK = 0, CALL_ERR = 1 };
/* Sends one request; *closing becomes its closing record. Data records go to `data` (NULL: they are
 * dropped). Returns CALL_OK, CALL_ERR (closing is `err code=...`), or -1. */
int call_request(struct call *c, const char *line, size_t len, struct record *closing,
		 void (*data)(const struct record *r, void *arg), void *arg, struct error *err);

/* Gives the server `bytes` of shared memory (memfd, sealed against shrinking and growing): *memory
 * is mapped here and there until call_close(). */
int call_map(struct call *c, size_t bytes, void **memory, struct error *err);
int call_memory_fd(const struct call *c); /* of that; -1: there is none */

#endif
