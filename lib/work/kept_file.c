/* kept_file: see kept_file.h. */
#include "work/kept_file.h"

#include "base/fs.h"
#include "base/log.h"
#include "record/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILE_TYPE "kept-file"
#define FILE_PREFIX "kept-"
#define PAGE 4096
#define TRIES 10 /* to make a file, while others remove the directory */

/* Where a push is. */
struct file_push {
	struct file_push *next;
	uint64_t sequence;
	off_t at;
	size_t head, bytes;
};

struct kept_file {
	struct kept_owner owner;
	char *path; /* NULL: it has no name */
	int fd;
	off_t start; /* of the first push that there was */
	pthread_mutex_t lock;
	/* with the lock */
	off_t end;
	struct file_push *first, **last;
	size_t bytes;
};

/* ---- the pushes ---- */

static int file_note(struct kept_file *f, uint64_t sequence, size_t head, size_t bytes)
{
	struct file_push *q = malloc(sizeof *q);

	if (!q)
		return -1;
	*q = (struct file_push){.sequence = sequence, .at = f->end, .head = head, .bytes = bytes};
	*f->last = q;
	f->last = &q->next;
	f->end += (off_t)(head + bytes);
	f->bytes += head + bytes;
	return 0;
}

/* Where no hole can be made, its bytes count until the file is empty. The page in which it begins
 * is given back only by a hole that has all of it. */
static void file_drop_first(struct kept_file *f)
{
	struct file_push *q = f->first;
	size_t len = q->head + q->bytes;
	off_t from = q->at / PAGE * PAGE;

	if (from < f->start)
		from = f->start;
	f->first = q->next;
	if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from,
		      q->at + (off_t)len - from) == 0)
		f->bytes -= len;
	free(q);
	if (f->first)
		return;
	f->last = &f->first;
	if (ftruncate(f->fd, f->start) == 0) {
		f->end = f->start;
		f->bytes = 0;
	}
}

int kept_file_add(struct kept_file *f, const char *line, size_t len, uint64_t sequence,
		  const void *payload, size_t bytes, struct error *err)
{
	char head[RECORD_LINE_MAX];
	int n = snprintf(head, sizeof head, "kept%.*s bytes=%zu\n", (int)(len - 4), line + 4,
			 bytes);
	const struct iovec iov[2] = {{.iov_base = head, .iov_len = (size_t)n},
				     {.iov_base = (void *)(uintptr_t)payload, .iov_len = bytes}};
	int rc;

	if (n >= (int)sizeof head)
		return error_set(err, ERROR_DATA, f->path, "the request is too long");
	pthread_mutex_lock(&f->lock);
	ssize_t wrote = pwritev(f->fd, iov, 2, f->end);
	if (wrote == (ssize_t)((size_t)n + bytes)) {
		rc = file_note(f, sequence, (size_t)n, bytes);
		if (rc != 0)
			error_set(err, ERROR_OS, f->path, "out of memory");
	} else {
		errno = wrote >= 0 ? ENOSPC : errno;
		rc = error_errno(err, ERROR_OS, f->path, "%zu bytes", bytes);
	}
	if (rc != 0 && ftruncate(f->fd, f->end) != 0)
		log_say(LOG_LEVEL_WARNING, "%s: can't be cut", f->path ? f->path : FILE_TYPE);
	pthread_mutex_unlock(&f->lock);
	return rc;
}

void kept_file_until(struct kept_file *f, uint64_t sequence)
{
	pthread_mutex_lock(&f->lock);
	while (f->first && f->first->sequence < sequence)
		file_drop_first(f);
	pthread_mutex_unlock(&f->lock);
}

size_t kept_file_bytes(struct kept_file *f)
{
	if (!f)
		return 0;
	pthread_mutex_lock(&f->lock);
	size_t bytes = f->first ? f->bytes : 0;
	pthread_mutex_unlock(&f->lock);
	return bytes;
}

int kept_file_get(struct kept_file *f, uint64_t sequence, struct kept_push *out, struct error *err)
{
	int rc = 0;

	pthread_mutex_lock(&f->lock);
	const struct file_push *q = f->first;
	while (q && q->sequence < sequence)
		q = q->next;
	if (q) {
		*out = (struct kept_push){
			.sequence = q->sequence, .head = q->head, .bytes = q->bytes};
		out->text = malloc(q->head + q->bytes);
		rc = out->text ? fs_pread_all(f->fd, out->text, q->head + q->bytes, (uint64_t)q->at,
					      f->path ? f->path : FILE_TYPE, err)
			       : error_set(err, ERROR_OS, f->path, "out of memory");
		if (rc != 0)
			free(out->text);
		else
			rc = 1;
	}
	pthread_mutex_unlock(&f->lock);
	return rc;
}

