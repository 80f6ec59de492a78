/*
 * connection: one client.  Bytes become lines, lines become requests (with their payload), answers
 * become bytes.  Nothing the client sends may end the process; what can't be understood is
 * answered, and where the next request begins can't be known any more, the client is closed.
 */
#include "wire/parts.h"

#include "base/log.h"
#include "base/number.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_TURN_MAX (4 * 1024 * 1024) /* of one client's payload, before others have their turn */
#define DESCRIPTORS_MAX 4               /* of one message; the kernel closes those beyond */

static void on_event(evutil_socket_t fd, short what, void *connection);

/* ---- life ---- */

struct connection *connection_new(struct server *s, int fd)
{
	struct ucred who;
	socklen_t len = sizeof who;
	struct connection *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->server = s;
	c->fd = fd;
	c->passed_fd = -1;
	c->active = 1;
	c->number = ++s->connection_last;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0) {
		c->uid = who.uid;
		c->pid = who.pid;
	} else {
		c->uid = (uid_t)-1;
	}
	c->next = s->connections;
	if (c->next)
		c->next->previous = c;
	s->connections = c;
	s->connection_count++;
	return c;
}

static void take_out(struct connection *c)
{
	struct server *s = c->server;
	if (c->next)
		c->next->previous = c->previous;
	if (c->previous)
		c->previous->next = c->next;
	else
		s->connections = c->next;
	s->connection_count--;
	for (struct connection **at = &s->resume; c->resuming && *at; at = &(*at)->resume_next) {
		if (*at == c) {
			*at = c->resume_next;
			break;
		}
	}
}

static void drop_input(struct connection *c)
{
	free(c->in);
	c->in = NULL;
	c->in_len = c->in_room = 0;
	payload_release(c->payload);
	c->payload = NULL;
	free(c->line);
	c->line = NULL;
	c->discard = 0;
	if (c->passed_fd >= 0)
		close(c->passed_fd);
	c->passed_fd = -1;
}

void connection_free(struct connection *c)
{
	struct server *s = c->server;
	c->closing = c->buried = 1;
	request_cancel_all(c);
	if (s->options.closed)
		s->options.closed(c, s->options.owner);
	drop_input(c);
	output_clear(&c->out, &s->chunks);
	mapping_release(c->mapping);
	if (c->watched)
		event_del(&c->event);
	close(c->fd);
	take_out(c);
	free(c);
}

void connection_close(struct connection *c)
{
	struct server *s = c->server;
	if (c->closing)
		return;
	c->closing = 1;
	connection_mark_dirty(c); /* what is answered in this turn is still written */
	c->closing_next = s->closing;
	s->closing = c;
}

void connection_end(struct connection *c)
{
	c->ended = 1;
	drop_input(c);
	connection_mark_dirty(c);
}

void connection_mark_dirty(struct connection *c)
{
	if (c->dirty || c->buried)
		return;
	c->dirty = 1;
	c->dirty_next = c->server->dirty;
	c->server->dirty = c;
}

void connection_set_user(struct connection *c, void *user)
{
	c->user = user;
}

void *connection_user(const struct connection *c)
{
	return c->user;
}

uint64_t connection_number(const struct connection *c)
{
	return c->number;
}

uid_t connection_uid(const struct connection *c)
{
	return c->uid;
}

pid_t connection_pid(const struct connection *c)
{
	return c->pid;
}

/* ---- waiting ---- */

int connection_must_pause(const struct connection *c)
{
	return c->open >= OPEN_MAX || c->out.bytes + c->held > UNREAD_PAUSE;
}

static int is_read_from(const struct connection *c)
{
	return !c->ended && !c->paused && !c->server->draining;
}

/* Registers for what c waits for now. A client that is not read from is still watched for its
 * death, edge-triggered: a half-closed one would report for ever otherwise. (EV_CLOSED would miss
 * those deaths that libevent reports as an error.) */
void connection_watch(struct connection *c)
{
	short flags = EV_PERSIST | EV_READ;
	if (!is_read_from(c))
		flags |= EV_ET;
	if (c->blocked)
		flags |= EV_WRITE;
	if (flags == c->watched || c->closing)
		return;
	if (c->watched)
		event_del(&c->event);
	c->watched = flags;
	if (event_assign(&c->event, c->server->base, c->fd, flags, on_event, c) != 0 ||
	    event_add(&c->event, NULL) != 0) {
		log_say(LOG_LEVEL_ERROR, "client %llu can't be watched: closed",
			(unsigned long long)c->number);
		c->lost = 1;
		connection_close(c);
	}
}

