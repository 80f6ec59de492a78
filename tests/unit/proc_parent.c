/* Node parents: how a node ended is on disk, whoever dies when. */
#include "proc/parent.h"

#include "base/clock.h"
#include "base/fs.h"
#include "proc/child.h"

#include "scratch.h"

#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char record[256], logfile[256], lock[256];

static int begin(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	snprintf(record, sizeof record, "%s/w0.0", scratch);
	snprintf(logfile, sizeof logfile, "%s/w0.log", scratch);
	snprintf(lock, sizeof lock, "%s/w0.lock", scratch);
	return 0;
}

static struct node_place here;

static pid_t start(const char *script, const char *template)
{
	char *const argv[] = {(char *)(size_t) "/bin/sh", (char *)(size_t) "-c",
			      (char *)(size_t)script, NULL};
	struct launch l = {.name = {.id = "w0", .place = &here},
			   .life = 0,
			   .record = record,
			   .log = logfile,
			   .lock = lock,
			   .template = template,
			   .argv = argv};
	pid_t parent;
	struct error err;
	if (parent_launch(&l, &parent, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	return parent;
}

/* Polls, 20 s at most: a limit, no measurement. */
static void wait_for(int (*so)(struct node_record *r), struct node_record *r)
{
	for (int i = 0; i < 2000; i++) {
		if (node_record_read(record, r, NULL) == 0 && so(r))
			return;
		clock_sleep(0.01);
	}
	fail_msg("waited in vain");
}

static int runs(struct node_record *r)
{
	return (node_record_running(r) & RECORD_NODE_RUNS) != 0;
}

/* What the node has said, as soon as there is something; the caller frees it. */
static char *said(void)
{
	char *text;
	for (int i = 0; i < 2000; i++) {
		if (fs_read_file(logfile, 100, &text, NULL, NULL) == 0) {
			if (text[0])
				return text;
			free(text);
		}
		clock_sleep(0.01);
	}
	fail_msg("waited in vain");
	return NULL;
}

static int has_ended(struct node_record *r)
{
	return r->ended;
}

static void exit_status_is_recorded(void **state)
{
	(void)state;
	struct node_record r;
	pid_t parent = start("echo out; echo err >&2; exit 65", NULL);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	assert_int_equal(node_record_read(record, &r, NULL), 0);
	assert_int_equal(r.ended, 1);
	assert_int_equal(r.end.status, 65);
	assert_int_equal(r.end.signal, 0);
	assert_string_equal(r.id, "w0");
	assert_int_equal(r.parent, parent);
	char *text;
	assert_int_equal(fs_read_file(logfile, 100, &text, NULL, NULL), 0);
	assert_string_equal(text, "out\nerr\n");
	free(text);
}

static void a_log_whose_last_line_is_half_begins_a_new_one(void **state)
{
	(void)state;
	static const char *const script[] = {"printf half; kill -KILL $$", "echo whole", "echo next"};
	for (size_t i = 0; i < 3; i++) {
		pid_t parent = start(script[i], NULL);
		assert_int_equal(waitpid(parent, NULL, 0), parent);
		unlink(record);
	}
	char *text;
	assert_int_equal(fs_read_file(logfile, 100, &text, NULL, NULL), 0);
	assert_string_equal(text, "half\nwhole\nnext\n");
	free(text);
}

static void signal_is_recorded(void **state)
{
	(void)state;
	struct node_record r;
	pid_t parent = start("kill -SEGV $$; sleep 60", NULL);
	waitpid(parent, NULL, 0);
	assert_int_equal(node_record_read(record, &r, NULL), 0);
	assert_int_equal(r.end.signal, SIGSEGV);
}

static void a_missing_program_is_a_configuration_error(void **state)
{
	(void)state;
	struct node_record r;
	struct error err;
	pid_t parent;
	char *const argv[] = {(char *)(size_t) "/nowhere/worker", NULL};
	struct launch l = {
		.name = {.id = "w0", .place = &here}, .record = record, .log = logfile, .lock = lock, .argv = argv};
	assert_int_equal(parent_launch(&l, &parent, &err), 0);
	waitpid(parent, NULL, 0);
	assert_int_equal(node_record_read(record, &r, NULL), 0);
	assert_int_equal(r.end.status, ERROR_CONFIG);
}

/* A log that can't be made may be one of a disk that fails for a moment: it is tried again. */
static void a_log_that_can_not_be_made_is_no_mistake(void **state)
{
	(void)state;
	int status, words[2], stderr_before = dup(2);
	char text[512] = "";
	assert_int_equal(mkdir(logfile, 0700), 0);
	assert_int_equal(pipe(words), 0);
	dup2(words[1], 2);
	close(words[1]);
	pid_t parent = start("exit 0", NULL);
	dup2(stderr_before, 2);
	close(stderr_before);
	assert_int_equal(waitpid(parent, &status, 0), parent);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), ERROR_OS);
	assert_true(read(words[0], text, sizeof text - 1) > 0);
	assert_non_null(strstr(text, "w0.log: can't be written: Is a directory"));
	close(words[0]);
}

