/*
 * input: parses what a client sends: bytes into lines, lines into requests with their payload.
 * Nothing that a client sends may end the process. Input that can't be understood gets an error; if
 * the beginning of the next request can't be found, the client is closed.
 */
#include "wire/server_internal.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of one client's payload that are read before others have their turn. */
#define READ_TURN_MAX (4 * 1024 * 1024)

/* ---- requests ---- */

static void dispatch(struct connection *c, struct verb_entry *verb, struct payload *payload)
{
	struct server *s = c->server;
	if (c->lost && !verb->one_way) { /* it could not take what the verb hands out */
		payload_release(payload);
		return;
	}
	struct request *rq = request_new(c, verb, payload);
	if (!rq) {
		payload_release(payload);
		connection_lose(c);
		return;
	}
	verb->requests++;
	s->handling = rq;
	verb->verb->handler(rq, verb->owner);
	if (s->handling == rq) {
		log_say(LOG_LEVEL_ERROR, "the handler of %s gave no answer", verb->verb->name);
		request_err(rq, "internal", "no answer to %s", verb->verb->name);
	}
}

__attribute__((format(printf, 4, 5))) static void
input_refuse(struct connection *c, struct verb_entry *verb, const char *code, const char *fmt, ...)
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
		connection_lose(c);
}

/* Whether a line that is not a record ends as if it announced a payload: the bytes behind it could
 * then be mistaken for requests. */
static int may_announce(const char *line, size_t len)
{
	const char *tab = memchr(line, '\t', len);
	if (tab)
		len = (size_t)(tab - line);
	return memmem(line, len, "bytes=", 6) != NULL;
}

enum announced { ANNOUNCED_NOTHING, ANNOUNCED_RAW, ANNOUNCED_MAPPED, ANNOUNCED_BADLY };

/* Reads what the record says about a payload. BADLY: err says why; if *raw, unknown bytes
 * follow. */
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

/* Discards the payload of a refused request, so that the next request is found; if the payload is
 * too long, closes the client. */
static void skip_payload(struct connection *c, uint64_t bytes, uint64_t bytes_max)
{
	if (bytes > bytes_max)
		connection_end(c);
	else
		framer_expect(&c->in, bytes);
}

/* ---- payloads that are still to come ---- */

static void input_no_memory(struct connection *c)
{
	input_refuse(c, c->payload_verb, "no-memory", "out of memory for a payload of %llu bytes",
		     (unsigned long long)c->payload_bytes);
	connection_end(c);
}

/* How much of the memory for payloads this one counts for. That memory is the sum of what clients
 * have announced, so that each payload that has begun can be completed. A single payload may be
 * longer than all of it. */
static uint64_t input_counted(uint64_t bytes)
{
	return bytes > PAYLOAD_FREE_BYTES ? bytes : 0;
}

static int input_has_room(const struct server *s, uint64_t bytes)
{
	uint64_t max = s->options.payloads_bytes_max;
	return input_counted(bytes) == 0 || s->payload_bytes == 0 ||
	       (s->payload_bytes <= max && bytes <= max - s->payload_bytes);
}

/* c's payload is no longer being read: it is complete, or c is closed. */
static struct payload *input_take_payload(struct connection *c)
{
	struct payload *p = c->payload;
	if (p)
		c->server->payload_bytes -= input_counted(c->payload_bytes);
	c->payload = NULL;
	return p;
}

static void start_payload(struct connection *c)
{
	c->payload = payload_begin(c->server->payloads, (size_t)c->payload_bytes);
	if (!c->payload) {
		input_no_memory(c);
		return;
	}
	framer_expect(&c->in, c->payload_bytes);
	c->due_seen = UINT64_MAX;
	c->server->payload_bytes += input_counted(c->payload_bytes);
	if (c->payload_bytes == 0)
		dispatch(c, c->payload_verb, input_take_payload(c));
}

/* The one that waits longest comes first. */
static void give_room(struct server *s)
{
	struct connection *c;
	while ((c = s->first_waiting) != NULL && input_has_room(s, c->payload_bytes)) {
		s->first_waiting = c->waits_next;
		c->waits = 0;
		start_payload(c);
		if (c->resuming || c->ended)
			continue;
		c->resuming = 1;
		c->resume_next = s->resume;
		s->resume = c;
	}
}

void connection_drop_input(struct connection *c)
{
	framer_clear(&c->in);
	free(c->line);
	c->line = NULL;
	if (c->passed_fd >= 0)
		close(c->passed_fd);
	c->passed_fd = -1;
	struct connection **at = &c->server->first_waiting;
	while (c->waits && *at != c)
		at = &(*at)->waits_next;
	if (c->waits)
		*at = c->waits_next;
	c->waits = 0;
	payload_release(input_take_payload(c));
	give_room(c->server);
}

