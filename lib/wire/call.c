/*
 * call: see call.h.  The socket is non-blocking and every wait is a poll(2) with a deadline, so
 * that a dead or stuck daemon costs time, never the program.
 */
#include "wire/call.h"

#include "base/clock.h"
#include "wire/answers.h"
#include "wire/mapping.h"
#include "wire/transport.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_SECONDS_FIRST 0.01
#define RETRY_SECONDS_MAX 0.5
#define TURN_PART 0.25 /* a turn lasts this part of the wait so far */
#define TURN_SECONDS_MIN 0.05
#define TURN_SECONDS_MAX 0.5

struct call {
	char *path;
	double answer_seconds;
	struct record greeting;
	struct mapping *memory;
	int memory_fd; /* kept for call_reopen() */
	struct answers in;
};

void call_set_answer(struct call *c, double seconds)
{
	c->answer_seconds = seconds;
}

const struct record *call_greeting(const struct call *c)
{
	return &c->greeting;
}

int call_greets_with(const struct call *c, const char *key)
{
	uint64_t value = 0;

	return c && record_u64_opt(&c->greeting, key, 0, 1, &value, NULL) == 0 && value;
}

int call_fd(const struct call *c)
{
	return c->in.fd;
}

const char *call_path(const struct call *c)
{
	return c->path;
}

int call_buffered(const struct call *c)
{
	return answers_due(&c->in) == 0 && framer_has_line(&c->in.in);
}

void call_disconnect(struct call *c)
{
	answers_end(&c->in);
}

void call_close(struct call *c)
{
	if (!c)
		return;
	mapping_release(c->memory);
	if (c->memory_fd >= 0)
		close(c->memory_fd);
	answers_end(&c->in);
	free(c->path);
	free(c);
}

/* ---- sending ---- */

/* The daemon may wait for us to read before it reads on: take what it sends meanwhile. */
static int call_send_all(struct call *c, struct iovec *piece, size_t count, int pass,
			 struct error *err)
{
	double deadline = clock_mono() + c->answer_seconds;
	while (count > 0) {
		ssize_t n = transport_write(c->in.fd, piece, count, pass);
		if (n > 0) {
			pass = -1;
			count = transport_advance(piece, count, (size_t)n);
			deadline = clock_mono() + c->answer_seconds;
			continue;
		}
		if (n == TRANSPORT_LOST && (errno == EPIPE || errno == ECONNRESET))
			return error_set(err, ERROR_UNAVAILABLE, c->path, "the connection was closed");
		if (n == TRANSPORT_LOST)
			return error_errno(err, ERROR_UNAVAILABLE, c->path, "send");
		short got;
		short what = framer_left(&c->in.in) < ANSWERS_ROOM ? POLLOUT | POLLIN : POLLOUT;
		if (transport_wait(c->in.fd, what, deadline, &got, c->path, err) != 0)
			return -1;
		if ((got & POLLIN) && answers_read(&c->in, NULL, 0, err) < 0)
			return -1;
	}
	return 0;
}

int call_send(struct call *c, const char *line, size_t len, const void *payload, size_t bytes,
	      struct error *err)
{
	struct iovec piece[2] = {{(char *)(uintptr_t)line, len},
				 {(char *)(uintptr_t)payload, bytes}};
	return call_send_all(c, piece, bytes ? 2 : 1, -1, err);
}

int call_send_with(struct call *c, const char *line, size_t len, int fd, struct error *err)
{
	struct iovec piece = {(char *)(uintptr_t)line, len};
	return call_send_all(c, &piece, 1, fd, err);
}

int call_record(struct call *c, struct record_out *r, const void *payload, size_t bytes,
		struct error *err)
{
	size_t len = record_end(r, NULL);
	if (len == 0)
		return error_set(err, ERROR_SOFTWARE, c->path, "a record longer than a line");
	return call_send(c, r->data, len, payload, bytes, err);
}

/* ---- receiving ---- */

/* Reads, and waits until there is something to read. Bytes of a payload go to `to`, if a payload is
 * due. */
static int call_fill(struct call *c, void *to, size_t bytes, double deadline, struct error *err)
{
	ssize_t n;
	while ((n = answers_read(&c->in, to, bytes, err)) == 0)
		if (transport_wait(c->in.fd, POLLIN, deadline, NULL, c->path, err) != 0)
			return -1;
	return n > 0 ? 0 : -1;
}

static int receive_until(struct call *c, struct record *r, double deadline, struct error *err)
{
	int got;
	/* Discards a payload that the caller did not take. */
	while (answers_due(&c->in) > 0) {
		(void)framer_take(&c->in.in, NULL, SIZE_MAX);
		if (answers_due(&c->in) > 0 && call_fill(c, NULL, 0, deadline, err) != 0)
			return -1;
	}
	while ((got = answers_next(&c->in, r, err)) == RECORD_END)
		if (call_fill(c, NULL, 0, deadline, err) != 0)
			return -1;
	return got == RECORD_ONE ? 0 : -1;
}

int call_receive_within(struct call *c, struct record *r, double seconds, struct error *err)
{
	return receive_until(c, r, clock_mono() + seconds, err);
}

int call_receive_turn(struct call *c, struct record *r, double since, struct error *err)
{
	double seconds = (clock_mono() - since) * TURN_PART;

	seconds = seconds > TURN_SECONDS_MIN ? seconds : TURN_SECONDS_MIN;
	return call_receive_within(c, r, seconds < TURN_SECONDS_MAX ? seconds : TURN_SECONDS_MAX, err);
}

