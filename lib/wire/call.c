/*
 * call: see call.h.  The socket is non-blocking and every wait is a poll(2) with a deadline, so
 * that a dead or stuck daemon costs time, never the program.
 */
#include "wire/call.h"

#include "base/clock.h"
#include "wire/address.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define ROOM (64 * 1024)
#define RETRY_SECONDS_FIRST 0.01
#define RETRY_SECONDS_MAX 0.5

struct call {
	int fd;
	char *path;
	double answer_seconds;
	struct record greeting;
	uint64_t pending; /* payload bytes of the last record, not yet taken */
	void *memory;
	size_t memory_bytes;
	int memory_fd; /* kept for call_reopen() */
	size_t begin, end;
	char data[ROOM];
};

void call_set_answer(struct call *c, double seconds)
{
	c->answer_seconds = seconds;
}

const struct record *call_greeting(const struct call *c)
{
	return &c->greeting;
}

int call_fd(const struct call *c)
{
	return c->fd;
}

const char *call_path(const struct call *c)
{
	return c->path;
}

int call_buffered(const struct call *c)
{
	return c->pending == 0 && memchr(c->data + c->begin, '\n', c->end - c->begin) != NULL;
}

void call_close(struct call *c)
{
	if (!c)
		return;
	if (c->memory)
		munmap(c->memory, c->memory_bytes);
	if (c->memory_fd >= 0)
		close(c->memory_fd);
	if (c->fd >= 0)
		close(c->fd);
	free(c->path);
	free(c);
}

/* ---- waiting ---- */

/* Until the socket is ready for what; -1 at the deadline or when waiting fails. */
static int wait_for(struct call *c, short what, double deadline, short *got, struct error *err)
{
	for (;;) {
		double left = deadline - clock_mono();
		struct pollfd p = {.fd = c->fd, .events = what};
		double ms = ceil(left * 1e3);
		int n = poll(&p, 1, left <= 0 ? 0 : ms > 1e9 ? 1000000000 : (int)ms);
		if (n > 0) {
			*got = p.revents;
			return 0;
		}
		if (n < 0 && errno != EINTR)
			return error_errno(err, ERROR_OS, c->path, "poll");
		if (n == 0 && left <= 0)
			return error_set(err, ERROR_TEMPFAIL, c->path, "no answer in time");
	}
}

static int gone(struct call *c, struct error *err)
{
	return error_set(err, ERROR_UNAVAILABLE, c->path, "the connection was closed");
}

/* Reads once into the pieces; 0 when nothing is there yet. */
static ssize_t read_some(struct call *c, struct iovec *piece, int count, struct error *err)
{
	ssize_t n;
	do
		n = readv(c->fd, piece, count);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		return n;
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	if (n < 0 && errno != ECONNRESET)
		return error_errno(err, ERROR_UNAVAILABLE, c->path, "read");
	return gone(c, err);
}

static void make_room(struct call *c)
{
	if (c->begin > 0) {
		memmove(c->data, c->data + c->begin, c->end - c->begin);
		c->end -= c->begin;
		c->begin = 0;
	}
}

/* More bytes into the buffer, which has room. */
static int fill(struct call *c, double deadline, struct error *err)
{
	if (c->begin == c->end)
		c->begin = c->end = 0;
	else if (ROOM - c->end < RECORD_LINE_MAX)
		make_room(c);
	for (;;) {
		struct iovec piece = {c->data + c->end, ROOM - c->end};
		short got;
		ssize_t n = read_some(c, &piece, 1, err);
		if (n < 0)
			return -1;
		if (n > 0) {
			c->end += (size_t)n;
			return 0;
		}
		if (wait_for(c, POLLIN, deadline, &got, err) != 0)
			return -1;
	}
}

/* ---- sending ---- */

static size_t drop_front(struct iovec *piece, size_t count, size_t n)
{
	size_t first = 0;
	while (first < count && n >= piece[first].iov_len)
		n -= piece[first++].iov_len;
	for (size_t i = first; i < count; i++)
		piece[i - first] = piece[i];
	if (first < count) {
		piece[0].iov_base = (char *)piece[0].iov_base + n;
		piece[0].iov_len -= n;
	}
	return count - first;
}

/* The daemon may be waiting for us to read before it reads on: take what fits meanwhile. */
static int take_while_sending(struct call *c, struct error *err)
{
	make_room(c);
	struct iovec piece = {c->data + c->end, ROOM - c->end};
	if (piece.iov_len == 0)
		return 0;
	ssize_t n = read_some(c, &piece, 1, err);
	if (n > 0)
		c->end += (size_t)n;
	return n < 0 ? -1 : 0;
}

