/*
 * The lead and the other servers.  What the lead tells them is committed: each request is kept until
 * it is answered, and said again, in order, to a server that comes back (it was handed over to
 * another process, or only the connection broke).  A server answers what it has done already
 * `repeated`.  One that is not where it must be lacks what is committed: only a rollback helps.
 */
#include "lead/lead_internal.h"

#include "base/log.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COME_BACK_SECONDS 5 /* for a server that was asked for a cut */

static void others_ready(struct lead *l)
{
	size_t ready = 0;

	for (size_t i = 0; i < l->others; i++)
		ready += l->other[i].ready ? 1 : 0;
	gate_servers(l->gate, ready == l->others);
	lead_pump(l);
}

/* ---- what is not answered ---- */

static struct told *told_new(uint64_t iteration, uint64_t units, size_t head, size_t bytes)
{
	struct told *t = malloc(sizeof *t + head + bytes);

	if (t)
		*t = (struct told){.iteration = iteration,
				   .units = units,
				   .head = head,
				   .bytes = bytes};
	return t;
}

static void told_add(struct other *o, struct told *t)
{
	t->next = NULL;
	*o->end = t;
	o->end = &t->next;
}

/* Takes the first out. */
static struct told *told_take(struct other *o)
{
	struct told *t = o->first;

	o->first = t->next;
	if (!o->first)
		o->end = &o->first;
	return t;
}

static void applied(struct other *o, const struct record *r)
{
	const char *code = record_get(r, "code");

	if (record_is(r, "ok"))
		return;
	/* It is in the journal and not in that server: only a rollback makes them agree again. */
	lead_breakf(o->lead, ERROR_TEMPFAIL, o->path, "what is committed was not applied: %s: %s",
		    code ? code : "?", r->text ? r->text : "");
}

static void on_answer(const struct record *r, int closing, const void *payload, size_t bytes,
		      void *arg)
{
	struct other *o = arg;

	/* Lost: all of them are kept until the server is back. */
	if (!r || !o->first)
		return;
	if (!closing) {
		if (o->first->reply)
			o->first->reply(r, closing, payload, bytes, o->first->arg);
		return;
	}
	struct told *t = told_take(o);
	if (t->reply)
		t->reply(r, closing, payload, bytes, t->arg);
	else
		applied(o, r);
	free(t);
}

static void send_told(struct other *o, const struct told *t)
{
	if (peer_send(o->peer, t->text, t->head, t->bytes ? t->text + t->head : NULL, t->bytes,
		      on_answer, o) == 0 ||
	    !peer_is_up(o->peer))
		return; /* not connected: it goes when the connection comes */
	lead_breakf(o->lead, ERROR_TEMPFAIL, o->path, "does not read what it is told");
}

static struct told *keep(struct other *o, uint64_t iteration, uint64_t units, const char *head,
			 size_t len, const void *payload, size_t bytes)
{
	struct told *t = told_new(iteration, units, len, bytes);

	if (!t) {
		lead_breakf(o->lead, ERROR_OS, o->path, "no memory");
		return NULL;
	}
	memcpy(t->text, head, len);
	if (bytes)
		memcpy(t->text + len, payload, bytes);
	told_add(o, t);
	return t;
}

int others_tell(struct lead *l, uint64_t iteration, uint64_t units, const char *head, size_t len,
		const void *payload, size_t bytes)
{
	for (size_t i = 0; i < l->others; i++) {
		struct told *t = keep(&l->other[i], iteration, units, head, len, payload, bytes);
		if (!t)
			return -1;
		if (l->other[i].ready)
			send_told(&l->other[i], t);
	}
	return 0;
}

void others_flush(struct lead *l)
{
	for (size_t i = 0; i < l->others; i++)
		peer_flush(l->other[i].peer);
}

int other_ask(struct other *o, const char *head, size_t len, const void *payload, size_t bytes,
	      int can_fail, peer_reply_fn *reply, void *arg)
{
	struct timeval limit = {.tv_sec = COME_BACK_SECONDS};
	struct told *t = keep(o, 0, 0, head, len, payload, bytes);

	if (!t)
		return -1;
	t->reply = reply;
	t->arg = arg;
	t->can_fail = can_fail;
	if (o->ready)
		send_told(o, t);
	else if (can_fail)
		event_add(o->overdue, &limit);
	return 0;
}

