/*
 * incoming: parameters that another process of the same model sends as a stream (stream.h), each
 * record before its values: to an heir (handover.c), or to a new replica (fill.c).
 */
#ifndef PACELINE_PS_INCOMING_H
#define PACELINE_PS_INCOMING_H

#include "base/error.h"
#include "param/store.h"
#include "wire/call.h"

/* Zeroed at first, except store and call, which are borrowed. */
struct incoming {
	struct store *store;
	struct call *call;
	struct stream_reader *stream;
	int expected; /* the store knows what comes */
};

int incoming_begin(struct incoming *in, struct error *err);
void incoming_end(struct incoming *in);
/* 1: r was one of the stream's, and its values are in the store; 0: it is something else.
 * ERROR_CONFIG: it is another model, or another optimiser. */
int incoming_record(struct incoming *in, const struct record *r, struct error *err);
/* Whether the whole stream has come. */
int incoming_whole(struct incoming *in, struct error *err);

/* The other side: all parameters of s, as they are in memory. */
int outgoing_write(const struct store *s, struct call *c, struct error *err);

#endif
