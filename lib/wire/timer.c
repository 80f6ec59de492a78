/* timer: see timer.h. */
#include "wire/timer.h"

#include "base/clock.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>

struct timer {
	struct event event;
	void (*due)(void *owner);
	void *owner;
};

static void on_due(evutil_socket_t fd, short what, void *timer)
{
	struct timer *t = timer;
	(void)fd;
	(void)what;
	t->due(t->owner);
}

struct timer *timer_new(struct event_base *base, void (*due)(void *owner), void *owner)
{
	struct timer *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->due = due;
	t->owner = owner;
	if (evtimer_assign(&t->event, base, on_due, t) == 0)
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

int timer_set(struct timer *t, double seconds)
{
	struct timeval after = clock_timeval(seconds);
	return event_add(&t->event, &after);
}

void timer_stop(struct timer *t)
{
	if (t)
		event_del(&t->event);
}

int timer_is_set(const struct timer *t)
{
	return event_pending(&t->event, EV_TIMEOUT, NULL);
}
