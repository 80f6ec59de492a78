/*
 * format: what a data file holds.
 */
#ifndef PACELINE_DATA_FORMAT_H
#define PACELINE_DATA_FORMAT_H

#include <stddef.h>

/* Rows of ROW_LINES are lines of any text: they can be counted and found, not trained on. */
enum row_format { ROW_LINES, ROW_CRITEO, ROW_CSV, ROW_LIBSVM };

const char *row_format_name(enum row_format format);
int row_format_find(const char *name); /* -1: none of them */

/* What the content looks like, from its first bytes. Never an error: ROW_LINES fits all. */
enum row_format row_format_guess(const char *head, size_t len);
/* Whether a line is nothing but blanks, a carriage return among them. */
int row_is_blank(const char *line, size_t len);

#endif
