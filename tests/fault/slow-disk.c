/*
 * slow-disk: each fsync and fdatasync of a job's storage takes long, or each read of its data.  Preloaded
 * (LD_PRELOAD) into a program and what it starts by tests/fault/slow-disk and bench/advise-real, which compile it.
 *
 *   SLOW         a file that says how many seconds each takes: read again while one waits
 *   SLOW_UNDER   fsync and fdatasync of files and directories whose names begin so
 *   SLOW_READS   pread of files whose names begin so, which gets 512 bytes at most
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

static int is_under(int of, const char *under)
{
	char link[40], path[PATH_MAX] = "";
	snprintf(link, sizeof link, "/proc/self/fd/%d", of);
	return under && readlink(link, path, sizeof path - 1) > 0 && strncmp(path, under, strlen(under)) == 0;
}

static int wait_for(int of, const char *under)
{
	int saved = errno, is_slow = is_under(of, under);
	double began = now(), left;
	while (is_slow && (left = began + seconds() - now()) > 0) {
		const struct timespec turn = {0, left < 0.02 ? (long)(left * 1e9) : 20000000};
		nanosleep(&turn, NULL);
	}
	errno = saved;
	return is_slow;
}

int fsync(int fd)
{
	wait_for(fd, getenv("SLOW_UNDER"));
	return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	wait_for(fd, getenv("SLOW_UNDER"));
	return (int)syscall(SYS_fdatasync, fd);
}

ssize_t pread(int fd, void *data, size_t bytes, off_t at)
{
	if (wait_for(fd, getenv("SLOW_READS")) && bytes > 512)
		bytes = 512;
	return (ssize_t)syscall(SYS_pread64, fd, data, bytes, at);
}
