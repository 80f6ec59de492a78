/*
 * peer: see peer.h.  Never blocks and never repeats a request.  Its callbacks may send, and may
 * free the peer: every use after a callback asks first whether it is still there.
 */
#include "wire/peer.h"

#include "base/clock.h"
#include "base/log.h"
#include "wire/answers.h"
#include "wire/output.h"
#include "wire/timer.h"
#include "wire/transport.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_SECONDS_FIRST 0.01
#define RETRY_SECONDS_MAX 1.0
#define GREETING_SECONDS 10.0
#define OUTPUT_BYTES_MAX (64u << 20)

struct open_request {
	struct open_request *next;
	peer_reply_fn *reply;
	void *arg;
	double since;
};

enum peer_state { PEER_DOWN, PEER_GREETING, PEER_UP };

struct peer {
	struct peer_options options;
	char *path;
	struct event_base *base;
	enum peer_state state;
	int dead;      /* freed by the owner while a callback runs */
	unsigned busy; /* callbacks on the stack */
	double retry_seconds, since;
	struct event *reader, *writer, *flusher;
	struct timer *timer;
	struct open_request *first, *last, *unused;
	size_t open;
	struct output out;
	struct chunk_pool chunks;
	struct record record;
	struct answers in;
};

static void peer_arm(struct peer *p, double seconds)
{
	timer_set(p->timer, seconds > 0 ? seconds : 0);
}

static void free_now(struct peer *p)
{
	struct event **event[] = {&p->reader, &p->writer, &p->flusher};
	for (size_t i = 0; i < sizeof event / sizeof *event; i++)
		if (*event[i])
			event_free(*event[i]);
	timer_free(p->timer);
	while (p->unused) {
		struct open_request *q = p->unused;
		p->unused = q->next;
		free(q);
	}
	output_clear(&p->out, &p->chunks);
	chunk_pool_clear(&p->chunks);
	free(p->path);
	free(p);
}

static void peer_enter(struct peer *p)
{
	p->busy++;
}

/* Ends a callback. 0: the peer is gone. */
static int peer_leave(struct peer *p)
{
	if (--p->busy > 0 || !p->dead)
		return !p->dead;
	free_now(p);
	return 0;
}

/* ---- requests ---- */

int peer_is_up(const struct peer *p)
{
	return p->state == PEER_UP;
}

static struct open_request *take_first(struct peer *p)
{
	struct open_request *q = p->first;
	p->first = q->next;
	if (!p->first)
		p->last = NULL;
	p->open--;
	return q;
}

static void put_back(struct peer *p, struct open_request *q)
{
	q->next = p->unused;
	p->unused = q;
}

static void fail_all(struct peer *p)
{
	while (p->first) {
		struct open_request *q = take_first(p);
		peer_reply_fn *reply = q->reply;
		void *arg = q->arg;
		put_back(p, q);
		if (reply)
			reply(NULL, 1, arg);
	}
}

/* ---- connection ---- */

static void forget_connection(struct peer *p)
{
	if (p->reader) {
		event_free(p->reader);
		p->reader = NULL;
	}
	if (p->writer) {
		event_free(p->writer);
		p->writer = NULL;
	}
	event_del(p->flusher);
	timer_stop(p->timer);
	answers_end(&p->in);
	output_clear(&p->out, &p->chunks);
	p->state = PEER_DOWN;
}

static void retry_later(struct peer *p)
{
	peer_arm(p, p->retry_seconds);
	p->retry_seconds *= 2;
	if (p->retry_seconds > RETRY_SECONDS_MAX)
		p->retry_seconds = RETRY_SECONDS_MAX;
}

/* The connection has ended. Tell the requests first, then the owner; only then try to connect
 * again. */
static void peer_drop(struct peer *p)
{
	int was_up = p->state == PEER_UP;
	forget_connection(p);
	peer_enter(p);
	fail_all(p);
	if (was_up && !p->dead && p->options.down)
		p->options.down(p, p->options.owner);
	if (peer_leave(p))
		retry_later(p);
}

