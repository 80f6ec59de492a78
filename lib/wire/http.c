/*
 * http: see http.h.  evhttp does not count connections, and its only deadline is for silence, so a
 * client that sends a byte now and then would stay.  Count and deadlines are kept here: we hold a
 * reference to each connection's stream, and a regular look finds those that evhttp has finished
 * with and those that are late.
 */
#include "wire/http.h"

#include "base/clock.h"
#include "wire/timer.h"
#include "wire/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_SECONDS 0.25
#define HEADERS_BYTES_MAX 8192
#define QUEUE_MAX 64 /* connections that the kernel keeps for us */

/* A name at which we listen. */
struct door {
	struct door *next;
	struct evconnlistener *listener; /* evhttp's */
	struct transport_listener unix_socket;
	char *path; /* path of the socket; NULL: it is a port */
};

struct guest {
	struct bufferevent *stream; /* NULL: the place is free */
	double since;
	int is_late; /* the client was told to leave */
};

struct http {
	struct http_options options;
	struct evhttp *server;
	struct timer *look;
	struct door *doors;
	struct guest guest[HTTP_CLIENTS_MAX];
	size_t guests;
	struct error why; /* the page could not be made */
	const char *page;
	size_t page_len;
	double page_at; /* clock_mono(); 0: there is none */
};

/* ---- who is here ---- */

/* Pauses listening until the next look. */
static void close_doors(struct http *h)
{
	for (struct door *d = h->doors; d; d = d->next)
		evconnlistener_disable(d->listener);
}

static void open_doors(struct http *h)
{
	for (struct door *d = h->doors; d; d = d->next)
		evconnlistener_enable(d->listener);
}

/* A stream that evhttp has freed has no callbacks any more. */
static int http_is_gone(struct bufferevent *stream)
{
	bufferevent_event_cb on_event;
	bufferevent_getcb(stream, NULL, NULL, &on_event, NULL);
	return !on_event;
}

static void http_release(struct http *h, struct guest *g)
{
	bufferevent_decref(g->stream);
	*g = (struct guest){0};
	h->guests--;
}

static void http_on_look(void *arg)
{
	struct http *h = arg;
	double now = clock_mono();
	timer_set(h->look, LOOK_SECONDS);
	for (size_t i = 0; i < HTTP_CLIENTS_MAX; i++) {
		struct guest *g = &h->guest[i];
		if (!g->stream)
			continue;
		if (http_is_gone(g->stream)) {
			http_release(h, g);
		} else if (!g->is_late && now - g->since >= h->options.seconds) {
			g->is_late = 1; /* evhttp finds the end of the stream, and frees it */
			shutdown(bufferevent_getfd(g->stream), SHUT_RDWR);
		}
	}
	if (h->guests < HTTP_CLIENTS_MAX)
		open_doors(h);
}

/* evhttp asks for the stream of a new connection. With the last place taken we stop listening, so
 * there is always a place here. */
static struct bufferevent *on_guest(struct event_base *base, void *arg)
{
	struct http *h = arg;
	struct bufferevent *stream = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
	size_t i = 0;
	while (i < HTTP_CLIENTS_MAX && h->guest[i].stream)
		i++;
	if (!stream || i == HTTP_CLIENTS_MAX)
		return stream;
	bufferevent_setwatermark(stream, EV_READ, 0, 2 * HEADERS_BYTES_MAX);
	bufferevent_incref(stream);
	h->guest[i] = (struct guest){.stream = stream, .since = clock_mono()};
	if (++h->guests == HTTP_CLIENTS_MAX)
		close_doors(h);
	return stream;
}

/* Out of descriptors, or similar: without a pause the loop would try again at once, forever. */
static void on_accept_error(struct evconnlistener *listener, void *server)
{
	(void)server;
	evconnlistener_disable(listener); /* until the next look */
}

/* ---- answers ---- */

/* evhttp 2.1 sends a body even to a client that asks only for the head. It also drops the answer to
 * a client that has closed its sending side (socat, nc), so stop reading from the client. */
static void http_answer(struct evhttp_request *rq, int code, const char *reason, const char *type,
			const char *text, size_t len)
{
	char length[24];
	int head = evhttp_request_get_command(rq) == EVHTTP_REQ_HEAD;
	struct evbuffer *body = evbuffer_new();
	struct evkeyvalq *headers = evhttp_request_get_output_headers(rq);
	struct bufferevent *stream =
		evhttp_connection_get_bufferevent(evhttp_request_get_connection(rq));
	snprintf(length, sizeof length, "%zu", len);
	evhttp_add_header(headers, "Content-Type", type);
	evhttp_add_header(headers, "Content-Length", length);
	evhttp_add_header(headers, "Connection", "close");
	if (!body || (!head && evbuffer_add(body, text, len) != 0))
		evhttp_send_error(rq, HTTP_INTERNAL, "out of memory");
	else
		evhttp_send_reply(rq, code, reason, body);
	bufferevent_disable(stream, EV_READ);
	if (body)
		evbuffer_free(body);
}

static void on_page(struct evhttp_request *rq, void *arg)
{
	struct http *h = arg;
	double now = clock_mono();
	if (h->page_at == 0 || now - h->page_at >= HTTP_PAGE_SECONDS) {
		h->page_at = 0;
		if (h->options.page(h->options.owner, &h->page, &h->page_len, &h->why) != 0) {
			http_answer(rq, HTTP_SERVUNAVAIL, "Service Unavailable", "text/plain",
				    h->why.text, strlen(h->why.text));
			return;
		}
		h->page_at = now;
	}
	http_answer(rq, HTTP_OK, "OK", h->options.type, h->page, h->page_len);
}