/* ---- the file ---- */

const struct kept_owner *kept_file_owner(const struct kept_file *f)
{
	return &f->owner;
}

static struct kept_file *file_alloc(int fd, const char *path)
{
	struct kept_file *f = calloc(1, sizeof *f);

	if (f && path && !(f->path = strdup(path))) {
		free(f);
		f = NULL;
	}
	if (!f)
		return NULL;
	f->fd = fd;
	f->last = &f->first;
	pthread_mutex_init(&f->lock, NULL);
	return f;
}

static void file_remove(const char *path)
{
	char dir[PATH_MAX];

	unlink(path);
	fs_dirname(path, dir, sizeof dir);
	rmdir(dir); /* when it is empty */
}

void kept_file_close(struct kept_file *f, int needless)
{
	if (!f)
		return;
	if (f->path && needless)
		file_remove(f->path);
	while (f->first) {
		struct file_push *q = f->first;
		f->first = q->next;
		free(q);
	}
	close(f->fd); /* and the lock goes */
	pthread_mutex_destroy(&f->lock);
	free(f->path);
	free(f);
}

/* The beginning of the names of all files of this part. */
static int file_prefix(const char *part, char *out, size_t max)
{
	return snprintf(out, max, FILE_PREFIX "%.120s-", fs_basename(part));
}

static int file_start(struct kept_file *f, const struct kept_owner *o, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out out;

	record_begin(&out, line, sizeof line, FILE_TYPE);
	record_add(&out, "part", o->part);
	record_add(&out, "worker", o->worker);
	record_add_u64(&out, "generation", o->generation);
	record_add_u64(&out, "incarnation", o->incarnation);
	f->owner = *o;
	f->start = f->end = (off_t)record_end(&out, NULL);
	return fs_write_all(f->fd, line, (size_t)f->start, f->path ? f->path : FILE_TYPE, err);
}

