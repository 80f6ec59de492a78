/*
 * human: numbers as people read them, on a terminal and in a report; records keep theirs exact.
 *
 * Each writes at most HUMAN_MAX bytes into out, NUL included, and returns out. An unknown (NAN) or
 * infinite number is "-". Pure; ASCII only.
 */
#ifndef PACELINE_BASE_HUMAN_H
#define PACELINE_BASE_HUMAN_H

#define HUMAN_MAX 32

/* Three digits: 7, 950, 3.25, 12.3k, 1.40M, 2.00G; whole numbers below a thousand as they are. */
const char *human_count(double x, char out[HUMAN_MAX]);
/* 17 B, 312 KiB, 1.4 GiB */
const char *human_bytes(double bytes, char out[HUMAN_MAX]);
/* A loss, a ratio, with so many digits after the point: 0.4312; other numbers as 1.8e+06. */
const char *human_real(double x, int digits, char out[HUMAN_MAX]);
/* A part of 1: 34%, and 100% only when it is the whole; "-" below 0. */
const char *human_percent(double part, char out[HUMAN_MAX]);
/* Seconds: 31 ms, 4.2 s, 42 s, 4 min 12 s, 2 h 5 min, 3 d 4 h; below 0 is 0 s. */
const char *human_time(double seconds, char out[HUMAN_MAX]);
/* The same in whole seconds, for a time that still runs: 0 s, 6 s, 4 min 12 s. */
const char *human_wait(double seconds, char out[HUMAN_MAX]);
/* human_time() in a narrow column: 31ms, 4.2s, 42s, 4m12s, 2h05m, 3d04h. */
const char *human_time_brief(double seconds, char out[HUMAN_MAX]);

#endif
