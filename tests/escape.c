/* Preloaded by tests: as the program ends it tries what a program that was taken over would try, and adds to
 * the file $ESCAPE what came of it, a line each. Whatever confines it is in force then. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;
static int out = -1;

__attribute__((constructor)) static void escape_begin(void)
{
	const char *name = getenv("ESCAPE");
	out = name ? open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
	unsetenv("LD_PRELOAD"); /* what it starts does not try */
	if (out >= 0 && syscall(444, NULL, 0, 1) < 1)
		dprintf(out, "landlock missing\n");
}

static void escape_say(const char *what, int errnum)
{
	dprintf(out, "%s %s\n", what, errnum == 0 ? "done" : strerrorname_np(errnum));
}

static void escape_open(const char *what, const char *path, int flags)
{
	int fd = path ? open(path, flags, 0600) : -1;
	escape_say(what, fd >= 0 ? 0 : errno);
	if (fd >= 0)
		close(fd);
}

static void escape_socket(const char *what, int family)
{
	int fd = socket(family, SOCK_STREAM, 0);
	escape_say(what, fd >= 0 ? 0 : errno);
	if (fd >= 0)
		close(fd);
}

__attribute__((destructor)) static void escape_try(void)
{
	char *const words[] = {"true", NULL};
	pid_t pid;
	if (out < 0)
		return;
	escape_open("read", getenv("ESCAPE_READ"), O_RDONLY);
	escape_open("write", getenv("ESCAPE_WRITE"), O_WRONLY | O_CREAT);
	escape_say("run", posix_spawn(&pid, "/bin/true", NULL, NULL, words, environ));
	escape_socket("unix", AF_UNIX);
	escape_socket("inet", AF_INET);
	escape_say("signal", kill(getppid(), 0) == 0 ? 0 : errno);
	escape_say("ring", syscall(425, 0, NULL) == 0 ? 0 : errno);
	close(out);
}