static int send_all(struct call *c, struct msghdr *message, struct error *err)
{
	double deadline = clock_mono() + c->answer_seconds;
	while (message->msg_iovlen > 0) {
		ssize_t n = sendmsg(c->fd, message, MSG_NOSIGNAL);
		if (n >= 0) {
			message->msg_control = NULL;
			message->msg_controllen = 0;
			message->msg_iovlen =
				drop_front(message->msg_iov, message->msg_iovlen, (size_t)n);
			deadline = clock_mono() + c->answer_seconds;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EPIPE || errno == ECONNRESET)
			return gone(c, err);
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			return error_errno(err, ERROR_UNAVAILABLE, c->path, "send");
		short got;
		short what = c->end - c->begin < ROOM ? POLLOUT | POLLIN : POLLOUT;
		if (wait_for(c, what, deadline, &got, err) != 0)
			return -1;
		if ((got & POLLIN) && take_while_sending(c, err) != 0)
			return -1;
	}
	return 0;
}

int call_send(struct call *c, const char *line, size_t len, const void *payload, size_t bytes,
	      struct error *err)
{
	struct iovec piece[2] = {{(char *)(uintptr_t)line, len},
				 {(char *)(uintptr_t)payload, bytes}};
	struct msghdr message = {.msg_iov = piece, .msg_iovlen = bytes ? 2 : 1};
	return send_all(c, &message, err);
}

/* ---- receiving ---- */

static int is_closing(const struct record *r)
{
	return record_is(r, "ok") || record_is(r, "err");
}

/* Throws away a payload that the caller did not take. */
static int skip_pending(struct call *c, double deadline, struct error *err)
{
	while (c->pending > 0) {
		size_t have = c->end - c->begin;
		size_t taken = c->pending < have ? (size_t)c->pending : have;
		c->begin += taken;
		c->pending -= taken;
		if (c->pending > 0 && fill(c, deadline, err) != 0)
			return -1;
	}
	return 0;
}

/* The payload a data record announces: its last key is bytes=N. */
static int note_payload(struct call *c, const struct record *r, struct error *err)
{
	if (r->count == 0 || is_closing(r) || strcmp(r->field[r->count - 1].key, "bytes") != 0)
		return 0;
	if (record_u64(r, "bytes", 0, SIZE_MAX / 2, &c->pending, err) != 0)
		return error_wrap(err, c->path);
	return 0;
}

static int receive_until(struct call *c, struct record *r, double deadline, struct error *err)
{
	if (skip_pending(c, deadline, err) != 0)
		return -1;
	size_t seen = 0;
	for (;;) {
		const char *line = c->data + c->begin;
		size_t have = c->end - c->begin;
		const char *newline = memchr(line + seen, '\n', have - seen);
		if (newline) {
			size_t len = (size_t)(newline - line);
			c->begin += len + 1;
			if (record_parse(r, line, len, err) != 0)
				return error_wrap(err, c->path);
			return note_payload(c, r, err);
		}
		if (have >= RECORD_LINE_MAX)
			return error_set(err, ERROR_DATA, c->path, "line longer than %d bytes",
					 RECORD_LINE_MAX);
		seen = have;
		if (fill(c, deadline, err) != 0)
			return -1;
	}
}

int call_receive_within(struct call *c, struct record *r, double seconds, struct error *err)
{
	return receive_until(c, r, clock_mono() + seconds, err);
}

int call_receive(struct call *c, struct record *r, struct error *err)
{
	return call_receive_within(c, r, c->answer_seconds, err);
}

