/* host_test: see host_test.h. */
#include "proc/host_test.h"

#include "base/clock.h"
#include "base/human.h"
#include "base/reals.h"
#include "proc/launcher.h"
#include "proc/process.h"
#include "proc/remote.h"
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOST_SECONDS 15.0 /* seconds for all questions to a host */
#define HERE_SECONDS 10.0 /* seconds for the program, which takes less than one */
#define LINK_QUICK 0.05 /* a shorter transfer says little: send more */

/* Bytes for a link, one after the other. */
static const size_t sent[] = {64u << 10, 1u << 20, 8u << 20};
#define SENT (sizeof sent / sizeof *sent)
#define SENT_MOST (8u << 20)

static const char *const words[HOST_TEST_KINDS] = {"compute", "memory", "link"};

/* ---- on this machine ---- */

int host_test_begin(const char *search_path, int *fd, int *pid, struct error *err)
{
	char path[PATH_MAX];
	int ends[2];
	if (process_find("node-host", search_path, path, sizeof path, err) != 0)
		return -1;
	if (pipe2(ends, O_CLOEXEC) != 0)
		return error_errno(err, ERROR_OS, path, "pipe");
	char *const argv[] = {path, "--test", NULL};
	pid_t child = process_fork();
	if (child == 0) {
		process_signals_reset();
		if (dup2(ends[1], 1) < 0)
			_exit(ERROR_OS);
		process_become("node-host", argv);
	}
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return error_errno(err, ERROR_OS, path, "fork");
	}
	*fd = ends[0];
	*pid = child;
	return 0;
}

/* All output until the end of the process. -1: it did not end in time. */
static int host_test_read_all(int fd, char *line, size_t max)
{
	double until = clock_mono() + HERE_SECONDS, left;
	size_t len = 0;
	while ((left = until - clock_mono()) > 0) {
		struct pollfd in = {.fd = fd, .events = POLLIN};
		char some[512];
		if (poll(&in, 1, (int)(left * 1000) + 1) <= 0)
			continue;
		ssize_t n = read(fd, some, sizeof some);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			line[len] = '\0';
			return 0;
		}
		size_t fits = (size_t)n < max - 1 - len ? (size_t)n : max - 1 - len;
		memcpy(line + len, some, fits);
		len += fits;
	}
	line[len] = '\0';
	return -1;
}

int host_test_end(int fd, int pid, char *line, size_t max, struct error *err)
{
	int late = host_test_read_all(fd, line, max) != 0;
	close(fd);
	if (late)
		kill(pid, SIGKILL);
	int status = process_wait(pid);
	line[strcspn(line, "\n")] = '\0';
	if (late)
		return error_set(err, ERROR_TEMPFAIL, "node-host --test", "has not ended after %g s",
				 HERE_SECONDS);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return error_set(err, ERROR_SOFTWARE, "node-host --test", "has failed");
	return 0;
}

static void host_test_take_values(struct host_test *t, const struct record *r)
{
	for (int k = 0; k < HOST_TEST_LINK; k++)
		if (record_real(r, words[k], 0, 1e300, &t->value[k], NULL) != 0)
			t->value[k] = NAN;
	const char *wrong = record_get(r, "wrong");
	t->wrong = wrong && strcmp(wrong, "1") == 0;
}

static void host_test_fail(struct host_test *t, const char *text)
{
	snprintf(t->why, sizeof t->why, "%.150s", text);
}

static void end_here(struct host_test *t, int fd, int pid)
{
	char line[RECORD_LINE_MAX];
	static struct record r; /* large */
	struct error err;
	if (host_test_end(fd, pid, line, sizeof line, &err) != 0 ||
	    record_parse(&r, line, strlen(line), &err) != 0)
		host_test_fail(t, err.text);
	else
		host_test_take_values(t, &r);
}

/* ---- on others ---- */

enum step { STEP_GREETING, STEP_LINK, STEP_TEST, STEP_OVER };

struct asked {
	struct host_test *test;
	struct remote *remote;
	enum step step;
	int again;    /* the last size was sent twice: the better one counts */
	size_t sent;  /* index of what was sent last, */
	double began; /* at this time of clock_mono() */
};

