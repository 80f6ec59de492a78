/* journal: see journal.h. Knows bytes, files and fdatasync, but not what a line means. */
#include "shard/journal.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/number.h"
#include "record/sealed.h"
#include "shard/scan.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILL_BYTES (4u << 20)        /* zeros written ahead at a time */
#define FILL_SMALL_BYTES (64u << 10) /* the same, if the disk is nearly full */
#define NUMBER_MAX 999999999999999ull /* of a file; nobody starts so often */

struct file {
	uint64_t number; /* 0: none */
	int fd;
	uint64_t pos;         /* end of the lines */
	uint64_t filled;      /* end of the zeros */
	uint64_t firm;        /* end of the zeros that are on disk; lines must end before it */
	uint64_t state_bytes; /* length of the file when its changes began */
	char path[PATH_MAX];
};

struct journal {
	enum journal_sync sync;
	uint64_t long_bytes;
	char dir[PATH_MAX];
	int lock_fd;
	int is_broken; /* a commit failed: no more writing */
	int is_loose;  /* lines were written that may not be on disk */
	struct file file;
	struct scan replayed;
	struct sealed_out buffer;
	/* For replacing the file. */
	pid_t child;
	uint64_t long_after; /* it is not tried while file.pos is less */
	int report_fd;
	struct file next;
	struct sealed_out since; /* changes that the child has not seen */
};

/* What the child says when it is done. */
struct report {
	int errnum;
	uint32_t chain;
	uint64_t pos, filled;
};

/* ---- files ---- */

static int journal_name_file(const char *dir, uint64_t number, const char *suffix, struct file *f,
			     struct error *err)
{
	f->number = number;
	f->fd = -1;
	int n = snprintf(f->path, sizeof f->path, "%s/journal.%06llu%s", dir,
			 (unsigned long long)number, suffix);
	if (n < 0 || (size_t)n >= sizeof f->path)
		return error_set(err, ERROR_CANTCREAT, dir, "path too long");
	return 0;
}

/* The number in a name that journal_name_file() has made; 0: it is no such name. */
static uint64_t journal_number_of(const char *name)
{
	char same[NAME_MAX];
	uint64_t number;
	if (strncmp(name, "journal.", 8) != 0 ||
	    number_u64(name + 8, 1, NUMBER_MAX, &number, NULL, NULL) != 0)
		return 0;
	snprintf(same, sizeof same, "journal.%06llu", (unsigned long long)number);
	return strcmp(name, same) == 0 ? number : 0;
}

static int is_half_written(const char *name)
{
	size_t len = strlen(name);
	return strncmp(name, "journal.", 8) == 0 && len > 4 && strcmp(name + len - 4, ".new") == 0;
}

/* Finds the highest number below `below`; 0: there is none. is_ours: removes what a crash left half
 * written: a file gets its name only when its state is whole and on disk. */