static int is_hung_up(int fd)
{
	struct pollfd p = {.fd = fd};
	return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR));
}

static void lose(struct connection *c)
{
	c->lost = 1;
	connection_close(c);
}

static void on_event(evutil_socket_t fd, short what, void *connection)
{
	struct connection *c = connection;
	if (c->closing)
		return;
	if (what & EV_WRITE) {
		c->blocked = 0;
		connection_mark_dirty(c);
	}
	if (is_read_from(c)) {
		if (what & EV_READ)
			connection_read(c);
	} else if (is_hung_up(fd)) {
		lose(c);
	}
}

/* ---- writing ---- */

static void check_paused(struct connection *c)
{
	struct server *s = c->server;
	if (!c->paused || c->resuming || connection_must_pause(c) || s->draining)
		return;
	c->resuming = 1;
	c->resume_next = s->resume;
	s->resume = c;
}

void connection_flush(struct connection *c)
{
	c->dirty = 0;
	if (c->lost)
		return;
	if (c->out.bytes > 0 && !c->blocked) {
		size_t before = c->out.bytes;
		int result = output_write(&c->out, &c->server->chunks, c->fd);
		if (result < 0) {
			lose(c);
			return;
		}
		c->blocked = result == OUTPUT_BLOCKED;
		c->active |= c->out.bytes < before;
	}
	c->stuck = c->out.copied;
	if (c->ended && c->open == 0 && c->out.bytes == 0)
		connection_close(c);
	check_paused(c);
	connection_watch(c);
}

/* ---- requests ---- */

static void dispatch(struct connection *c, struct verb_entry *verb, struct payload *payload)
{
	struct server *s = c->server;
	struct request *rq = request_new(c, verb, payload);
	if (!rq) {
		payload_release(payload);
		lose(c);
		return;
	}
	verb->requests++;
	s->handling = rq;
	verb->verb->handler(rq, verb->builtin ? s : s->options.owner);
	if (s->handling == rq) {
		log_say(LOG_LEVEL_ERROR, "the handler of %s gave no answer", verb->verb->name);
		request_err(rq, "internal", "no answer to %s", verb->verb->name);
	}
}

__attribute__((format(printf, 4, 5))) static void
refuse(struct connection *c, struct verb_entry *verb, const char *code, const char *fmt, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	struct request *rq = request_new(c, verb, NULL);
	if (rq)
		request_err(rq, code, "%s", text);
	else
		lose(c);
}

/* Whether a line that is no record ends like one that announces a payload. What follows it could
 * be taken for requests that nobody made. */
static int may_announce(const char *line, size_t len)
{
	const char *tab = memchr(line, '\t', len);
	if (tab)
		len = (size_t)(tab - line);
	return memmem(line, len, "bytes=", 6) != NULL;
}

enum announced { ANNOUNCED_NOTHING, ANNOUNCED_RAW, ANNOUNCED_MAPPED, ANNOUNCED_BADLY };

/* What the record says about a payload. BADLY: err says why; if *raw, unknown bytes follow. */
static enum announced announcement(const struct record *r, const struct verb_entry *verb,
				   uint64_t *bytes, int *raw, struct error *err)
{
	const char *last = r->count ? r->field[r->count - 1].key : "";
	*raw = 0;
	if (verb && verbs_is_map(verb))
		return ANNOUNCED_NOTHING;
	if (strcmp(last, "bytes") == 0) {
		*raw = 1;
		if (record_u64(r, "bytes", 0, SIZE_MAX / 2, bytes, err) != 0)
			return ANNOUNCED_BADLY;
		if (record_get(r, "map-bytes") == NULL)
			return ANNOUNCED_RAW;
		error_set(err, ERROR_DATA, NULL, "both bytes= and map-bytes=");
		return ANNOUNCED_BADLY;
	}
	if (verb && verb->verb->payload_bytes_max > 0 && record_get(r, "bytes")) {
		*raw = 1;
		error_set(err, ERROR_DATA, NULL, "bytes= must be the last key");
		return ANNOUNCED_BADLY;
	}
	if (!record_get(r, "map-bytes"))
		return ANNOUNCED_NOTHING;
	return record_u64(r, "map-bytes", 0, SIZE_MAX / 2, bytes, err) == 0 ? ANNOUNCED_MAPPED
									     : ANNOUNCED_BADLY;
}

/* The payload of a refused request is read and thrown away, so that the next one is found; one
 * too long for that closes the client. */
static void skip_payload(struct connection *c, uint64_t bytes, uint64_t bytes_max)
{
	if (bytes > bytes_max)
		connection_end(c);
	else
		c->discard = bytes;
}

