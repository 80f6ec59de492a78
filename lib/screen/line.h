/*
 * line: one line of pieces, of which those that matter most stay as the terminal narrows.  Pure.
 */
#ifndef PACELINE_SCREEN_LINE_H
#define PACELINE_SCREEN_LINE_H

#include <stddef.h>

#define SCREEN_LINE_MAX 2048 /* bytes with the NUL: 500 columns of four bytes each */
#define SCREEN_WIDTH_MAX 500 /* columns that are made use of */

#define PIECE_FORMS 3
#define LINE_GAP 2 /* blanks between two pieces */

/* What a stretch of a line is, for who draws it. */
enum screen_tint {
	TINT_NONE,
	TINT_STRONG, /* what one looks for first */
	TINT_SLOW,   /* worth a look */
	TINT_BAD,    /* wrong */
	TINT_HEAD,   /* heads of columns */
	TINT_QUIET,  /* explains the rest */
};

/* One stretch of it is drawn in another way: len bytes from from on. */
struct screen_line {
	char text[SCREEN_LINE_MAX];
	enum screen_tint tint;
	size_t from, len;
};

/* A piece as it may stand there, the longest form first; "" or NULL: no such form. words: its
 * longest form may be shortened at a blank, to least columns and more. extra: only where all others
 * stand in their longest forms; behind them. */
struct piece {
	const char *form[PIECE_FORMS];
	int words;
	size_t least;
	int extra;
};

/* That is all, with these forms. */
#define PIECE(...)                                                                                 \
	{                                                                                          \
		.form = { __VA_ARGS__ }                                                            \
	}

/* The pieces in the order given, which is that of their importance: the first that does not fit
 * even in its shortest form is left out, and all behind it. What is left over goes to longer forms:
 * first to texts that are cut, then to the others, in their order. out holds max bytes, and gets at
 * most width columns. */
void line_fit(const struct piece *piece, size_t count, size_t width, char *out, size_t max);

#endif
