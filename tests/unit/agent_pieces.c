/*
 * What an agent without a lead says to shardd, where shardd refuses, goes, and comes back as another
 * one: nothing is counted that nobody answers any more.  shardd is a process of its own here, which
 * answers each verb as the test has said.
 */
#include "agent/pieces.h"
#include "base/clock.h"
#include "tests/unit/scratch.h"
#include "wire/server.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* What a life of shardd answers. */
struct answers {
	int is_full; /* its disk: it refuses what is done, but for shard 3 */
	int fences;  /* who comes back */
	int is_mute; /* to who comes back */
	int refuses_hello;
	int is_over; /* its queue is, but for a shard that is held; else no get is answered */
};

static char path[128];
static pid_t child;

static void on_hello(struct request *rq, void *owner)
{
	const struct answers *a = owner;
	if (a->fences && record_get(request_record(rq), "generation"))
		request_err(rq, "fenced", NULL);
	else if (a->is_mute && record_get(request_record(rq), "generation"))
		request_defer(rq, NULL, NULL);
	else if (a->refuses_hello)
		request_err(rq, "journal", NULL);
	else
		request_ok(rq, "generation=1 samples=100 epochs=1 incarnation=1 shuffle=none");
}

static void on_done(struct request *rq, void *owner)
{
	const struct answers *a = owner;
	if (a->is_full && strcmp(record_get(request_record(rq), "id"), "3") != 0)
		request_err(rq, "journal", NULL);
	else
		request_ok(rq, NULL);
}

static void on_get(struct request *rq, void *owner)
{
	const struct answers *a = owner;
	if (a->is_over)
		request_ok(rq, "state=end held=1");
	else
		request_defer(rq, NULL, NULL);
}

static void on_list(struct request *rq, void *owner)
{
	char line[64];
	struct record_out o;
	(void)owner;
	record_begin(&o, line, sizeof line, "shard");
	record_add_u64(&o, "id", 3);
	record_add_u64(&o, "begin", 30);
	record_add_u64(&o, "length", 10);
	request_put_record(rq, &o);
	request_ok(rq, "count=1");
}