int other_owe(struct other *o, uint64_t iteration, uint64_t units, const char *text, size_t head,
	      size_t bytes, struct error *err)
{
	struct told *t = told_new(iteration, units, head, bytes);

	if (!t)
		return error_set(err, ERROR_OS, o->path, "no memory");
	memcpy(t->text, text, head + bytes);
	told_add(o, t);
	return 0;
}

/* It has not come back: whoever waits for an answer is told, and what was asked is not said again. */
static void on_overdue(evutil_socket_t fd, short what, void *arg)
{
	struct other *o = arg;
	struct told **at = &o->first, *t, *gone = NULL;

	(void)fd;
	(void)what;
	while ((t = *at)) {
		if (!t->can_fail) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		t->next = gone;
		gone = t;
	}
	o->end = at;
	while ((t = gone)) {
		gone = t->next;
		t->reply(NULL, 1, NULL, 0, t->arg);
		free(t);
	}
}

/* ---- coming and going ---- */

/* The iterations at which it may be: the lead's, less what it has not answered. */
static uint64_t least_iteration(const struct other *o)
{
	for (const struct told *t = o->first; t; t = t->next) {
		if (t->units)
			return t->iteration;
	}
	return ps_iteration(o->lead->ps);
}

static int is_where(const struct other *o, const struct record *r)
{
	struct lead *l = o->lead;
	uint64_t iteration = 0, incarnation = 0;
	char part[32];

	snprintf(part, sizeof part, "%u/%zu", o->part, l->others + 1);
	const char *is = record_get(r, "part");
	if (!is || strcmp(is, part) != 0) {
		lead_breakf(l, ERROR_CONFIG, o->path, "is part %s, not %s", is ? is : "?", part);
		return 0;
	}
	if (record_u64(r, "iteration", 0, UINT64_MAX, &iteration, NULL) == 0 &&
	    record_u64(r, "incarnation", 0, UINT64_MAX, &incarnation, NULL) == 0 &&
	    iteration >= least_iteration(o) && iteration <= ps_iteration(l->ps) &&
	    incarnation == l->options.gate.incarnation)
		return 1;
	lead_breakf(l, ERROR_TEMPFAIL, o->path,
		    "is at iteration %llu of incarnation %llu, the lead at %llu of %llu",
		    (unsigned long long)iteration, (unsigned long long)incarnation,
		    (unsigned long long)ps_iteration(l->ps),
		    (unsigned long long)l->options.gate.incarnation);
	return 0;
}

static void on_stat(const struct record *r, int closing, const void *payload, size_t bytes,
		    void *arg)
{
	struct other *o = arg;

	(void)payload;
	(void)bytes;
	if (!r || closing || !is_where(o, r))
		return;
	o->ready = 1;
	event_del(o->overdue);
	for (const struct told *t = o->first; t; t = t->next)
		send_told(o, t);
	others_ready(o->lead);
}

static void on_up(struct peer *p, const struct record *r, void *arg)
{
	(void)r;
	(void)peer_send(p, "stat\n", 5, NULL, 0, on_stat, arg);
}

static void on_down(struct peer *p, void *arg)
{
	struct other *o = arg;
	struct timeval limit = {.tv_sec = COME_BACK_SECONDS};

	(void)p;
	log_say(LOG_LEVEL_WARNING, "%s: connection lost; units wait", o->path);
	o->ready = 0;
	event_add(o->overdue, &limit);
	others_ready(o->lead);
}

void others_new(struct lead *l)
{
	for (size_t i = 0; l->other && i < l->others; i++) {
		struct other *o = &l->other[i];
		o->lead = l;
		o->path = l->options.servers[i];
		o->part = (uint32_t)i + 1;
		o->end = &o->first;
	}
}

int others_start(struct lead *l, struct event_base *base, struct error *err)
{
	for (size_t i = 0; i < l->others; i++) {
		struct other *o = &l->other[i];
		struct peer_options options = {
			.path = o->path, .up = on_up, .down = on_down, .owner = o};
		o->overdue = evtimer_new(base, on_overdue, o);
		o->peer = o->overdue ? peer_new(base, &options) : NULL;
		if (!o->peer)
			return error_set(err, ERROR_OS, o->path, "no memory");
	}
	return 0;
}

void others_stop(struct lead *l)
{
	for (size_t i = 0; i < l->others; i++) {
		if (l->other[i].peer)
			peer_free(l->other[i].peer);
		if (l->other[i].overdue)
			event_free(l->other[i].overdue);
	}
}

void others_free(struct lead *l)
{
	for (size_t i = 0; l->other && i < l->others; i++) {
		while (l->other[i].first)
			free(told_take(&l->other[i]));
	}
	free(l->other);
}
