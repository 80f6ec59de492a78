/* utf8: where characters of a text begin, and what is none. */
#ifndef PACELINE_BASE_UTF8_H
#define PACELINE_BASE_UTF8_H

#include <stddef.h>

/* Length of the character at s, 0 when the bytes there are none. A NUL is one of length 1. */
size_t utf8_length(const char *s);

/* Whether all of a text is characters. */
int utf8_is(const char *text, size_t len);

/* What stands in place of a byte that is none, where only UTF-8 may be: U+FFFD. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* '?' for each byte that is none, and for control characters. */
void utf8_plain(char *text);

#endif
