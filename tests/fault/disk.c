/*
 * disk: one call to the file system goes wrong.  Preloaded (LD_PRELOAD) into a program and what it
 * starts by tests/fault/disk, which compiles it.
 *
 *   FAULT         a directory.  Where it has a file `arm`, "KINDS NTH WHAT [PROGRAM]", the NTH call
 *                 of these kinds (open, read, write, sync, rename, unlink, room, with commas) by
 *                 PROGRAM, or by anyone, fails once with EIO or ENOSPC, hangs until `arm` is gone,
 *                 or kills its process before it is made (WHAT hang, kill). With WHAT log all goes
 *                 well.
 *   FAULT_UNDER   calls count for files and directories whose names begin so
 *
 * Calls are counted over all processes: each appends a byte to the file `count`, and knows its
 * number by where that byte is.  `struck` says what was struck, or with log all calls in their order.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Not through open() and write(): those are ours. */
static int raw_open(const char *name, int flags)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s", getenv("FAULT"), name);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

static void note(const char *kind, const char *path, long nth)
{
	char line[PATH_MAX + 200];
	int fd = raw_open("struck", O_WRONLY | O_CREAT | O_APPEND);
	int n = snprintf(line, sizeof line, "%s[%d] %s %ld %s\n", program_invocation_short_name,
			 (int)getpid(), kind, nth, path);
	syscall(SYS_write, fd, line, (size_t)n);
	syscall(SYS_close, fd);
}

static int strikes(const char *kind, const char *path)
{
	const char *fault = getenv("FAULT"), *under = getenv("FAULT_UNDER");
	char arm[200] = "", kinds[64], what[16], program[64] = "";
	long nth;
	int saved = errno, fd;
	if (!fault || !under || strncmp(path, under, strlen(under)) != 0 ||
	    (fd = raw_open("arm", O_RDONLY)) < 0)
		goto no;
	syscall(SYS_read, fd, arm, sizeof arm - 1);
	syscall(SYS_close, fd);
	if (sscanf(arm, "%63s %ld %15s %63s", kinds, &nth, what, program) < 3 ||
	    !strstr(kinds, kind) ||
	    (program[0] && strcmp(program, program_invocation_short_name) != 0))
		goto no;
	if (strcmp(what, "log") == 0) {
		note(kind, path, nth);
		goto no;
	}
	if ((fd = raw_open("count", O_RDWR | O_CREAT | O_APPEND)) < 0)
		abort();
	syscall(SYS_write, fd, ".", 1);
	long mine = syscall(SYS_lseek, fd, 0, SEEK_CUR);
	syscall(SYS_close, fd);
	if (mine != nth)
		goto no;
	note(kind, path, nth);
	if (strcmp(what, "kill") == 0)
		kill(getpid(), SIGKILL);
	if (strcmp(what, "hang") == 0) {
		while ((fd = raw_open("arm", O_RDONLY)) >= 0) {
			syscall(SYS_close, fd);
			usleep(20000);
		}
		goto no;
	}
	errno = strcmp(what, "ENOSPC") == 0 ? ENOSPC : EIO;
	return 1;
no:
	errno = saved;
	return 0;
}

static int strikes_at(const char *kind, int dir, const char *name)
{
	char path[PATH_MAX] = "", link[64];
	if (name[0] == '/')
		return strikes(kind, name);
	int saved = errno;
	if (dir == AT_FDCWD)
		snprintf(link, sizeof link, "/proc/self/cwd");
	else
		snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
	ssize_t n = readlink(link, path, sizeof path - 1);
	errno = saved;
	if (n <= 0)
		return 0;
	snprintf(path + n, sizeof path - (size_t)n, "%s%s", name[0] ? "/" : "", name);
	return strikes(kind, path);
}

static int strikes_fd(const char *kind, int fd)
{
	return strikes_at(kind, fd, "");
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                                                 \
	int name(const char *path, int flags, ...)                                                 \
	{                                                                                          \
		va_list ap;                                                                        \
		va_start(ap, flags);                                                               \
		mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;            \
		va_end(ap);                                                                        \
		return strikes_at("open", AT_FDCWD, path) ? -1 : REAL(name)(path, flags, mode);    \
	}
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
	int name(int dir, const char *path, int flags, ...)                                        \
	{                                                                                          \
		va_list ap;                                                                        \
		va_start(ap, flags);                                                               \
		mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;            \
		va_end(ap);                                                                        \
		return strikes_at("open", dir, path) ? -1 : REAL(name)(dir, path, flags, mode);    \
	}
OPENAT(openat)
OPENAT(openat64)

DIR *opendir(const char *path)
{
	return strikes_at("open", AT_FDCWD, path) ? NULL : REAL(opendir)(path);
}

#define FOPEN(name)                                                                                \
	FILE *name(const char *path, const char *mode)                                             \
	{                                                                                          \
		return strikes_at("open", AT_FDCWD, path) ? NULL : REAL(name)(path, mode);         \
	}
FOPEN(fopen)
FOPEN(fopen64)

ssize_t write(int fd, const void *data, size_t len)
{
	return strikes_fd("write", fd) ? -1 : REAL(write)(fd, data, len);
}

ssize_t writev(int fd, const struct iovec *piece, int count)
{
	return strikes_fd("write", fd) ? -1 : REAL(writev)(fd, piece, count);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
	return strikes_fd("write", fd) ? -1 : REAL(pwrite)(fd, data, len, at);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at)
{
	return strikes_fd("write", fd) ? -1 : REAL(pwrite64)(fd, data, len, at);
}

ssize_t read(int fd, void *data, size_t len)
{
	return strikes_fd("read", fd) ? -1 : REAL(read)(fd, data, len);
}

ssize_t pread(int fd, void *data, size_t len, off_t at)
{
	return strikes_fd("read", fd) ? -1 : REAL(pread)(fd, data, len, at);
}

ssize_t pread64(int fd, void *data, size_t len, off64_t at)
{
	return strikes_fd("read", fd) ? -1 : REAL(pread64)(fd, data, len, at);
}

int posix_fallocate(int fd, off_t from, off_t len)
{
	return strikes_fd("write", fd) ? errno : REAL(posix_fallocate)(fd, from, len);
}

int fsync(int fd)
{
	return strikes_fd("sync", fd) ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
	return strikes_fd("sync", fd) ? -1 : REAL(fdatasync)(fd);
}

int rename(const char *from, const char *to)
{
	return strikes_at("rename", AT_FDCWD, from) ? -1 : REAL(rename)(from, to);
}

int unlink(const char *path)
{
	return strikes_at("unlink", AT_FDCWD, path) ? -1 : REAL(unlink)(path);
}

int unlinkat(int dir, const char *path, int flags)
{
	return strikes_at("unlink", dir, path) ? -1 : REAL(unlinkat)(dir, path, flags);
}

int statvfs(const char *path, struct statvfs *st)
{
	return strikes_at("room", AT_FDCWD, path) ? -1 : REAL(statvfs)(path, st);
}