static void start_raw(struct connection *c, struct verb_entry *verb, uint64_t bytes)
{
	uint64_t max = verb->verb->payload_bytes_max;
	if (max == 0) {
		refuse(c, verb, "bad-request", "%s takes no payload", verb->verb->name);
		skip_payload(c, bytes, DISCARD_BYTES_MAX);
		return;
	}
	if (bytes > max) {
		refuse(c, verb, "bad-request", "bytes=%llu is more than %llu",
		       (unsigned long long)bytes, (unsigned long long)max);
		connection_end(c);
		return;
	}
	struct payload *p = payload_new(c->server->payloads, (size_t)bytes);
	if (!p) {
		refuse(c, verb, "no-memory", "no memory for a payload of %llu bytes",
		       (unsigned long long)bytes);
		connection_end(c);
		return;
	}
	if (bytes == 0) {
		dispatch(c, verb, p);
		return;
	}
	c->payload = p;
	c->payload_got = 0;
	c->payload_verb = verb;
}

static void start_mapped(struct connection *c, struct verb_entry *verb, uint64_t bytes)
{
	const struct record *r = &c->server->record;
	uint64_t offset, max = verb->verb->payload_bytes_max;
	struct error err;
	if (record_u64(r, "map-offset-bytes", 0, UINT64_MAX, &offset, &err) != 0) {
		refuse(c, verb, "bad-request", "%s", err.text);
		return;
	}
	if (bytes > max) {
		refuse(c, verb, "bad-request", "map-bytes=%llu is more than %llu",
		       (unsigned long long)bytes, (unsigned long long)max);
		return;
	}
	struct payload *p =
		payload_of_mapping(c->server->payloads, c->mapping, offset, bytes, &err);
	if (p)
		dispatch(c, verb, p);
	else
		refuse(c, verb, "bad-request", "%s", err.text);
}

static void handle_line(struct connection *c, const char *line, size_t len)
{
	struct record *r = &c->server->record;
	struct error err;
	if (record_parse(r, line, len, &err) != 0) {
		refuse(c, NULL, "bad-request", "%s", err.text);
		if (may_announce(line, len))
			connection_end(c);
		return;
	}
	uint64_t bytes = 0;
	int raw;
	struct verb_entry *verb = verbs_find(&c->server->verbs, r->type);
	enum announced how = announcement(r, verb, &bytes, &raw, &err);
	const char *missing = verb ? verbs_missing(verb, r) : NULL;
	if (how == ANNOUNCED_BADLY) {
		refuse(c, verb, "bad-request", "%s", err.text);
		if (raw)
			connection_end(c);
	} else if (!verb) {
		refuse(c, NULL, "unknown-request", "there is no request '%.64s'", r->type);
		skip_payload(c, raw ? bytes : 0, DISCARD_BYTES_MAX);
	} else if (missing) {
		refuse(c, verb, "bad-request", "%s: %s= is missing", verb->verb->name, missing);
		uint64_t max = verb->verb->payload_bytes_max;
		skip_payload(c, raw ? bytes : 0, max > DISCARD_BYTES_MAX ? max : DISCARD_BYTES_MAX);
	} else if (how == ANNOUNCED_RAW) {
		start_raw(c, verb, bytes);
	} else if (how == ANNOUNCED_MAPPED) {
		start_mapped(c, verb, bytes);
	} else {
		dispatch(c, verb, NULL);
	}
}

/* ---- reading ---- */

/* All bytes of the payload are there. */
static void finish_payload(struct connection *c)
{
	struct payload *p = c->payload;
	c->payload = NULL;
	if (c->line) {
		/* Other clients' lines have been in the server's record meanwhile. */
		(void)record_parse(&c->server->record, c->line, c->line_len, NULL);
		free(c->line);
		c->line = NULL;
	}
	dispatch(c, c->payload_verb, p);
}

static size_t fill_payload(struct connection *c, const char *data, size_t len)
{
	size_t want = c->payload->bytes - c->payload_got;
	size_t taken = len < want ? len : want;
	memcpy(c->payload->data + c->payload_got, data, taken);
	c->payload_got += taken;
	if (taken == want)
		finish_payload(c);
	return taken;
}

/* The line of a request whose payload is still to come. */
static void keep_line(struct connection *c, const char *line, size_t len)
{
	c->line = malloc(len + 1);
	if (!c->line) {
		lose(c);
		return;
	}
	memcpy(c->line, line, len);
	c->line_len = len;
}

