/*
 * crash-record: preloaded (LD_PRELOAD) into a program and what it starts, it writes down every call
 * that changes files, with its data, and what the program says, in one order over all processes.
 * tests/fault/crash-states compiles it, and crash-states.c makes of it what a power cut may leave.
 *
 *   CRASH_LOG     where it is written: records of "KIND INODE AT LENGTH PATH PATH2\n" and LENGTH
 *                 bytes. A record `say` has what went to a socket or to stdout, and as its path the
 *                 program.
 *   CRASH_UNDER   of files under this directory; paths begin behind it
 *   CRASH_KILL    N: the process is killed before its Nth record
 *   CRASH_FULL    there is no room for new files whose names end so
 *
 * A call and its record are made under one lock (flock on the log), except `say`: it may block.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define NOWHERE "-" /* a path that is not needed, or lies elsewhere */

static unsigned long long mapped[64]; /* inodes: their data is seen at the next fsync */
static int mappings;

static void must(int is_so)
{
	if (!is_so) {
		static const char why[] = "crash-record: its log can't be written\n";
		syscall(SYS_write, 2, why, sizeof why - 1);
		abort();
	}
}

/* Not through open() and write(): those are ours. */
static int lock(void)
{
	static int records;
	int saved = errno, fd;
	const char *last = getenv("CRASH_KILL");
	if (last && ++records == atoi(last))
		kill(getpid(), SIGKILL);
	fd = (int)syscall(SYS_openat, AT_FDCWD, getenv("CRASH_LOG"),
			  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	must(fd >= 0);
	while (flock(fd, LOCK_EX) != 0)
		must(errno == EINTR);
	errno = saved;
	return fd;
}

static void unlock(int fd)
{
	int saved = errno;
	syscall(SYS_close, fd);
	errno = saved;
}

static void put(int log, const char *kind, unsigned long long inode, long long at,
		const struct iovec *data, int count, size_t len, const char *path, const char *to)
{
	char head[2 * PATH_MAX + 128];
	int saved = errno;
	int n = snprintf(head, sizeof head, "%s %llu %lld %zu %s %s\n", kind, inode, at, len, path,
			 to);
	must(syscall(SYS_write, log, head, (size_t)n) == n);
	for (int i = 0; i < count && len > 0; i++) {
		size_t part = data[i].iov_len < len ? data[i].iov_len : len;
		must(syscall(SYS_write, log, data[i].iov_base, part) == (long)part);
		len -= part;
	}
	errno = saved;
}

/* ---- which file ---- */

/* The path below CRASH_UNDER ("." is that itself); NULL: it lies elsewhere. */
static const char *below(const char *path)
{
	const char *under = getenv("CRASH_UNDER");
	size_t n = under ? strlen(under) : 0;
	if (n == 0 || strncmp(path, under, n) != 0)
		return NULL;
	return path[n] == '/' ? path + n + 1 : path[n] == '\0' ? "." : NULL;
}

static const char *place(int dir, const char *name, char path[PATH_MAX])
{
	char link[64];
	int saved = errno;
	ssize_t n;
	if (name[0] == '/')
		return below(name);
	if (dir == AT_FDCWD)
		snprintf(link, sizeof link, "/proc/self/cwd");
	else
		snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
	n = readlink(link, path, PATH_MAX - 1);
	errno = saved;
	if (n <= 0)
		return NULL;
	while (strncmp(name, "./", 2) == 0)
		name += 2;
	snprintf(path + n, (size_t)(PATH_MAX - n), "%s%s", name[0] ? "/" : "", name);
	return below(path);
}

static const char *place_of(int fd, char path[PATH_MAX])
{
	return place(fd, "", path);
}

static unsigned long long inode_of(int fd)
{
	struct stat st;
	int saved = errno;
	unsigned long long inode = fstat(fd, &st) == 0 ? st.st_ino : 0;
	errno = saved;
	return inode;
}

static int is_heard(int fd)
{
	struct stat st;
	int saved = errno;
	int is = fd == 1 || (fd > 2 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode));
	errno = saved;
	return is && getenv("CRASH_LOG");
}