static void launch(struct answers a)
{
	static const struct verb verbs[] = {{"hello", "", "", on_hello, 0, ""},
					    {"done", "", "", on_done, 0, ""},
					    {"get", "", "", on_get, 0, ""},
					    {"list", "", "", on_list, 0, ""}};
	struct server_options options = {.path = path,
					 .role = "shardd",
					 .greeting_fields = "incarnation=1",
					 .verbs = verbs,
					 .verb_count = sizeof verbs / sizeof *verbs,
					 .owner = &a};
	struct server *server;
	struct error err;
	snprintf(path, sizeof path, "%s/s.sock", scratch);
	child = fork();
	if (child != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
	if (server_new(&server, &options, &err) == 0)
		server_run(server, NULL, 0, &err);
	_exit(0);
}

static void end_child(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static struct pieces *begin(double answer_seconds, const volatile int *stop)
{
	struct generation o = {.path = path,
			       .worker = "w0",
			       .wait_seconds = 60,
			       .answer_seconds = answer_seconds,
			       .stop = stop};
	struct pieces *p;
	struct error err;
	assert_int_equal(pieces_new(&p, &o, &err), 0);
	assert_int_equal(pieces_hello(p, &err), WORK_OK);
	return p;
}

/* Two are said again, and the first of them hears that we were given up. */
static void test_fenced_when_said_again(void **state)
{
	(void)state;
	struct error err;
	struct pieces_news news = {.kind = PIECES_NOTHING};
	launch((struct answers){.is_full = 1});
	struct pieces *p = begin(60, NULL);
	assert_int_equal(pieces_done(p, 1, &err), 0);
	assert_int_equal(pieces_done(p, 2, &err), 0);
	assert_int_equal(pieces_done(p, 3, &err), 0);
	while (news.kind != PIECES_DONE) { /* both were refused before */
		assert_int_equal(pieces_next(p, &news, &err), 0);
		clock_sleep(0.001);
	}
	assert_int_equal(pieces_owed(p), 2);
	end_child();
	launch((struct answers){.fences = 1});
	while (pieces_seconds(p) > 0)
		clock_sleep(0.01);
	assert_int_equal(pieces_next(p, &news, &err), 0);
	assert_int_equal(news.kind, PIECES_FENCED);
	assert_int_equal(pieces_owed(p), 0);
	assert_int_equal(pieces_asked(p), 0);
	pieces_free(p);
	end_child();
}

/* Stopped while shardd is away: what it owes us is waited for no longer, and nobody asks at once
 * again and again. */
static void test_away_when_stopped(void **state)
{
	(void)state;
	volatile int stop = 0;
	const double answer = 0.5;
	struct error err;
	struct pieces_news news;
	launch((struct answers){0});
	struct pieces *p = begin(answer, &stop);
	assert_int_equal(pieces_get(p, 0, &err), 0);
	end_child();
	stop = 1;
	assert_int_equal(pieces_next(p, &news, &err), WORK_STOP);
	assert_int_equal(pieces_fd(p), -1);
	clock_sleep(answer);
	assert_true(pieces_seconds(p) > answer);
	pieces_free(p);
}

static volatile int stop_later;

static void on_alarm(int number)
{
	(void)number;
	stop_later = 1;
}

static void stop_in(useconds_t microseconds)
{
	stop_later = 0;
	signal(SIGALRM, on_alarm);
	ualarm(microseconds, 0);
}

/* Stopped while its hello is not answered: no later answer is taken for one to what was asked. */
static void test_stopped_in_a_hello(void **state)
{
	(void)state;
	struct error err;
	struct pieces_news news;
	launch((struct answers){0});
	struct pieces *p = begin(60, &stop_later);
	assert_int_equal(pieces_get(p, 0, &err), 0);
	end_child();
	launch((struct answers){.is_mute = 1});
	stop_in(500000);
	assert_int_equal(pieces_next(p, &news, &err), WORK_STOP);
	assert_int_equal(pieces_fd(p), -1);
	pieces_free(p);
	end_child();
}

static void test_stopped_while_hellos_are_refused(void **state)
{
	(void)state;
	struct error err;
	launch((struct answers){.refuses_hello = 1});
	struct generation o = {.path = path,
			       .worker = "w0",
			       .wait_seconds = 10,
			       .answer_seconds = 60,
			       .stop = &stop_later};
	struct pieces *p;
	assert_int_equal(pieces_new(&p, &o, &err), 0);
	stop_in(500000);
	assert_int_equal(pieces_hello(p, &err), WORK_STOP);
	pieces_free(p);
	end_child();
}

static void is_three(const struct piece *p, void *count)
{
	assert_int_equal(p->id, 3);
	++*(int *)count;
}

/* Asked when the first of two gets has said that all is over: the answer to the second comes first. */
static void test_held_behind_a_get(void **state)
{
	(void)state;
	int count = 0;
	struct error err;
	struct pieces_news news = {.kind = PIECES_NOTHING};
	launch((struct answers){.is_over = 1});
	struct pieces *p = begin(60, NULL);
	assert_int_equal(pieces_get(p, 0, &err), 0);
	while (news.kind == PIECES_NOTHING) {
		assert_int_equal(pieces_next(p, &news, &err), 0);
		clock_sleep(0.001);
	}
	assert_int_equal(news.kind, PIECES_END);
	assert_int_equal(news.held, 1);
	assert_int_equal(pieces_get(p, 0, &err), 0);
	assert_int_equal(pieces_held(p, is_three, &count, &err), 0);
	assert_int_equal(count, 1);
	pieces_free(p);
	end_child();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define WITH_SCRATCH(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)
		WITH_SCRATCH(test_fenced_when_said_again),
		WITH_SCRATCH(test_away_when_stopped),
		WITH_SCRATCH(test_stopped_in_a_hello),
		WITH_SCRATCH(test_stopped_while_hellos_are_refused),
		WITH_SCRATCH(test_held_behind_a_get),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
