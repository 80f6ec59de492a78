/*
 * words: what a trainer says and hears: records, a line each, on its two pipes.  It says one word at
 * a time, each of which is answered.
 */
#ifndef PACELINE_AGENT_WORDS_H
#define PACELINE_AGENT_WORDS_H

#include "base/error.h"
#include "record/framer.h"
#include "record/record.h"

#include <stdint.h>

struct words {
	int to, from;  /* non-blocking; the caller's */
	uint64_t line; /* number of the one read last, from 1 */
	int closed;    /* it has closed its end, or ended */
	/* private */
	struct framer framer;
	char buffer[4 * RECORD_LINE_MAX];
	char answer[RECORD_LINE_MAX * 5]; /* records that are not sent yet */
	size_t answer_len;
};

void words_start(struct words *w, int to, int from);
void words_end(struct words *w);

enum words_found { WORDS_NONE, WORDS_ONE, WORDS_END };
/* The next word, if it is there. WORDS_END: there will be none. -1: ERROR_DATA with the line: it is
 * no record, or longer than one, or half of one at the end. */
int words_read(struct words *w, struct record *r, struct error *err);
/* Whether words_read() would find something that poll(2) does not see. */
int words_waiting(const struct words *w);

/* Whether there is room for a whole answer more. */
int words_have_room(const struct words *w);
/* A record of an answer; what goes out with words_send(). */
void words_put(struct words *w, struct record_out *o, const char *text);
/* Sends what was put. 1: all is out. 0: the trainer does not read now; again when `to` takes more.
 * A trainer that has closed its end: words.closed. */
int words_send(struct words *w);

/* "PACELINE_OUT:LINE" */
void words_place(const struct words *w, char *out, size_t max);

#endif
