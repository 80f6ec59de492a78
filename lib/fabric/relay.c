/* relay: see relay.h. Listening, who is who, and what the messages mean. */
#include "fabric/relay_internal.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/grow.h"
#include "base/log.h"
#include "wire/timer.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_SECONDS 0.02   /* seconds between attempts to listen, or to reach a daemon that has no
			      * room for one more */
#define CONNECT_SECONDS 10.0
#define ACCEPTS 64           /* of one turn */
#define DESCRIPTORS_MAX 65536

/* ---- conversations ---- */

static uint64_t conversation_key(uint32_t origin, uint64_t number)
{
	return (uint64_t)origin << 40 | number;
}

struct conversation *relay_find(const struct relay *relay, uint32_t origin, uint64_t number)
{
	return u64map_get(&relay->all, conversation_key(origin, number));
}

void conversation_hold(struct conversation *c)
{
	c->held++;
}

void conversation_release(struct conversation *c)
{
	if (--c->held > 0)
		return;
	mapping_release(c->mapping);
	free(c->hash);
	free(c->sum);
	free(c->line);
	free(c);
}

/* Drops the table's own reference; the memory of chunks on their way stays. */
void conversation_end(struct conversation *c)
{
	struct relay *relay = c->relay;
	if (c->is_over)
		return;
	c->is_over = 1;
	if (c->watched)
		event_del(&c->event);
	if (c->fd >= 0)
		close(c->fd);
	if (c->passed_fd >= 0)
		close(c->passed_fd);
	if (c->mirror_fd >= 0)
		close(c->mirror_fd);
	c->fd = c->passed_fd = c->mirror_fd = -1;
	c->watched = 0;
	conversation_drop_pieces(c);
	relay_sum_forget(c);
	framer_clear(&c->in);
	u64map_remove(&relay->all, conversation_key(c->origin, c->number));
	if (c->is_near)
		relay->counts.near--;
	else
		relay->counts.far--;
	c->link->mirrors -= !c->is_near && c->mapping;
	conversation_release(c);
}

void conversation_leave(struct conversation *c)
{
	if (c->is_over)
		return;
	if (!c->gone && link_tell(c, (struct head){.kind = KIND_GONE}, NULL, 0) != 0)
		log_say(LOG_LEVEL_ERROR, "relay: out of memory: the other side of a conversation "
					 "is not told that it is over");
	conversation_end(c);
}

static void relay_on_event(evutil_socket_t fd, short what, void *conversation)
{
	struct conversation *c = conversation;
	(void)fd;
	conversation_hold(c);
	if (what & EV_WRITE) {
		c->blocked = 0;
		conversation_write(c);
	}
	if ((what & EV_READ) && !c->is_over)
		conversation_read(c);
	conversation_release(c);
}

/* Registers for the events that c waits for now. A client that has sent its last byte is watched
 * only for its death, edge-triggered: its end of file stays readable forever. */
void conversation_watch(struct conversation *c)
{
	short flags = 0;
	if (c->is_over || c->fd < 0)
		return;
	if (conversation_reads(c) || conversation_drains(c)) {
		flags |= EV_READ;
		c->has_more = 0;
	} else if (c->said_end)
		flags |= EV_READ | EV_ET;
	else if (!c->read_end && !c->line && c->window > 0 && link_is_full(c->link))
		link_wait(c); /* nothing else would look at it again */
	/* Most payloads have gone before more comes. */
	if (!flags && c->line && !c->has_more)
		flags |= c->watched & EV_READ;
	if (c->blocked)
		flags |= EV_WRITE;
	if (flags)
		flags |= EV_PERSIST;
	if (flags == c->watched)
		return;
	if (c->watched)
		event_del(&c->event);
	c->watched = flags;
	if (flags && (event_assign(&c->event, c->relay->options.base, c->fd, flags, relay_on_event,
				   c) != 0 ||
		      event_add(&c->event, NULL) != 0)) {
		log_say(LOG_LEVEL_ERROR, "relay: a conversation can't be watched: closed");
		c->watched = 0;
		conversation_leave(c);
	}
}