/* The name comes when the file is locked and says whose it is. 1: the directory is gone. */
static int file_name(struct kept_file *f, struct error *err)
{
	char own[64];

	snprintf(own, sizeof own, "/proc/self/fd/%d", f->fd);
	if (flock(f->fd, LOCK_EX | LOCK_NB) == 0 &&
	    linkat(AT_FDCWD, own, AT_FDCWD, f->path, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	if (errno == ENOENT)
		return 1;
	return error_errno(err, ERROR_CANTCREAT, f->path, "link");
}

/* 1: the directory has just been removed, as nobody had a file there. */
static int file_make(struct kept_file **out, const struct kept_owner *owner, const char *dir,
		     struct error *err)
{
	char path[PATH_MAX] = "", prefix[160];
	int fd, n = file_prefix(owner->part, prefix, sizeof prefix);

	if (dir && (fs_make_dirs(dir, err) != 0 || fs_is_ours(dir, err) != 0))
		return -1;
	if (dir && snprintf(path, sizeof path, "%s/%.*s%s-%" PRIu64 "-%ld", dir, n, prefix,
			    owner->worker, owner->generation, (long)getpid()) >= (int)sizeof path)
		return error_set(err, ERROR_CONFIG, dir, "path is too long");
	fd = dir ? open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)
		 : memfd_create(FILE_TYPE, MFD_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 1;
	if (fd < 0)
		return error_errno(err, ERROR_CANTCREAT, dir, "no file for pushes");
	*out = file_alloc(fd, dir ? path : NULL);
	if (!*out) {
		close(fd);
		return error_set(err, ERROR_OS, dir, "out of memory");
	}
	int result = file_start(*out, owner, err);
	if (result == 0 && dir)
		result = file_name(*out, err);
	if (result == 0)
		return 0;
	kept_file_close(*out, 0);
	*out = NULL;
	return result;
}

int kept_file_new(struct kept_file **out, const struct kept_owner *owner, const char *dir,
		  struct error *err)
{
	int result = 1;

	*out = NULL;
	for (int tries = 0; result > 0 && tries < TRIES; tries++)
		result = file_make(out, owner, dir, err);
	return result <= 0 ? result
			   : error_set(err, ERROR_TEMPFAIL, dir, "it is removed again and again");
}

/* ---- of a worker that has died ---- */

static int file_read_owner(struct kept_file *f, struct record *r, struct error *err)
{
	char line[RECORD_LINE_MAX];
	const char *part, *worker;
	ssize_t n = pread(f->fd, line, sizeof line, 0);
	const char *end = n > 0 ? memchr(line, '\n', (size_t)n) : NULL;

	if (!end)
		return error_set(err, ERROR_DATA, NULL, "it has no first line");
	if (record_parse(r, line, (size_t)(end - line), err) != 0 ||
	    record_text(r, "part", &part, err) != 0 || record_id(r, "worker", &worker, err) != 0 ||
	    record_u64(r, "generation", 1, UINT64_MAX - 1, &f->owner.generation, err) != 0 ||
	    record_u64(r, "incarnation", 0, UINT64_MAX, &f->owner.incarnation, err) != 0)
		return -1;
	if (!record_is(r, FILE_TYPE))
		return error_set(err, ERROR_DATA, NULL, "its first line is no " FILE_TYPE);
	snprintf(f->owner.part, sizeof f->owner.part, "%s", part);
	snprintf(f->owner.worker, sizeof f->owner.worker, "%s", worker);
	f->start = f->end = end + 1 - line;
	return 0;
}

/* The first byte from here on that is not in a hole; -1: there is none. */
static off_t file_after_hole(int fd, off_t at)
{
	char page[PAGE];

	while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
		ssize_t n = pread(fd, page, sizeof page, at);
		if (n <= 0)
			return -1;
		for (ssize_t i = 0; i < n; i++)
			if (page[i])
				return at + i;
		at += n;
	}
	return -1;
}

/* What is no push, or is cut off, is the end. */
static int file_find_push(struct kept_file *f, struct record *r, off_t size)
{
	char line[RECORD_LINE_MAX];
	uint64_t sequence, bytes;
	ssize_t n = pread(f->fd, line, sizeof line, f->end);
	const char *end = n > 0 ? memchr(line, '\n', (size_t)n) : NULL;

	if (!end || record_parse(r, line, (size_t)(end - line), NULL) != 0 || !record_is(r, "kept"))
		return -1;
	size_t head = (size_t)(end + 1 - line);
	if (record_u64(r, "sequence", 0, UINT64_MAX - 1, &sequence, NULL) != 0 ||
	    record_u64(r, "bytes", 1, (uint64_t)(size - f->end) - head, &bytes, NULL) != 0)
		return -1;
	return file_note(f, sequence, head, (size_t)bytes);
}

static void file_find_pushes(struct kept_file *f, struct record *r, off_t size)
{
	off_t first = file_after_hole(f->fd, f->start);

	if (first < 0)
		return;
	f->end = first;
	while (f->end < size && file_find_push(f, r, size) == 0)
		;
}

/* -1: it is another one's, or is alive. */
static int file_take(struct kept_file **out, const char *path, const char *part)
{
	struct stat st;
	struct error err = {0};
	struct record *r = NULL;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	*out = NULL;
	if (fd < 0)
		return -1;
	if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
	    st.st_nlink == 0 || !(*out = file_alloc(fd, path)) || !(r = malloc(sizeof *r))) {
		if (*out)
			kept_file_close(*out, 0);
		else
			close(fd);
		return -1;
	}
	int rc = file_read_owner(*out, r, &err);
	if (rc != 0)
		log_say(LOG_LEVEL_WARNING, "%s: %s; it is removed", path, err.text);
	else if (strcmp((*out)->owner.part, part) != 0)
		rc = 1;
	else
		file_find_pushes(*out, r, st.st_size);
	free(r);
	if (rc != 0)
		kept_file_close(*out, rc < 0);
	return rc == 0 ? 0 : -1;
}

int kept_file_adopt(struct kept_file **out, const char *dir, const char *part)
{
	char prefix[160], path[PATH_MAX];
	size_t len = (size_t)file_prefix(part, prefix, sizeof prefix);
	int got = 0;
	DIR *d = fs_is_ours(dir, NULL) == 0 ? opendir(dir) : NULL;

	for (const struct dirent *e; d && !got && (e = readdir(d));)
		got = strncmp(e->d_name, prefix, len) == 0 &&
		      fs_join(path, sizeof path, dir, e->d_name, NULL) == 0 &&
		      file_take(out, path, part) == 0;
	if (d)
		closedir(d);
	return got;
}