static void said(int fd, const struct iovec *data, int count, ssize_t n)
{
	if (n <= 0 || !is_heard(fd))
		return;
	int log = lock();
	put(log, "say", 0, 0, data, count, (size_t)n, program_invocation_short_name, NOWHERE);
	unlock(log);
}

/* ---- opening ---- */

static int opened(int (*call)(int, const char *, int, ...), int dir, const char *name, int flags,
		  mode_t mode)
{
	char path[PATH_MAX];
	const char *at = (flags & O_ACCMODE) == O_RDONLY && !(flags & O_CREAT)
				 ? NULL
				 : place(dir, name, path);
	struct stat st;
	if (!at)
		return call(dir, name, flags, mode);
	const char *full = getenv("CRASH_FULL"), *end = full ? strstr(at, full) : NULL;
	if (end && strcmp(end, full) == 0) {
		errno = ENOSPC;
		return -1;
	}
	int log = lock(), saved = errno;
	int is_new = fstatat(dir, name, &st, 0) != 0;
	errno = saved;
	int fd = call(dir, name, flags, mode);
	if (fd >= 0) {
		int is_unnamed = (flags & O_TMPFILE) == O_TMPFILE;
		put(log,
		    is_unnamed ? "unnamed"
		    : is_new   ? "create"
			       : "open",
		    inode_of(fd), 0, NULL, 0, 0, at, NOWHERE);
		if (!is_new && !is_unnamed && flags & O_TRUNC)
			put(log, "size", inode_of(fd), 0, NULL, 0, 0, NOWHERE, NOWHERE);
	}
	unlock(log);
	return fd;
}

#define OPEN(name, real)                                                                           \
	int name(const char *path, int flags, ...)                                                 \
	{                                                                                          \
		va_list ap;                                                                        \
		va_start(ap, flags);                                                               \
		mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;            \
		va_end(ap);                                                                        \
		return opened(REAL(real), AT_FDCWD, path, flags, mode);                            \
	}
OPEN(open, openat)
OPEN(open64, openat64)

#define OPENAT(name)                                                                               \
	int name(int dir, const char *path, int flags, ...)                                        \
	{                                                                                          \
		va_list ap;                                                                        \
		va_start(ap, flags);                                                               \
		mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;            \
		va_end(ap);                                                                        \
		return opened(REAL(name), dir, path, flags, mode);                                 \
	}
OPENAT(openat)
OPENAT(openat64)

/* ---- data ---- */

/* Does CALL, whose result is in n; DATA of it went to the file at AT (negative: before where it
 * stands now). */
#define WRITE(call, data, count, at)                                                               \
	char path[PATH_MAX];                                                                       \
	if (!place_of(fd, path)) {                                                                 \
		ssize_t n = call;                                                                  \
		said(fd, data, count, n);                                                          \
		return n;                                                                          \
	}                                                                                          \
	int log = lock();                                                                          \
	ssize_t n = call;                                                                          \
	if (n > 0)                                                                                 \
		put(log, "write", inode_of(fd), (at) >= 0 ? (at) : lseek(fd, 0, SEEK_CUR) - n,     \
		    data, count, (size_t)n, NOWHERE, NOWHERE);                                     \
	unlock(log);                                                                               \
	return n;

#define PIECE(data, len) (&(struct iovec){.iov_base = (void *)(uintptr_t)(data), .iov_len = (len)})

ssize_t write(int fd, const void *data,
	      size_t len){WRITE(REAL(write)(fd, data, len), PIECE(data, len), 1, (off_t)-1)}

ssize_t writev(int fd, const struct iovec *piece,
	       int count){WRITE(REAL(writev)(fd, piece, count), piece, count, (off_t)-1)}

ssize_t pwrite(int fd, const void *data, size_t len,
	       off_t at){WRITE(REAL(pwrite)(fd, data, len, at), PIECE(data, len), 1, at)}

