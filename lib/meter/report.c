/*
 * report: see report.h.  The socket never blocks; what it does not take at once is dropped, and a
 * line taken by half is finished before the next one.
 */
#include "meter/report.h"

#include "base/clock.h"
#include "record/record.h"
#include "wire/transport.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_SECONDS 1.0
#define LINE_MAX_BYTES 4096

struct report {
	char *path;
	int fd; /* -1: not connected */
	double next_attempt;
	char rest[LINE_MAX_BYTES]; /* of a line taken by half */
	size_t rest_len;
	char kept[LINE_MAX_BYTES];
	size_t kept_len;
	int kept_due; /* this connection has not got it yet */
};

int report_new(struct report **out, const char *path, struct error *err)
{
	struct report *r = calloc(1, sizeof(*r));
	if (!r)
		return error_set(err, ERROR_OS, "", "out of memory");
	r->fd = -1;
	if (path && !(r->path = strdup(path))) {
		free(r);
		return error_set(err, ERROR_OS, "", "out of memory");
	}
	*out = r;
	return 0;
}

void report_free(struct report *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	free(r->path);
	free(r);
}

static void lose_connection(struct report *r)
{
	close(r->fd);
	r->fd = -1;
	r->rest_len = 0;
}

/* Of a line of which n bytes were taken. */
static void keep_rest(struct report *r, const char *line, size_t len, size_t n)
{
	memcpy(r->rest, line + n, len - n);
	r->rest_len = len - n;
}

/* Bytes the socket took, or -1 when the connection went. */
static ssize_t meter_report_put(struct report *r, const char *data, size_t len)
{
	struct iovec piece = {(char *)(uintptr_t)data, len};
	ssize_t n = transport_write(r->fd, &piece, 1, -1);
	if (n < 0)
		lose_connection(r);
	return n < 0 ? -1 : n;
}

/* A monitor on another host has another clock. */
static void meter_report_tell_clock(struct report *r)
{
	struct record_out *o = RECORD("clock", F_SECONDS("at", clock_epoch()));
	size_t len = record_end(o, NULL);
	ssize_t n = meter_report_put(r, o->data, len);
	if (n >= 0)
		keep_rest(r, o->data, len, (size_t)n);
}

static int connected(struct report *r)
{
	struct error err;
	if (r->fd >= 0)
		return 1;
	if (clock_mono() < r->next_attempt)
		return 0;
	r->next_attempt = clock_mono() + RETRY_SECONDS;
	if (transport_connect(r->path, &r->fd, &err) != 0) {
		r->fd = -1;
		return 0;
	}
	r->kept_due = r->kept_len > 0;
	meter_report_tell_clock(r);
	return r->fd >= 0;
}

/* Greeting and answers: nobody reads them, but unread they would fill the socket. */
static void throw_answers_away(struct report *r)
{
	char data[4096];
	struct iovec piece = {data, sizeof data};
	ssize_t n;
	while ((n = transport_read(r->fd, &piece, 1, NULL)) > 0)
		;
	if (n != TRANSPORT_LATER)
		lose_connection(r);
}

/* Whether the socket took the line, whole or with a rest to be sent before the next one. */
static int meter_report_put_line(struct report *r, const char *line, size_t len)
{
	ssize_t n = r->fd >= 0 && r->rest_len == 0 ? meter_report_put(r, line, len) : 0;
	if (n <= 0)
		return 0;
	keep_rest(r, line, len, (size_t)n);
	return 1;
}

void report_keep(struct report *r, const char *line, size_t len)
{
	if (len > sizeof(r->kept))
		return;
	memcpy(r->kept, line, len);
	r->kept_len = len;
	r->kept_due = len > 0;
}

void report_send(struct report *r, const char *line, size_t len)
{
	if (!r->path || len > LINE_MAX_BYTES)
		return;
	if (r->fd >= 0)
		throw_answers_away(r);
	if (!connected(r))
		return;
	if (r->rest_len > 0) {
		ssize_t n = meter_report_put(r, r->rest, r->rest_len);
		if (n > 0) {
			memmove(r->rest, r->rest + n, r->rest_len - (size_t)n);
			r->rest_len -= (size_t)n;
		}
	}
	if (r->kept_due && meter_report_put_line(r, r->kept, r->kept_len))
		r->kept_due = 0;
	if (len > 0)
		meter_report_put_line(r, line, len);
}
