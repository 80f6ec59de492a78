/*
 * utf8: which bytes are letters of UTF-8, for files that have to be UTF-8 whatever the locale is.
 */
#ifndef PACELINE_BASE_UTF8_H
#define PACELINE_BASE_UTF8_H

#include <stddef.h>

/* How many bytes the character at text has, which ends with NUL; 0: it is none. */
size_t utf8_length(const char *text);
/* '?' for each byte that is none, and for control characters. */
void utf8_plain(char *text);

#endif
