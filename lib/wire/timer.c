/*
 * timer: see timer.h.  One that is not set waits, too, for a time that does not come: so it keeps its
 * place among those of the loop, and it needs no memory to be set.
 */
#include "wire/timer.h"

#include "base/clock.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>

#define NEVER_SECONDS 1e9

struct timer {
	struct event event;
	int is_set;
	void (*due)(void *owner);
	void *owner;
};

static int timer_wait(struct timer *t, double seconds)
{
	struct timeval after = clock_timeval(seconds);
	return event_add(&t->event, &after);
}

static void on_due(evutil_socket_t fd, short what, void *timer)
{
	struct timer *t = timer;
	(void)fd;
	(void)what;
	int was_set = t->is_set;
	timer_stop(t);
	if (was_set)
		t->due(t->owner);
}

struct timer *timer_new(struct event_base *base, void (*due)(void *owner), void *owner)
{
	struct timer *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->due = due;
	t->owner = owner;
	if (evtimer_assign(&t->event, base, on_due, t) == 0 && timer_wait(t, NEVER_SECONDS) == 0)
		return t;
	free(t);
	return NULL;
}

void timer_free(struct timer *t)
{
	if (t)
		event_del(&t->event);
	free(t);
}

void timer_set(struct timer *t, double seconds)
{
	t->is_set = 1;
	/* In the turn in which it was due another one may have got its place: rather too early than
	 * never. */
	if (timer_wait(t, seconds) != 0)
		event_active(&t->event, EV_TIMEOUT, 0);
}

void timer_stop(struct timer *t)
{
	if (!t)
		return;
	t->is_set = 0;
	(void)timer_wait(t, NEVER_SECONDS);
}

int timer_is_set(const struct timer *t)
{
	return t->is_set;
}
