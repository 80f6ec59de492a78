/*
 * child: a short helper process (an executable solution, a scorer) inside an event loop: input is
 * known beforehand, output is collected, and a callback always tells the end.
 */
#ifndef PACELINE_PROC_CHILD_H
#define PACELINE_PROC_CHILD_H

#include "base/argv.h"
#include "base/error.h"
#include "proc/end.h"

#include <stddef.h>

struct event_base;
struct child;

enum child_cut {
	CHILD_WHOLE,
	CHILD_LATE, /* killed at the deadline */
	CHILD_TALKS /* killed for too much output */
};

enum child_errors {
	CHILD_ERRORS_OURS, /* its stderr is the caller's, or `called` has it */
	CHILD_ERRORS_DROPPED,
	CHILD_ERRORS_IN_OUTPUT
};

/* What is known when it is gone. */
struct child_end {
	struct node_end end;
	enum child_cut cut;
	const char *output; /* a NUL follows its last byte */
	size_t bytes;
	double seconds; /* as in its options */
	size_t output_bytes_max;
};

struct child_options {
	char *const *argv; /* program with its path, arguments; NULL-terminated */
	const void *input; /* its stdin; NULL: empty */
	size_t input_bytes;
	int input_file, output_file; /* open files to read and write in place of those; 0: none. They stay the caller's */
	double seconds;          /* after these it and what it started are killed */
	size_t output_bytes_max; /* more: killed; 0: 1 MiB */
	/* For a program that is not ours: each line of its stderr is logged behind this name
	 * (base/log.h), up to CHILD_WORDS_MAX bytes of both; with more than output_bytes_max it is
	 * killed. Copied. NULL: its stderr is the caller's. */
	const char *called;
	enum child_errors errors;
	/* Called once. The child is gone after this. NULL: nobody wants to know. */
	void (*done)(const struct child_end *e, void *arg);
	void *arg;
};

#define CHILD_WORDS_MAX 65536u

int child_start(struct child **out, struct event_base *base, const struct child_options *options,
		struct error *err);
/* The same with the command line argv, which is freed. *out NULL: it could not be started. */
int child_ask(struct child **out, struct event_base *base, struct argv *argv,
	      struct child_options options, struct error *err);
/* Starts it, and waits until it has ended. */
int child_run(const struct child_options *options, struct error *err);
/* NULL: it ended with 0, in time, and has not said too much. Else why that is not so, in out. */
#define CHILD_WHY_MAX 128
const char *child_failure(const struct child_end *e, char out[CHILD_WHY_MAX]);
/* Kills it; done() is not called. NULL is fine. */
void child_free(struct child *c);

#endif
