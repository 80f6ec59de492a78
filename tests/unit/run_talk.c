/* Questions to a daemon: once at a time, and which answers count. */
#include "wire_daemon.h"

#include "run/sup.h"

#include "wire/peer.h"

#include <event2/event.h>

static struct supervisor *s;
static struct link one;
static struct question q;
static int ends, lost;
static char last[16];

static void on_patience(evutil_socket_t fd, short what, void *expired)
{
	(void)fd;
	(void)what;
	*(int *)expired = 1;
}

static void run_until(const int *count, int expected)
{
	int expired = 0;
	struct timeval limit = {(time_t)PATIENCE, 0};
	struct event *timer = evtimer_new(s->base, on_patience, &expired);
	event_add(timer, &limit);
	while (*count < expected && !expired)
		event_base_loop(s->base, EVLOOP_ONCE);
	event_free(timer);
	assert_int_equal(*count, expected);
}

static void on_kick(void *kicks)
{
	++*(int *)kicks;
}

static int is_up;

static void on_up(struct peer *p, const struct record *r, void *owner)
{
	(void)p;
	(void)r;
	(void)owner;
	is_up = 1;
}

static void on_end(const struct record *r, void *owner)
{
	assert_ptr_equal(owner, s);
	ends++;
	lost += r == NULL;
	snprintf(last, sizeof last, "%s", r && record_get(r, "n") ? record_get(r, "n") : "");
}

static void ask(const char *n)
{
	sup_ask(&q, &one, RECORD("echo", F("n", n)), NULL, on_end, s);
}

static int kicks;

static int begin(void **state)
{
	if (make_dir(state) != 0)
		return -1;
	struct peer_options o = {.path = daemon_path, .up = on_up};
	s = calloc(1, sizeof *s);
	s->base = event_base_new();
	s->phases.retry = timer_new(s->base, on_kick, &kicks);
	q = (struct question){0};
	ends = lost = kicks = is_up = 0;
	one = (struct link){.sup = s, .peer = peer_new(s->base, &o)};
	return 0;
}

static int end(void **state)
{
	peer_free(one.peer);
	timer_free(s->phases.retry);
	event_base_free(s->base);
	free(s);
	return remove_dir(state);
}

static void what_can_not_be_sent_is_asked_for_again(void **state)
{
	(void)state;
	ask("1");
	assert_int_equal(q.open, 0);
	run_until(&kicks, 1);
	assert_int_equal(sup_ask_now(&q, &one, RECORD_BARE("echo"), NULL, on_end, s), -1);
	assert_int_equal(ends, 0);
}

static void answers(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	run_until(&is_up, 1);

	/* Once at a time. */
	ask("1");
	ask("2");
	run_until(&ends, 1);
	assert_string_equal(last, "1");
	assert_int_equal(q.open, 0);

	/* Of several the last one's answer counts. */
	ask("3");
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(sup_ask_again(&q, &one, RECORD("echo", F("n", i)), NULL, on_end, s), 0);
	run_until(&ends, 2);
	assert_string_equal(last, "2");
	assert_int_equal(q.open, 0);

	/* One that is about something else by now counts as none; the next one is taken. */
	ask("4");
	sup_ask_forget(&q);
	ask("5");
	run_until(&ends, 3);
	assert_int_equal(lost, 1);
	ask("6");
	run_until(&ends, 4);
	assert_string_equal(last, "6");
	sup_ask_forget(&q); /* nothing is under way */
	ask("7");
	run_until(&ends, 5);
	assert_string_equal(last, "7");

	/* The connection goes: each question ends once. */
	ask("8");
	assert_int_equal(sup_ask_again(&q, &one, RECORD_BARE("echo"), NULL, on_end, s), 0);
	peer_free(one.peer);
	one.peer = NULL;
	assert_int_equal(ends, 6);
	assert_int_equal(lost, 2);
	assert_int_equal(q.open, 0);
	daemon_stop(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_can_not_be_sent_is_asked_for_again, begin, end),
		cmocka_unit_test_setup_teardown(answers, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
