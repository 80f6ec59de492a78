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
#define TRIES 10 /* to make a file, while others remove the directory */

/* The file: a page with the owner, a table of where pushes are, and the pushes.  Their places are
 * used again, because memory that is there already takes a sixth of the time of new memory. */
#define TABLE_AT 4096
#define SLOTS 4096
#define PUSHES_AT (TABLE_AT + SLOTS * sizeof(struct file_slot))

struct file_slot {
	uint64_t sequence, at, head, bytes; /* head 0: it is free */
};

struct file_push {
	struct file_push *next;
	uint64_t number; /* slot number % SLOTS is its */
	struct file_slot is;
};

struct kept_file {
	struct kept_owner owner;
	char *path; /* NULL: it has no name */
	int fd;
	pthread_mutex_t lock;
	/* with the lock */
	struct file_push *first; /* by sequence */
	uint64_t number;         /* of the next push */
	uint64_t end;            /* of the push that was added last */
	size_t bytes, count;
};

static const char *file_place(const struct kept_file *f)
{
	return f->path ? f->path : FILE_TYPE;
}

/* ---- the pushes ---- */

static int file_note(struct kept_file *f, uint64_t number, const struct file_slot *is)
{
	struct file_push *q = malloc(sizeof *q), **at = &f->first;

	if (!q)
		return -1;
	while (*at && (*at)->is.sequence < is->sequence)
		at = &(*at)->next;
	*q = (struct file_push){.next = *at, .number = number, .is = *is};
	*at = q;
	f->bytes += is->head + is->bytes;
	f->count++;
	return 0;
}

static int file_write_slot(struct kept_file *f, uint64_t number, const struct file_slot *is)
{
	off_t at = TABLE_AT + (off_t)(number % SLOTS * sizeof *is);

	return pwrite(f->fd, is, sizeof *is, at) == sizeof *is ? 0 : -1;
}

static void file_drop_first(struct kept_file *f)
{
	struct file_push *q = f->first;

	if (file_write_slot(f, q->number, &(struct file_slot){0}) != 0)
		log_say(LOG_LEVEL_WARNING, "%s: can't be written", file_place(f));
	f->first = q->next;
	f->bytes -= q->is.head + q->is.bytes;
	f->count--;
	free(q);
}

static int file_is_free(const struct kept_file *f, uint64_t at, uint64_t len)
{
	for (const struct file_push *q = f->first; q; q = q->next)
		if (at < q->is.at + q->is.head + q->is.bytes && q->is.at < at + len)
			return 0;
	return 1;
}

/* A place for a push: at the beginning, or behind the one before, or behind all. Then what is
 * before the first one is too small, and its memory is given back. */
static uint64_t file_find_place(const struct kept_file *f, uint64_t len)
{
	uint64_t low = UINT64_MAX, high = PUSHES_AT;

	for (const struct file_push *q = f->first; q; q = q->next) {
		uint64_t end = q->is.at + q->is.head + q->is.bytes;
		low = q->is.at < low ? q->is.at : low;
		high = end > high ? end : high;
	}
	if (file_is_free(f, PUSHES_AT, len))
		return PUSHES_AT;
	if (f->end < high && file_is_free(f, f->end, len))
		return f->end;
	if (low > PUSHES_AT)
		(void)fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PUSHES_AT,
				(off_t)(low - PUSHES_AT));
	return high;
}

/* The slot comes last: a push that was being written counts for nothing. */
static int file_put(struct kept_file *f, const struct iovec iov[2], uint64_t sequence,
		    struct error *err)
{
	size_t len = iov[0].iov_len + iov[1].iov_len;
	struct file_slot is = {
		.sequence = sequence, .head = iov[0].iov_len, .bytes = iov[1].iov_len};

	if (f->bytes + len > KEPT_FILE_MAX || f->count == SLOTS)
		return error_set(err, ERROR_TEMPFAIL, file_place(f),
				 "%zu pushes of %zu bytes are kept", f->count, f->bytes);
	is.at = file_find_place(f, len);
	ssize_t wrote = pwritev(f->fd, iov, 2, (off_t)is.at);
	if (wrote == (ssize_t)len && file_write_slot(f, f->number, &is) == 0) {
		if (file_note(f, f->number, &is) != 0)
			return error_set(err, ERROR_OS, file_place(f), "out of memory");
		f->number++;
		f->end = is.at + len;
		return 0;
	}
	errno = wrote >= 0 ? ENOSPC : errno;
	return error_errno(err, ERROR_OS, file_place(f), "%zu bytes", len);
}