struct conversation *conversation_new(struct relay *relay, unsigned rank, uint32_t origin,
				      uint64_t number)
{
	struct conversation *c = calloc(1, sizeof *c);
	if (!c || u64map_reserve(&relay->all, relay->all.count + 1) != 0) {
		free(c);
		return NULL;
	}
	c->relay = relay;
	c->link = &relay->link[rank];
	c->origin = origin;
	c->number = number;
	c->at = -1;
	c->is_near = origin == world_rank(relay->options.world);
	c->fd = c->passed_fd = c->mirror_fd = -1;
	c->window = CONVERSATION_WINDOW;
	c->held = 1;
	u64map_put(&relay->all, conversation_key(origin, number), c);
	if (c->is_near)
		relay->counts.near++;
	else
		relay->counts.far++;
	return c;
}

/* ---- later, from the loop ---- */

void conversation_resume_later(struct conversation *c)
{
	struct relay *relay = c->relay;
	if (c->resuming || c->is_over)
		return;
	conversation_hold(c);
	c->resuming = 1;
	c->resume_next = NULL;
	if (relay->resume.last)
		relay->resume.last->resume_next = c;
	else
		relay->resume.first = c;
	relay->resume.last = c;
	event_active(relay->work, EV_TIMEOUT, 0);
}

static void on_work(evutil_socket_t fd, short what, void *owner)
{
	struct relay *relay = owner;
	struct conversation *c = relay->resume.first;
	(void)fd;
	(void)what;
	relay->resume = (struct queue){0};
	while (c) {
		struct conversation *next = c->resume_next;
		conversation_resume(c);
		conversation_release(c);
		c = next;
	}
}

static void retry_soon(struct relay *relay)
{
	if (!timer_is_set(relay->retry))
		timer_set(relay->retry, RETRY_SECONDS);
}

/* ---- the daemon's side ---- */

/* -1: it can't be connected. 1: later. */
static int connect_daemon(struct conversation *c)
{
	struct relay *relay = c->relay;
	char path[PATH_MAX];
	struct error why = {0};
	if (fs_join(path, sizeof path, relay->options.run_dir, c->line, &why) == 0 &&
	    transport_connect(path, &c->fd, &why) == 0) {
		free(c->line);
		c->line = NULL;
		conversation_write(c);
		return 0;
	}
	if (why.code != ERROR_TEMPFAIL || clock_mono() > c->connect_until)
		return -1;
	return 1;
}

static void connect_again(struct relay *relay)
{
	struct conversation *c = relay->connecting;
	relay->connecting = NULL;
	while (c) {
		struct conversation *next = c->connect_next;
		int later = c->is_over ? 0 : connect_daemon(c);
		if (later < 0)
			conversation_leave(c);
		if (later > 0) {
			c->connect_next = relay->connecting;
			relay->connecting = c;
		} else {
			conversation_release(c);
		}
		c = next;
	}
}

/* Connects only to sockets that a route places here: other sockets of this host can't be reached
 * through the world. */
static void relay_on_open(struct relay *relay, unsigned rank, const struct head *h,
			  const char *name, size_t bytes)
{
	struct conversation *c = conversation_new(relay, rank, h->origin, h->number);
	char *socket = strndup(name, bytes);
	const struct route *route = socket ? routes_find(&relay->routes, socket) : NULL;
	if (!c) {
		struct head gone = {.kind = KIND_GONE, .origin = h->origin, .number = h->number};
		free(socket);
		log_say(LOG_LEVEL_ERROR, "relay: out of memory for a conversation");
		(void)link_say(&relay->link[rank], &gone, NULL, 0);
		return;
	}
	c->line = socket; /* until it is connected */
	c->connect_until = clock_mono() + CONNECT_SECONDS;
	int later = -1;
	if (route && strcmp(route->host, world_host(relay->options.world,
						    world_rank(relay->options.world))) == 0)
		later = connect_daemon(c);
	if (later < 0) {
		conversation_leave(c);
	} else if (later > 0) {
		conversation_hold(c);
		c->connect_next = relay->connecting;
		relay->connecting = c;
		retry_soon(relay);
	}
}

/* Makes as much memory for the daemon as the client shares. If there is none, the daemon will
 * report that no descriptor came. */
