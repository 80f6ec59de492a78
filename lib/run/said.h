/*
 * said: what a process has printed about its end, or about what it is doing, in one line.  Pure.
 *
 * Known are tracebacks of Python, of exceptions and of faulthandler (signals, stacks that were asked
 * for).  Of other output the last line is taken, but for what agent(1) and trainctl add.  The lead is
 * a program of the kit: its last line is its reason.
 */
#ifndef PACELINE_RUN_SAID_H
#define PACELINE_RUN_SAID_H

#define SAID_MAX 360

/* What made it end: "ValueError: row 17 has no label, in f (train.py:12)". The place is the innermost
 * one in a file of the user's own. "": it says nothing. Not for one that was killed: then what it said
 * was of something else. text is cut into lines. */
void said_end(char *text, char out[SAID_MAX]);
/* What its main thread is doing, as the last stacks say: "wait (threading.py:331), called from
 * f (train.py:12)". "": there are none. */
void said_stack(char *text, char out[SAID_MAX]);

#endif