static void on_other(struct evhttp_request *rq, void *arg)
{
	struct http *h = arg;
	http_answer(rq, HTTP_NOTFOUND, "Not Found", "text/plain", h->options.about,
		    strlen(h->options.about));
}

/* ---- beginning and end ---- */

int http_new(struct http **out, const struct http_options *options, struct error *err)
{
	struct http *h = calloc(1, sizeof *h);
	if (!h)
		return error_set(err, ERROR_OS, "http", "out of memory");
	h->options = *options;
	h->server = evhttp_new(options->base);
	h->look = timer_new(options->base, http_on_look, h);
	if (!h->server || !h->look) {
		http_free(h);
		return error_set(err, ERROR_OS, "http", "out of memory");
	}
	timer_set(h->look, LOOK_SECONDS);
	evhttp_set_allowed_methods(h->server, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
	evhttp_set_max_headers_size(h->server, HEADERS_BYTES_MAX);
	evhttp_set_max_body_size(h->server, 0);
	evhttp_set_timeout(h->server, (int)options->seconds);
	evhttp_set_bevcb(h->server, on_guest, h);
	evhttp_set_gencb(h->server, on_other, h);
	evhttp_set_cb(h->server, options->path, on_page, h);
	*out = h;
	return 0;
}

void http_free(struct http *h)
{
	if (!h)
		return;
	if (h->server)
		evhttp_free(h->server); /* the listeners, too */
	for (size_t i = 0; i < HTTP_CLIENTS_MAX; i++)
		if (h->guest[i].stream)
			http_release(h, &h->guest[i]);
	for (struct door *d = h->doors, *next; d; d = next) {
		next = d->next;
		if (d->path)
			transport_unlisten(&d->unix_socket, d->path);
		free(d->path);
		free(d);
	}
	timer_free(h->look);
	free(h);
}

/* fd becomes the listener's when `own` says so. */
static int add_door(struct http *h, int fd, int own, struct door **out, const char *name,
		    struct error *err)
{
	unsigned flags = LEV_OPT_CLOSE_ON_EXEC | (own ? LEV_OPT_CLOSE_ON_FREE : 0);
	struct door *d = calloc(1, sizeof *d);
	struct evconnlistener *listener =
		evconnlistener_new(h->options.base, NULL, NULL, flags, 0, fd);
	if (!d || !listener || !evhttp_bind_listener(h->server, listener)) {
		free(d);
		if (listener)
			evconnlistener_free(listener);
		else if (own)
			close(fd);
		return error_set(err, ERROR_OS, name, "out of memory");
	}
	evconnlistener_set_error_cb(listener, on_accept_error);
	*d = (struct door){.next = h->doors, .listener = listener};
	d->unix_socket.fd = -1;
	h->doors = d;
	*out = d;
	return 0;
}

static void name_tcp(const struct sockaddr *address, char *name)
{
	char host[INET6_ADDRSTRLEN] = "?";
	if (address->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
		snprintf(name, HTTP_NAME_MAX, "http://[%s]:%u", host, ntohs(in6->sin6_port));
	} else {
		const struct sockaddr_in *in = (const struct sockaddr_in *)address;
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
		snprintf(name, HTTP_NAME_MAX, "http://%s:%u", host, ntohs(in->sin_port));
	}
}

static int http_listen_at(int fd, const struct sockaddr *address, socklen_t len, char *name,
			  struct error *err)
{
	int on = 1;
	struct sockaddr_storage bound;
	socklen_t room = sizeof bound;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
		return error_errno(err, ERROR_OS, name, "socket");
	if (bind(fd, address, len) != 0 || listen(fd, QUEUE_MAX) != 0) {
		if (errno == EADDRINUSE)
			return error_set(err, ERROR_TEMPFAIL, name, "another program uses this port");
		if (errno == EADDRNOTAVAIL)
			return error_set(err, ERROR_CONFIG, name,
					 "this machine does not have this address");
		return error_errno(err, 0, name, "can't be listened at");
	}
	if (getsockname(fd, (struct sockaddr *)&bound, &room) == 0)
		name_tcp((const struct sockaddr *)&bound, name);
	return 0;
}

static int open_tcp(const struct sockaddr *address, socklen_t len, int *fd, char *name,
		    struct error *err)
{
	name_tcp(address, name);
	*fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return error_errno(err, ERROR_OS, name, "socket");
	if (http_listen_at(*fd, address, len, name, err) == 0)
		return 0;
	close(*fd);
	return -1;
}

int http_try_tcp(const struct sockaddr *address, socklen_t len, char *name, struct error *err)
{
	int fd;
	if (open_tcp(address, len, &fd, name, err) != 0)
		return -1;
	close(fd);
	return 0;
}

int http_listen_tcp(struct http *h, const struct sockaddr *address, socklen_t len, char *name,
		    struct error *err)
{
	struct door *d;
	int fd;
	if (open_tcp(address, len, &fd, name, err) != 0)
		return -1;
	return add_door(h, fd, 1, &d, name, err);
}

int http_listen_unix(struct http *h, const char *path, struct error *err)
{
	struct transport_listener l;
	struct door *d;
	char *copy = strdup(path);
	if (!copy)
		return error_set(err, ERROR_OS, path, "out of memory");
	if (transport_listen(&l, path, err) != 0) {
		free(copy);
		return -1;
	}
	int result = 0;
	if (chmod(path, 0660) != 0)
		result = error_errno(err, ERROR_OS, path, "mode");
	if (result == 0)
		result = add_door(h, l.fd, 0, &d, path, err);
	if (result != 0) {
		transport_unlisten(&l, path);
		free(copy);
		return -1;
	}
	d->unix_socket = l;
	d->path = copy;
	return 0;
}
