/* A gate in tests, of incarnation 7, with shardd connected; and workers who join it. */
#ifndef PACELINE_TESTS_GATE_H
#define PACELINE_TESTS_GATE_H

#include "lead/gate.h"

#include <cmocka.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct gate *gate;
static char happened[8192]; /* what has happened, a line each, and was not looked at yet */
static struct gate_options started; /* with these */
static uint64_t token;

static inline void start(struct gate_options with)
{
	started = with;
	started.incarnation = 7;
	started.commit = 1;
	token = 0;
	assert_int_equal(gate_new(&gate, &started, NULL), 0);
	gate_shards(gate, 1);
}

static inline int stop(void **state)
{
	(void)state;
	happened[0] = '\0';
	gate_free(gate);
	gate = NULL;
	return 0;
}

static inline void add(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static inline void add(const char *fmt, ...)
{
	size_t len = strlen(happened);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(happened + len, sizeof happened - len, fmt, ap);
	va_end(ap);
}

/* The text, or what was made of it, is so. Another one begins. */
static inline void expect_said(int line, const char *said, const char *expected)
{
	if (strcmp(said, expected) != 0)
		fail_msg("line %d:\n%s--- expected:\n%s", line, said, expected);
	happened[0] = '\0';
}

static inline struct gate_who who(const char *worker, uint64_t generation)
{
	return (struct gate_who){worker, generation, 7, (uint64_t)worker[1], ++token, 0};
}

static inline void join(const char *worker, uint64_t generation)
{
	struct gate_who w = who(worker, generation);

	gate_join(gate, &w);
}

#endif