static void one_at_a_time(void **state)
{
	(void)state;
	struct node_record r;
	struct error err;
	pid_t parent = start("sleep 60", NULL), other;
	char *const argv[] = {(char *)(size_t) "/bin/true", NULL};
	struct launch l = {
		.name = {.id = "w0", .place = &here}, .record = record, .log = logfile, .lock = lock, .argv = argv};
	assert_int_equal(parent_launch(&l, &other, &err), -1);
	assert_int_equal(err.code, ERROR_TEMPFAIL);
	wait_for(runs, &r);
	kill(-r.pid, SIGKILL);
	waitpid(parent, NULL, 0);
	assert_int_equal(parent_launch(&l, &other, &err), 0);
	waitpid(other, NULL, 0);
}

static void nobody_knows_it_by_our_name(void **state)
{
	(void)state;
	struct node_record r;
	char path[64], *text;
	size_t len;
	pid_t parent = start("sleep 60", NULL);
	wait_for(runs, &r);
	snprintf(path, sizeof path, "/proc/%d/cmdline", parent);
	assert_int_equal(fs_read_file(path, 4096, &text, &len, NULL), 0);
	assert_int_equal(len, sizeof "node-parent\0w0");
	assert_memory_equal(text, "node-parent\0w0", len);
	free(text);
	snprintf(path, sizeof path, "/proc/%d/comm", parent);
	assert_int_equal(fs_read_file(path, 4096, &text, NULL, NULL), 0);
	assert_string_equal(text, "node-parent\n");
	free(text);
	assert_int_equal(getsid(parent), parent);
	kill(r.pid, SIGKILL);
	waitpid(parent, NULL, 0);
}

static void a_node_outlives_its_parent(void **state)
{
	(void)state;
	struct node_record r;
	pid_t parent = start("echo up; exec sleep 60", NULL);
	wait_for(runs, &r);
	free(said()); /* before that it ends without its parent */
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	assert_int_equal(node_record_read(record, &r, NULL), 0);
	assert_int_equal(r.ended, 0);
	assert_int_equal(node_record_running(&r), RECORD_NODE_RUNS);
	int fd = process_watch(r.pid, r.start);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(process_watch(r.pid, r.start + 1), -1);
	kill(-r.pid, SIGKILL);
}

static void a_template_stands_in_front(void **state)
{
	(void)state;
	struct node_record r;
	char *text;
	pid_t parent = start("echo $NODE $PERCENT", "env NODE=%i PERCENT='100%%'");
	waitpid(parent, NULL, 0);
	assert_int_equal(node_record_read(record, &r, NULL), 0);
	assert_int_equal(r.end.status, 0);
	assert_int_equal(fs_read_file(logfile, 100, &text, NULL, NULL), 0);
	assert_string_equal(text, "w0 100%\n");
	free(text);
}

/* A shell that stays in front of its program: what it leaves behind goes with it. */
static void the_rest_of_the_group_is_killed(void **state)
{
	(void)state;
	struct node_record r;
	pid_t parent = start("sleep 60 & echo $!; wait", NULL);
	wait_for(runs, &r);
	char *text = said();
	pid_t left = (pid_t)atoi(text);
	free(text);
	kill(r.pid, SIGKILL);
	waitpid(parent, NULL, 0);
	wait_for(has_ended, &r);
	uint64_t start_time;
	for (int i = 0; i < 2000 && process_start(left, &start_time) == 0; i++)
		clock_sleep(0.01);
	assert_int_equal(process_start(left, &start_time), -1);
}

static void damaged_records_are_refused(void **state)
{
	(void)state;
	struct node_record r;
	struct error err;
	const char *const bad[] = {
		"", "node id=w0\n", "end status=0 at=1\n", "node id=w0 life=0 parent=x",
		"node id=w0 life=0 parent=1 parent-start=1 pid=0 start=1 boot= at=1\n"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(fs_replace_file(record, bad[i], strlen(bad[i]), &err), 0);
		assert_int_equal(node_record_read(record, &r, &err), -1);
		assert_non_null(strstr(err.place, record));
	}
}

/* A Ctrl-C in the moment behind fork(), before exec: libevent's handler would write to the pipe that
 * it shares with the supervisor, who would count it twice, and stop without a checkpoint. */
static int told[2], window_open;

static void tell(int sig)
{
	(void)sig;
	if (write(told[1], "x", 1) < 0)
		abort();
}

static void in_the_window(void)
{
	if (window_open)
		kill(getpid(), SIGINT);
}

static void on_done(const struct child_end *e, void *arg)
{
	(void)arg;
	assert_int_equal(e->cut, CHILD_WHOLE);
	assert_int_equal(e->end.signal, 0);
	assert_int_equal(e->end.status, 7);
	assert_int_equal(e->bytes, 0);
	assert_string_equal(e->output, "");
}

