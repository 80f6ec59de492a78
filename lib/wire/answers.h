/*
 * answers: what a server says, as its clients read it.  call waits for it; peer is called when
 * something came.  Both cut it here into records and payloads, and agree which one ends an answer.
 */
#ifndef PACELINE_WIRE_ANSWERS_H
#define PACELINE_WIRE_ANSWERS_H

#include "record/framer.h"
#include "record/record.h"

#include <sys/types.h>

#define ANSWERS_ROOM (64 * 1024)

struct answers {
	int fd; /* -1: not connected */
	const char *name; /* borrowed */
	int passed;       /* a descriptor that came, and was not taken yet; -1: none */
	struct framer in;
	char data[ANSWERS_ROOM];
};

/* Nothing has been read yet from fd, which now belongs to a. */
void answers_begin(struct answers *a, int fd, const char *name);
void answers_end(struct answers *a); /* closes fd */

/* Reads once. Up to `bytes` bytes of a payload that is due go to `to` (may be NULL). Returns how
 * many bytes came, 0 when there are none for now, -1 (ERROR_UNAVAILABLE) when the server has
 * gone. */
ssize_t answers_read(struct answers *a, void *to, size_t bytes, struct error *err);

/* The next whole record: RECORD_ONE, or RECORD_END when more must be read first; -1: ERROR_DATA.
 * When it announces a payload, take answers_due() bytes of it before the next record. */
int answers_next(struct answers *a, struct record *r, struct error *err);

static inline uint64_t answers_due(const struct answers *a)
{
	return a->in.due;
}

/* `ok` or `err`: the last record of an answer. */
int answers_is_last(const struct record *r);
/* Whether the first record of a connection is the greeting of a server that we can talk to. */
int answers_greeting(const struct record *r, const char *name, struct error *err);

#endif
