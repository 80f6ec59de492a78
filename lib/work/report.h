/*
 * report: `bpt` records for bpt-monitor(8), fire and forget.  A monitor that is slow, full or not
 * there loses reports; training never waits for it.
 */
#ifndef PACELINE_WORK_REPORT_H
#define PACELINE_WORK_REPORT_H

#include "base/error.h"

#include <stddef.h>

struct report;

/* path NULL: reports go nowhere. */
int report_new(struct report **out, const char *path, struct error *err);
void report_free(struct report *r); /* NULL is fine */

/* One whole line, newline included. */
void report_send(struct report *r, const char *line, size_t len);

#endif