static void host_test_end_one(struct asked *a, const char *why)
{
	if (why)
		host_test_fail(a->test, why);
	remote_close(a->remote);
	a->remote = NULL;
	a->step = STEP_OVER;
}

static int ask_sink(struct asked *a, const void *payload, struct error *err)
{
	size_t bytes = sent[a->sent];
	a->began = clock_mono();
	a->step = STEP_LINK;
	return remote_ask(a->remote, RECORD("sink", F("bytes", bytes)), payload, bytes, err);
}

static int ask_test(struct asked *a, struct error *err)
{
	a->step = STEP_TEST;
	return remote_ask(a->remote, RECORD_BARE("test"), NULL, 0, err);
}

/* The next question behind an answer (NULL: the greeting). */
static int host_test_go_on(struct asked *a, const struct record *r, const void *payload,
			   struct error *err)
{
	double took = clock_mono() - a->began;
	if (r && !record_is(r, "ok"))
		return remote_refused(a->remote, r, err);
	switch (a->step) {
	case STEP_GREETING:
		return ask_sink(a, payload, err);
	case STEP_LINK:
		a->test->value[HOST_TEST_LINK] =
			fmax((double)sent[a->sent] / took, a->again ? a->test->value[HOST_TEST_LINK] : 0);
		if (a->again)
			return ask_test(a, err);
		a->again = took >= LINK_QUICK || a->sent + 1 == SENT;
		a->sent += !a->again;
		return ask_sink(a, payload, err);
	case STEP_TEST:
		host_test_take_values(a->test, r);
		host_test_end_one(a, NULL);
		break;
	case STEP_OVER:
		break;
	}
	return 0;
}

static void host_test_turn(struct asked *a, const struct pollfd polls[REMOTE_POLLS],
			   const void *payload)
{
	struct error err, over;
	const struct record *r;
	int got = 0, result = remote_turn(a->remote, polls, &over), next = 0;
	if (a->step == STEP_GREETING && remote_greets(a->remote))
		next = host_test_go_on(a, NULL, payload, &err);
	while (next == 0 && a->remote && (got = remote_take(a->remote, &r, &err)) > 0)
		next = host_test_go_on(a, r, payload, &err);
	if (next != 0 || got < 0)
		host_test_end_one(a, err.text);
	else if (a->remote && result != 0)
		host_test_end_one(a, over.text);
}

static int any_open(const struct asked *asked, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (asked[i].remote)
			return 1;
	return 0;
}

static void host_test_poll_all(struct asked *asked, size_t count, struct pollfd *polls, double left,
			       const void *payload)
{
	int timeout = (int)(left * 1000) + 1;
	for (size_t i = 0; i < count; i++) {
		struct pollfd *p = polls + i * REMOTE_POLLS;
		for (size_t k = 0; k < REMOTE_POLLS; k++)
			p[k] = (struct pollfd){.fd = -1};
		if (!asked[i].remote)
			continue;
		remote_wants(asked[i].remote, p);
		int soon = remote_timeout(asked[i].remote);
		timeout = soon < timeout ? soon : timeout;
	}
	if (poll(polls, count * REMOTE_POLLS, timeout) < 0)
		return;
	for (size_t i = 0; i < count; i++)
		if (asked[i].remote)
			host_test_turn(&asked[i], polls + i * REMOTE_POLLS, payload);
}

static void host_test_open_one(struct asked *a, struct host_test *t, const char *search_path)
{
	struct error err;
	const struct remote_options options = {.launcher = t->launcher,
					       .host = t->host,
					       .program = t->program,
					       .search_path = search_path,
					       .quiet = 1};
	a->test = t;
	if (!t->launcher->is_far)
		a->step = STEP_OVER;
	else if (remote_open(&a->remote, &options, &err) != 0)
		host_test_end_one(a, err.text);
}

static void host_test_ask_all(struct host_test *tests, size_t count, struct asked *asked,
			      struct pollfd *polls, const void *payload, const char *search_path)
{
	double until = clock_mono() + HOST_SECONDS, left;
	char text[64];
	for (size_t i = 0; i < count; i++)
		host_test_open_one(&asked[i], &tests[i], search_path);
	while (any_open(asked, count) && (left = until - clock_mono()) > 0)
		host_test_poll_all(asked, count, polls, left, payload);
	snprintf(text, sizeof text, "has not answered for %g s", HOST_SECONDS);
	for (size_t i = 0; i < count; i++)
		if (asked[i].remote)
			host_test_end_one(&asked[i], text);
}

