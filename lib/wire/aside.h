/*
 * aside: work that may take long (storage may hang) and so runs in a thread beside an event loop;
 * the loop is told of its end. The work uses only its arg, which nobody else touches meanwhile.
 */
#ifndef PACELINE_WIRE_ASIDE_H
#define PACELINE_WIRE_ASIDE_H

#include "base/error.h"

struct event_base;
struct aside;

struct aside_work {
	void (*work)(void *arg);               /* by the thread */
	void (*done)(void *arg, void *owner);  /* by the loop, after it; not if it was abandoned */
	void (*release)(void *arg);            /* frees arg, by thread or loop, the last one */
};

/* *out is NULL again before done() is called. -1: nothing was started; arg stays the caller's. */
int aside_start(struct aside **out, struct event_base *base, const struct aside_work *work, void *arg,
		void *owner, struct error *err);
/* Blocks the loop until the work is done, also when signals come; -1 after so many seconds. */
int aside_wait(struct aside **a, double seconds);
/* The work goes on alone, and ends with the process at the latest. *a: NULL is fine. */
void aside_abandon(struct aside **a);

#endif
