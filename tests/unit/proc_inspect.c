/* Whether a process group moves, as the kernel sees it. */
#include "proc/inspect.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum does { SLEEPS, WORKS, STOPS };

/* A group of its own. */
static pid_t child(enum does what, pid_t group)
{
	pid_t pid = fork();
	if (pid != 0) {
		setpgid(pid, group);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, group);
	if (what == STOPS)
		raise(SIGSTOP);
	for (volatile unsigned i = 0;; i++)
		if (what != WORKS)
			pause();
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void rest(void)
{
	struct timespec t = {.tv_nsec = 20000000};
	nanosleep(&t, NULL);
}

static void look(struct inspect_motion *m, pid_t group, double seconds)
{
	struct inspect_groups groups = {0};
	inspect_groups_read(&groups);
	inspect_motion(m, &groups, group, seconds);
	inspect_groups_free(&groups);
}

/* Until a group that ends its beginning rests: twenty looks of a second each see no move. */
static struct inspect_motion looks(pid_t group)
{
	struct inspect_motion m = {0};
	for (int i = 0; i < 2000 && m.still < 20; i++) {
		look(&m, group, 1);
		rest();
	}
	return m;
}

static void one_that_sleeps_is_still(void **state)
{
	(void)state;
	pid_t pid = child(SLEEPS, 0);
	struct inspect_motion m = looks(pid);
	assert_true(m.still >= 20);
	assert_true(m.stopped == 0);
	end(pid);
}

static void one_that_is_stopped_is_told(void **state)
{
	(void)state;
	pid_t pid = child(STOPS, 0);
	waitpid(pid, NULL, WUNTRACED);
	struct inspect_motion m = {0};
	look(&m, pid, 1);
	look(&m, pid, 5);
	assert_true(m.stopped >= 5);
	assert_true(m.still >= m.stopped);
	kill(pid, SIGCONT);
	for (int i = 0; i < 2000 && m.stopped > 0; i++) {
		look(&m, pid, 1);
		rest();
	}
	assert_true(m.stopped == 0);
	end(pid);
}

/* As an agent, which looks at its trainer now and then. */
static void what_it_has_started_in_another_group_counts_by_itself(void **state)
{
	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0);
		if (child(STOPS, 0) > 0)
			for (volatile unsigned i = 0;; i++)
				;
	}
	setpgid(pid, pid);
	struct inspect_motion m = {0};
	for (int i = 0; i < 2000 && m.stopped < 5; i++) {
		look(&m, pid, 1);
		rest();
	}
	assert_true(m.stopped >= 5);
	assert_true(m.still == 0);
	end(pid);
}

static void one_that_computes_moves_and_its_group_with_it(void **state)
{
	(void)state;
	pid_t pid = child(STOPS, 0), other = child(WORKS, pid);
	struct inspect_motion m = {0};
	waitpid(pid, NULL, WUNTRACED);
	for (int i = 0; i < 10; i++) {
		look(&m, pid, 1);
		assert_true(m.still == 0);
		assert_true(m.stopped == 0);
		rest();
	}
	end(other);
	end(pid);
	look(&m, pid, 1); /* nobody is there */
	assert_true(m.still == 0);
}

static void a_name_says_it_to_others(void **state)
{
	struct inspect_motion m, shown = {.still = 41.2};
	(void)state;
	inspect_show(&shown);
	assert_int_equal(inspect_shown(&m, getpid()), 0);
	assert_true(m.still == 41 && m.stopped == 0);
	shown.stopped = 7;
	inspect_show(&shown);
	assert_int_equal(inspect_shown(&m, getpid()), 0);
	assert_true(m.still == 7 && m.stopped == 7);
	inspect_show(&(struct inspect_motion){0});
	assert_int_equal(inspect_shown(&m, getpid()), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_sleeps_is_still),
		cmocka_unit_test(one_that_is_stopped_is_told),
		cmocka_unit_test(what_it_has_started_in_another_group_counts_by_itself),
		cmocka_unit_test(one_that_computes_moves_and_its_group_with_it),
		cmocka_unit_test(a_name_says_it_to_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