/* ---- judging ---- */

/* Of the others; NAN: none is known. */
static double host_test_others(const struct host_test *tests, size_t count, size_t i, int kind)
{
	double *known = malloc(count * sizeof *known), result = NAN;
	size_t n = 0;
	for (size_t k = 0; known && k < count; k++)
		if (k != i && !isnan(tests[k].value[kind]))
			known[n++] = tests[k].value[kind];
	if (n > 0)
		result = reals_median(known, n);
	free(known);
	return result;
}

void host_tests_judge(struct host_test *tests, size_t count)
{
	char own[HUMAN_MAX], theirs[HUMAN_MAX];
	for (size_t i = 0; i < count; i++) {
		struct host_test *t = &tests[i];
		if (t->wrong && !t->why[0])
			host_test_fail(t, "calculates wrongly");
		for (int k = 0; k < HOST_TEST_KINDS && !t->why[0]; k++) {
			double of = host_test_others(tests, count, i, k);
			if (isnan(t->value[k]) || isnan(of) || t->value[k] >= of * HOST_TEST_SHARE)
				continue;
			snprintf(t->why, sizeof t->why, "%s: %s a second, others %s", words[k],
				 human_count(t->value[k], own), human_count(of, theirs));
		}
	}
}

/* ---- all of it ---- */

static int run_once(struct host_test *tests, size_t count, const void *payload,
		    const char *search_path, struct error *err)
{
	struct asked *asked = calloc(count, sizeof *asked);
	struct pollfd *polls = calloc(count * REMOTE_POLLS, sizeof *polls);
	size_t here = count;
	int fd = -1, pid = 0;
	int result = asked && polls ? 0 : error_set(err, ERROR_OS, "hosts", "out of memory");
	for (size_t i = 0; i < count; i++) {
		for (int k = 0; k < HOST_TEST_KINDS; k++)
			tests[i].value[k] = NAN;
		tests[i].wrong = 0;
		tests[i].why[0] = '\0';
		here = tests[i].launcher->is_far ? here : i;
	}
	if (result == 0 && here < count)
		result = host_test_begin(search_path, &fd, &pid, err);
	if (result == 0)
		host_test_ask_all(tests, count, asked, polls, payload, search_path);
	if (fd >= 0)
		end_here(&tests[here], fd, pid);
	free(asked);
	free(polls);
	if (result == 0)
		host_tests_judge(tests, count);
	return result;
}

static int host_test_any_bad(const struct host_test *tests, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (tests[i].why[0])
			return 1;
	return 0;
}

/* Test again: a machine that was busy for a moment is not bad. */
static int run_twice(struct host_test *tests, size_t count, const void *payload,
		     const char *search_path, struct error *err)
{
	struct host_test *first = malloc(count * sizeof *first);
	if (!first)
		return error_set(err, ERROR_OS, "hosts", "out of memory");
	memcpy(first, tests, count * sizeof *first);
	int result = run_once(tests, count, payload, search_path, err);
	for (size_t i = 0; result == 0 && i < count; i++)
		if (!first[i].why[0])
			tests[i] = first[i];
	free(first);
	return result;
}

int host_tests_run(struct host_test *tests, size_t count, const char *search_path,
		   struct error *err)
{
	void *payload = calloc(1, SENT_MOST);
	if (!payload)
		return error_set(err, ERROR_OS, "hosts", "out of memory");
	int result = run_once(tests, count, payload, search_path, err);
	if (result == 0 && count > 1 && host_test_any_bad(tests, count))
		result = run_twice(tests, count, payload, search_path, err);
	free(payload);
	return result;
}

void host_test_record(struct record_out *o, char *line, size_t max, const struct host_test *t)
{
	record_begin(o, line, max, "host-test");
	record_add(o, "name", t->host);
	for (int k = 0; k < HOST_TEST_KINDS; k++)
		record_add_real(o, words[k], isnan(t->value[k]) ? NAN : floor(t->value[k]));
	record_add(o, "state", t->why[0] ? "bad" : "good");
	record_add(o, "why", t->why);
}
