/*
 * aside: work that may take long, as storage does that hangs, beside an event loop: in a thread, its
 * end told to the loop. It has all it needs in what it is given, which nobody else touches meanwhile.
 */
#ifndef PACELINE_WIRE_ASIDE_H
#define PACELINE_WIRE_ASIDE_H

#include "base/error.h"

struct event_base;
struct aside;

struct aside_work {
	void (*work)(void *arg);               /* by the thread */
	void (*done)(void *arg, void *owner);  /* by the loop, after it; no more for an abandoned one */
	void (*release)(void *arg);            /* frees it, by whichever of both is the last */
};

/* *out is NULL again before done() is called. -1: nothing is done, and arg is still the caller's. */
int aside_start(struct aside **out, struct event_base *base, const struct aside_work *work, void *arg,
		void *owner, struct error *err);
/* The loop stands still until it is done, whatever signals come, for so many seconds at most: then -1. */
int aside_wait(struct aside **a, double seconds);
/* It goes on alone, and ends with its process at the latest. *a: NULL is fine. */
void aside_abandon(struct aside **a);

#endif