static void on_map(struct conversation *c, uint64_t bytes)
{
	struct error why;
	if (c->mapping)
		return;
	if (mapping_make(&c->mapping, &c->mirror_fd, bytes, &why) != 0)
		log_say(LOG_LEVEL_WARNING, "relay: %s", why.text);
	else
		c->link->mirrors++;
}

static void on_small(struct conversation *c, const struct head *h, const char *data, size_t bytes)
{
	void *into = bytes == h->bytes ? mapping_at(c->mapping, h->offset, bytes) : NULL;
	if (into)
		memcpy(into, data, bytes);
}

/* ---- messages ---- */

static void on_talk(struct conversation *c, const struct head *h, const char *data, size_t bytes)
{
	switch ((enum kind)h->kind) {
	case KIND_DATA:
		conversation_take(c, data, bytes, h->pass && c->mirror_fd >= 0);
		break;
	case KIND_MAP:
		on_map(c, h->bytes);
		break;
	case KIND_SMALL:
		on_small(c, h, data, bytes);
		break;
	case KIND_CHUNK:
		conversation_take_chunk(c, h);
		if (bytes > 0 && !c->is_over)
			conversation_take(c, data, bytes, 0);
		break;
	case KIND_COPY: {
		struct copy copy;
		if (bytes != sizeof copy)
			break;
		memcpy(&copy, data, sizeof copy);
		conversation_take_copy(c, h, &copy);
		break;
	}
	case KIND_LACK:
		link_lacked(c, h->offset, h->bytes);
		break;
	case KIND_CREDIT:
		c->window += (int64_t)h->bytes;
		if (c->window > 0 && c->window <= (int64_t)h->bytes)
			conversation_resume_later(c);
		break;
	case KIND_SUMMED:
		relay_far_summed(c, h->offset);
		break;
	case KIND_GONE:
		c->gone = 1;
		if (c->is_sum) {
			conversation_end(c);
			break;
		}
		c->read_end = c->said_end = 1; /* nobody listens */
		conversation_write(c);
		break;
	case KIND_SHUT:
		c->shut = 1;
		conversation_write(c);
		break;
	case KIND_OPEN:
	case KIND_SUM:
	case KIND_ACK:
		break;
	}
}

static void relay_on_message(unsigned rank, const void *data, size_t bytes, void *owner)
{
	struct relay *relay = owner;
	struct link *l = &relay->link[rank];
	struct head h;
	const char *rest = (const char *)data + sizeof h;
	if (bytes < sizeof h || relay->stopped)
		return;
	memcpy(&h, data, sizeof h);
	if (h.kind == KIND_ACK) {
		link_acked(l, h.bytes);
		return;
	}
	link_heard(l, bytes);
	struct conversation *c = relay_find(relay, h.origin, h.number);
	if (c && c->link == l) {
		conversation_hold(c);
		on_talk(c, &h, rest, bytes - sizeof h);
		conversation_release(c);
	} else if (!c && h.kind == KIND_OPEN && h.origin == rank) {
		relay_on_open(relay, rank, &h, rest, bytes - sizeof h);
	} else if (!c && h.kind == KIND_SUM && h.origin == rank) {
		relay_far_open(relay, rank, &h, rest, bytes - sizeof h);
	} else if (h.kind == KIND_CHUNK) {
		link_swallow(l, h.tag, (size_t)h.bytes);
	}
}

/* ---- the clients' side ---- */

static void relay_begin(struct listener *l, int fd)
{
	struct relay *relay = l->relay;
	int rank = world_find(relay->options.world, l->route.host);
	uint32_t me = world_rank(relay->options.world);
	struct conversation *c =
		rank < 0 ? NULL
			 : conversation_new(relay, (unsigned)rank, me, ++relay->last_number);
	if (!c) {
		close(fd); /* closed, like a connection to a daemon that is not there */
		return;
	}
	c->fd = fd;
	c->socket = XXH3_64bits(l->route.socket, strlen(l->route.socket));
	relay->counts.conversations++;
	if (link_tell(c, (struct head){.kind = KIND_OPEN}, l->route.socket,
		      strlen(l->route.socket)) != 0)
		conversation_end(c);
	else
		conversation_watch(c);
}

