/*
 * timer: a function that a loop calls once, when its time has come.  For one thread.
 */
#ifndef PACELINE_WIRE_TIMER_H
#define PACELINE_WIRE_TIMER_H

struct event_base;
struct timer;

/* Makes a timer that is not set. due() may free it. NULL: no memory. */
struct timer *timer_new(struct event_base *base, void (*due)(void *owner), void *owner);
void timer_free(struct timer *t); /* NULL is fine */

/* Sets it to so many seconds from now, whatever was set before; 0: the next turn of the loop. Needs
 * no memory. */
void timer_set(struct timer *t, double seconds);
void timer_stop(struct timer *t); /* the same */
int timer_is_set(const struct timer *t);

#endif
