/*
 * clock: the only place that reads a clock.  Seconds as double: monotonic for durations and
 * deadlines, epoch for `at=` fields.  Decisions (lib/solve, lib/predict) never call this.
 */
#ifndef PACELINE_BASE_CLOCK_H
#define PACELINE_BASE_CLOCK_H

#include <sys/time.h>

double clock_mono(void); /* seconds since some fixed point; does not jump */
/* Seconds since 1970, for people and for `at=`: the machine's clock at this process's first call,
 * plus the time that has passed since, the machine's sleep included. So setting the clock does not
 * change the time between two calls. */
double clock_epoch(void);
double clock_wall(void); /* what the machine's clock says now, for others to compare with theirs */
/* Whether less than so many seconds have passed from last (0: never) to now. If last is later than
 * now (an earlier process noted it, and the clock was set back since): no. */
int clock_within(double last, double now, double seconds);
void clock_sleep(double seconds); /* returns early on a signal; nothing for <= 0 */
struct timeval clock_timeval(double seconds); /* 0 or more */

#endif
