/*
 * summary: how a job ended, in words, from its `summary` record.  Pure.
 */
#ifndef PACELINE_SCREEN_SUMMARY_H
#define PACELINE_SCREEN_SUMMARY_H

#include "record/record.h"
#include "screen/line.h"

#define SUMMARY_LINES 6

/* "adult: done in 4 min 12 s, 36.0k samples", its score, what went wrong. Returns how many lines.
 * The checkpoint's path, which must not be shortened, is not in them. */
size_t summary_lines(const struct record *r, size_t width, struct screen_line line[SUMMARY_LINES]);

#endif