ssize_t pwrite64(int fd, const void *data, size_t len,
		 off64_t at){WRITE(REAL(pwrite64)(fd, data, len, at), PIECE(data, len), 1, at)}

ssize_t pwritev(int fd, const struct iovec *piece, int count,
		off_t at){WRITE(REAL(pwritev)(fd, piece, count, at), piece, count, at)}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	ssize_t n = REAL(sendmsg)(fd, m, flags);
	said(fd, m->msg_iov, (int)m->msg_iovlen, n);
	return n;
}

ssize_t send(int fd, const void *data, size_t len, int flags)
{
	ssize_t n = REAL(send)(fd, data, len, flags);
	said(fd, PIECE(data, len), 1, n);
	return n;
}

/* All that the file has now, for calls that say nothing of their data. */
static void put_all(int log, int fd)
{
	char self[64];
	struct stat st;
	int saved = errno;
	snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	int in = (int)syscall(SYS_openat, AT_FDCWD, self, O_RDONLY | O_CLOEXEC);
	must(in >= 0 && fstat(in, &st) == 0);
	char *all = malloc((size_t)st.st_size + 1);
	must(all && syscall(SYS_pread64, in, all, st.st_size, 0) == st.st_size);
	put(log, "write", st.st_ino, 0, PIECE(all, (size_t)st.st_size), 1, (size_t)st.st_size,
	    NOWHERE, NOWHERE);
	free(all);
	syscall(SYS_close, in);
	errno = saved;
}

ssize_t copy_file_range(int in, off64_t *in_at, int fd, off64_t *at, size_t len, unsigned flags)
{
	char path[PATH_MAX];
	if (!place_of(fd, path))
		return REAL(copy_file_range)(in, in_at, fd, at, len, flags);
	int log = lock();
	ssize_t n = REAL(copy_file_range)(in, in_at, fd, at, len, flags);
	if (n > 0)
		put_all(log, fd);
	unlock(log);
	return n;
}

static void note_mapped(int protection, int flags, int fd)
{
	char path[PATH_MAX];
	if (protection & PROT_WRITE && (flags & MAP_TYPE) == MAP_SHARED && fd >= 0 &&
	    place_of(fd, path) && mappings < 64)
		mapped[mappings++] = inode_of(fd);
}

void *mmap(void *base, size_t len, int protection, int flags, int fd, off_t at)
{
	note_mapped(protection, flags, fd);
	return REAL(mmap)(base, len, protection, flags, fd, at);
}

void *mmap64(void *base, size_t len, int protection, int flags, int fd, off64_t at)
{
	note_mapped(protection, flags, fd);
	return REAL(mmap64)(base, len, protection, flags, fd, at);
}

/* ---- size ---- */

/* Does a call that says 0 when all is well; then the file may have another size. */
#define SIZE(call)                                                                                 \
	char path[PATH_MAX];                                                                       \
	struct stat st;                                                                            \
	if (!place_of(fd, path))                                                                   \
		return call;                                                                       \
	int log = lock(), result = call;                                                           \
	if (result == 0 && fstat(fd, &st) == 0)                                                    \
		put(log, "size", st.st_ino, st.st_size, NULL, 0, 0, NOWHERE, NOWHERE);             \
	unlock(log);                                                                               \
	return result;

int ftruncate(int fd, off_t len)
{
	SIZE(REAL(ftruncate)(fd, len))
}
int ftruncate64(int fd, off64_t len)
{
	SIZE(REAL(ftruncate64)(fd, len))
}
int posix_fallocate(int fd, off_t from, off_t len)
{
	SIZE(REAL(posix_fallocate)(fd, from, len))
}
int posix_fallocate64(int fd, off64_t from, off64_t len)
{
	SIZE(REAL(posix_fallocate64)(fd, from, len))
}

/* A disk that is nearly full: shardd writes fewer zeros ahead, and states are smaller. */
int fstatvfs(int fd, struct statvfs *st)
{
	int result = REAL(fstatvfs)(fd, st);
	st->f_bavail = 1;
	return result;
}

