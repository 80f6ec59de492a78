/*
 * words: several names in one text, as sh(1) splits a line into words.
 *
 * Blanks, tabs and newlines stand between words.  In 'single' quotes every character is itself; in
 * "double" quotes a backslash stands before " \ ` $ to mean the character itself; outside of quotes
 * it does so before any character.  Nothing is expanded: $ and * are characters like others.
 */
#ifndef PACELINE_BASE_WORDS_H
#define PACELINE_BASE_WORDS_H

#include "base/error.h"

#include <stddef.h>

/* *item becomes an array of *count texts, NULL behind the last; words_free() is its end. More than
 * max words, or a quote that is not closed: ERROR_CONFIG without a place. */
int words_split(const char *text, size_t max, char ***item, size_t *count, struct error *err);
void words_free(char **item, size_t count);

/* The text that is split into these words again, quoted where that is needed, a blank between two
 * of them. To be freed; NULL: out of memory. */
char *words_join(char *const *item, size_t count);

/* text as one word of a command that a person may copy into a shell: in single quotes unless it
 * has only characters that no shell looks at. Returns out; "..." where its max bytes are too few
 * (WORDS_QUOTED(n) are enough for a text of n bytes). */
#define WORDS_QUOTED(n) (4 * (n) + 3)
const char *words_quote(const char *text, char *out, size_t max);

#endif
