/*
 * show: how a job goes, as text: records for programs, columns and a bar for people. Pure.
 */
#ifndef PACELINE_RUN_SHOW_H
#define PACELINE_RUN_SHOW_H

#include "run/supervisor.h"

#include <stddef.h>

#define SHOW_LINE_MAX 1024

struct record_out;

/* What a row says, into a record that was begun. */
void show_fields(struct record_out *o, const struct run_row *row);
/* `row iteration= epoch= epochs= loss= samples-done= ... time=` with newline. */
size_t show_record(const struct run_row *row, char *out, size_t out_max);
/* "step 128  epoch 1/6  loss 0.4312  23456 samples/s  0:42 left  w3 x1.82", without newline. */
size_t show_line(const struct run_row *row, char *out, size_t out_max);
/* The same behind a bar, at most `width` columns (bytes: it is ASCII). */
size_t show_bar(const struct run_row *row, size_t width, char *out, size_t out_max);
/* Seconds as 0:07, 12:34, 1:02:03. */
void show_time(double seconds, char *out, size_t out_max);

#endif