int call_receive(struct call *c, struct record *r, struct error *err)
{
	return call_receive_within(c, r, c->answer_seconds, err);
}

int call_bytes(struct call *c, void *data, size_t bytes, struct error *err)
{
	uint64_t due = answers_due(&c->in);
	if (bytes > due)
		return error_set(err, ERROR_DATA, c->path, "%zu bytes are wanted, %llu announced",
				 bytes, (unsigned long long)due);
	size_t got = framer_take(&c->in.in, data, bytes);
	while (got < bytes) {
		double deadline = clock_mono() + c->answer_seconds;
		if (call_fill(c, (char *)data + got, bytes - got, deadline, err) != 0)
			return -1;
		got = (size_t)(due - answers_due(&c->in));
	}
	return 0;
}

int call_passed(struct call *c)
{
	int fd = c->in.passed;
	c->in.passed = -1;
	return fd;
}

int call_request(struct call *c, const char *line, size_t len, struct record *closing,
		 void (*data)(const struct record *r, void *arg), void *arg, struct error *err)
{
	if (call_send(c, line, len, NULL, 0, err) != 0)
		return -1;
	for (;;) {
		if (call_receive(c, closing, err) != 0)
			return -1;
		if (record_is(closing, "ok"))
			return CALL_OK;
		if (record_is(closing, "err"))
			return CALL_ERR;
		if (data)
			data(closing, arg);
	}
}

/* ---- opening ---- */

int call_greet(struct call *c, struct error *err)
{
	if (call_receive(c, &c->greeting, err) != 0)
		return -1;
	return answers_greeting(&c->greeting, c->path, err);
}

static int connect_only(struct call *c, struct error *err)
{
	int fd;
	answers_end(&c->in);
	if (transport_connect(c->path, &fd, err) != 0)
		return -1;
	answers_begin(&c->in, fd, c->path);
	return 0;
}

static int connect_once(struct call *c, struct error *err)
{
	return connect_only(c, err) == 0 ? call_greet(c, err) : -1;
}

int call_adopt(struct call **out, int fd, const char *name, double answer_seconds,
	       struct error *err)
{
	struct call *c = malloc(sizeof *c);
	if (!c)
		return error_set(err, ERROR_OS, name, "out of memory");
	c->memory_fd = -1;
	c->answer_seconds = answer_seconds;
	c->memory = NULL;
	c->path = strdup(name);
	answers_begin(&c->in, -1, c->path);
	if (!c->path) {
		call_close(c);
		return error_set(err, ERROR_OS, name, "out of memory");
	}
	answers_begin(&c->in, fd, c->path);
	*out = c;
	return 0;
}

int call_connect(struct call **out, const char *path, double answer_seconds, struct error *err)
{
	struct call *c = NULL;
	if (call_adopt(&c, -1, path, answer_seconds, err) != 0)
		return -1;
	if (connect_only(c, err) != 0) {
		call_close(c);
		return -1;
	}
	*out = c;
	return 0;
}

static int open_once(struct call **out, const char *path, double answer_seconds,
		     struct error *err)
{
	struct call *c = NULL;
	if (call_connect(&c, path, answer_seconds, err) != 0)
		return -1;
	if (call_greet(c, err) != 0) {
		call_close(c);
		return -1;
	}
	*out = c;
	return 0;
}

int call_open(struct call **out, const char *path, double wait_seconds, double answer_seconds,
	      struct error *err)
{
	double deadline = clock_mono() + wait_seconds, pause = RETRY_SECONDS_FIRST;
	struct error why;
	while (open_once(out, path, answer_seconds, &why) != 0) {
		double left = deadline - clock_mono();
		if ((why.code != ERROR_UNAVAILABLE && why.code != ERROR_TEMPFAIL) || left <= 0) {
			if (err)
				*err = why;
			return -1;
		}
		clock_sleep(pause < left ? pause : left);
		pause = pause * 2 < RETRY_SECONDS_MAX ? pause * 2 : RETRY_SECONDS_MAX;
	}
	return 0;
}

/* ---- shared memory ---- */

/* Passes the memory to the server. */
static int give_memory(struct call *c, int fd, size_t bytes, struct error *err)
{
	char line[64];
	struct record *answer = malloc(sizeof *answer);
	int result = -1;
	if (!answer)
		return error_set(err, ERROR_OS, c->path, "out of memory");
	int len = snprintf(line, sizeof line, "map bytes=%zu\n", bytes);
	if (call_send_with(c, line, (size_t)len, fd, err) == 0 && call_receive(c, answer, err) == 0) {
		if (record_is(answer, "ok"))
			result = 0;
		else
			error_set(err, ERROR_DATA, c->path, "map: %s",
				  answer->text ? answer->text : "refused");
	}
	free(answer);
	return result;
}

int call_map(struct call *c, size_t bytes, void **memory, struct error *err)
{
	struct mapping *m;
	int fd;
	if (mapping_make(&m, &fd, bytes, err) != 0)
		return error_wrap(err, c->path);
	if (give_memory(c, fd, bytes, err) != 0) {
		close(fd);
		mapping_release(m);
		*memory = NULL;
		return -1;
	}
	c->memory = m;
	c->memory_fd = fd;
	*memory = m->base;
	return 0;
}

int call_memory_fd(const struct call *c)
{
	return c->memory_fd;
}

int call_reopen(struct call *c, struct error *err)
{
	if (connect_once(c, err) == 0 &&
	    (!c->memory || give_memory(c, c->memory_fd, c->memory->bytes, err) == 0))
		return 0;
	answers_end(&c->in);
	return -1;
}
