/*
 * words: what a trainer says and hears: records, one on each line, on its two pipes.  The trainer
 * says one word at a time, and each word is answered.
 */
#ifndef PACELINE_AGENT_WORDS_H
#define PACELINE_AGENT_WORDS_H

#include "base/error.h"
#include "record/framer.h"
#include "record/record.h"

#include <stdint.h>

struct words {
	int to, from;  /* non-blocking; the caller's */
	uint64_t line; /* number of the last line read, from 1 */
	int closed;    /* the trainer has closed its end, or ended */
	/* private */
	struct framer framer;
	char buffer[4 * RECORD_LINE_MAX];
	char answer[RECORD_LINE_MAX * 5]; /* records that are not sent yet */
	size_t answer_len;
};

void words_start(struct words *w, int to, int from);
void words_end(struct words *w);

enum words_found { WORDS_NONE, WORDS_ONE, WORDS_END };
/* The next word, if one is there. WORDS_END: no more will come. -1: ERROR_DATA with the line: it is
 * no record, is longer than a record, or is cut off at the end. */
int words_read(struct words *w, struct record *r, struct error *err);
/* Whether words_read() would find something that poll(2) does not see. */
int words_waiting(const struct words *w);

/* Whether there is room for a whole answer more. */
int words_have_room(const struct words *w);
/* Adds a record of an answer, for words_send(). */
void words_put(struct words *w, struct record_out *o, const char *text);
/* Sends what was put. 1: all is out. 0: the trainer does not read now; call again when `to` takes
 * more. If the trainer has closed its end, words.closed is set. */
int words_send(struct words *w);

/* By which the trainer opens a file of memory of ours. */
void words_memory_path(char *out, size_t max, int fd);

/* "PACELINE_OUT:LINE" */
void words_place(const struct words *w, char *out, size_t max);

#endif
