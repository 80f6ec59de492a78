/*
 * wire_daemon: a small server for the tests of lib/wire, run in a child process, so that its death
 * or a report of a sanitizer shows as an exit status.
 */
#ifndef PACELINE_TESTS_WIRE_DAEMON_H
#define PACELINE_TESTS_WIRE_DAEMON_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "wire/call.h"
#include "wire/notify.h"
#include "wire/server.h"

#include "base/fs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 20.0 /* seconds; a limit for what hangs, never a measurement */

struct daemon_state {
	struct request *later[64]; /* deferred, by their key */
	struct request *ticker;
	struct payload *held;
	unsigned long cancelled, closed, turns, notes;
	int fail_flush;
};

static char daemon_dir[64], daemon_path[128];
static struct server *daemon_server;

static uint64_t u64_of(struct request *rq, const char *key)
{
	uint64_t value = 0;
	(void)record_u64_opt(request_record(rq), key, 0, UINT64_MAX, &value, NULL);
	return value;
}

static void do_echo(struct request *rq, void *owner)
{
	(void)owner;
	request_ok(rq, "n=%llu", (unsigned long long)u64_of(rq, "n"));
}

static void do_note(struct request *rq, void *owner)
{
	((struct daemon_state *)owner)->notes += u64_of(rq, "n");
	request_ok(rq, NULL);
}

static void on_cancelled(struct request *rq, void *slot)
{
	struct request **at = slot;
	if (*at != rq)
		abort();
	*at = NULL;
	((struct daemon_state *)connection_user(request_connection(rq)))->cancelled++;
}

static void do_later(struct request *rq, void *owner)
{
	struct daemon_state *d = owner;
	uint64_t key = u64_of(rq, "key") % 64;
	connection_set_user(request_connection(rq), d);
	if (d->later[key]) {
		request_err(rq, "busy", "key %llu is taken", (unsigned long long)key);
		return;
	}
	d->later[key] = rq;
	request_put(rq, "begun\n", 6);
	request_defer(rq, on_cancelled, &d->later[key]);
}

static void do_release(struct request *rq, void *owner)
{
	struct daemon_state *d = owner;
	uint64_t key = u64_of(rq, "key") % 64;
	struct request *waiting = d->later[key];
	if (!waiting) {
		request_err(rq, "nothing", NULL);
		return;
	}
	d->later[key] = NULL;
	request_ok(waiting, "released=%llu", (unsigned long long)key);
	request_ok(rq, NULL);
}

static void do_tick(struct request *rq, void *owner)
{
	struct daemon_state *d = owner;
	static char filler[4000];
	memset(filler, 'x', sizeof filler);
	memcpy(filler, "tick text=", 10);
	filler[sizeof filler - 1] = '\n';
	for (uint64_t n = u64_of(rq, "n"); n > 0 && d->ticker; n--)
		request_put(d->ticker, filler, sizeof filler);
	request_ok(rq, NULL);
}

static void on_ticker_cancelled(struct request *rq, void *owner)
{
	struct daemon_state *d = owner;
	if (d->ticker != rq)
		abort();
	d->ticker = NULL;
	d->cancelled++;
}

static void do_watch(struct request *rq, void *owner)
{
	struct daemon_state *d = owner;
	d->ticker = rq;
	request_defer(rq, on_ticker_cancelled, d);
}

static uint64_t sum_of(const void *data, size_t bytes)
{
	uint64_t h = 1469598103934665603u;
	for (size_t i = 0; i < bytes; i++)
		h = (h ^ ((const unsigned char *)data)[i]) * 1099511628211u;
	return h;
}

static void do_load(struct request *rq, void *owner)
{
	(void)owner;
	struct payload *p = request_payload(rq);
	if (p)
		request_ok(rq, "tag=%llu got=%zu sum=%llu", (unsigned long long)u64_of(rq, "tag"),
			   payload_bytes(p),
			   (unsigned long long)sum_of(payload_data(p), payload_bytes(p)));
	else
		request_err(rq, "bad-request", "no payload");
}

static void do_push(struct request *rq, void *owner)
{
	struct payload *p = request_payload(rq);
	(void)owner;
	request_ok(rq, "dense=%llu sum-of=%llu got=%zu hash=%llu", (unsigned long long)u64_of(rq, "dense"),
		   (unsigned long long)u64_of(rq, "sum-of"), p ? payload_bytes(p) : 0,
		   p ? (unsigned long long)sum_of(payload_data(p), payload_bytes(p)) : 0ull);
}

