/* aside: see aside.h. */
#include "wire/aside.h"

#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct aside {
	struct aside_work work;
	struct event *event;
	struct aside **place; /* the owner's */
	void *arg, *owner;
	int fd;
	atomic_int holders;
	atomic_int worked; /* whoever sees this also sees what the thread wrote */
};

static void aside_let_go(struct aside *a)
{
	if (atomic_fetch_sub(&a->holders, 1) > 1)
		return;
	a->work.release(a->arg);
	close(a->fd);
	free(a);
}

static void *aside_run(void *aside)
{
	struct aside *a = aside;
	a->work.work(a->arg);
	atomic_store(&a->worked, 1);
	eventfd_write(a->fd, 1); /* the only write: the counter can't overflow */
	aside_let_go(a);
	return NULL;
}

void aside_abandon(struct aside **place)
{
	struct aside *a = *place;
	if (!a)
		return;
	*place = NULL;
	event_free(a->event);
	aside_let_go(a);
}

static void aside_on_done(evutil_socket_t fd, short what, void *aside)
{
	struct aside *a = aside;
	(void)fd;
	(void)what;
	if (!atomic_load(&a->worked)) /* never */
		return;
	*a->place = NULL;
	event_free(a->event);
	a->work.done(a->arg, a->owner);
	aside_let_go(a);
}

int aside_wait(struct aside **place, double seconds)
{
	struct aside *a = *place;
	struct pollfd p = {.fd = a->fd, .events = POLLIN};
	double until = clock_mono() + seconds, left = seconds;
	int ready;
	while ((ready = poll(&p, 1, left > 0 ? (int)(left * 1e3) : 0)) < 0 && errno == EINTR)
		left = until - clock_mono();
	if (ready <= 0)
		return -1;
	aside_on_done(a->fd, EV_READ, a);
	return 0;
}

int aside_start(struct aside **out, struct event_base *base, const struct aside_work *work, void *arg,
		void *owner, struct error *err)
{
	struct aside *a = calloc(1, sizeof *a);
	pthread_t thread;
	int errnum;
	if (!a)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	*a = (struct aside){.work = *work, .place = out, .arg = arg, .owner = owner};
	atomic_init(&a->holders, 2);
	atomic_init(&a->worked, 0);
	a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	errnum = a->fd < 0 ? errno : 0;
	a->event = errnum == 0 ? event_new(base, a->fd, EV_READ, aside_on_done, a) : NULL;
	if (errnum == 0 && (!a->event || event_add(a->event, NULL) != 0))
		errnum = ENOMEM;
	if (errnum == 0)
		errnum = thread_start(&thread, aside_run, a);
	if (errnum == 0) {
		pthread_detach(thread);
		*out = a;
		return 0;
	}
	if (a->event)
		event_free(a->event);
	if (a->fd >= 0)
		close(a->fd);
	free(a);
	return error_set(err, ERROR_OS, NULL, "a thread for the disk: %s", strerror(errnum));
}
