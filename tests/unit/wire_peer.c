/* wire/peer: an asynchronous client that comes back by itself. */
#include "wire_daemon.h"

#include "wire/peer.h"

#include "base/clock.h"

#include <event2/event.h>

struct seen {
	struct event_base *base;
	struct peer *peer;
	int ups, downs, asked, answers, lost;
	int free_in_reply;
	char last[128];
};

static void on_up(struct peer *p, const struct record *r, void *owner)
{
	struct seen *s = owner;
	s->ups++;
	assert_true(record_is(r, "paceline"));
	assert_true(peer_is_up(p));
}

static void on_down(struct peer *p, void *owner)
{
	struct seen *s = owner;
	s->downs++;
	assert_false(peer_is_up(p));
	/* All its requests have been told before. */
	assert_int_equal(s->answers + s->lost, s->asked);
	assert_int_equal(peer_send(p, "echo n=1\n", 9, NULL, 0, NULL, NULL), -1);
}

static void on_reply(const struct record *r, int closing, void *arg)
{
	struct seen *s = arg;
	if (!r) {
		assert_true(closing);
		s->lost++;
		return;
	}
	const char *n = record_get(r, "n");
	snprintf(s->last, sizeof s->last, "%s%s%s", r->type, n ? " n=" : "", n ? n : "");
	s->answers += closing;
	if (s->free_in_reply) {
		peer_free(s->peer);
		s->peer = NULL;
	}
}

static void on_patience(evutil_socket_t fd, short what, void *expired)
{
	(void)fd;
	(void)what;
	*(int *)expired = 1;
}

#define RUN_UNTIL(s, condition)                                                                    \
	do {                                                                                       \
		int expired = 0;                                                                   \
		struct timeval limit = {(time_t)PATIENCE, 0};                                      \
		struct event *timer = evtimer_new((s)->base, on_patience, &expired);               \
		event_add(timer, &limit);                                                          \
		while (!(condition) && !expired)                                                   \
			event_base_loop((s)->base, EVLOOP_ONCE);                                   \
		event_free(timer);                                                                 \
		assert_true(condition);                                                            \
	} while (0)

static void begin(struct seen *s, double answer_seconds)
{
	*s = (struct seen){.base = event_base_new()};
	struct peer_options o = {.path = daemon_path, .up = on_up, .down = on_down, .owner = s,
				 .answer_seconds = answer_seconds};
	s->peer = peer_new(s->base, &o);
	assert_non_null(s->peer);
}

static void end(struct seen *s)
{
	peer_free(s->peer);
	event_base_free(s->base);
}

static int ask(struct seen *s, const char *line)
{
	int sent = peer_send(s->peer, line, strlen(line), NULL, 0, on_reply, s);
	s->asked += sent == 0;
	return sent;
}

static void test_answers_in_order(void **state)
{
	(void)state;
	struct seen s;
	char line[64];
	begin(&s, 0);
	assert_int_equal(ask(&s, "echo n=0\n"), -1); /* not up yet */
	pid_t pid = daemon_start(NULL);
	RUN_UNTIL(&s, s.ups == 1);
	for (int i = 0; i < 1000; i++) {
		snprintf(line, sizeof line, "echo n=%d\n", i);
		assert_int_equal(ask(&s, line), 0);
	}
	RUN_UNTIL(&s, s.answers == 1000);
	assert_string_equal(s.last, "ok n=999");
	assert_int_equal(ask(&s, "sing\n"), 0);
	RUN_UNTIL(&s, s.answers == 1001);
	assert_string_equal(s.last, "err");
	end(&s);
	assert_int_equal(daemon_stop(pid), 0);
}

static void test_payloads(void **state)
{
	(void)state;
	struct seen s;
	begin(&s, 0);
	pid_t pid = daemon_start(NULL);
	RUN_UNTIL(&s, s.ups == 1);
	assert_int_equal(ask(&s, "big n=3000001\n"), 0);
	assert_int_equal(ask(&s, "big n=5\n"), 0);
	RUN_UNTIL(&s, s.answers == 2);
	assert_string_equal(s.last, "ok"); /* what is thrown away is no record */
	assert_int_equal(ask(&s, "echo n=6\n"), 0);
	RUN_UNTIL(&s, s.answers == 3);
	assert_string_equal(s.last, "ok n=6");
	size_t bytes = 2000000;
	char *data = calloc(1, bytes);
	assert_int_equal(peer_send(s.peer, "load bytes=2000000\n", 19, data, bytes, on_reply, &s), 0);
	s.asked++;
	free(data);
	RUN_UNTIL(&s, s.answers == 4);
	assert_string_equal(s.last, "ok");
	end(&s);
	assert_int_equal(daemon_stop(pid), 0);
}

static void on_release(void *released)
{
	(*(int *)released)++;
}

