/*
 * request: from the handler to the answer. Answers leave a connection in the order of their
 * requests: the first open request writes directly into the connection's output, and later requests
 * into their own buffers until it is their turn.
 */
#include "wire/server_internal.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FREE_MAX 4096 /* requests kept for the next ones */

struct request *request_new(struct connection *c, struct verb_entry *verb, struct payload *payload)
{
	struct server *s = c->server;
	struct request *rq = s->request_free;
	if (rq) {
		s->request_free = rq->next;
		s->request_free_count--;
	} else {
		rq = malloc(sizeof *rq);
		if (!rq)
			return NULL;
	}
	*rq = (struct request){.connection = c, .verb = verb, .payload = payload};
	if (c->last)
		c->last->next = rq;
	else
		c->first = rq;
	c->last = rq;
	c->open++;
	return rq;
}

/* rq must be the first open request of its connection. */
static void request_free(struct request *rq)
{
	struct connection *c = rq->connection;
	struct server *s = c->server;
	c->first = rq->next;
	if (!c->first)
		c->last = NULL;
	c->open--;
	output_clear(&rq->out, &s->chunks);
	if (s->request_free_count < FREE_MAX) {
		rq->next = s->request_free;
		s->request_free = rq;
		s->request_free_count++;
	} else {
		free(rq);
	}
}

/* Removes answered requests from the front; what the new first one has written so far is sent. */
static void request_advance(struct connection *c)
{
	struct server *s = c->server;
	while (c->first) {
		struct request *rq = c->first;
		c->held -= rq->out.bytes;
		output_move(&c->out, &rq->out, &s->chunks);
		if (rq->state != REQUEST_ANSWERED)
			break;
		request_free(rq);
	}
	connection_mark_dirty(c);
}

void request_cancel_all(struct connection *c)
{
	while (c->first) {
		struct request *rq = c->first;
		c->held -= rq->out.bytes;
		if (rq->state == REQUEST_DEFERRED) {
			rq->state = REQUEST_CANCELLING;
			if (rq->cancelled)
				rq->cancelled(rq, rq->arg);
		}
		if (rq->state != REQUEST_ANSWERED)
			payload_release(rq->payload);
		request_free(rq);
	}
}

const struct record *request_record(const struct request *rq)
{
	return &rq->connection->server->record;
}

struct connection *request_connection(struct request *rq)
{
	return rq->connection;
}

int request_is_alone(const struct request *rq)
{
	return rq == rq->connection->first && rq->connection->out.bytes == 0;
}

struct payload *request_payload(struct request *rq)
{
	return rq->payload;
}

void *request_mapped(struct request *rq, uint64_t offset, uint64_t length)
{
	return mapping_at(rq->connection->mapping, offset, length);
}

struct payload *request_hold_mapped(struct request *rq, uint64_t offset, uint64_t length)
{
	struct connection *c = rq->connection;
	return payload_of_mapping(c->server->payloads, c->mapping, offset, length, NULL);
}

/* The buffer for rq's bytes, or NULL when nobody needs them any more. */
static struct output *output_of(struct request *rq)
{
	struct connection *c = rq->connection;
	if (rq->state == REQUEST_CANCELLING || c->lost || c->buried)
		return NULL;
	if (c->stuck >= c->server->options.output_bytes_max) {
		log_say(LOG_LEVEL_WARNING, "client %llu (pid %ld) does not read its answers: closed",
			(unsigned long long)c->number, (long)c->pid);
		connection_lose(c);
		return NULL;
	}
	return rq == c->first ? &c->out : &rq->out;
}

static void was_put(struct request *rq, size_t len, int result)
{
	struct connection *c = rq->connection;
	if (result != 0) {
		log_say(LOG_LEVEL_ERROR, "out of memory for an answer: client %llu closed",
			(unsigned long long)c->number);
		connection_lose(c);
	} else if (rq != c->first) {
		c->held += len;
	} else if (rq->state == REQUEST_DEFERRED) {
		connection_mark_dirty(c);
	}
}

