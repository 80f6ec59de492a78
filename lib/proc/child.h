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

struct child_options {
	char *const *argv; /* program with its path, arguments; NULL-terminated */
	const void *input; /* its stdin; NULL: empty */
	size_t input_bytes;
	double seconds;          /* after these it and what it started are killed */
	size_t output_bytes_max; /* more: killed */
	/* For a program that is not ours: each line of its stderr is logged behind this name
	 * (base/log.h), up to CHILD_WORDS_MAX bytes of both; with more than output_bytes_max it is
	 * killed. Copied. NULL: its stderr is the caller's. */
	const char *called;
	/* Called once. A NUL follows the output's last byte. The child is gone after this. */
	void (*done)(const struct node_end *end, enum child_cut cut, const char *output,
		     size_t bytes, void *arg);
	void *arg;
};

#define CHILD_WORDS_MAX 65536u

int child_start(struct child **out, struct event_base *base, const struct child_options *options,
		struct error *err);
/* The same with the command line argv, which is freed. *out NULL: it could not be started. */
int child_ask(struct child **out, struct event_base *base, struct argv *argv,
	      struct child_options options, struct error *err);
/* Kills it; done() is not called. NULL is fine. */
void child_free(struct child *c);

#endif