static int is_begun(const struct connection *c)
{
	return c->payload || c->in.due > 0 ||
	       (framer_left(&c->in) > 0 && !c->paused && !c->waits);
}

/* Time is counted in looks: if this process stood still, the looks that it missed count as one. */
int connection_look(struct connection *c)
{
	const struct server *s = c->server;
	if (c->closing || c->ended || !is_begun(c)) {
		c->looks = 0;
		return 0;
	}
	uint64_t bytes = c->payload ? c->payload_bytes : c->in.due;
	double seconds = s->options.begun_seconds + (double)bytes / BEGUN_RATE;
	int is_in_the_way = c->payload && s->first_waiting && c->in.due == c->due_seen;
	c->due_seen = c->in.due;
	c->looks++;
	if (!is_in_the_way && c->looks * (s->options.begun_seconds / BEGUN_LOOKS) <= seconds)
		return 1;
	log_say(LOG_LEVEL_WARNING, "client %llu (pid %ld) does not complete its request: closed",
		(unsigned long long)c->number, (long)c->pid);
	struct verb_entry *verb = c->payload ? c->payload_verb : NULL;
	if (is_in_the_way)
		input_refuse(c, verb, "slow",
			     "the payload stopped arriving, and other clients wait for "
			     "its memory");
	else
		input_refuse(c, verb, "slow", "the rest of the request did not come in %.0f s",
			     seconds);
	connection_end(c);
	return 0;
}

static void start_raw(struct connection *c, struct verb_entry *verb, uint64_t bytes)
{
	uint64_t max = verb->verb->payload_bytes_max;
	if (max == 0) {
		input_refuse(c, verb, "bad-request", "%s takes no payload", verb->verb->name);
		skip_payload(c, bytes, DISCARD_BYTES_MAX);
		return;
	}
	if (bytes > max) {
		input_refuse(c, verb, "bad-request", "bytes=%llu is more than %llu",
			     (unsigned long long)bytes, (unsigned long long)max);
		connection_end(c);
		return;
	}
	c->payload_verb = verb;
	c->payload_bytes = bytes;
	if (input_has_room(c->server, bytes)) {
		start_payload(c);
		return;
	}
	struct connection **last = &c->server->first_waiting;
	while (*last)
		last = &(*last)->waits_next;
	c->waits = 1;
	c->waits_next = NULL;
	*last = c;
}

static void start_mapped(struct connection *c, struct verb_entry *verb, uint64_t bytes)
{
	const struct record *r = &c->server->record;
	uint64_t offset, max = verb->verb->payload_bytes_max;
	struct error err;
	if (record_u64(r, "map-offset-bytes", 0, UINT64_MAX, &offset, &err) != 0) {
		input_refuse(c, verb, "bad-request", "%s", err.text);
		return;
	}
	if (bytes > max) {
		input_refuse(c, verb, "bad-request", "map-bytes=%llu is more than %llu",
			     (unsigned long long)bytes, (unsigned long long)max);
		return;
	}
	struct payload *p =
		payload_of_mapping(c->server->payloads, c->mapping, offset, bytes, &err);
	if (p)
		dispatch(c, verb, p);
	else
		input_refuse(c, verb, "bad-request", "%s", err.text);
}

