/*
 * report: `bpt` and `device` records for bpt-monitor(8), fire and forget.  A monitor that is slow,
 * full or not there loses reports; training never waits for it.
 */
#ifndef PACELINE_METER_REPORT_H
#define PACELINE_METER_REPORT_H

#include "base/error.h"

#include <stddef.h>

struct report;

/* path NULL: reports go nowhere. */
int report_new(struct report **out, const char *path, struct error *err);
void report_free(struct report *r); /* NULL is fine */

/* A line, newline included, that every connection begins with: what a monitor that was started
 * anew has to be told again. It replaces the one before, and goes out with the next report_send(). */
void report_keep(struct report *r, const char *line, size_t len);

/* One whole line, newline included. len 0: only what is kept. */
void report_send(struct report *r, const char *line, size_t len);

#endif