static int find_newest(const char *path, int is_ours, uint64_t below, uint64_t *newest,
		       struct error *err)
{
	DIR *dir = opendir(path);
	if (!dir)
		return error_errno(err, 0, path, "can't be read");
	*newest = 0;
	for (struct dirent *entry; (errno = 0, entry = readdir(dir)) != NULL;) {
		uint64_t number = journal_number_of(entry->d_name);
		if (number > *newest && number < below)
			*newest = number;
		else if (is_ours && is_half_written(entry->d_name))
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	int result = errno ? error_errno(err, 0, path, "can't be listed") : 0;
	closedir(dir);
	return result;
}

static int journal_look_around(struct journal *j, struct error *err)
{
	uint64_t newest;
	if (find_newest(j->dir, 1, UINT64_MAX, &newest, err) != 0)
		return -1;
	return newest == 0 ? 0 : journal_name_file(j->dir, newest, "", &j->file, err);
}

int journal_open(struct journal **out, const char *dir, enum journal_sync sync, uint64_t long_bytes,
		 struct error *err)
{
	struct journal *j = calloc(1, sizeof *j);
	if (!j)
		return error_set(err, ERROR_OS, dir, "out of memory");
	j->sync = sync;
	j->long_bytes = long_bytes;
	j->lock_fd = j->file.fd = j->next.fd = j->report_fd = -1;
	j->buffer.fd = j->since.fd = -1;
	char lock[PATH_MAX];
	if ((size_t)snprintf(j->dir, sizeof j->dir, "%s", dir) >= sizeof j->dir)
		error_set(err, ERROR_CANTCREAT, dir, "path too long");
	else if (fs_make_dirs(dir, err) == 0 && fs_join(lock, sizeof lock, dir, "lock", err) == 0 &&
		 fs_lock(lock, &j->lock_fd, err) == 0 && journal_look_around(j, err) == 0) {
		*out = j;
		return 0;
	}
	journal_close(j);
	return -1;
}

int journal_exists(const struct journal *j)
{
	return j->file.number > 0;
}

int journal_is_broken(const struct journal *j)
{
	return j->is_broken;
}

const char *journal_path(const struct journal *j)
{
	return j->file.path;
}

static void forget_child(struct journal *j)
{
	if (j->child > 0) {
		kill(j->child, SIGKILL);
		while (waitpid(j->child, NULL, 0) < 0 && errno == EINTR)
			;
		unlink(j->next.path);
	}
	j->child = 0;
	fs_close(&j->report_fd);
	fs_close(&j->next.fd);
	sealed_free(&j->since);
}

void journal_close(struct journal *j)
{
	if (!j)
		return;
	forget_child(j);
	fs_close(&j->file.fd);
	fs_close(&j->lock_fd);
	sealed_free(&j->buffer);
	free(j);
}

/* ---- zeros ahead ---- */

/* Writes zeros until the file is filled up to `to`, or the disk is full. */
static void journal_fill(struct file *f, uint64_t to)
{
	static const char zeros[1 << 16];
	while (f->filled < to) {
		uint64_t left = to - f->filled;
		size_t n = left < sizeof zeros ? (size_t)left : sizeof zeros;
		ssize_t done = pwrite(f->fd, zeros, n, (off_t)f->filled);
		if (done <= 0 && !(done < 0 && errno == EINTR))
			return;
		if (done > 0)
			f->filled += (uint64_t)done;
	}
}

/* How far to fill so that lines up to `end` fit: more at a time if the disk has much room. */
static uint64_t fill_target(const struct file *f, uint64_t end)
{
	struct statvfs disk;
	if (fstatvfs(f->fd, &disk) == 0 && disk.f_bavail * disk.f_frsize < 8 * (uint64_t)FILL_BYTES)
		return (end / FILL_SMALL_BYTES + 1) * FILL_SMALL_BYTES;
	return (end / FILL_BYTES + 1) * FILL_BYTES;
}

static int pwrite_all(const struct file *f, const char *data, size_t len, uint64_t at)
{
	while (len > 0) {
		ssize_t n = pwrite(f->fd, data, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		data += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* ---- replay ---- */

static int journal_read_all(struct file *f, char **data, struct error *err)
{
	struct stat st;
	f->fd = open(f->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (f->fd < 0 || fstat(f->fd, &st) != 0)
		return error_errno(err, 0, f->path, "can't be read");
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERROR_DATA, f->path, "is no regular file");
	f->filled = (uint64_t)st.st_size;
	*data = malloc((size_t)st.st_size + 1);
	if (!*data)
		return error_set(err, ERROR_OS, f->path, "out of memory for %lld bytes",
				 (long long)st.st_size);
	return fs_pread_all(f->fd, *data, (size_t)st.st_size, 0, f->path, err);
}

/* Refuses a file that was cut short. Zeros behind the lines are on disk before the lines are, so no
 * crash leaves a file without any. */
static int journal_check_end(const struct file *f, const char *data, const struct scan *scan,
			     struct error *err)
{
	char at[ERROR_PLACE_MAX];
	if (scan->is_loose || (f->filled > 0 && data[f->filled - 1] == '\0'))
		return 0;
	snprintf(at, sizeof at, "%.480s:%llu", f->path, (unsigned long long)scan->lines + 1);
	return error_set(err, ERROR_DATA, at, "the file is shorter than it was: no zeros end it");
}

static int journal_read_lines(struct file *f,
			      int (*line)(void *arg, const char *line, size_t len,
					  struct error *err),
			      void *arg, struct scan *scan, struct error *err)
{
	char *data = NULL;
	int result = journal_read_all(f, &data, err);
	fs_close(&f->fd);
	if (result == 0)
		result = scan_lines(data, (size_t)f->filled, f->path, line, arg, scan, err);
	if (result == 0)
		result = journal_check_end(f, data, scan, err);
	free(data);
	return result;
}

int journal_replay(struct journal *j,
		   int (*line)(void *arg, const char *line, size_t len, struct error *err),
		   void *arg, struct error *err)
{
	struct file *f = &j->file;
	if (journal_read_lines(f, line, arg, &j->replayed, err) != 0)
		return -1;
	if (j->replayed.torn > 0)
		log_say(LOG_LEVEL_WARNING, "%s:%llu: torn tail of %zu bytes dropped", f->path,
			(unsigned long long)j->replayed.lines + 1, j->replayed.torn);
	return 0;
}

int journal_keep(struct journal *j, struct error *err)
{
	const struct scan *scan = &j->replayed;
	struct file *f = &j->file;
	char *data = NULL;
	int result = journal_read_all(f, &data, err);
	fs_close(&f->fd);
	if (result == 0) {
		memset(data + scan->end, 0, (size_t)f->filled - scan->end);
		if (scan->lacks_newline)
			data[scan->end] = '\n';
		f->fd = open(f->path, O_RDWR | O_CLOEXEC);
		if (f->fd < 0 || pwrite_all(f, data, (size_t)f->filled, 0) != 0 ||
		    fdatasync(f->fd) != 0)
			result = error_errno(err, ERROR_IO, f->path, "write");
	}
	free(data);
	/* Whoever began this file may have been killed before its name was on disk. */
	if (result == 0)
		result = fs_sync_dir(j->dir, err);
	f->pos = f->state_bytes = scan->end + (scan->lacks_newline ? 1 : 0);
	f->firm = f->filled;
	j->buffer.chain = scan->chain;
	j->buffer.len = 0;
	return result;
}

static int pass_line(void *arg, const char *line, size_t len, struct error *err)
{
	(void)arg;
	(void)line;
	(void)len;
	(void)err;
	return 0;
}

void journal_name_older(struct journal *j, struct error *err)
{
	struct file older;
	struct scan scan;
	uint64_t number;
	if (find_newest(j->dir, 1, j->file.number, &number, NULL) != 0 || number == 0 ||
	    journal_name_file(j->dir, number, "", &older, NULL) != 0 ||
	    journal_read_lines(&older, pass_line, NULL, &scan, NULL) != 0)
		return;
	size_t len = strlen(err->text);
	snprintf(err->text + len, sizeof err->text - len,
		 "; %.300s, which is older, is whole: only one of them may stay", older.path);
}

int journal_read(const char *dir,
		 int (*line)(void *arg, const char *line, size_t len, struct error *err), void *arg,
		 struct error *err)
{
	struct file f;
	struct scan scan;
	uint64_t number;
	if (find_newest(dir, 0, UINT64_MAX, &number, err) != 0)
		return -1;
	if (number == 0)
		return error_set(err, ERROR_NOINPUT, dir, "has no journal");
	if (journal_name_file(dir, number, "", &f, err) != 0)
		return -1;
	return journal_read_lines(&f, line, arg, &scan, err);
}

/* ---- a new file ---- */

static void journal_add_line(void *out, const char *line, size_t len)
{
	sealed_add(out, line, len);
}

/* Writes the state into f, with zeros behind it, and syncs it. Returns an errno. */
static int write_state(struct file *f, journal_state_fn *state, void *owner, uint32_t *chain)
{
	struct sealed_out out = {.fd = f->fd};
	state(owner, journal_add_line, &out);
	sealed_flush(&out);
	int errnum = out.errnum;
	*chain = out.chain;
	f->pos = f->filled = out.written;
	sealed_free(&out);
	if (errnum == 0) {
		/* There must be some room, or the first change would find none. */
		journal_fill(f, fill_target(f, f->pos));
		if (f->filled < f->pos + JOURNAL_LINE_BYTES)
			errnum = ENOSPC;
		else if (fdatasync(f->fd) != 0)
			errnum = errno;
	}
	f->firm = f->filled;
	f->state_bytes = f->pos;
	errno = errnum;
	return errnum ? -1 : 0;
}

static int create_file(struct file *f, struct error *err)
{
	unlink(f->path); /* left of a failure; a link is not followed */
	f->fd = open(f->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return f->fd < 0 ? error_errno(err, ERROR_CANTCREAT, f->path, "can't be made") : 0;
}

/* f is whole and on disk: it gets its name and replaces the file in use. */
static int install(struct journal *j, struct file *f, uint32_t chain, struct error *err)
{
	struct file named = *f;
	if (journal_name_file(j->dir, f->number, "", &named, err) != 0)
		return -1;
	named.fd = f->fd;
	if (rename(f->path, named.path) != 0)
		return error_errno(err, ERROR_CANTCREAT, f->path, "rename");
	/* From here on a restart may find either file. Lines may go only to the one that it will
	 * certainly find. */
	if (fs_sync_dir(j->dir, err) != 0) {
		j->is_broken = 1;
		return -1;
	}
	fs_close(&j->file.fd);
	j->file = named;
	j->long_after = 0;
	j->is_loose = 0;
	f->fd = -1;
	j->buffer.chain = chain;
	j->buffer.len = 0;
	return 0;
}

/* Removes the files that the one in use has replaced. Removing a long file takes long, so if
 * somebody waits, a child does it. */
static void remove_older(const struct journal *j)
{
	DIR *dir = opendir(j->dir);
	if (!dir)
		return;
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
		uint64_t number = journal_number_of(entry->d_name);
		if (number > 0 && number < j->file.number)
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	closedir(dir);
}

int journal_begin(struct journal *j, journal_state_fn *state, void *owner, struct error *err)
{
	forget_child(j);
	struct file f = {.fd = -1};
	uint32_t chain;
	if (journal_name_file(j->dir, j->file.number + 1, ".new", &f, err) != 0 ||
	    create_file(&f, err) != 0)
		return -1;
	int result = write_state(&f, state, owner, &chain);
	if (result != 0)
		error_errno(err, ERROR_IO, f.path, "write");
	else
		result = install(j, &f, chain, err);
	if (result != 0) {
		fs_close(&f.fd);
		unlink(f.path);
		return -1;
	}
	remove_older(j);
	return 0;
}

/* ---- lines ---- */

int journal_reserve(struct journal *j, size_t bytes, struct error *err)
{
	if (j->is_broken)
		return error_set(err, ERROR_IO, j->file.path, "failed before");
	if (sealed_reserve(&j->buffer, bytes) != 0 ||
	    (j->child > 0 && sealed_reserve(&j->since, j->buffer.len + bytes) != 0))
		return error_set(err, ERROR_OS, j->file.path, "out of memory");
	struct file *f = &j->file;
	uint64_t end = f->pos + j->buffer.len + bytes;
	if (end < f->firm)
		return 0;
	errno = 0;
	if (end >= f->filled)
		journal_fill(f, fill_target(f, end));
	if (end >= f->filled)
		return error_errno(err, ERROR_IO, f->path, "no room for another line");
	/* A failure here is like one of journal_commit(): see there. */
	if (j->sync != JOURNAL_OFF && fdatasync(f->fd) != 0) {
		j->is_broken = 1;
		return error_errno(err, ERROR_IO, f->path, "fdatasync");
	}
	f->firm = f->filled;
	return 0;
}

void journal_add(struct journal *j, const char *line, size_t len)
{
	sealed_add(&j->buffer, line, len);
	if (j->child > 0)
		sealed_add(&j->since, line, len);
}

int journal_is_pending(const struct journal *j)
{
	return j->buffer.len > 0;
}

/* After a failure here the kernel may mark pages as clean that never reached the disk: another try
 * would prove nothing. */
static int journal_fail(struct journal *j, const char *what, struct error *err)
{
	j->is_broken = 1;
	return error_errno(err, ERROR_IO, j->file.path, "%s", what);
}

int journal_write(struct journal *j, struct error *err)
{
	if (j->is_broken)
		return error_set(err, ERROR_IO, j->file.path, "failed before");
	if (j->buffer.len == 0)
		return 0;
	if (j->buffer.errnum != 0) {
		j->is_broken = 1;
		return error_set(err, ERROR_OS, j->file.path, "out of memory");
	}
	if (pwrite_all(&j->file, j->buffer.data, j->buffer.len, j->file.pos) != 0)
		return journal_fail(j, "write", err);
	j->file.pos += j->buffer.len;
	j->buffer.len = 0;
	j->is_loose = 1;
	return 0;
}

int journal_commit(struct journal *j, struct error *err)
{
	if (journal_write(j, err) != 0)
		return -1;
	if (j->is_loose && j->sync != JOURNAL_OFF && fdatasync(j->file.fd) != 0)
		return journal_fail(j, "fdatasync", err);
	j->is_loose = 0;
	return 0;
}

/* ---- replacing a file that has grown long ---- */

int journal_is_long(const struct journal *j)
{
	uint64_t changes = j->file.pos - j->file.state_bytes;
	return j->child == 0 && changes > j->long_bytes && changes > 4 * j->file.state_bytes &&
	       j->file.pos >= j->long_after;
}

/* In the child: closes all locks, sockets and files of the parent, and resets its signal
 * handlers. */
static void leave_parent(struct file *f, int *report_fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	int report = fcntl(*report_fd, F_DUPFD, 3), data = fcntl(f->fd, F_DUPFD, 3);
	if (report < 0 || data < 0 || dup2(report, 0) != 0 || dup2(data, 1) != 1)
		_exit(1);
	close_range(3, ~0u, 0);
	*report_fd = 0;
	f->fd = 1;
}

static void child_main(struct journal *j, struct file *f, int report_fd, journal_state_fn *state,
		       void *owner)
{
	struct report report = {0};
	leave_parent(f, &report_fd);
	remove_older(j);
	if (write_state(f, state, owner, &report.chain) != 0)
		report.errnum = errno ? errno : EIO;
	report.pos = f->pos;
	report.filled = f->filled;
	_exit(write(report_fd, &report, sizeof report) == sizeof report ? 0 : 1);
}

int journal_compact(struct journal *j, journal_state_fn *state, void *owner, int *fd,
		    struct error *err)
{
	int ends[2];
	assert(j->child == 0);
	/* If it fails, it is not tried again at once. */
	j->long_after = j->file.pos + j->long_bytes / 4;
	if (journal_name_file(j->dir, j->file.number + 1, ".new", &j->next, err) != 0 ||
	    create_file(&j->next, err) != 0)
		return -1;
	if (pipe2(ends, O_CLOEXEC) != 0) {
		fs_close(&j->next.fd);
		unlink(j->next.path);
		return error_errno(err, ERROR_OS, j->next.path, "pipe");
	}
	pid_t child = fork();
	if (child == 0)
		child_main(j, &j->next, ends[1], state, owner);
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		fs_close(&j->next.fd);
		unlink(j->next.path);
		return error_errno(err, ERROR_OS, j->next.path, "fork");
	}
	j->child = child;
	j->report_fd = ends[0];
	*fd = ends[0];
	return 0;
}

/* Adds the lines that came while the child wrote: their sums continue those of the new file. */
static int add_since(struct journal *j, uint32_t *chain)
{
	struct sealed_out out = {.fd = -1, .chain = *chain};
	for (size_t at = 0; at < j->since.len;) {
		const char *line = j->since.data + at;
		size_t len = (size_t)((char *)memchr(line, '\n', j->since.len - at) - line);
		sealed_add(&out, line, len - SEALED_SUM_BYTES);
		at += len + 1;
	}
	struct file *f = &j->next;
	errno = out.errnum;
	int result = out.errnum ? -1 : 0;
	if (result == 0 && f->filled < f->pos + out.len + JOURNAL_LINE_BYTES) {
		journal_fill(f, fill_target(f, f->pos + out.len));
		if (f->filled < f->pos + out.len + JOURNAL_LINE_BYTES) {
			errno = ENOSPC;
			result = -1;
		}
	}
	if (result == 0)
		result = pwrite_all(f, out.data, out.len, f->pos);
	if (result == 0 && j->sync != JOURNAL_OFF)
		result = fdatasync(f->fd);
	if (result == 0) {
		f->pos += out.len;
		f->firm = f->filled;
	}
	*chain = out.chain;
	int errnum = errno;
	sealed_free(&out);
	errno = errnum;
	return result;
}

/* What the child has written becomes the journal. */
static int journal_take_over(struct journal *j, const struct report *report, struct error *err)
{
	uint32_t chain = report->chain;
	j->next.pos = j->next.state_bytes = report->pos;
	j->next.filled = j->next.firm = report->filled;
	if (journal_commit(j, err) != 0)
		return -1;
	if (add_since(j, &chain) != 0)
		return error_errno(err, ERROR_IO, j->next.path, "write");
	return install(j, &j->next, chain, err);
}

int journal_compact_end(struct journal *j, struct error *err)
{
	struct report report = {.errnum = EPIPE};
	ssize_t n;
	int result;
	do
		n = read(j->report_fd, &report, sizeof report);
	while (n < 0 && errno == EINTR);
	if (n == sizeof report && report.errnum == 0) {
		result = journal_take_over(j, &report, err);
	} else {
		errno = n == sizeof report ? report.errnum : EPIPE;
		result = error_errno(err, ERROR_IO, j->next.path, "could not be written");
	}
	/* The child has reported; and if the file was installed, the name to which it wrote is
	 * gone. */
	forget_child(j);
	return result;
}
