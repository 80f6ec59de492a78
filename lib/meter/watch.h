/*
 * watch: how busy this worker's node is now, and not on the mean over its last batch: what comes
 * and goes in mid-batch would be half seen, at the very moment at which a speed is foretold from it
 * (LB-BSP Eq. 4: the load as the iteration begins).  A thread of its own marks the node's counters
 * from time to time, which takes less than a look (see load.h).
 */
#ifndef PACELINE_METER_WATCH_H
#define PACELINE_METER_WATCH_H

#include "meter/load.h"

struct watch;

/* root: see load_new(). marks: 0 when nobody needs shares, but memory: then there is no thread. */
int watch_new(struct watch **out, const char *root, int marks, struct error *err);
void watch_free(struct watch *w); /* NULL is fine */

/* Shares are of the last `seconds`, more or less (a half to one and a half); at first, and at
 * least, LOAD_PERIOD_SECONDS.  For any thread. */
void watch_seconds(struct watch *w, double seconds);
void watch_look(struct watch *w, double now, struct load_values *out);

#endif