/* Looks at the end of a payload at once. */
static void do_last(struct request *rq, void *owner)
{
	struct payload *p = request_payload(rq);
	(void)owner;
	if (p && payload_bytes(p) > 0)
		request_ok(rq, "byte=%d",
			   ((const unsigned char *)payload_data(p))[payload_bytes(p) - 1]);
	else
		request_err(rq, "bad-request", "no payload");
}

static void do_hold(struct request *rq, void *owner)
{
	struct daemon_state *d = owner;
	payload_release(d->held);
	d->held = request_payload(rq) ? payload_hold(request_payload(rq)) : NULL;
	request_ok(rq, NULL);
}

static void do_held(struct request *rq, void *owner)
{
	struct daemon_state *d = owner;
	request_ok(rq, "got=%zu sum=%llu", d->held ? payload_bytes(d->held) : 0,
		   d->held ? (unsigned long long)sum_of(payload_data(d->held),
							payload_bytes(d->held))
			   : 0ull);
}

static void do_big(struct request *rq, void *owner)
{
	(void)owner;
	uint64_t n = u64_of(rq, "n");
	char line[64];
	unsigned char *data = malloc(n ? n : 1);
	for (uint64_t i = 0; i < n; i++)
		data[i] = (unsigned char)(i * 7 + i / 251);
	int len = snprintf(line, sizeof line, "data bytes=%llu\n", (unsigned long long)n);
	request_put(rq, line, (size_t)len);
	if (record_get(request_record(rq), "copy")) {
		request_put(rq, data, n);
		free(data);
	} else {
		request_put_ref(rq, data, n, free, data);
	}
	request_ok(rq, NULL);
}

static void do_into(struct request *rq, void *owner)
{
	(void)owner;
	uint64_t n = u64_of(rq, "into-bytes");
	char *to = request_mapped(rq, u64_of(rq, "into-offset-bytes"), n);
	if (!to) {
		request_err(rq, "bad-request", "no room there");
		return;
	}
	memset(to, 'm', n);
	request_ok(rq, NULL);
}

/* Its answer says where the payload is. */
static void do_give(struct request *rq, void *owner)
{
	uint64_t at = u64_of(rq, "into-offset-bytes"), n = u64_of(rq, "into-bytes");
	unsigned char *to = request_mapped(rq, at, n);
	char line[128];
	(void)owner;
	if (!to) {
		request_err(rq, "bad-request", "no room there");
		return;
	}
	for (uint64_t i = 0; i < n; i++)
		to[i] = (unsigned char)(i * 7 + i / 251);
	request_put(rq, line,
		    (size_t)snprintf(line, sizeof line,
				     "data map-offset-bytes=%llu map-bytes=%llu\n",
				     (unsigned long long)at, (unsigned long long)n));
	request_ok(rq, NULL);
}

static void do_state(struct request *rq, void *owner)
{
	struct daemon_state *d = owner;
	request_ok(rq, "cancelled=%lu closed=%lu turns=%lu notes=%lu", d->cancelled, d->closed,
		   d->turns, d->notes);
}

static void do_nothing(struct request *rq, void *owner)
{
	(void)rq;
	(void)owner;
}

static void do_bye(struct request *rq, void *owner)
{
	(void)owner;
	connection_close(request_connection(rq));
	request_ok(rq, "bye=1");
}

static void do_poison(struct request *rq, void *owner)
{
	((struct daemon_state *)owner)->fail_flush = 1;
	request_ok(rq, NULL);
}

/* Leaves a child behind that outlives the daemon for a while. */
static void do_fork(struct request *rq, void *owner)
{
	(void)owner;
	pid_t child = fork();
	if (child == 0) {
		server_forked(daemon_server);
		alarm(60); /* when the test fails and leaves it behind */
		for (;;)
			pause();
	}
	request_ok(rq, "pid=%ld", (long)child);
}

static int on_flush(void *owner, struct error *err)
{
	struct daemon_state *d = owner;
	d->turns++;
	return d->fail_flush ? error_set(err, ERROR_IO, "journal", "can't be written") : 0;
}

static void on_closed(struct connection *c, void *owner)
{
	(void)c;
	((struct daemon_state *)owner)->closed++;
}