static void relay_on_accept(evutil_socket_t fd, short what, void *listener)
{
	struct listener *l = listener;
	(void)fd;
	(void)what;
	for (int i = 0; i < ACCEPTS; i++) {
		int client = transport_accept(&l->at);
		if (client >= 0) {
			relay_begin(l, client);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			   errno == ENOBUFS) {
			event_del(l->event); /* others wait in the kernel */
			retry_soon(l->relay);
			return;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			return;
		}
	}
}

/* -1: not now. */
static int relay_listen_at(struct listener *l)
{
	struct error why = {0};
	if (l->at.fd < 0 && transport_listen(&l->at, l->path, &why) != 0) {
		if (!l->told)
			log_say(LOG_LEVEL_WARNING, "%s: %s: listening is tried again later",
				why.place, why.text);
		l->told = 1;
		return -1;
	}
	if (!l->event)
		l->event = event_new(l->relay->options.base, l->at.fd, EV_READ | EV_PERSIST,
				     relay_on_accept, l);
	return l->event ? event_add(l->event, NULL) : -1;
}

static void on_retry(void *owner)
{
	struct relay *relay = owner;
	int again = 0;
	for (size_t i = 0; i < relay->listener_count; i++)
		if (relay_listen_at(relay->listener[i]) != 0)
			again = 1;
	connect_again(relay);
	if (again || relay->connecting)
		retry_soon(relay);
}

static void listener_free(struct listener *l)
{
	if (l->event)
		event_free(l->event);
	transport_unlisten(&l->at, l->path);
	free(l->path);
	free(l);
}

static void add_listener(struct relay *relay, const struct route *route)
{
	char path[PATH_MAX];
	struct listener *l = calloc(1, sizeof *l);
	if (l && fs_join(path, sizeof path, relay->options.run_dir, route->socket, NULL) == 0)
		l->path = strdup(path);
	if (!l || !l->path ||
	    GROW(relay->listener, relay->listener_room, relay->listener_count + 1) != 0) {
		log_say(LOG_LEVEL_ERROR, "relay: %s can't be listened at", route->socket);
		if (l)
			free(l->path);
		free(l);
		return;
	}
	l->relay = relay;
	l->route = *route;
	l->at.fd = -1;
	relay->listener[relay->listener_count++] = l;
	if (relay_listen_at(l) != 0)
		retry_soon(relay);
}

static struct listener *find_listener(const struct relay *relay, const char *socket)
{
	for (size_t i = 0; i < relay->listener_count; i++)
		if (strcmp(relay->listener[i]->route.socket, socket) == 0)
			return relay->listener[i];
	return NULL;
}

static const char *relay_host(const struct relay *relay)
{
	return world_host(relay->options.world, world_rank(relay->options.world));
}

/* Whether this is the socket of a daemon, or of a server's standby, that no route places here. */
static int is_nobodys(const struct relay *relay, const char *name)
{
	char socket[NAME_MAX + 1];
	size_t len = strlen(name), sock = strlen(".sock"), standby = strlen(".standby");
	int is_standby = len > standby && strcmp(name + len - standby, ".standby") == 0;
	len -= is_standby ? standby : 0;
	snprintf(socket, sizeof socket, "%.*s", (int)len, name);
	if (len <= sock || strcmp(socket + len - sock, ".sock") != 0 ||
	    strcmp(socket, "fabric.sock") == 0)
		return 0;
	const struct route *route = routes_find(&relay->routes, socket);
	return !route || (is_standby && strcmp(route->host, relay_host(relay)) != 0);
}

/* A daemon that was killed leaves its socket behind. When its place is on another host now, or
 * nowhere, nobody else removes it before the job ends. */
static void remove_left(const struct relay *relay)
{
	char path[PATH_MAX];
	DIR *dir = opendir(relay->options.run_dir);
	const struct dirent *e;
	while (dir && (e = readdir(dir)) != NULL)
		if (is_nobodys(relay, e->d_name) &&
		    fs_join(path, sizeof path, relay->options.run_dir, e->d_name, NULL) == 0)
			transport_remove_dead(path, NULL);
	if (dir)
		closedir(dir);
}

