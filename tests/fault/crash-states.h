/*
 * crash-states: what crash-states.c asks of a promise.  `say` has each thing that was said, in its
 * order; `check` looks at a directory as a power cut may have left it, and says what is wrong, or
 * NULL.  It changes nothing there.
 */
#ifndef CRASH_STATES_H
#define CRASH_STATES_H

#include <stddef.h>
#include <stdint.h>

struct promise {
	const char *name;
	void (*begin)(int argc, char **argv); /* what is to be compared */
	void (*say)(const char *program, const char *data, size_t len);
	/* What of that counts: states that are equal are checked once for each value. */
	uint64_t (*said)(void);
	const char *(*check)(const char *dir);
};

void crash_die(const char *what, const char *why) __attribute__((noreturn));

extern const struct promise promise_shardd, promise_job;

#endif
