/* fs: see fs.h. */
#include "base/fs.h"

#include "base/grow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SAMPLE_PIECE (UINT64_C(64) << 10) /* at least: a disk that turns seeks for each */
#define SAMPLE_PIECES 32

/* 64 random bits collide with an existing name once at most; more collisions are intended. */
#define CREATE_TRIES 8
#define FD_PATH_MAX 32

/* Makes sure that the name of dir is on disk. If dir existed already, the process that made it may
 * have been killed before it synced the parent. If we may not open or sync the parent, we have not
 * made dir. */
static int sync_parent(const char *dir, int is_new, struct error *err)
{
	char parent[PATH_MAX];
	fs_dirname(dir, parent, sizeof parent);
	int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int result = fd < 0 ? -1 : fsync(fd), errnum = errno;
	if (fd >= 0)
		close(fd);
	if (result == 0 || (!is_new && errnum != EIO))
		return 0;
	errno = errnum;
	return error_errno(err, ERROR_IO, parent, "fsync");
}

int fs_make_dirs(const char *dir, struct error *err)
{
	char path[PATH_MAX];
	size_t len = strlen(dir);
	if (len == 0 || len >= sizeof path)
		return error_set(err, ERROR_CANTCREAT, dir, "directory name is empty or too long");
	memcpy(path, dir, len + 1);
	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
	struct stat st;
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		char saved = path[i];
		path[i] = '\0';
		int errnum = mkdir(path, 0700) == 0 ? 0 : errno;
		if (errnum != 0 && errnum != EEXIST &&
		    (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))) {
			errno = errnum;
			return error_errno(err, ERROR_CANTCREAT, path, "can't be made");
		}
		if ((errnum == 0 || i == len) && sync_parent(path, errnum == 0, err) != 0)
			return -1;
		path[i] = saved;
	}
	if (stat(dir, &st) != 0)
		return error_errno(err, ERROR_CANTCREAT, dir, "can't be made");
	if (!S_ISDIR(st.st_mode))
		return error_set(err, ERROR_CANTCREAT, dir, "is not a directory");
	return 0;
}

static int belongs_to_us(const char *path, int (*look)(const char *path, struct stat *st),
			 uid_t or_to, struct error *err)
{
	struct stat st;
	if (look(path, &st) != 0)
		return error_errno(err, 0, path, "can't be seen");
	if (st.st_uid != geteuid() && st.st_uid != or_to)
		return error_set(err, ERROR_NOPERM, path, "belongs to another user");
	return 0;
}

/* Whether anybody may create files in dir, but only their owner may remove them (as in /tmp). */
static int is_for_all(const char *dir)
{
	const mode_t both = S_ISVTX | S_IWOTH;
	struct stat st;
	return stat(dir, &st) == 0 && (st.st_mode & both) == both;
}

int fs_is_ours(const char *dir, struct error *err)
{
	char path[PATH_MAX], parent[PATH_MAX];
	if (belongs_to_us(dir, stat, geteuid(), err) != 0)
		return -1;
	snprintf(path, sizeof path, "%s", dir);
	for (fs_dirname(path, parent, sizeof parent); strcmp(path, parent) != 0;
	     fs_dirname(path, parent, sizeof parent)) {
		if (is_for_all(parent) && belongs_to_us(path, lstat, 0, err) != 0)
			return -1;
		memcpy(path, parent, sizeof path);
	}
	return 0;
}

int fs_could_make_dirs(const char *dir, struct error *err)
{
	char path[PATH_MAX], parent[PATH_MAX];
	snprintf(path, sizeof path, "%s", dir);
	while (access(path, F_OK) != 0 && strcmp(path, "/") != 0 && strcmp(path, ".") != 0) {
		fs_dirname(path, parent, sizeof parent);
		memcpy(path, parent, sizeof path);
	}
	if (strcmp(path, dir) != 0 && access(path, W_OK | X_OK) != 0)
		return error_errno(err, ERROR_CANTCREAT, dir, "can't be made in %.200s", path);
	return 0;
}

int fs_join(char *out, size_t out_max, const char *dir, const char *name, struct error *err)
{
	int n = name[0] == '/' ? snprintf(out, out_max, "%s", name)
			       : snprintf(out, out_max, "%s/%s", dir, name);
	if (n < 0 || (size_t)n >= out_max)
		return error_set(err, ERROR_USAGE, dir, "path too long with '%.80s'", name);
	return 0;
}