void relay_set_routes(struct relay *relay, struct routes *r)
{
	const char *me = relay_host(relay);
	routes_clear(&relay->routes);
	relay->routes = *r;
	*r = (struct routes){0};
	for (size_t i = relay->listener_count; i-- > 0;) {
		struct listener *l = relay->listener[i];
		const struct route *route = routes_find(&relay->routes, l->route.socket);
		if (route && strcmp(route->host, me) != 0) {
			l->route = *route;
			continue;
		}
		listener_free(l);
		relay->listener[i] = relay->listener[--relay->listener_count];
	}
	for (size_t i = 0; i < relay->routes.count; i++) {
		const struct route *route = &relay->routes.at[i];
		if (strcmp(route->host, me) != 0 && !find_listener(relay, route->socket))
			add_listener(relay, route);
	}
	remove_left(relay);
}

const struct routes *relay_routes(const struct relay *relay)
{
	return &relay->routes;
}

/* ---- life ---- */

int relay_new(struct relay **out, const struct relay_options *options, struct error *err)
{
	struct relay *relay = calloc(1, sizeof *relay);
	if (!relay)
		return error_set(err, ERROR_OS, "relay", "out of memory");
	relay->options = *options;
	relay->link_count = world_size(options->world);
	relay->link = calloc(relay->link_count, sizeof *relay->link);
	relay->work = event_new(options->base, -1, 0, on_work, relay);
	relay->retry = timer_new(options->base, on_retry, relay);
	relay->unpark = timer_new(options->base, relay_sum_on_time, relay);
	relay->sum = timer_new(options->base, relay_sum_step, relay);
	if (!relay->link || !relay->work || !relay->retry || !relay->unpark || !relay->sum) {
		relay_free(relay);
		return error_set(err, ERROR_OS, "relay", "out of memory");
	}
	for (unsigned i = 0; i < relay->link_count; i++) {
		relay->link[i].relay = relay;
		relay->link[i].rank = i;
	}
	/* Two for each conversation between hosts of one machine, one otherwise. */
	fs_allow_files(DESCRIPTORS_MAX);
	world_on(options->world, WORLD_RELAY, relay_on_message, relay);
	*out = relay;
	return 0;
}

static struct conversation *any(const struct relay *relay)
{
	size_t at = 0;
	return u64map_next(&relay->all, &at);
}

void relay_stop(struct relay *relay)
{
	struct conversation *c;
	if (!relay || relay->stopped)
		return;
	relay->stopped = 1;
	while (relay->listener_count > 0)
		listener_free(relay->listener[--relay->listener_count]);
	while ((c = any(relay)) != NULL)
		conversation_end(c);
	timer_stop(relay->retry);
	timer_stop(relay->unpark);
	timer_stop(relay->sum);
}

/* Frees the lists; memory that is still in MPI's chunks is lost. */
static void relay_let_go(struct relay *relay)
{
	struct conversation *c, *next;
	for (c = relay->resume.first; c; c = next) {
		next = c->resume_next;
		conversation_release(c);
	}
	for (c = relay->connecting; c; c = next) {
		next = c->connect_next;
		conversation_release(c);
	}
	for (unsigned i = 0; i < relay->link_count; i++) {
		struct link *l = &relay->link[i];
		for (c = l->waiting.first; c; c = next) {
			next = c->link_next;
			conversation_release(c);
		}
		for (c = l->bulk.first; c; c = next) {
			next = c->bulk_next;
			conversation_release(c);
		}
	}
}

void relay_free(struct relay *relay)
{
	if (!relay)
		return;
	relay_stop(relay);
	if (relay->link)
		relay_let_go(relay);
	routes_clear(&relay->routes);
	u64map_free(&relay->all);
	if (relay->work)
		event_free(relay->work);
	timer_free(relay->retry);
	timer_free(relay->unpark);
	timer_free(relay->sum);
	free(relay->listener);
	free(relay->link);
	free(relay);
}

void relay_count(const struct relay *relay, struct relay_counts *counts)
{
	*counts = relay->counts;
	counts->listens = 0;
	for (size_t i = 0; i < relay->listener_count; i++)
		counts->listens += relay->listener[i]->at.fd >= 0;
}

int relay_listens(const struct relay *relay, const char *socket)
{
	const struct listener *l = find_listener(relay, socket);
	return l && l->at.fd >= 0;
}