static const struct verb daemon_verbs[] = {
	{"echo", "n", "", do_echo, 0, "answers n"},
	{"note", "n", "", do_note, 0, "one-way: adds n"},
	{"later", "key", "", do_later, 0, "answers when released"},
	{"release", "key", "", do_release, 0, "releases"},
	{"watch", "", "", do_watch, 0, "streams"},
	{"tick", "n", "", do_tick, 0, "feeds the stream"},
	{"load", "", "bytes", do_load, 64u << 20, "takes a payload"},
	{"push", "dense", "bytes", do_push, 64u << 20, "takes gradients"},
	{"last", "", "bytes", do_last, 64u << 20, "its last byte"},
	{"hold", "", "bytes", do_hold, 64u << 20, "keeps a payload"},
	{"held", "", "", do_held, 0, "looks at what is kept"},
	{"big", "n", "copy", do_big, 0, "gives a payload"},
	{"into", "into-bytes into-offset-bytes", "", do_into, 0, "fills shared memory"},
	{"give", "into-bytes into-offset-bytes", "", do_give, 0, "gives a payload in shared memory"},
	{"state", "", "", do_state, 0, "counters"},
	{"nothing", "", "", do_nothing, 0, "a handler with a bug"},
	{"bye", "", "", do_bye, 0, "closes"},
	{"poison", "", "", do_poison, 0, "makes the hook fail"},
	{"fork", "", "", do_fork, 0, "forks"},
};

struct daemon_options {
	struct server_options server;
	rlim_t descriptors, descriptors_soft; /* 0: as they are */
	const char *notify;
	double watchdog;
	int listen_fd; /* as a service manager passes it; 0: none */
};

/* Exit status of the daemon: 0, or the error's code. */
static int daemon_main(const struct daemon_options *o)
{
	struct daemon_state d = {0};
	struct error err = {0};
	struct server_options options = o->server;
	if (o->descriptors) {
		struct rlimit limit = {o->descriptors, o->descriptors};
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (o->descriptors_soft) {
		struct rlimit limit;
		getrlimit(RLIMIT_NOFILE, &limit);
		limit.rlim_cur = o->descriptors_soft;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	options.path = daemon_path;
	options.role = "test";
	options.verbs = daemon_verbs;
	options.verb_count = sizeof daemon_verbs / sizeof *daemon_verbs;
	options.one_way = "note";
	options.owner = &d;
	options.flush = on_flush;
	options.closed = on_closed;
	if (o->listen_fd)
		dup2(o->listen_fd, 3);
	int result = server_new(&daemon_server, &options, &err);
	if (result == 0 && o->listen_fd) {
		char pid[32];
		snprintf(pid, sizeof pid, "%ld", (long)getpid());
		int fd = notify_listen_fd(pid, "1");
		result = fd == 3 ? server_use_fd(daemon_server, fd, &err) : -1;
	}
	if (result == 0)
		result = server_run(daemon_server, o->notify, o->watchdog, &err);
	if (result == 0 || daemon_server)
		server_free(daemon_server);
	payload_release(d.held);
	return result == 0 ? 0 : err.code;
}

static pid_t daemon_start(const struct daemon_options *o)
{
	static const struct daemon_options usual;
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		/* A test that fails leaves nothing running. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int status = daemon_main(o ? o : &usual);
		fflush(NULL);
		/* exit() would run cmocka's business twice; leaks are still looked for. */
		exit(status);
	}
	return pid;
}

static int daemon_wait(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int daemon_stop(pid_t pid)
{
	kill(pid, SIGTERM);
	return daemon_wait(pid);
}

static inline struct call *dial(void)
{
	struct call *c = NULL;
	struct error err;
	if (call_open(&c, daemon_path, PATIENCE, PATIENCE, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	return c;
}

static inline void say(struct call *c, const char *bytes)
{
	struct error err;
	if (call_send(c, bytes, strlen(bytes), NULL, 0, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
}

/* The next record, written out again, is `expected` (text behind the tab left out). */
static inline void hear(struct call *c, const char *expected)
{
	static struct record r;
	struct error err;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (call_receive(c, &r, &err) != 0)
		fail_msg("waiting for '%s': %s: %s", expected, err.place, err.text);
	record_begin(&o, line, sizeof line, r.type);
	record_add_fields(&o, &r, NULL);
	line[record_end(&o, NULL) - 1] = '\0';
	assert_string_equal(line, expected);
}

static inline void hear_closed(struct call *c)
{
	static struct record r;
	struct error err;
	assert_int_equal(call_receive(c, &r, &err), -1);
	assert_int_equal(err.code, ERROR_UNAVAILABLE);
}

static int make_dir(void **state)
{
	(void)state;
	snprintf(daemon_dir, sizeof daemon_dir, "/tmp/paceline-wire.XXXXXX");
	if (!mkdtemp(daemon_dir))
		return -1;
	snprintf(daemon_path, sizeof daemon_path, "%s/run/test.sock", daemon_dir);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	return fs_remove_tree(daemon_dir, NULL);
}

#endif
