/*
 * clock: the only place that reads a clock.  Seconds as double: monotonic for durations and
 * deadlines, epoch for `at=` fields.  Decisions (lib/solve, lib/predict) never call this.
 */
#ifndef PACELINE_BASE_CLOCK_H
#define PACELINE_BASE_CLOCK_H

#include <sys/time.h>

double clock_mono(void);  /* seconds since some fixed point; does not jump */
double clock_epoch(void); /* seconds since 1970, for people and for `at=` */
void clock_sleep(double seconds); /* returns early on a signal; nothing for <= 0 */
struct timeval clock_timeval(double seconds); /* 0 or more */

#endif