/* Sets the timer to the oldest request's deadline. */
static void watch_oldest(struct peer *p)
{
	if (p->state != PEER_UP || p->options.answer_seconds <= 0)
		return;
	if (p->first)
		peer_arm(p, p->first->since + p->options.answer_seconds - clock_mono());
	else
		timer_stop(p->timer);
}

/* ---- reading ---- */

/* Passes the record to the request that it answers. 0: the peer is gone or dropped. */
static int peer_give(struct peer *p)
{
	struct open_request *q = p->first;
	int closing = answers_is_last(&p->record);
	if (!q) {
		log_say(LOG_LEVEL_WARNING, "%s: an answer without a request", p->path);
		peer_drop(p);
		return 0;
	}
	peer_reply_fn *reply = q->reply;
	void *arg = q->arg;
	if (closing) {
		put_back(p, take_first(p));
		watch_oldest(p);
	}
	if (!reply)
		return 1;
	int fd = p->in.fd;
	peer_enter(p);
	reply(&p->record, closing, arg);
	return peer_leave(p) && p->in.fd == fd;
}

static int peer_greeted(struct peer *p)
{
	if (answers_greeting(&p->record, p->path, NULL) != 0) {
		peer_drop(p);
		return 0;
	}
	p->state = PEER_UP;
	p->retry_seconds = RETRY_SECONDS_FIRST;
	timer_stop(p->timer);
	if (!p->options.up)
		return 1;
	peer_enter(p);
	p->options.up(p, &p->record, p->options.owner);
	return peer_leave(p);
}

/* Takes one record. 0: more has to be read first, or the peer is gone or dropped. */
static int peer_take_one(struct peer *p)
{
	struct error err;
	(void)framer_take(&p->in.in, NULL, SIZE_MAX);
	if (answers_due(&p->in) > 0)
		return 0;
	int found = answers_next(&p->in, &p->record, &err);
	if (found == RECORD_END)
		return 0;
	if (found < 0) {
		log_say(LOG_LEVEL_WARNING, "%s: %s", err.place, err.text);
		peer_drop(p);
		return 0;
	}
	return p->state == PEER_GREETING ? peer_greeted(p) : peer_give(p);
}

static void peer_on_readable(evutil_socket_t fd, short what, void *peer)
{
	struct peer *p = peer;
	(void)fd;
	(void)what;
	peer_enter(p);
	ssize_t n = answers_read(&p->in, NULL, 0, NULL);
	if (n < 0)
		peer_drop(p);
	while (n > 0 && peer_take_one(p))
		;
	(void)peer_leave(p);
}

/* ---- writing ---- */

static void peer_write_out(struct peer *p)
{
	int result = output_write(&p->out, &p->chunks, p->in.fd);
	if (result < 0)
		peer_drop(p);
	else if (result == OUTPUT_BLOCKED)
		event_add(p->writer, NULL);
}

static void on_writable(evutil_socket_t fd, short what, void *peer)
{
	struct peer *p = peer;
	(void)fd;
	(void)what;
	if (p->in.fd >= 0)
		peer_write_out(p);
}

/* Sends all or nothing: half a request could never be undone. */
static int peer_put(struct peer *p, const char *line, size_t len, const void *payload, size_t bytes)
{
	char *to = output_reserve(&p->out, &p->chunks, len + bytes);
	if (!to)
		return -1;
	memcpy(to, line, len);
	if (bytes > 0)
		memcpy(to + len, payload, bytes);
	output_commit(&p->out, len + bytes);
	return 0;
}

/* Prepares a request of this many bytes; NULL: it can't be sent. */
static struct open_request *peer_request_new(struct peer *p, size_t bytes)
{
	struct open_request *q = p->unused;
	if (p->state != PEER_UP || p->dead || p->out.bytes + bytes > p->options.output_bytes_max)
		return NULL;
	if (!q)
		return malloc(sizeof *q);
	p->unused = q->next;
	return q;
}