void fs_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int fs_write_all(int fd, const void *data, size_t len, const char *place, struct error *err)
{
	const char *p = data;
	while (len > 0) {
		ssize_t n = write(fd, p, len);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return error_errno(err, ERROR_IO, place, "write");
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fs_pread_all(int fd, void *data, size_t len, uint64_t offset, const char *place,
		 struct error *err)
{
	char *p = data;
	while (len > 0) {
		ssize_t n = pread(fd, p, len, (off_t)offset);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return error_errno(err, ERROR_IO, place, "read");
		}
		if (n == 0)
			return error_set(err, ERROR_DATA, place, "ends %zu bytes too early", len);
		p += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

int fs_sample_sum(const char *path, uint64_t max, uint64_t *sum, struct error *err)
{
	uint64_t pieces = at_most(max / SAMPLE_PIECE, SAMPLE_PIECES);
	if (pieces < 2)
		pieces = 2;
	uint64_t piece = max / pieces < SAMPLE_PIECE ? SAMPLE_PIECE : max / pieces;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), result = 0;
	struct stat st;
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	unsigned char *data = malloc(piece);
	if (!data || fstat(fd, &st) != 0)
		result = error_errno(err, ERROR_OS, path, "can't be looked at");
	else if (!S_ISREG(st.st_mode))
		result = error_set(err, ERROR_NOINPUT, path, "is not a regular file");
	uint64_t size = result == 0 ? (uint64_t)st.st_size : 0;
	uint64_t apart = piece; /* read the whole file, piece by piece */
	if (size > pieces * piece)
		apart = (size - piece) / (pieces - 1);
	*sum = size;
	for (uint64_t i = 0; result == 0 && i < pieces; i++) {
		uint64_t at = i == pieces - 1 && size > pieces * piece ? size - piece : i * apart;
		if (at >= size)
			break;
		size_t n = (size_t)at_most(piece, size - at);
		result = fs_pread_all(fd, data, n, at, path, err);
		if (result == 0)
			*sum = XXH3_64bits_withSeed(data, n, *sum);
	}
	free(data);
	close(fd);
	return result;
}

int fs_read_file(const char *path, size_t max, char **out, size_t *len, struct error *err)
{
	struct stat st;
	/* The writer of one that a shell made is there: <(COMMAND) is /dev/fd/63. */
	if (stat(path, &st) == 0 && S_ISFIFO(st.st_mode) && strncmp(path, "/dev/", 5) != 0)
		return error_set(err, ERROR_NOINPUT, path, "is a pipe; a file is needed");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	size_t size = 0, room = 4096;
	char *data = malloc(room);
	int result = -1, no_memory = !data;
	while (data) {
		ssize_t n = read(fd, data + size, room - size - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EISDIR) {
			error_set(err, ERROR_NOINPUT, path, "is a directory; a file is needed");
			break;
		}
		if (n < 0) {
			error_errno(err, ERROR_IO, path, "read");
			break;
		}
		if (n == 0) {
			result = 0;
			break;
		}
		size += (size_t)n;
		if (size > max) {
			error_set(err, ERROR_DATA, path, "is longer than %zu bytes", max);
			break;
		}
		no_memory = GROW(data, room, size + 2) != 0;
		if (no_memory)
			break;
	}
	if (no_memory)
		error_set(err, ERROR_OS, path, "out of memory");
	close(fd);
	if (result != 0) {
		free(data);
		return -1;
	}
	data[size] = '\0';
	*out = data;
	if (len)
		*len = size;
	return 0;
}

ssize_t fs_read_line(FILE *in, char *line, size_t max, struct error *err)
{
	size_t len = 0;
	int c = 0;
	while (len < max - 1 && c != '\n' && (c = getc_unlocked(in)) != EOF)
		line[len++] = (char)c;
	line[len] = '\0';
	if (ferror(in))
		return error_errno(err, ERROR_IO, NULL, "read");
	if (len == max - 1 && c != '\n')
		return error_set(err, ERROR_DATA, NULL, "the line is longer than %zu bytes",
				 max - 2);
	return (ssize_t)len;
}

char *fs_read_proc(char out[FS_PROC_MAX], const char *fmt, ...)
{
	char path[128];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(path, sizeof path, fmt, ap);
	va_end(ap);
	ssize_t n = -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0) {
		n = read(fd, out, FS_PROC_MAX - 1);
		close(fd);
	}
	while (n > 0 && out[n - 1] == '\n')
		n--;
	out[n > 0 ? n : 0] = '\0';
	return out;
}

const char *fs_stat_fields(const char *stat)
{
	const char *end = strrchr(stat, ')');
	return end && end[1] == ' ' ? end + 2 : NULL;
}

void fs_dirname(const char *path, char *out, size_t out_max)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		snprintf(out, out_max, ".");
	else if (slash == path)
		snprintf(out, out_max, "/");
	else
		snprintf(out, out_max, "%.*s", (int)(slash - path), path);
}

