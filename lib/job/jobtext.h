/*
 * jobtext: the syntax of a job file, and nothing of its keys.
 *
 * The language is what sh(1) and systemd's EnvironmentFile= read alike, so a file can be sourced,
 * named by a unit, and read here with the same result:  KEY=value lines, bare, 'single' or "double"
 * quoted; lines that begin with # are comments; nothing is expanded.  What the two would read
 * differently (a $ that sh expands, a comment behind a bare value, text behind a closing quote) is
 * refused here with the place, never guessed.
 */
#ifndef PACELINE_JOB_JOBTEXT_H
#define PACELINE_JOB_JOBTEXT_H

#include "base/error.h"

#include <stddef.h>

#define JOBTEXT_KEY_MAX 64
/* Bytes, NUL included: names of files and columns may be thousands. */
#define JOBTEXT_VALUE_MAX (1u << 20)

/* key and value are valid during the call only. line counts from 1. */
typedef int jobtext_fn(const char *key, const char *value, size_t line, void *arg,
		       struct error *err);

/* Calls each() for every assignment in order, to the end of the text also where a line is wrong.
 * -1: one is; err has the first: ERROR_CONFIG with place "name:line", or what each() says. */
int jobtext_parse(const char *name, const char *text, size_t len, jobtext_fn *each, void *arg,
		  struct error *err);

/* "KEY=value" quoted as far as needed into out (at least 2 * strlen + 80 bytes); the length. */
size_t jobtext_format(const char *key, const char *value, char *out, size_t out_max);

#endif
