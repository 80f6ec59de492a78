/*
 * incoming: parameters that another process of the same model sends as a stream (stream.h), each
 * record before its values.  An heir takes them (handover.c), or a new replica (fill.c).
 */
#ifndef PACELINE_PS_INCOMING_H
#define PACELINE_PS_INCOMING_H

#include "base/error.h"
#include "param/store.h"
#include "wire/call.h"

/* All zero at first, except store and call, which are borrowed. */
struct incoming {
	struct store *store;
	struct call *call;
	const char *at, *end; /* in place of a call: incoming_text() */
	struct stream_reader *stream;
	int expected; /* store_expect() was called */
};

/* Begins to take a stream. ERROR_OS: no memory. */
int incoming_begin(struct incoming *in, struct error *err);
void incoming_end(struct incoming *in);
/* Takes a record of the call, and its values. 1: it was part of the stream, and its values are in
 * the store. 0: it is something else. ERROR_CONFIG: it is of another model or optimiser. */
int incoming_record(struct incoming *in, const struct record *r, struct error *err);
/* Whether the whole stream has come. */
int incoming_whole(struct incoming *in, struct error *err);

/* Takes a whole stream that is in memory, of which some rows may have changed and others not. */
int incoming_text(struct incoming *in, const char *text, size_t bytes, struct error *err);

/* The other side: sends all parameters of s. */
int outgoing_write(const struct store *s, struct call *c, struct error *err);

#endif