/* Opens q, if its bytes were put. */
static int request_open(struct peer *p, struct open_request *q, int is_put, peer_reply_fn *reply,
			void *arg)
{
	if (!is_put) {
		put_back(p, q);
		return -1;
	}
	*q = (struct open_request){.reply = reply, .arg = arg, .since = clock_mono()};
	if (p->last)
		p->last->next = q;
	else
		p->first = q;
	p->last = q;
	p->open++;
	if (p->open == 1)
		watch_oldest(p);
	/* Write after the callbacks that are due: what they send goes in the same write. */
	if (!event_pending(p->writer, EV_WRITE, NULL))
		event_active(p->flusher, EV_TIMEOUT, 0);
	return 0;
}

int peer_send(struct peer *p, const char *line, size_t len, const void *payload, size_t bytes,
	      peer_reply_fn *reply, void *arg)
{
	struct open_request *q = peer_request_new(p, len + bytes);
	return q ? request_open(p, q, peer_put(p, line, len, payload, bytes) == 0, reply, arg) : -1;
}

int peer_send_ref(struct peer *p, const char *text, size_t len, void (*release)(void *of), void *of,
		  peer_reply_fn *reply, void *arg)
{
	struct open_request *q = peer_request_new(p, len);
	if (q)
		return request_open(
			p, q, output_put_ref(&p->out, &p->chunks, text, len, release, of) == 0,
			reply, arg);
	release(of);
	return -1;
}

int peer_send_with(struct peer *p, const char *line, size_t len, int fd, peer_reply_fn *reply,
		   void *arg)
{
	struct open_request *q = peer_request_new(p, len);
	return q ? request_open(p, q, output_put_with(&p->out, &p->chunks, line, len, fd) == 0,
				reply, arg)
		 : -1;
}

void peer_flush(struct peer *p)
{
	if (p->in.fd < 0 || p->out.bytes == 0 || event_pending(p->writer, EV_WRITE, NULL))
		return;
	int result = output_write(&p->out, &p->chunks, p->in.fd);
	if (result < 0)
		/* The timer finds the same state, and may drop the connection. */
		event_active(p->flusher, EV_TIMEOUT, 0);
	else if (result == OUTPUT_BLOCKED)
		event_add(p->writer, NULL);
}

/* ---- connecting ---- */

static void connect_now(struct peer *p)
{
	int fd;
	if (transport_connect(p->path, &fd, NULL) != 0) {
		retry_later(p);
		return;
	}
	answers_begin(&p->in, fd, p->path);
	p->state = PEER_GREETING;
	p->reader = event_new(p->base, fd, EV_READ | EV_PERSIST, peer_on_readable, p);
	p->writer = event_new(p->base, fd, EV_WRITE, on_writable, p);
	if (!p->reader || !p->writer || event_add(p->reader, NULL) != 0) {
		peer_drop(p);
		return;
	}
	peer_arm(p, p->options.answer_seconds > 0 ? p->options.answer_seconds : GREETING_SECONDS);
}

static void peer_on_timer(void *peer)
{
	struct peer *p = peer;
	if (p->state == PEER_DOWN) {
		connect_now(p);
		return;
	}
	if (p->state == PEER_UP && p->first &&
	    clock_mono() < p->first->since + p->options.answer_seconds) {
		watch_oldest(p);
		return;
	}
	log_say(LOG_LEVEL_WARNING, "%s: no answer in %g s: connection dropped", p->path,
		p->options.answer_seconds > 0 ? p->options.answer_seconds : GREETING_SECONDS);
	peer_drop(p);
}

struct peer *peer_new(struct event_base *base, const struct peer_options *options)
{
	struct peer *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->options = *options;
	if (p->options.output_bytes_max == 0)
		p->options.output_bytes_max = OUTPUT_BYTES_MAX;
	p->base = base;
	p->in.fd = -1;
	p->retry_seconds = RETRY_SECONDS_FIRST;
	p->path = strdup(options->path);
	p->timer = timer_new(base, peer_on_timer, p);
	p->flusher = event_new(base, -1, 0, on_writable, p);
	if (!p->path || !p->timer || !p->flusher) {
		free_now(p);
		return NULL;
	}
	peer_arm(p, 0);
	return p;
}

void peer_free(struct peer *p)
{
	if (!p || p->dead)
		return;
	forget_connection(p);
	p->dead = 1;
	peer_enter(p);
	fail_all(p);
	(void)peer_leave(p);
}
