/*
 * grid: a table: rows of text in columns that fit a terminal.  As it narrows the columns of the
 * highest rank go first; nothing is wrapped, and no word is cut.  Pure.
 */
#ifndef PACELINE_SCREEN_GRID_H
#define PACELINE_SCREEN_GRID_H

#include <stddef.h>

#define GRID_MAX 16 /* columns of a table */
#define GRID_GAP 2 /* blanks between two columns */

enum grid_align { GRID_LEFT, GRID_RIGHT };

struct grid_column {
	const char *head;
	unsigned rank;         /* 0: the last that goes */
	enum grid_align align; /* numbers: GRID_RIGHT */
	size_t least;          /* columns that it has at least, so that it does not jump about */
	int words;             /* takes what is left over; shortened at a blank, to least or more */
	int if_any;            /* not there while all its cells are empty */
};

/* Cells are its own copies, as text_clean() leaves them. */
struct grid {
	const struct grid_column *column; /* the caller's */
	size_t count, rows, room;
	char **cell; /* rows * count */
	int failed;  /* out of memory: rows are missing */
};

void grid_init(struct grid *t, const struct grid_column *column, size_t count);
void grid_free(struct grid *t);
/* A row; cell holds columns texts, NULL is "". */
void grid_add(struct grid *t, const char *const *cell);

/* What each column gets of width; 0: it is left out. */
void grid_layout(const struct grid *t, size_t width, size_t out[GRID_MAX]);

#define GRID_HEAD ((size_t)-1)
/* A row as text, without blanks at its end; layout as above. Returns its columns. */
size_t grid_line(const struct grid *t, const size_t layout[GRID_MAX], size_t row, char *out,
		 size_t max);
/* Where a column's text begins in a line with this layout, in columns of the terminal; the width in
 * *width. -1: it is left out. */
int grid_place(const struct grid *t, const size_t layout[GRID_MAX], size_t column, size_t *at,
	       size_t *width);

#endif