void request_put(struct request *rq, const void *bytes, size_t len)
{
	struct output *o = output_of(rq);
	if (o)
		was_put(rq, len, output_put(o, &rq->connection->server->chunks, bytes, len));
}

void request_put_ref(struct request *rq, const void *bytes, size_t len,
		     void (*release)(void *arg), void *arg)
{
	struct output *o = output_of(rq);
	if (o)
		was_put(rq, len,
			output_put_ref(o, &rq->connection->server->chunks, bytes, len, release,
				       arg));
	else if (release)
		release(arg);
}

void request_put_record(struct request *rq, struct record_out *o)
{
	size_t len = record_end(o, NULL);
	if (len == 0)
		log_say(LOG_LEVEL_ERROR, "an answer to %s is too long for a record: left out",
			rq->verb ? rq->verb->verb->name : "a request");
	request_put(rq, o->data, len);
}

/* The closing record is written; rq goes as soon as the requests before it have gone. */
static void request_finish(struct request *rq)
{
	struct connection *c = rq->connection;
	struct server *s = c->server;
	if (rq->state == REQUEST_CANCELLING)
		return;
	if (s->handling == rq)
		s->handling = NULL;
	rq->state = REQUEST_ANSWERED;
	payload_release(rq->payload);
	rq->payload = NULL;
	if (rq == c->first)
		request_advance(c);
}

void request_ok(struct request *rq, const char *fields_fmt, ...)
{
	char line[RECORD_LINE_MAX]; /* not cleared, to be fast: every answer comes here */
	size_t len = 2;
	memcpy(line, "ok", len);
	if (fields_fmt && fields_fmt[0]) {
		line[len++] = ' ';
		va_list ap;
		va_start(ap, fields_fmt);
		int n = vsnprintf(line + len, sizeof line - len - 1, fields_fmt, ap);
		va_end(ap);
		if (n < 0 || (size_t)n >= sizeof line - len - 1) {
			request_err(rq, "internal", "the answer is too long for a record");
			return;
		}
		len = n > 0 ? len + (size_t)n : len - 1; /* "%s" of nothing: no blank at the end */
	}
	line[len++] = '\n';
	request_put(rq, line, len);
	request_finish(rq);
}

void request_ok_record(struct request *rq, struct record_out *o)
{
	size_t len = record_end(o, NULL);
	if (len == 0) {
		request_err(rq, "internal", "the answer is too long for a record");
		return;
	}
	request_put(rq, o->data, len);
	request_finish(rq);
}

int request_passed(struct request *rq)
{
	int fd = rq->connection->passed_fd;

	rq->connection->passed_fd = -1;
	return fd;
}

void request_ok_with(struct request *rq, struct record_out *o, int fd)
{
	size_t len = record_end(o, NULL);
	struct output *out = output_of(rq);
	if (out)
		was_put(rq, len,
			output_put_with(out, &rq->connection->server->chunks, o->data, len, fd));
	request_finish(rq);
}

void request_err(struct request *rq, const char *code, const char *text_fmt, ...)
{
	char text[1024] = "";
	if (text_fmt) {
		va_list ap;
		va_start(ap, text_fmt);
		vsnprintf(text, sizeof text, text_fmt, ap);
		va_end(ap);
	}
	/* Texts quote values of requests, whose bytes could end the text of a record for other
	 * readers. */
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
	request_err_record(rq, RECORD("err", F("code", code)), text);
}

void request_err_record(struct request *rq, struct record_out *o, const char *text)
{
	request_put(rq, o->data, record_end(o, text));
	if (rq->verb)
		rq->verb->errors++;
	request_finish(rq);
}

void request_bad(struct request *rq, const struct error *err)
{
	request_err(rq, "bad-request", "%s", err->text);
}

void request_defer(struct request *rq, void (*cancelled)(struct request *rq, void *arg), void *arg)
{
	struct server *s = rq->connection->server;
	if (s->handling == rq)
		s->handling = NULL;
	rq->state = REQUEST_DEFERRED;
	rq->cancelled = cancelled;
	rq->arg = arg;
	/* Sends what the handler has written so far, too. */
	if (rq == rq->connection->first)
		connection_mark_dirty(rq->connection);
}
