/*
 * text: text in columns of a terminal: how wide it is, and what of it fits.
 *
 * Nothing is cut in the middle of a word.  How wide a letter is and what is one is asked of the C
 * library: a program that called setlocale(LC_CTYPE, "") where that is UTF-8 counts letters, any
 * other one bytes.  Reads no environment.
 */
#ifndef PACELINE_SCREEN_TEXT_H
#define PACELINE_SCREEN_TEXT_H

#include <stddef.h>

/* Columns that it takes. A byte that is no letter counts as one. */
size_t text_width(const char *text);
/* Whether the locale has letters such as the blocks of text_bar(). */
int text_has_blocks(void);

/* text with '?' for each thing that is no printable letter (an escape sequence of a stranger does
 * nothing to the terminal). out holds max bytes. */
void text_clean(const char *text, char *out, size_t max);

/* As many whole words from the front as fit into width columns; "..." behind them when there are
 * more. "" when not even one word and the dots fit. Returns the columns of out. */
size_t text_words(const char *text, size_t width, char *out, size_t max);

/* The words of one line of at most width columns: its bytes, blanks at its end left out. *next is
 * where the next line begins, or the end of text. A word that is wider than a line is cut, for want
 * of another place. */
size_t text_fold(const char *text, size_t width, const char **next);

/* A name that has to fit: whole, or its beginning and its end with ".." between. */
void text_name(const char *text, size_t width, char *out, size_t max);

/* A bar of exactly width columns, part (0 to 1) of it full: blocks, or # and dots. */
void text_bar(double part, size_t width, int blocks, char *out, size_t max);

#endif
