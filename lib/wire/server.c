/*
 * server: see server.h.  Here: what a server is made of and its turns; clients are in connection.c,
 * what they say in input.c, answers in request.c.  Reads and writes are ours, not bufferevents': a
 * turn reads all that is there, then asks the owner to make it durable, then writes.
 */
#include "wire/server_internal.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "wire/notify.h"
#include "wire/timer.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACCEPT_TURN_MAX 64
#define ACCEPT_AGAIN_SECONDS 0.1 /* until descriptors are looked for again */
#define CLIENTS_MAX 16384
#define OUTPUT_BYTES_MAX (64u << 20)
#define DRAIN_SECONDS 1.0
#define QUIET_PAUSE_SECONDS 0.001
#define LACKING_SECONDS 10.0 /* no client got memory for so long: a new process may */
#define DESCRIPTORS_BESIDE 64 /* descriptors beside those of clients */

/* ---- clients come ---- */

/* Tells a client, before the greeting, why it is refused, if it listens. */
static void turn_away(int fd, const char *line)
{
	struct iovec piece = {(char *)(uintptr_t)line, strlen(line)};
	(void)transport_write(fd, &piece, 1, -1);
	close(fd);
}

static void server_lacks(struct server *s)
{
	if (s->lacking_since <= 0)
		s->lacking_since = clock_mono();
}

static void welcome(struct server *s, int fd)
{
	if (s->connection_count >= s->options.clients_max) {
		turn_away(fd, "err code=too-many-clients\tno more clients are accepted\n");
		return;
	}
	struct connection *c = connection_new(s, fd);
	if (!c) {
		server_lacks(s);
		close(fd);
		return;
	}
	if (c->uid != geteuid() && c->uid != 0) {
		log_say(LOG_LEVEL_WARNING, "client of uid %ld refused", (long)c->uid);
		connection_lose(c);
		return;
	}
	if (output_put(&c->out, &s->chunks, s->greeting, s->greeting_len) != 0) {
		server_lacks(s);
		connection_lose(c);
		return;
	}
	s->lacking_since = 0;
	connection_mark_dirty(c);
}

