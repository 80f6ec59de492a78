/*
 * argv: puts a command line together word by word.  A lack of memory is reported once, at the end,
 * by argv_end().
 */
#ifndef PACELINE_BASE_ARGV_H
#define PACELINE_BASE_ARGV_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Zeroed at first. */
struct argv {
	char **word; /* NULL after the last; NULL: there are none */
	size_t count, room;
	int failed;
};

/* Words that are given one by one. */
#define argv_add(argv, ...) argv_add_all(argv, (const char *const[]){__VA_ARGS__, NULL})
/* Those of an array, up to its NULL. */
void argv_add_all(struct argv *a, const char *const *words);
__attribute__((format(printf, 2, 3))) void argv_format(struct argv *a, const char *format, ...);
/* An option and its value. */
void argv_u64(struct argv *a, const char *option, uint64_t value);
void argv_real(struct argv *a, const char *option, double value);
/* Appends text to the last word, which must be there. */
void argv_more(struct argv *a, const char *text);

/* -1: ERROR_OS without a place: there was no memory, and all words were freed. */
int argv_end(struct argv *a, struct error *err);
void argv_free(struct argv *a);

#endif