const char *fs_basename(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

int fs_is_program(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int fs_sync_dir(const char *dir, struct error *err)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, ERROR_IO, dir, "can't be opened");
	int result = 0;
	if (fsync(fd) != 0)
		result = error_errno(err, ERROR_IO, dir, "fsync");
	close(fd);
	return result;
}

/* Makes a file in dir without a name, so that nothing is left of it whenever this process ends. -1:
 * this file system can't do so, or could not name it later. */
static int create_unnamed(const char *dir, mode_t mode, char self[FD_PATH_MAX])
{
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	snprintf(self, FD_PATH_MAX, "/proc/self/fd/%d", fd);
	if (fd < 0 || access(self, F_OK) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Makes a name beside path that another process can't have prepared (as a link) or use at the same
 * time: for the file `self`, or (*fd < 0) for a new file. */
static int name_beside(const char *path, mode_t mode, const char *self, char temporary[PATH_MAX],
		       int *fd, struct error *err)
{
	for (int tries = 0; tries < CREATE_TRIES; tries++) {
		uint64_t chance;
		ssize_t got;
		while ((got = getrandom(&chance, sizeof chance, 0)) < 0 && errno == EINTR)
			;
		if (got != sizeof chance)
			return error_errno(err, ERROR_OS, path, "no random number");
		int n = snprintf(temporary, PATH_MAX, "%s.tmp.%016llx", path,
				 (unsigned long long)chance);
		if (n < 0 || n >= PATH_MAX)
			return error_set(err, ERROR_CANTCREAT, path, "path too long");
		if (*fd < 0 &&
		    (*fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode)) >= 0)
			return 0;
		if (*fd >= 0 && linkat(AT_FDCWD, self, AT_FDCWD, temporary, AT_SYMLINK_FOLLOW) == 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	return error_errno(err, ERROR_CANTCREAT, path, "can't be made");
}

/* Gives the file `from` this name, which nobody may have. It may keep its own. */
static int name_new(const char *from, const char *path)
{
	if (linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
		return -1;
	/* a file system without second names */
	return renameat2(AT_FDCWD, from, AT_FDCWD, path, RENAME_NOREPLACE);
}

enum fs_how { FS_SYNCED = 1, FS_NEW = 2 };

static int fs_replace_with(const char *path, mode_t mode, unsigned how, fs_fill_fn *fill,
			   void *arg, struct error *err)
{
	char temporary[PATH_MAX] = "", dir[PATH_MAX], self[FD_PATH_MAX];
	struct stat st;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* root could rename over a device */
		return error_set(err, ERROR_CANTCREAT, path, "exists, and is not a regular file");
	fs_dirname(path, dir, sizeof dir);
	int fd = create_unnamed(dir, mode, self);
	int has_name = fd < 0;
	if (has_name && name_beside(path, mode, self, temporary, &fd, err) != 0)
		return -1;
	int result = fill(fd, path, arg, err);
	if (result == 0 && (how & FS_SYNCED) && fsync(fd) != 0)
		result = error_errno(err, ERROR_IO, path, "fsync");
	if (result == 0 && (how & FS_NEW) && name_new(has_name ? temporary : self, path) != 0)
		result = error_errno(err, ERROR_CANTCREAT, path, "can't be made");
	if (result == 0 && !(how & FS_NEW) && !has_name) {
		result = name_beside(path, mode, self, temporary, &fd, err);
		has_name = result == 0;
	}
	if (close(fd) != 0 && result == 0)
		result = error_errno(err, ERROR_IO, path, "close");
	if (result == 0 && !(how & FS_NEW) && rename(temporary, path) != 0)
		result = error_errno(err, ERROR_CANTCREAT, path, "rename");
	if (has_name && (result != 0 || (how & FS_NEW)))
		unlink(temporary);
	if (result != 0)
		return -1;
	return how & FS_SYNCED ? fs_sync_dir(dir, err) : 0;
}

int fs_replace(const char *path, mode_t mode, fs_fill_fn *fill, void *arg, struct error *err)
{
	return fs_replace_with(path, mode, FS_SYNCED, fill, arg, err);
}

int fs_create(const char *path, mode_t mode, fs_fill_fn *fill, void *arg, struct error *err)
{
	return fs_replace_with(path, mode, FS_SYNCED | FS_NEW, fill, arg, err);
}

int fs_replace_unsynced(const char *path, mode_t mode, fs_fill_fn *fill, void *arg,
			struct error *err)
{
	return fs_replace_with(path, mode, 0, fill, arg, err);
}

struct bytes {
	const void *data;
	size_t len;
};

static int fill_bytes(int fd, const char *path, void *arg, struct error *err)
{
	const struct bytes *b = arg;
	return fs_write_all(fd, b->data, b->len, path, err);
}

int fs_replace_file(const char *path, const void *data, size_t len, struct error *err)
{
	struct bytes b = {data, len};
	return fs_replace(path, 0600, fill_bytes, &b, err);
}

int fs_replace_for_now(const char *path, const void *data, size_t len, struct error *err)
{
	struct bytes b = {data, len};
	return fs_replace_unsynced(path, 0600, fill_bytes, &b, err);
}

static int fill_for_all(int fd, const char *path, void *arg, struct error *err)
{
	if (fchmod(fd, 0644) != 0)
		return error_errno(err, ERROR_CANTCREAT, path, "mode");
	return fill_bytes(fd, path, arg, err);
}

int fs_publish(const char *path, const void *data, size_t len, struct error *err)
{
	struct bytes b = {data, len};
	return fs_replace(path, 0600, fill_for_all, &b, err);
}

/* The previous holder of the lock may have removed the file. */
static int fs_is_gone(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && st.st_nlink == 0;
}

int fs_lock(const char *path, int *fd, struct error *err)
{
	for (;;) {
		int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (lock < 0)
			return error_errno(err, ERROR_CANTCREAT, path, "lock can't be made");
		int result;
		do /* on another host's disk it may take a while */
			result = flock(lock, LOCK_EX | LOCK_NB);
		while (result != 0 && errno == EINTR);
		if (result != 0) {
			if (errno == EWOULDBLOCK)
				error_set(err, ERROR_TEMPFAIL, path,
					  "another instance runs: it holds this lock");
			else
				error_errno(err, ERROR_OS, path, "flock");
			close(lock);
			return -1;
		}
		*fd = lock;
		if (!fs_is_gone(lock))
			return 0;
		close(lock);
	}
}

uint64_t fs_allow_files(uint64_t count)
{
	struct rlimit limit, more;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return count; /* who knows */
	if (limit.rlim_cur >= count)
		return limit.rlim_cur;
	more = limit;
	more.rlim_cur = limit.rlim_max < count ? limit.rlim_max : count;
	return setrlimit(RLIMIT_NOFILE, &more) == 0 ? more.rlim_cur : limit.rlim_cur;
}

static int fs_remove_at(int dir_fd, const char *name, const char *place, struct error *err)
{
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return error_errno(err, ERROR_IO, place, "can't be removed");
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, ERROR_IO, place, "can't be removed");
	DIR *dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return error_errno(err, ERROR_OS, place, "can't be listed");
	}
	int result = 0;
	for (struct dirent *entry; result == 0 && (entry = readdir(dir)) != NULL;)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			result = fs_remove_at(dirfd(dir), entry->d_name, place, err);
	closedir(dir);
	if (result == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
		result = error_errno(err, ERROR_IO, place, "can't be removed");
	return result;
}

int fs_remove_tree(const char *path, struct error *err)
{
	return fs_remove_at(AT_FDCWD, path, path, err);
}