static void a_signal_behind_fork_is_nobodys(void **state)
{
	(void)state;
	struct node_record r;
	struct error err;
	char c;
	char *const argv[] = {(char *)(size_t) "/bin/sh", (char *)(size_t) "-c",
			      (char *)(size_t) "exit 7", NULL};
	struct child_options options = {
		.argv = argv, .seconds = 60, .output_bytes_max = 9, .done = on_done};
	struct child *child;
	struct event_base *base = event_base_new();
	struct sigaction act = {.sa_handler = tell}, before;
	assert_int_equal(pipe2(told, O_NONBLOCK | O_CLOEXEC), 0);
	assert_int_equal(pthread_atfork(NULL, NULL, in_the_window), 0);
	assert_int_equal(sigaction(SIGINT, &act, &before), 0);
	window_open = 1;
	pid_t parent = start("exit 3", NULL);
	assert_int_equal(child_start(&child, base, &options, &err), 0);
	window_open = 0;
	event_base_dispatch(base);
	event_base_free(base);
	waitpid(parent, NULL, 0);
	assert_int_equal(node_record_read(record, &r, &err), 0);
	assert_int_equal(r.end.status, 3);
	assert_int_equal(read(told[0], &c, 1), -1);
	/* Here they come as before. */
	raise(SIGINT);
	assert_int_equal(read(told[0], &c, 1), 1);
	sigaction(SIGINT, &before, NULL);
	close(told[0]);
	close(told[1]);
}

/* The node's record is written as soon as fork() returns in its parent: whoever reads it may send
 * SIGTERM while the child has done nothing yet. */
#define HELD "TEST_HELD" /* while this file is there */

static void stay_in_the_window(void)
{
	while (access(getenv(HELD), F_OK) == 0)
		clock_sleep(0.01);
}

/* How a node ends that got the signal there. */
static struct node_end end_of_one_in_the_window(const char *script, int sig)
{
	struct node_record r;
	char held[300];
	snprintf(held, sizeof held, "%s/held", scratch);
	assert_int_equal(fs_replace_file(held, "", 0, NULL), 0);
	setenv(HELD, held, 1);
	pid_t parent = start(script, NULL);
	unsetenv(HELD);
	wait_for(runs, &r);
	assert_int_equal(kill(-r.pid, sig), 0);
	unlink(held);
	wait_for(has_ended, &r);
	waitpid(parent, NULL, 0);
	return r.end;
}

static void a_stop_behind_fork_is_not_lost(void **state)
{
	(void)state;
	assert_int_equal(end_of_one_in_the_window("exec sleep 60", SIGTERM).signal, SIGTERM);
}

/* SIGUSR1 asks a node something; a program that has just begun does not listen yet. */
static void a_question_ends_no_node_that_has_just_begun(void **state)
{
	(void)state;
	struct node_end end = end_of_one_in_the_window("kill -USR1 $$; exit 7", SIGUSR1);
	assert_int_equal(end.signal, 0);
	assert_int_equal(end.status, 7);
}

int main(int argc, char **argv)
{
	if (strcmp(argv[0], PARENT_NAME) == 0) {
		if (getenv(HELD))
			pthread_atfork(NULL, NULL, stay_in_the_window);
		return parent_main(argc, argv);
	}
	launcher_here(&here);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(exit_status_is_recorded, begin, scratch_remove),
		cmocka_unit_test_setup_teardown(a_log_whose_last_line_is_half_begins_a_new_one, begin,
						scratch_remove),
		cmocka_unit_test_setup_teardown(signal_is_recorded, begin, scratch_remove),
		cmocka_unit_test_setup_teardown(a_missing_program_is_a_configuration_error, begin,
						scratch_remove),
		cmocka_unit_test_setup_teardown(a_log_that_can_not_be_made_is_no_mistake, begin,
						scratch_remove),
		cmocka_unit_test_setup_teardown(one_at_a_time, begin, scratch_remove),
		cmocka_unit_test_setup_teardown(nobody_knows_it_by_our_name, begin, scratch_remove),
		cmocka_unit_test_setup_teardown(a_node_outlives_its_parent, begin, scratch_remove),
		cmocka_unit_test_setup_teardown(a_template_stands_in_front, begin, scratch_remove),
		cmocka_unit_test_setup_teardown(the_rest_of_the_group_is_killed, begin, scratch_remove),
		cmocka_unit_test_setup_teardown(damaged_records_are_refused, begin, scratch_remove),
		cmocka_unit_test_setup_teardown(a_signal_behind_fork_is_nobodys, begin, scratch_remove),
		cmocka_unit_test_setup_teardown(a_stop_behind_fork_is_not_lost, begin, scratch_remove),
		cmocka_unit_test_setup_teardown(a_question_ends_no_node_that_has_just_begun, begin,
						scratch_remove),
	};
	return cmocka_run_group_tests_name("run_parent", tests, NULL, NULL);
}
