/* terminal: standard output as a terminal: how large it is, what it can do, and a block of lines at
 * its end that is drawn again and again. One a process; reads the environment (TERM, NO_COLOR, the
 * locale). */
#ifndef PACELINE_CMD_TRAINCTL_TERMINAL_H
#define PACELINE_CMD_TRAINCTL_TERMINAL_H

#include "screen/line.h"

#include <stddef.h>

enum terminal_kind {
	TERMINAL_NONE,  /* a pipe or a file: records */
	TERMINAL_PLAIN, /* a terminal that takes one line after the other (TERM=dumb) */
	TERMINAL_FULL,  /* its cursor moves */
};

/* Looks at standard output; from then on letters are those of the locale. */
enum terminal_kind terminal_open(void);
/* Behind the end of a screen of curses, which had the terminal for itself. */
void terminal_again(void);
int terminal_colours(void); /* it has some, and NO_COLOR is not set */

/* Now. Where nobody says: 80 columns, 24 lines; a file has no end. */
size_t terminal_width(void);
size_t terminal_height(void);

/* A line with its newline, marked where the terminal can. */
void terminal_put(const struct screen_line *line);
/* The first lines of text that are not longer than the terminal is wide: folded at blanks. To
 * stderr if that is the same terminal. */
void terminal_say(const char *text);

/* Lines at the end, in place of those of the last call. No line may be wider than
 * terminal_width() - 1. */
void terminal_draw(const struct screen_line *line, size_t count);
/* Takes them away, before anything else is written. */
void terminal_clear(void);

#endif
