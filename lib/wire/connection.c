/*
 * connection: one client from its greeting to its end: which events we wait for, and how answers
 * are written. input.c parses what the client sends.
 */
#include "wire/server_internal.h"

#include "base/log.h"

#include <stdlib.h>
#include <unistd.h>

static void connection_on_event(evutil_socket_t fd, short what, void *connection);

/* ---- life ---- */

struct connection *connection_new(struct server *s, int fd)
{
	struct connection *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->server = s;
	c->fd = fd;
	c->passed_fd = -1;
	c->active = 1;
	c->number = ++s->connection_last;
	if (transport_who(fd, &c->uid, &c->pid) != 0)
		c->uid = (uid_t)-1;
	c->next = s->connections;
	if (c->next)
		c->next->previous = c;
	s->connections = c;
	s->connection_count++;
	return c;
}

static void connection_take_out(struct connection *c)
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

void connection_free(struct connection *c)
{
	struct server *s = c->server;
	c->closing = c->buried = 1;
	request_cancel_all(c);
	if (s->options.closed)
		s->options.closed(c, s->options.owner);
	connection_drop_input(c);
	output_clear(&c->out, &s->chunks);
	mapping_release(c->mapping);
	if (c->watched)
		event_del(&c->event);
	close(c->fd);
	connection_take_out(c);
	free(c);
}

void connection_close(struct connection *c)
{
	struct server *s = c->server;
	if (c->closing)
		return;
	c->closing = 1;
	connection_mark_dirty(c); /* answers of this turn are still written */
	c->closing_next = s->closing;
	s->closing = c;
}

void connection_lose(struct connection *c)
{
	c->lost = 1;
	connection_close(c);
}

void connection_end(struct connection *c)
{
	c->ended = 1;
	connection_drop_input(c);
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

pid_t connection_pid(const struct connection *c)
{
	return c->pid;
}

int connection_fd(const struct connection *c)
{
	return c->fd;
}

/* ---- waiting ---- */

int connection_must_pause(const struct connection *c)
{
	return c->open >= OPEN_MAX || c->out.bytes + c->held > UNREAD_PAUSE;
}

static int is_read_from(const struct connection *c)
{
	return !c->ended && !c->paused && !c->waits && !c->server->draining;
}

/* Registers for the events that c waits for now. A client that we do not read from is still watched
 * for its death, edge-triggered: a half-closed one would report forever otherwise. (EV_CLOSED would
 * miss deaths that libevent reports as an error.) */
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
	if (event_assign(&c->event, c->server->base, c->fd, flags, connection_on_event, c) != 0 ||
	    event_add(&c->event, NULL) != 0) {
		log_say(LOG_LEVEL_ERROR, "client %llu can't be watched: closed",
			(unsigned long long)c->number);
		connection_lose(c);
	}
}

static void connection_on_event(evutil_socket_t fd, short what, void *connection)
{
	struct connection *c = connection;
	(void)fd;
	if (c->closing)
		return;
	if (what & EV_WRITE) {
		c->blocked = 0;
		connection_mark_dirty(c);
	}
	if (is_read_from(c)) {
		if (what & EV_READ)
			connection_read(c);
	} else if (transport_is_gone(c->fd)) {
		connection_lose(c);
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

/* The client no longer needs answers. Read what it sent before it went to the end, because this may
 * contain one-way requests; then the connection closes. */
static void connection_go_deaf(struct connection *c)
{
	struct server *s = c->server;
	if (!s->verbs.any_one_way || c->ended || s->draining || !transport_is_gone(c->fd)) {
		connection_lose(c);
		return;
	}
	c->lost = 1;
	c->blocked = 0;
	output_clear(&c->out, &s->chunks);
}

void connection_flush(struct connection *c)
{
	c->dirty = 0;
	if (c->lost && c->closing)
		return;
	if (!c->lost && c->out.bytes > 0 && !c->blocked) {
		size_t before = c->out.bytes;
		int result = output_write(&c->out, &c->server->chunks, c->fd);
		if (result < 0)
			connection_go_deaf(c);
		if (c->closing && c->lost)
			return;
		c->blocked = result == OUTPUT_BLOCKED;
		c->active |= c->out.bytes < before;
	}
	c->stuck = c->out.copied;
	if (c->ended && c->open == 0 && c->out.bytes == 0)
		connection_close(c);
	check_paused(c);
	connection_watch(c);
}
