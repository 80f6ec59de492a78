/* See outlet.h.  The descriptor never blocks; poll(2) with a deadline does. */
#include "wire/outlet.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ROOM ((size_t)256 << 10)

struct outlet {
	int fd;
	size_t len;
	char data[ROOM];
};

int outlet_new(struct outlet **out, int fd, struct error *err)
{
	struct outlet *o = malloc(sizeof *o);

	if (!o)
		return error_set(err, ERROR_OS, "heir", "no memory");
	o->fd = fd;
	o->len = 0;
	*out = o;
	return 0;
}

void outlet_free(struct outlet *o)
{
	free(o);
}

/* Until fd is ready for `what`; not later than the deadline. */
static int wait_for(int fd, short what, double deadline, struct error *err)
{
	for (;;) {
		struct pollfd p = {.fd = fd, .events = what};
		double left = deadline - clock_mono();
		int n = left > 0.0 ? poll(&p, 1, (int)(left * 1e3) + 1) : 0;
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return error_errno(err, ERROR_OS, "heir", "poll");
		if (n == 0 && clock_mono() >= deadline)
			return error_set(err, ERROR_TEMPFAIL, "heir", "nothing for %g s",
					 OUTLET_SECONDS);
	}
}

static int write_all(int fd, const char *data, size_t len, struct error *err)
{
	double deadline = clock_mono() + OUTLET_SECONDS;

	while (len > 0) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0) {
			data += n;
			len -= (size_t)n;
			deadline = clock_mono() + OUTLET_SECONDS;
		} else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			if (wait_for(fd, POLLOUT, deadline, err) != 0)
				return -1;
		} else if (n < 0 && errno != EINTR)
			return error_errno(err, ERROR_UNAVAILABLE, "heir", "it went");
	}
	return 0;
}

int outlet_flush(struct outlet *o, struct error *err)
{
	size_t len = o->len;

	o->len = 0;
	return write_all(o->fd, o->data, len, err);
}

int outlet_put(struct outlet *o, const void *data, size_t len, struct error *err)
{
	if (o->len + len > ROOM && outlet_flush(o, err) != 0)
		return -1;
	if (len > ROOM)
		return write_all(o->fd, data, len, err);
	memcpy(o->data + o->len, data, len);
	o->len += len;
	return 0;
}

int outlet_record(struct outlet *o, struct record_out *r, struct error *err)
{
	size_t len = record_end(r, NULL);

	if (len == 0)
		return error_set(err, ERROR_SOFTWARE, "heir", "a record longer than a line");
	return outlet_put(o, r->data, len, err);
}

int outlet_listen(struct outlet *o, char *line, size_t max, struct error *err)
{
	double deadline = clock_mono() + OUTLET_SECONDS;
	size_t got = 0;

	while (got < max) {
		ssize_t n = recv(o->fd, line + got, 1, MSG_DONTWAIT);
		if (n == 0)
			return error_set(err, ERROR_UNAVAILABLE, "heir", "it went");
		if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			return error_errno(err, ERROR_UNAVAILABLE, "heir", "it went");
		if (n < 0 && wait_for(o->fd, POLLIN, deadline, err) != 0)
			return -1;
		if (n < 0)
			continue;
		if (line[got] == '\n') {
			line[got] = '\0';
			return 0;
		}
		got++;
	}
	return error_set(err, ERROR_DATA, "heir", "a line longer than %zu bytes", max);
}