/* ---- what is on the disk ---- */

#define SYNC(call)                                                                                 \
	char path[PATH_MAX];                                                                       \
	const char *at = place_of(fd, path);                                                       \
	if (!at)                                                                                   \
		return call;                                                                       \
	int log = lock();                                                                          \
	unsigned long long inode = inode_of(fd);                                                   \
	for (int i = 0; i < mappings; i++)                                                         \
		if (mapped[i] == inode) {                                                          \
			put_all(log, fd);                                                          \
			break;                                                                     \
		}                                                                                  \
	int result = call;                                                                         \
	if (result == 0)                                                                           \
		put(log, "sync", inode, 0, NULL, 0, 0, strchr(at, ' ') ? NOWHERE : at, NOWHERE);   \
	unlock(log);                                                                               \
	return result;

int fsync(int fd)
{
	SYNC(REAL(fsync)(fd))
}
int fdatasync(int fd)
{
	SYNC(REAL(fdatasync)(fd))
}

/* ---- names ---- */

static int named(const char *kind, unsigned long long inode, int dir, const char *from, int to_dir,
		 const char *to, int (*call)(int, const char *, int, const char *, int), int flags)
{
	char path[PATH_MAX], to_path[PATH_MAX];
	const char *at = place(dir, from, path), *to_at = to ? place(to_dir, to, to_path) : NULL;
	if (!at && !to_at)
		return call(dir, from, to_dir, to, flags);
	int log = lock(), result = call(dir, from, to_dir, to, flags);
	if (result == 0)
		put(log, kind, inode, 0, NULL, 0, 0, at ? at : NOWHERE, to_at ? to_at : NOWHERE);
	unlock(log);
	return result;
}

static int call_rename(int dir, const char *from, int to_dir, const char *to, int flags)
{
	return REAL(renameat2)(dir, from, to_dir, to, (unsigned)flags);
}
static int call_link(int dir, const char *from, int to_dir, const char *to, int flags)
{
	return REAL(linkat)(dir, from, to_dir, to, flags);
}
static int call_unlink(int dir, const char *path, int to_dir, const char *to, int flags)
{
	(void)to_dir;
	(void)to;
	return REAL(unlinkat)(dir, path, flags);
}
static int call_mkdir(int dir, const char *path, int to_dir, const char *to, int mode)
{
	(void)to_dir;
	(void)to;
	return REAL(mkdirat)(dir, path, (mode_t)mode);
}

int rename(const char *from, const char *to)
{
	return named("rename", 0, AT_FDCWD, from, AT_FDCWD, to, call_rename, 0);
}
int renameat(int dir, const char *from, int to_dir, const char *to)
{
	return named("rename", 0, dir, from, to_dir, to, call_rename, 0);
}
int renameat2(int dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	return named(flags & RENAME_EXCHANGE ? "exchange" : "rename", 0, dir, from, to_dir, to,
		     call_rename, (int)flags);
}
int linkat(int dir, const char *from, int to_dir, const char *to, int flags)
{
	struct stat st;
	int saved = errno;
	unsigned long long inode =
		fstatat(dir, from, &st, flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW) == 0
			? st.st_ino
			: 0;
	errno = saved;
	return named("link", inode, dir, from, to_dir, to, call_link, flags);
}
int link(const char *from, const char *to)
{
	return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int unlinkat(int dir, const char *path, int flags)
{
	return named("unlink", 0, dir, path, 0, NULL, call_unlink, flags);
}
int unlink(const char *path)
{
	return unlinkat(AT_FDCWD, path, 0);
}
int rmdir(const char *path)
{
	return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}
int mkdirat(int dir, const char *path, mode_t mode)
{
	return named("mkdir", 0, dir, path, 0, NULL, call_mkdir, (int)mode);
}
int mkdir(const char *path, mode_t mode)
{
	return mkdirat(AT_FDCWD, path, mode);
}