static void keep_rest(struct connection *c, const char *data, size_t len)
{
	if (len == 0 || c->closing || c->ended) {
		free(c->in);
		c->in = NULL;
		c->in_len = c->in_room = 0;
		return;
	}
	if (len > c->in_room) {
		char *room = realloc(c->in, len);
		if (!room) {
			lose(c);
			return;
		}
		c->in = room;
		c->in_room = len;
	}
	memcpy(c->in, data, len);
	c->in_len = len;
}

/* data lies in the server's input, not in c->in. */
static void consume(struct connection *c, const char *data, size_t len)
{
	size_t at = 0;
	while (at < len && !c->closing && !c->ended) {
		size_t rest = len - at;
		if (c->discard > 0) {
			size_t taken = c->discard < rest ? (size_t)c->discard : rest;
			c->discard -= taken;
			at += taken;
			continue;
		}
		if (c->payload) {
			at += fill_payload(c, data + at, rest);
			continue;
		}
		if (connection_must_pause(c)) {
			c->paused = 1;
			connection_mark_dirty(c);
			break;
		}
		const char *line = data + at;
		const char *newline =
			memchr(line, '\n', rest < RECORD_LINE_MAX ? rest : RECORD_LINE_MAX);
		if (!newline) {
			if (rest >= RECORD_LINE_MAX) {
				refuse(c, NULL, "bad-request", "line longer than %d bytes",
				       RECORD_LINE_MAX);
				connection_end(c);
			}
			break;
		}
		size_t line_len = (size_t)(newline - line);
		at += line_len + 1;
		handle_line(c, line, line_len);
		if (c->payload && len - at < c->payload->bytes)
			keep_line(c, line, line_len);
	}
	keep_rest(c, data + at, len - at);
}

void connection_resume(struct connection *c)
{
	c->resuming = 0;
	if (c->closing || c->ended)
		return;
	c->paused = 0;
	size_t len = c->in_len;
	if (len > 0)
		memcpy(c->server->input, c->in, len);
	consume(c, c->server->input, len);
	connection_mark_dirty(c); /* for its watch */
}

/* Keeps one descriptor for a `map` to come; nobody has use for more. */
static void take_descriptors(struct connection *c, struct msghdr *message)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h; h = CMSG_NXTHDR(message, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
			if (c->passed_fd < 0)
				c->passed_fd = fd;
			else
				close(fd);
		}
	}
}

static ssize_t receive(struct connection *c, struct iovec *piece, size_t count)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
	} control;
	for (;;) {
		struct msghdr message = {.msg_iov = piece,
					 .msg_iovlen = count,
					 .msg_control = &control,
					 .msg_controllen = sizeof control};
		ssize_t n = recvmsg(c->fd, &message, MSG_CMSG_CLOEXEC);
		if (n >= 0 && message.msg_controllen > 0)
			take_descriptors(c, &message);
		if (n >= 0 || errno != EINTR)
			return n;
	}
}

/* One read: straight into the payload where one is due, into the common input beyond it. Returns
 * the bytes read, 0 when nothing more is to be read now. */
static size_t read_once(struct connection *c)
{
	char *input = c->server->input;
	struct iovec piece[2];
	size_t count = 0, direct = 0, kept = c->in_len;
	if (c->payload) {
		direct = c->payload->bytes - c->payload_got;
		piece[count++] = (struct iovec){c->payload->data + c->payload_got, direct};
	}
	if (kept > 0)
		memcpy(input, c->in, kept);
	piece[count++] = (struct iovec){input + kept, INPUT_ROOM - kept};
	ssize_t n = receive(c, piece, count);
	if (n <= 0) {
		if (n == 0 && !is_hung_up(c->fd))
			connection_end(c);
		else if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
			lose(c);
		return 0;
	}
	size_t got = (size_t)n, beyond = got;
	if (direct > 0) {
		size_t taken = got < direct ? got : direct;
		c->payload_got += taken;
		beyond -= taken;
		if (taken == direct)
			finish_payload(c);
	}
	if (beyond > 0)
		consume(c, input, kept + beyond);
	return got;
}

void connection_read(struct connection *c)
{
	c->active = 1;
	size_t got = 0;
	do {
		size_t n = read_once(c);
		if (n == 0)
			break;
		got += n;
	} while (c->payload && got < READ_TURN_MAX && !c->closing && !c->ended);
	/* A descriptor that came with anything but `map`. */
	if (c->passed_fd >= 0 && c->in_len == 0 && !c->payload) {
		close(c->passed_fd);
		c->passed_fd = -1;
	}
}