int call_bytes(struct call *c, void *data, size_t bytes, struct error *err)
{
	if (bytes > c->pending)
		return error_set(err, ERROR_DATA, c->path, "%zu bytes are wanted, %llu announced",
				 bytes, (unsigned long long)c->pending);
	size_t have = c->end - c->begin, got = have < bytes ? have : bytes;
	memcpy(data, c->data + c->begin, got);
	c->begin += got;
	c->pending -= bytes;
	double deadline = clock_mono() + c->answer_seconds;
	while (got < bytes) {
		/* The buffer is empty: what follows the payload goes there with the same read. */
		struct iovec piece[2] = {{(char *)data + got, bytes - got}, {c->data, ROOM}};
		ssize_t n = read_some(c, piece, 2, err);
		if (n < 0)
			return -1;
		if (n == 0) {
			short ready;
			if (wait_for(c, POLLIN, deadline, &ready, err) != 0)
				return -1;
			continue;
		}
		size_t taken = (size_t)n < bytes - got ? (size_t)n : bytes - got;
		got += taken;
		c->begin = 0;
		c->end = (size_t)n - taken;
		deadline = clock_mono() + c->answer_seconds;
	}
	return 0;
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

static int greet(struct call *c, struct error *err)
{
	if (call_receive(c, &c->greeting, err) != 0)
		return -1;
	if (record_is(&c->greeting, "err"))
		return error_set(err, ERROR_TEMPFAIL, c->path, "%s",
				 c->greeting.text ? c->greeting.text : "turned away");
	if (!record_is(&c->greeting, "paceline"))
		return error_set(err, ERROR_DATA, c->path, "no greeting but '%.80s'",
				 c->greeting.type);
	const char *version = record_get(&c->greeting, "version");
	if (!version || strcmp(version, "1") != 0)
		return error_set(err, ERROR_DATA, c->path, "speaks version '%.20s', not 1",
				 version ? version : "");
	return 0;
}

int call_adopt(struct call **out, int fd, const char *name, double answer_seconds,
	       struct error *err)
{
	struct call *c = malloc(sizeof *c);
	if (!c)
		return error_set(err, ERROR_OS, name, "out of memory");
	c->fd = c->memory_fd = -1;
	c->answer_seconds = answer_seconds;
	c->pending = 0;
	c->memory = NULL;
	c->begin = c->end = 0;
	c->path = strdup(name);
	if (!c->path) {
		call_close(c);
		return error_set(err, ERROR_OS, name, "out of memory");
	}
	c->fd = fd;
	*out = c;
	return 0;
}

static int open_once(struct call **out, const char *path, double answer_seconds,
		     struct error *err)
{
	struct call *c = NULL;
	if (call_adopt(&c, -1, path, answer_seconds, err) != 0)
		return -1;
	if (address_connect(path, &c->fd, err) != 0 || greet(c, err) != 0) {
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

static int send_descriptor(struct call *c, int fd, const char *line, size_t len, struct error *err)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec piece = {(char *)(uintptr_t)line, len};
	struct msghdr message = {.msg_iov = &piece,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof control};
	struct cmsghdr *h = CMSG_FIRSTHDR(&message);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(h), &fd, sizeof fd);
	return send_all(c, &message, err);
}

static int make_memory(struct call *c, size_t bytes, int *out, void **memory, struct error *err)
{
	int fd = memfd_create("paceline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return error_errno(err, ERROR_OS, c->path, "memfd_create");
	*memory = MAP_FAILED;
	if (ftruncate(fd, (off_t)bytes) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
		*memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*memory == MAP_FAILED) {
		error_errno(err, ERROR_OS, c->path, "%zu bytes of shared memory", bytes);
		close(fd);
		return -1;
	}
	*out = fd;
	return 0;
}

/* Gives the memory to the server. */
static int give_memory(struct call *c, int fd, size_t bytes, struct error *err)
{
	char line[64];
	struct record *answer = malloc(sizeof *answer);
	int result = -1;
	if (!answer)
		return error_set(err, ERROR_OS, c->path, "out of memory");
	int len = snprintf(line, sizeof line, "map bytes=%zu\n", bytes);
	if (send_descriptor(c, fd, line, (size_t)len, err) == 0 &&
	    call_receive(c, answer, err) == 0) {
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
	int fd = -1;
	if (make_memory(c, bytes, &fd, memory, err) != 0)
		return -1;
	if (give_memory(c, fd, bytes, err) != 0) {
		close(fd);
		munmap(*memory, bytes);
		*memory = NULL;
		return -1;
	}
	c->memory = *memory;
	c->memory_bytes = bytes;
	c->memory_fd = fd;
	return 0;
}

int call_reopen(struct call *c, struct error *err)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->begin = c->end = 0;
	c->pending = 0;
	if (address_connect(c->path, &c->fd, err) != 0) {
		c->fd = -1;
		return -1;
	}
	if (greet(c, err) == 0 &&
	    (!c->memory || give_memory(c, c->memory_fd, c->memory_bytes, err) == 0))
		return 0;
	close(c->fd);
	c->fd = -1;
	return -1;
}
