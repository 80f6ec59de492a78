/*
 * rows_pipe: a thread that writes the rows of pieces into the standard input of a command, so that
 * the caller never waits for a disk or a full pipe.
 *
 * It serves one command after the other: begin, pieces in their order, end.  All functions are for
 * one thread, the caller's.
 */
#ifndef PACELINE_AGENT_ROWS_PIPE_H
#define PACELINE_AGENT_ROWS_PIPE_H

#include "agent/rows_text.h"

struct rows_pipe;

/* text is only read, and must live longer than the pipe. */
int rows_pipe_new(struct rows_pipe **out, const struct rows_text *text, struct error *err);
/* Stops the thread. NULL is fine. */
void rows_pipe_free(struct rows_pipe *p);

/* Makes a new pipe; the header goes into it first. *read_end is for the command, and the caller's.
 * What the last command did not read is dropped. */
int rows_pipe_begin(struct rows_pipe *p, int *read_end, struct error *err);
int rows_pipe_add(struct rows_pipe *p, const struct piece *piece, struct error *err);
/* The end of the input comes after the last piece. */
void rows_pipe_end(struct rows_pipe *p);
/* Ends the input at once, without a further byte. */
void rows_pipe_cancel(struct rows_pipe *p);

/* Readable when something below may have changed. */
int rows_pipe_fd(const struct rows_pipe *p);

enum rows_pipe_state {
	ROWS_PIPE_OPEN,   /* at work, or waiting for more */
	ROWS_PIPE_ALL,    /* all rows and the end of the input are in the pipe */
	ROWS_PIPE_CLOSED, /* the command closed its input before the end; or it was cancelled */
	ROWS_PIPE_BAD     /* the rows can't be read: error */
};
struct rows_pipe_look {
	enum rows_pipe_state state;
	size_t pending; /* pieces that are not wholly in the pipe */
	size_t unread;  /* in state ALL: bytes in the pipe that nobody has read yet */
	struct error error;
};
void rows_pipe_look(struct rows_pipe *p, struct rows_pipe_look *look);

#endif