int kept_file_add(struct kept_file *f, const char *line, size_t len, uint64_t sequence,
		  const void *payload, size_t bytes, struct error *err)
{
	char head[RECORD_LINE_MAX];
	int n = snprintf(head, sizeof head, "kept%.*s bytes=%zu\n", (int)(len - 4), line + 4,
			 bytes);
	const struct iovec iov[2] = {{.iov_base = head, .iov_len = (size_t)n},
				     {.iov_base = (void *)(uintptr_t)payload, .iov_len = bytes}};

	if (n >= (int)sizeof head)
		return error_set(err, ERROR_DATA, file_place(f), "the request is too long");
	pthread_mutex_lock(&f->lock);
	int rc = file_put(f, iov, sequence, err);
	pthread_mutex_unlock(&f->lock);
	return rc;
}

void kept_file_until(struct kept_file *f, uint64_t sequence)
{
	pthread_mutex_lock(&f->lock);
	while (f->first && f->first->is.sequence < sequence)
		file_drop_first(f);
	pthread_mutex_unlock(&f->lock);
}

size_t kept_file_bytes(struct kept_file *f)
{
	if (!f)
		return 0;
	pthread_mutex_lock(&f->lock);
	size_t bytes = f->bytes;
	pthread_mutex_unlock(&f->lock);
	return bytes;
}

int kept_file_get(struct kept_file *f, uint64_t sequence, struct kept_push *out, struct error *err)
{
	int rc = 0;

	pthread_mutex_lock(&f->lock);
	const struct file_push *q = f->first;
	while (q && q->is.sequence < sequence)
		q = q->next;
	if (q) {
		size_t len = q->is.head + q->is.bytes;
		*out = (struct kept_push){.sequence = q->is.sequence,
					  .head = q->is.head,
					  .bytes = q->is.bytes,
					  .text = malloc(len)};
		rc = out->text ? fs_pread_all(f->fd, out->text, len, q->is.at, file_place(f), err)
			       : error_set(err, ERROR_OS, file_place(f), "out of memory");
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
	f->end = PUSHES_AT;
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
	struct record_out *out =
		RECORD(FILE_TYPE, F("part", o->part), F("worker", o->worker),
		       F("generation", o->generation), F("incarnation", o->incarnation));
	f->owner = *o;
	return fs_write_all(f->fd, out->data, record_end(out, NULL), file_place(f), err);
}

/* The name comes when the file is locked and says whose it is. 1: the directory is gone. */
static int file_link(struct kept_file *f, struct error *err)
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
		result = file_link(*out, err);
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
	return 0;
}

/* Whether a slot says what is there: nobody has checked it yet. */
static int file_is_push(struct kept_file *f, const struct file_slot *is, struct record *r,
			uint64_t size)
{
	char line[RECORD_LINE_MAX];
	uint64_t ignored;

	return is->head > 0 && is->head <= sizeof line && is->bytes <= size && is->at <= size &&
	       is->at + is->head + is->bytes <= size &&
	       fs_pread_all(f->fd, line, is->head, is->at, file_place(f), NULL) == 0 &&
	       line[is->head - 1] == '\n' && record_parse(r, line, is->head - 1, NULL) == 0 &&
	       record_is(r, "kept") &&
	       record_u64(r, "sequence", is->sequence, is->sequence, &ignored, NULL) == 0 &&
	       record_u64(r, "bytes", is->bytes, is->bytes, &ignored, NULL) == 0;
}

static int file_find_pushes(struct kept_file *f, struct record *r, uint64_t size, struct error *err)
{
	struct file_slot *table = calloc(SLOTS, sizeof *table);
	int rc = table ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
	ssize_t n = table ? pread(f->fd, table, SLOTS * sizeof *table, TABLE_AT) : 0;

	for (uint64_t i = 0; rc == 0 && n > 0 && i < (size_t)n / sizeof *table; i++)
		if (file_is_push(f, &table[i], r, size) && file_note(f, i, &table[i]) != 0)
			rc = error_set(err, ERROR_OS, NULL, "out of memory");
	free(table);
	return rc;
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
	else if (strcmp((*out)->owner.part, part) != 0 ||
		 file_find_pushes(*out, r, (uint64_t)st.st_size, &err) != 0)
		rc = 1; /* it stays */
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
