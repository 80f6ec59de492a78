/* What a process that was confined may still do, in a child each; where the kernel has no Landlock, only what
 * seccomp refuses. */
#include "proc/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];
static int has_landlock;

static char *in(const char *name)
{
	static char path[4][128];
	static int at;
	at = (at + 1) % 4;
	snprintf(path[at], sizeof path[at], "%s/%s", dir, name);
	return path[at];
}

enum { READ = 1, WRITE = 2, RENAME = 4, EXECUTE = 8, UNIX = 16, INET = 32, SIGNAL = 64 };

static int confine_opens(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);
	return fd >= 0 && close(fd) == 0;
}

static int confine_makes(int family)
{
	int fd = socket(family, SOCK_STREAM, 0);
	return fd >= 0 && close(fd) == 0;
}

/* What a process can do that has asked so. */
static int can(const struct confine_ask *ask)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		int all = 0;
		char *const words[] = {(char *)(size_t) "/nowhere", NULL};
		confine(ask);
		all |= confine_opens(in("a/file"), O_RDONLY) ? READ : 0;
		all |= confine_opens(in("b/new"), O_WRONLY | O_CREAT) ? WRITE : 0;
		all |= rename(in("b/new"), in("b/newer")) == 0 ? RENAME : 0;
		all |= execv(words[0], words) != 0 && errno == ENOENT ? EXECUTE : 0;
		all |= confine_makes(AF_UNIX) ? UNIX : 0;
		all |= confine_makes(AF_INET) ? INET : 0;
		all |= kill(getppid(), 0) == 0 ? SIGNAL : 0;
		_exit(all);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	unlink(in("b/newer"));
	return WEXITSTATUS(status);
}

static void calls(void **state)
{
	(void)state;
	const int files = READ | WRITE | RENAME | SIGNAL;
	struct confine_ask ask = {.read = {"/"}, .write = {dir}, .signals = 1};
	assert_int_equal(can(&ask), files);
	ask.sockets = CONFINE_UNIX_SOCKETS;
	assert_int_equal(can(&ask), files | UNIX);
	ask.sockets = CONFINE_ANY_SOCKETS;
	assert_int_equal(can(&ask), files | UNIX | INET);
}

static void files(void **state)
{
	(void)state;
	const char *const more[] = {in("a")};
	if (!has_landlock)
		skip();
	assert_int_equal(can(&(struct confine_ask){.signals = 1}) & ~SIGNAL, 0);
	assert_int_equal(can(&(struct confine_ask){.read = {NULL, in("a/file")}}) & ~SIGNAL, READ);
	assert_int_equal(can(&(struct confine_ask){.more = more, .more_count = 1}) & ~SIGNAL, READ);
	assert_int_equal(can(&(struct confine_ask){.write = {in("none"), in("b")}}) & ~SIGNAL,
			 WRITE | RENAME);
	assert_int_equal(can(&(struct confine_ask){.replace = {in("b/newer")}}) & ~SIGNAL,
			 WRITE | RENAME);
}

/* A rule can't be made, as there is one descriptor only: the process keeps what it has asked for. */
static void without_a_rule(void **state)
{
	int status;
	pid_t pid = fork();
	(void)state;
	if (pid == 0) {
		int next = dup(0);
		struct rlimit all, few;
		getrlimit(RLIMIT_NOFILE, &all);
		few = (struct rlimit){(rlim_t)next + 1, all.rlim_max};
		close(next);
		setrlimit(RLIMIT_NOFILE, &few);
		confine(&(struct confine_ask){.write = {dir}});
		setrlimit(RLIMIT_NOFILE, &all);
		_exit(!confine_opens(in("a/file"), O_RDONLY));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls),
		cmocka_unit_test(files),
		cmocka_unit_test(without_a_rule),
	};
	snprintf(dir, sizeof dir, "/tmp/paceline.XXXXXX");
	if (!mkdtemp(dir) || mkdir(in("a"), 0700) != 0 || mkdir(in("b"), 0700) != 0 ||
	    !confine_opens(in("a/file"), O_WRONLY | O_CREAT))
		return 1;
	has_landlock = syscall(444, NULL, 0, 1) >= 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(in("a/file"));
	rmdir(in("a"));
	rmdir(in("b"));
	rmdir(dir);
	return failed;
}