/* What is not copied is let go of once: when it is written, or never will be. */
static void test_not_copied(void **state)
{
	(void)state;
	static const char load[] = "load bytes=2000000\n";
	size_t len = sizeof load - 1 + 2000000;
	char *text = calloc(1, len);
	struct seen s;
	int released = 0;
	memcpy(text, load, sizeof load - 1);
	begin(&s, 0);
	assert_int_equal(peer_send_ref(s.peer, text, len, on_release, &released, on_reply, &s), -1);
	assert_int_equal(released, 1); /* not up yet */
	pid_t pid = daemon_start(NULL);
	RUN_UNTIL(&s, s.ups == 1);
	assert_int_equal(ask(&s, "echo n=1\n"), 0);
	assert_int_equal(peer_send_ref(s.peer, text, len, on_release, &released, on_reply, &s), 0);
	s.asked++;
	assert_int_equal(ask(&s, "echo n=2\n"), 0);
	assert_int_equal(released, 1);
	RUN_UNTIL(&s, s.answers == 3);
	assert_string_equal(s.last, "ok n=2");
	assert_int_equal(released, 2);
	kill(pid, SIGSTOP); /* it takes no more than the socket has room for */
	assert_int_equal(peer_send_ref(s.peer, text, len, on_release, &released, on_reply, &s), 0);
	s.asked++;
	peer_flush(s.peer);
	assert_int_equal(released, 2);
	kill(pid, SIGKILL);
	daemon_wait(pid);
	RUN_UNTIL(&s, s.downs == 1);
	assert_int_equal(s.lost, 1);
	assert_int_equal(released, 3);
	end(&s);
	free(text);
}

static void test_output_limit(void **state)
{
	(void)state;
	struct seen s = {.base = event_base_new()};
	struct peer_options o = {.path = daemon_path, .up = on_up, .owner = &s,
				 .output_bytes_max = 100000};
	s.peer = peer_new(s.base, &o);
	pid_t pid = daemon_start(NULL);
	RUN_UNTIL(&s, s.ups == 1);
	kill(pid, SIGSTOP);
	int sent = 0;
	while (ask(&s, "echo n=1\n") == 0)
		sent++;
	assert_in_range(sent, 10000, 11112);
	kill(pid, SIGCONT);
	RUN_UNTIL(&s, s.answers == sent);
	assert_int_equal(ask(&s, "echo n=2\n"), 0);
	RUN_UNTIL(&s, s.answers == sent + 1);
	end(&s);
	assert_int_equal(daemon_stop(pid), 0);
}

static void test_comes_back(void **state)
{
	(void)state;
	struct seen s;
	begin(&s, 0);
	pid_t pid = daemon_start(NULL);
	RUN_UNTIL(&s, s.ups == 1);
	assert_int_equal(ask(&s, "echo n=1\n"), 0);
	assert_int_equal(ask(&s, "later key=1\n"), 0);
	assert_int_equal(ask(&s, "echo n=2\n"), 0);
	RUN_UNTIL(&s, s.answers == 1);
	kill(pid, SIGKILL);
	daemon_wait(pid);
	RUN_UNTIL(&s, s.downs == 1);
	assert_int_equal(s.lost, 2);
	pid = daemon_start(NULL);
	RUN_UNTIL(&s, s.ups == 2);
	assert_int_equal(ask(&s, "echo n=3\n"), 0);
	RUN_UNTIL(&s, s.answers == 2);
	assert_string_equal(s.last, "ok n=3");
	/* Freed with a request open: told, not answered. */
	assert_int_equal(ask(&s, "later key=1\n"), 0);
	end(&s);
	assert_int_equal(s.lost, 3);
	assert_int_equal(s.downs, 1);
	assert_int_equal(daemon_stop(pid), 0);
}

/* A daemon that stands still is left, and found again when it goes on. */
static void test_answer_deadline(void **state)
{
	(void)state;
	struct seen s;
	begin(&s, 0.1);
	pid_t pid = daemon_start(NULL);
	RUN_UNTIL(&s, s.ups == 1);
	assert_int_equal(ask(&s, "later key=1\n"), 0);
	RUN_UNTIL(&s, s.lost == 1 && s.downs == 1);
	RUN_UNTIL(&s, s.ups == 2);
	assert_int_equal(ask(&s, "echo n=4\n"), 0);
	RUN_UNTIL(&s, s.answers == 1);
	end(&s);
	assert_int_equal(daemon_stop(pid), 0);
}

static void test_freed_in_reply(void **state)
{
	(void)state;
	struct seen s;
	begin(&s, 0);
	pid_t pid = daemon_start(NULL);
	RUN_UNTIL(&s, s.ups == 1);
	s.free_in_reply = 1;
	assert_int_equal(ask(&s, "echo n=1\n"), 0);
	assert_int_equal(ask(&s, "echo n=2\n"), 0);
	RUN_UNTIL(&s, s.peer == NULL);
	assert_int_equal(s.answers, 1);
	assert_int_equal(s.lost, 1);
	end(&s);
	assert_int_equal(daemon_stop(pid), 0);
}

/* Somebody else has the name: no greeting, or a false one. */
static void test_false_greeting(void **state)
{
	(void)state;
	struct seen s;
	struct daemon_options one = {.server.clients_max = 1};
	pid_t pid = daemon_start(&one);
	struct call *c = dial();
	begin(&s, 0);
	struct timeval soon = {0, 100000};
	event_base_loopexit(s.base, &soon);
	event_base_dispatch(s.base);
	assert_int_equal(s.ups, 0);
	assert_int_equal(s.downs, 0);
	call_close(c);
	RUN_UNTIL(&s, s.ups == 1);
	end(&s);
	assert_int_equal(daemon_stop(pid), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_answers_in_order), T(test_payloads),       T(test_not_copied),
		T(test_output_limit),
		T(test_comes_back),       T(test_answer_deadline), T(test_freed_in_reply),
		T(test_false_greeting),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