static void server_on_accept(evutil_socket_t listen_fd, short what, void *server)
{
	struct server *s = server;
	(void)listen_fd;
	(void)what;
	for (int i = 0; i < ACCEPT_TURN_MAX; i++) {
		int fd = transport_accept(&s->listens);
		if (fd >= 0) {
			s->accept_told = 0;
			welcome(s, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			return;
		/* Without descriptors or memory, clients wait in the backlog, and we do not
		 * spin. */
		if (!s->accept_told)
			log_say(LOG_LEVEL_WARNING, "%s: no more clients for now: %s", s->path,
				strerror(errno));
		s->accept_told = 1;
		event_del(s->listener);
		timer_set(s->accept_again, ACCEPT_AGAIN_SECONDS);
		return;
	}
}

static void on_accept_again(void *server)
{
	struct server *s = server;
	if (!s->draining)
		event_add(s->listener, NULL);
}

/* A client has gone, so there is a descriptor. Without this thousands of clients that have gone long
 * ago would be taken from the backlog a few in each ACCEPT_AGAIN_SECONDS, and who comes behind them
 * waits. */
static void accept_one_more(struct server *s)
{
	if (s->accept_told)
		on_accept_again(s);
}

/* Closes clients that have been silent for too long. What a client did since the last sweep counts
 * as done now: this is exact to a quarter of the deadline, and needs no timer for each client. */
static void on_sweep(void *server)
{
	struct server *s = server;
	double now = clock_mono();
	timer_set(s->sweep, s->options.idle_seconds / 4);
	for (struct connection *c = s->connections; c; c = c->next) {
		if (c->active || (c->open > 0 && c->out.bytes == 0))
			c->active_at = now;
		else if (now - c->active_at >= s->options.idle_seconds)
			connection_close(c);
		c->active = 0;
	}
}

/* Runs only while a client has begun a request. */
static void server_on_look(void *server)
{
	struct server *s = server;
	int begun = 0;
	for (struct connection *c = s->connections; c; c = c->next)
		begun += connection_look(c);
	if (begun > 0)
		server_look_later(s);
}

void server_look_later(struct server *s)
{
	if (!timer_is_set(s->look))
		timer_set(s->look, s->options.begun_seconds / BEGUN_LOOKS);
}

static void server_on_signal(evutil_socket_t signal_number, short what, void *server)
{
	struct server *s = server;
	(void)what;
	if (s->options.signalled)
		s->options.signalled((int)signal_number, s->options.owner);
	else
		server_stop(s);
}

static void on_watchdog(void *server)
{
	struct server *s = server;
	timer_set(s->watchdog, s->watchdog_seconds / 2);
	notify_send(s->notify_socket, "WATCHDOG=1");
}

/* ---- making and ending ---- */

int server_greet(struct server *s, const char *fields, struct error *err)
{
	char line[RECORD_LINE_MAX], *greeting;
	int n = snprintf(line, sizeof line, "paceline role=%s version=1%s%s\n", s->options.role,
			 fields[0] ? " " : "", fields);
	if (n < 0 || (size_t)n >= sizeof line)
		return error_set(err, ERROR_SOFTWARE, s->path, "greeting too long");
	greeting = strdup(line);
	if (!greeting)
		return error_set(err, ERROR_OS, s->path, "out of memory");
	free(s->greeting);
	s->greeting = greeting;
	s->greeting_len = (size_t)n;
	return 0;
}

static int copy_options(struct server *s, const struct server_options *options, struct error *err)
{
	s->options = *options;
	if (s->options.clients_max == 0)
		s->options.clients_max = CLIENTS_MAX;
	if (s->options.output_bytes_max == 0)
		s->options.output_bytes_max = OUTPUT_BYTES_MAX;
	if (s->options.payloads_bytes_max == 0)
		s->options.payloads_bytes_max = PAYLOADS_BYTES_MAX;
	if (s->options.begun_seconds <= 0)
		s->options.begun_seconds = SERVER_BEGUN_SECONDS;
	if (s->options.drain_seconds <= 0)
		s->options.drain_seconds = DRAIN_SECONDS;
	s->path = strdup(options->path);
	if (!s->path)
		return error_set(err, ERROR_OS, options->path, "out of memory");
	return server_greet(s, options->greeting_fields ? options->greeting_fields : "", err);
}

/* The lock beside the socket says who may own the name. The socket itself is made only when
 * requests can be handled, so that it means ready; a process that listens there without the lock
 * (the lock was deleted, or the process is not our server) keeps the name. */
static int name_lock(const char *path, char lock[PATH_MAX], struct error *err)
{
	int n = snprintf(lock, PATH_MAX, "%s.lock", path);
	return n > 0 && n < PATH_MAX
		       ? 0
		       : error_set(err, ERROR_USAGE, path, "name of a socket too long");
}

static int take_name(struct server *s, struct error *err)
{
	char dir[PATH_MAX], lock[PATH_MAX];
	fs_dirname(s->path, dir, sizeof dir);
	if (fs_make_dirs(dir, err) != 0 || name_lock(s->path, lock, err) != 0 ||
	    fs_lock(lock, &s->lock_fd, err) != 0)
		return -1;
	return server_name_heir(s, NULL, err);
}

/* The disk is not waited for: after a crash of the machine nobody takes over. */
int server_name_heir(struct server *s, const char *heir, struct error *err)
{
	size_t len = heir ? strlen(heir) : 0;
	if (ftruncate(s->lock_fd, 0) != 0 || pwrite(s->lock_fd, heir, len, 0) != (ssize_t)len)
		return error_errno(err, ERROR_IO, s->path, "who takes the name can't be written");
	return 0;
}

static int names_heir(const char *lock, const char *heir, struct error *err)
{
	char *text = NULL;
	size_t len = 0;
	int is_named = fs_read_file(lock, 256, &text, &len, NULL) == 0 && len == strlen(heir) &&
		       memcmp(text, heir, len) == 0;
	free(text);
	return is_named ? 0
			: error_set(err, ERROR_UNAVAILABLE, lock,
				    "the server has not left its name to this process");
}

/* Once another one is named, it does not come back: then the lock need not be free. */
int server_inherit(const char *path, const char *heir, struct error *err)
{
	char lock[PATH_MAX];
	int fd;
	if (name_lock(path, lock, err) != 0 || names_heir(lock, heir, err) != 0 ||
	    fs_lock(lock, &fd, err) != 0)
		return -1;
	int rc = names_heir(lock, heir, err);
	if (rc == 0 && ftruncate(fd, 0) != 0)
		rc = error_errno(err, ERROR_IO, lock, "who takes the name can't be written");
	close(fd);
	return rc;
}

static int make_base(struct server *s, struct error *err)
{
	struct event_config *config = event_config_new();
	if (config) {
		event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
		event_config_require_features(config, EV_FEATURE_ET);
		s->base = event_base_new_with_config(config);
		event_config_free(config);
	}
	if (!s->base)
		return error_set(err, ERROR_OS, s->path, "no event loop");
	s->accept_again = timer_new(s->base, on_accept_again, s);
	s->sweep = timer_new(s->base, on_sweep, s);
	s->look = timer_new(s->base, server_on_look, s);
	s->watchdog = timer_new(s->base, on_watchdog, s);
	if (!s->accept_again || !s->sweep || !s->look || !s->watchdog)
		return error_set(err, ERROR_OS, s->path, "no event loop");
	if (s->options.beside)
		return 0;
	s->on_term = evsignal_new(s->base, SIGTERM, server_on_signal, s);
	s->on_int = evsignal_new(s->base, SIGINT, server_on_signal, s);
	if (!s->on_term || !s->on_int || event_add(s->on_term, NULL) != 0 ||
	    event_add(s->on_int, NULL) != 0)
		return error_set(err, ERROR_OS, s->path, "no event loop");
	return 0;
}

int server_new(struct server **out, const struct server_options *options, struct error *err)
{
	struct server *s = calloc(1, sizeof *s);
	if (!s)
		return error_set(err, ERROR_OS, options->path, "out of memory");
	s->listens.fd = s->lock_fd = -1;
	s->payloads = payload_pool_new();
	if (!s->payloads)
		error_set(err, ERROR_OS, options->path, "out of memory");
	else if (copy_options(s, options, err) == 0 &&
		 verbs_new(&s->verbs, s, options, err) == 0 &&
		 take_name(s, err) == 0 && make_base(s, err) == 0) {
		fs_allow_files(s->options.clients_max + DESCRIPTORS_BESIDE);
		*out = s;
		return 0;
	}
	server_free(s);
	return -1;
}

int server_use_fd(struct server *s, int listen_fd, struct error *err)
{
	return transport_inherit(&s->listens, listen_fd, s->path, err);
}

void server_unlisten(struct server *s)
{
	if (s->listener)
		event_del(s->listener);
	transport_unlisten(&s->listens, s->path);
}

static void free_event(struct event *event)
{
	if (event)
		event_free(event);
}

void server_free(struct server *s)
{
	if (!s)
		return;
	while (s->connections)
		connection_free(s->connections);
	transport_unlisten(&s->listens, s->path);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	free_event(s->listener);
	timer_free(s->accept_again);
	timer_free(s->sweep);
	timer_free(s->look);
	timer_free(s->watchdog);
	free_event(s->on_term);
	free_event(s->on_int);
	if (s->base)
		event_base_free(s->base);
	while (s->request_free) {
		struct request *rq = s->request_free;
		s->request_free = rq->next;
		free(rq);
	}
	chunk_pool_clear(&s->chunks);
	payload_pool_release(s->payloads);
	verbs_free(&s->verbs);
	free(s->greeting);
	free(s->path);
	free(s);
}

void server_forked(struct server *s)
{
	for (struct connection *c = s->connections; c; c = c->next)
		close(c->fd);
	if (s->listens.fd >= 0)
		close(s->listens.fd);
	close(s->lock_fd);
	/* After fork(): the handlers of the loop would wake the parent. */
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
}

struct event_base *server_base(struct server *s)
{
	return s->base;
}

int server_is_reading(const struct server *s, const char *verb)
{
	for (const struct connection *c = s->connections; c; c = c->next)
		if (c->payload && strcmp(c->payload_verb->verb->name, verb) == 0)
			return 1;
	return 0;
}

void server_stop(struct server *s)
{
	s->stop = 1;
}

void server_abandon(struct server *s)
{
	s->stop = s->abandoned = 1;
	event_base_loopbreak(s->base);
}

/* Writes answers. Returns how many clients' sockets accept no more for now. */
static size_t write_some(struct server *s)
{
	size_t blocked = 0;
	for (struct connection *c = s->connections; c; c = c->next) {
		if (c->lost || c->out.bytes == 0)
			continue;
		int result = output_write(&c->out, &s->chunks, c->fd);
		if (result < 0)
			connection_lose(c);
		blocked += result == OUTPUT_BLOCKED;
	}
	return blocked;
}

int server_quiet(struct server *s, double seconds)
{
	double deadline = clock_mono() + seconds;
	while (write_some(s) > 0 && clock_mono() < deadline)
		clock_sleep(QUIET_PAUSE_SECONDS);
	for (struct connection *c = s->connections; c; c = c->next) {
		if (!c->lost && c->out.bytes > 0) {
			log_say(LOG_LEVEL_WARNING,
				"client %llu (pid %ld) does not read its answers: closed",
				(unsigned long long)c->number, (long)c->pid);
			connection_lose(c);
		}
	}
	return s->closing ? -1 : 0;
}

/* ---- turns ---- */

/* The work after reading: hook, writing, freeing connections. Each may cause work for the next
 * round; when this returns no work is left, so the loop may sleep. */
static int server_turn(struct server *s, struct error *err)
{
	if (s->lacking_since > 0 && clock_mono() - s->lacking_since > LACKING_SECONDS)
		return error_set(err, ERROR_OS, s->path, "out of memory for clients for %g s",
				 LACKING_SECONDS);
	do {
		struct connection *c;
		while ((c = s->resume) != NULL) {
			s->resume = c->resume_next;
			connection_resume(c);
		}
		if (s->options.flush && s->options.flush(s->options.owner, err) != 0)
			return -1;
		while ((c = s->dirty) != NULL) {
			s->dirty = c->dirty_next;
			connection_flush(c);
		}
		struct connection *closing = s->closing;
		s->closing = NULL;
		for (c = closing; c; c = c->closing_next)
			c->buried = 1;
		while ((c = closing) != NULL) {
			closing = c->closing_next;
			connection_free(c);
			accept_one_more(s);
		}
	} while (s->dirty || s->closing || s->resume);
	return 0;
}

/* The hook runs between two rounds of the loop, never inside one: a round here does not recurse. */
void server_gather(struct server *s)
{
	event_base_loop(s->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

static int loop_once(struct server *s, struct error *err)
{
	if (event_base_loop(s->base, EVLOOP_ONCE) < 0)
		return error_errno(err, ERROR_OS, s->path, "event loop");
	return s->abandoned ? 0 : server_turn(s, err);
}

static int is_unread(const struct server *s)
{
	for (const struct connection *c = s->connections; c; c = c->next)
		if (c->out.bytes > 0)
			return 1;
	return 0;
}

/* Stop reading, and write the remaining answers, for a limited time. */
static int server_drain(struct server *s, struct error *err)
{
	double deadline = clock_mono() + s->options.drain_seconds;
	s->draining = 1;
	event_del(s->listener);
	timer_stop(s->accept_again);
	for (struct connection *c = s->connections; c; c = c->next)
		connection_watch(c);
	/* Wakes the loop at the deadline, accepts nothing. */
	timer_set(s->accept_again, s->options.drain_seconds);
	while (is_unread(s) && clock_mono() < deadline)
		if (loop_once(s, err) != 0)
			return -1;
	return 0;
}

int server_listen(struct server *s, struct error *err)
{
	return s->listens.fd >= 0 ? 0 : transport_listen(&s->listens, s->path, err);
}

int server_run(struct server *s, const char *notify_socket, double watchdog_seconds,
	       struct error *err)
{
	if (server_listen(s, err) != 0)
		return -1;
	s->notify_socket = notify_socket;
	s->watchdog_seconds = watchdog_seconds;
	s->listener = event_new(s->base, s->listens.fd, EV_READ | EV_PERSIST, server_on_accept, s);
	if (!s->listener || event_add(s->listener, NULL) != 0)
		return error_set(err, ERROR_OS, s->path, "no event loop");
	if (watchdog_seconds > 0)
		timer_set(s->watchdog, watchdog_seconds / 2);
	if (s->options.idle_seconds > 0)
		timer_set(s->sweep, s->options.idle_seconds / 4);
	notify_send(notify_socket, "READY=1");
	int result = server_turn(s, err);
	while (result == 0 && !s->stop)
		result = loop_once(s, err);
	if (s->abandoned)
		return 0;
	notify_send(notify_socket, "STOPPING=1");
	return result == 0 ? server_drain(s, err) : -1;
}