static void handle_line(struct connection *c, const char *line, size_t len)
{
	struct record *r = &c->server->record;
	struct error err;
	c->looks = 0;
	if (record_parse(r, line, len, &err) != 0) {
		input_refuse(c, NULL, "bad-request", "%s", err.text);
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
		input_refuse(c, verb, "bad-request", "%s", err.text);
		if (raw)
			connection_end(c);
	} else if (!verb) {
		input_refuse(c, NULL, "unknown-request",
			     "there is no request '%.64s'; help lists them", r->type);
		skip_payload(c, raw ? bytes : 0, DISCARD_BYTES_MAX);
	} else if (missing) {
		input_refuse(c, verb, "bad-request", "%s: %s= is missing", verb->verb->name,
			     missing);
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

static size_t payload_got(const struct connection *c)
{
	return c->payload->bytes - (size_t)c->in.due;
}

/* Takes the bytes of the payload that have arrived. -1: it is not complete, or there is no memory
 * for it. */
static int take_some(struct connection *c)
{
	size_t got = payload_got(c), left = framer_left(&c->in);
	if (payload_grow(&c->payload, got + (left < c->in.due ? left : (size_t)c->in.due)) != 0) {
		input_no_memory(c);
		return -1;
	}
	(void)framer_take(&c->in, c->payload->data + got, SIZE_MAX);
	return c->in.due == 0 ? 0 : -1;
}

/* Handles a request whose payload is complete. */
static void finish_payload(struct connection *c)
{
	struct payload *p = input_take_payload(c);
	c->looks = 0;
	if (c->line) {
		/* Parse the request's line again: the server's record has held other clients' lines
		 * meanwhile. */
		(void)record_parse(&c->server->record, c->line, c->line_len, NULL);
		free(c->line);
		c->line = NULL;
	}
	dispatch(c, c->payload_verb, p);
	give_room(c->server);
}

/* Keeps the line of a request whose payload is still to come. */
static void keep_line(struct connection *c, const char *line, size_t len)
{
	c->line = malloc(len + 1);
	if (!c->line) {
		connection_lose(c);
		return;
	}
	memcpy(c->line, line, len);
	c->line_len = len;
}

/* Takes one line, or the available bytes of a payload. -1: nothing more can be taken now. */
static int input_take_one(struct connection *c)
{
	const char *line;
	size_t len;
	if (c->payload) {
		if (take_some(c) != 0)
			return -1;
		finish_payload(c);
		return 0;
	}
	if (c->in.due > 0)
		return framer_take(&c->in, NULL, SIZE_MAX) > 0 ? 0 : -1;
	if (framer_left(&c->in) == 0)
		return -1;
	if (connection_must_pause(c)) {
		c->paused = 1;
		connection_mark_dirty(c);
		return -1;
	}
	switch (framer_line(&c->in, RECORD_LINE_MAX, &line, &len)) {
	case FRAMER_MORE:
		return -1;
	case FRAMER_LONG:
		input_refuse(c, NULL, "bad-request", "line longer than %d bytes", RECORD_LINE_MAX);
		connection_end(c);
		return -1;
	case FRAMER_LINE:
		break;
	}
	handle_line(c, line, len);
	if (c->waits || (c->payload && framer_left(&c->in) < c->in.due))
		keep_line(c, line, len);
	return c->waits ? -1 : 0;
}

/* Takes all that can be taken of the bytes read, then takes back the buffer that was lent. */
static void consume(struct connection *c)
{
	while (!c->closing && !c->ended && input_take_one(c) == 0)
		;
	if (c->closing)
		framer_clear(&c->in);
	else if (framer_return(&c->in) != 0)
		connection_lose(c);
}

void connection_resume(struct connection *c)
{
	c->resuming = 0;
	if (c->closing || c->ended || c->waits)
		return;
	c->paused = 0;
	framer_lend(&c->in, c->server->input, INPUT_ROOM);
	consume(c);
	if (is_begun(c))
		server_look_later(c->server);
	connection_mark_dirty(c); /* for its watch */
}

/* The client sends no more, or has gone. */
static void hear_end(struct connection *c, int half_closed)
{
	if (!half_closed) {
		connection_lose(c);
		return;
	}
	if (framer_left(&c->in) > 0 && !c->payload)
		input_refuse(c, NULL, "bad-request", "the input ends without a newline");
	connection_end(c);
}

/* One read: straight into the payload if one is due, and into the common input beyond it. Returns
 * the bytes read, 0 when nothing more can be read now. */
static size_t input_read_once(struct connection *c)
{
	struct iovec piece[2];
	void *to = NULL;
	size_t bytes = 0;
	if (c->payload) {
		size_t got = payload_got(c);
		if (payload_grow(&c->payload, got + 1) != 0) {
			input_no_memory(c);
			return 0;
		}
		to = c->payload->data + got;
		bytes = c->payload->room - got;
	}
	framer_lend(&c->in, c->server->input, INPUT_ROOM);
	size_t count = framer_pieces(&c->in, to, bytes, piece);
	ssize_t n = transport_read(c->fd, piece, count, &c->passed_fd);
	if (n > 0)
		framer_came(&c->in, (size_t)n);
	else if (n != TRANSPORT_LATER)
		hear_end(c, n == TRANSPORT_END && !transport_is_gone(c->fd));
	consume(c);
	return n > 0 ? (size_t)n : 0;
}

void connection_read(struct connection *c)
{
	size_t got = 0;
	c->active = 1;
	if (c->resuming) /* handle what it sent before first */
		return;
	do {
		size_t n = input_read_once(c);
		if (n == 0)
			break;
		got += n;
	} while (c->payload && got < READ_TURN_MAX && !c->closing && !c->ended);
	if (is_begun(c))
		server_look_later(c->server);
	/* Closes a descriptor that came with a request that takes none. */
	if (c->passed_fd >= 0 && framer_left(&c->in) == 0 && !c->payload) {
		close(c->passed_fd);
		c->passed_fd = -1;
	}
}
