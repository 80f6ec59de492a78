/*
 * slow-disk: each fsync and fdatasync of the job's storage takes long.  Preloaded (LD_PRELOAD) into a
 * program and what it starts by tests/fault/slow-disk, which compiles it.
 *
 *   SLOW         a file that says how many seconds each takes: read again while one waits
 *   SLOW_UNDER   those of files and directories whose names begin so
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds(void)
{
	const char *path = getenv("SLOW");
	char text[32] = "";
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return 0;
	ssize_t got = read(fd, text, sizeof text - 1);
	close(fd);
	return got > 0 ? atof(text) : 0;
}

static void wait_for(int of)
{
	const char *under = getenv("SLOW_UNDER");
	char link[40], path[PATH_MAX] = "";
	const struct timespec turn = {0, 20000000};
	int saved = errno;
	double began = now();
	snprintf(link, sizeof link, "/proc/self/fd/%d", of);
	if (under && readlink(link, path, sizeof path - 1) > 0 &&
	    strncmp(path, under, strlen(under)) == 0)
		while (now() - began < seconds())
			nanosleep(&turn, NULL);
	errno = saved;
}

int fsync(int fd)
{
	wait_for(fd);
	return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	wait_for(fd);
	return (int)syscall(SYS_fdatasync, fd);
}
