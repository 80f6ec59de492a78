/* files: save and load. A saved file is like the beginning of a journal: it has the same lines and
 * sums, and ends with the `end` line. A load that fails changes nothing. */
#include "shard/service_internal.h"

#include "base/fs.h"
#include "base/log.h"
#include "record/sealed.h"
#include "shard/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((size_t)8 << 30)

/* incarnation=, if given, must be the one in force: an old lead must not save over the file of the
 * current cut, and an old supervisor must not roll back a second time. */
static int may_touch_files(struct service *s, struct request *rq, const char **path)
{
	const struct record *r = request_record(rq);
	uint64_t in_force = queue_incarnation(s->queue), incarnation = in_force;
	struct error err;
	if (record_u64_opt(r, "incarnation", 0, UINT64_MAX, &incarnation, &err) != 0 ||
	    (incarnation == in_force && record_text(r, "file", path, &err) != 0)) {
		request_bad(rq, &err);
		return 0;
	}
	if (incarnation != in_force) {
		request_err(rq, "fenced", "incarnation %llu is not in force: %llu is",
			    (unsigned long long)incarnation, (unsigned long long)in_force);
		return 0;
	}
	if ((*path)[0] != '\0')
		return 1;
	request_err(rq, "bad-request", "file= is empty");
	return 0;
}

static void file_error(struct request *rq, const struct error *err)
{
	request_err(rq, "file", "%s: %s", err->place, err->text);
}

/* ---- save ---- */

/* Whether `save` has written the file: its first and last lines are those of a state. (A journal
 * has zeros behind its lines.) */
static int is_save(int fd, off_t size)
{
	char text[SEALED_MAX];
	uint32_t sum;
	size_t content;
	ssize_t n = pread(fd, text, sizeof text, 0);
	const char *newline = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;
	if (!newline || strncmp(text, "queue version=", 14) != 0 ||
	    !sealed_valid(text, (size_t)(newline - text), 0, &content, &sum))
		return 0;
	off_t from = size > (off_t)sizeof text ? size - (off_t)sizeof text : 0;
	n = pread(fd, text, sizeof text, from);
	if (n < 1 || text[n - 1] != '\n')
		return 0;
	const char *before = memrchr(text, '\n', (size_t)n - 1);
	const char *last = before ? before + 1 : text;
	return strncmp(last, "end lines=", 10) == 0;
}

/* A save replaces only an earlier save, and never writes to the journal's directory: a file there
 * could be taken for the journal. */
static int may_be_saved_to(const struct service *s, const char *path, struct error *err)
{
	char parent[PATH_MAX];
	struct stat st, own;
	fs_dirname(path, parent, sizeof parent);
	if (stat(parent, &st) != 0)
		return error_errno(err, 0, parent, "can't be looked at");
	if (stat(s->options.dir, &own) == 0 && st.st_dev == own.st_dev && st.st_ino == own.st_ino)
		return error_set(err, ERROR_CANTCREAT, path, "is in the journal's directory");
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_errno(err, ERROR_CANTCREAT, path, "is there");
	int result = 0;
	if (fstat(fd, &st) != 0)
		result = error_errno(err, ERROR_OS, path, "can't be looked at");
	else if (!S_ISREG(st.st_mode) || !is_save(fd, st.st_size))
		result = error_set(err, ERROR_CANTCREAT, path, "is there already, and is no saved state");
	close(fd);
	return result;
}

static void shard_files_add_line(void *out, const char *line, size_t len)
{
	sealed_add(out, line, len);
}

/* Who says boot= of this machine syncs the file and its directory, and goes down with us. */
static void verb_save(struct request *rq, void *service)
{
	struct service *s = service;
	const char *path;
	struct error err;
	int is_here = service_is_here(s, request_record(rq));
	if (!service_is_whole(s, rq) || !may_touch_files(s, rq, &path))
		return;
	if (may_be_saved_to(s, path, &err) != 0) {
		file_error(rq, &err);
		return;
	}
	/* The file must not have more than the journal. */
	if ((is_here ? journal_write : journal_commit)(s->journal, &err) != 0) {
		service_set_fatal(s, &err);
		request_err(rq, "journal", "%s: %s", err.place, err.text);
		return;
	}
	struct sealed_out text = {.fd = -1};
	queue_write(s->queue, shard_files_add_line, &text);
	if (text.errnum != 0)
		request_err(rq, "no-memory", "out of memory");
	else if ((is_here ? fs_replace_for_now : fs_replace_file)(path, text.data, text.len,
								  &err) != 0)
		file_error(rq, &err);
	else
		request_ok(rq, "bytes=%zu incarnation=%llu", text.len,
			   (unsigned long long)queue_incarnation(s->queue));
	sealed_free(&text);
}

/* ---- load ---- */

static int shard_files_take_line(void *loader, const char *line, size_t len, struct error *err)
{
	if (queue_loader_ended(loader))
		return error_set(err, ERROR_DATA, NULL, "lines behind the end");
	return queue_loader_line(loader, line, len, err);
}

/* A fifo is refused: we would wait for its writer. */
static int read_regular(const char *path, char **text, size_t *len, struct error *err)
{
	struct stat st;
	if (stat(path, &st) != 0)
		return error_errno(err, 0, path, "can't be read");
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERROR_DATA, path, "is not a regular file");
	return fs_read_file(path, FILE_BYTES_MAX, text, len, err);
}

static int read_queue(struct service *s, const char *path, struct queue **out, struct error *err)
{
	char *text;
	size_t len;
	if (read_regular(path, &text, &len, err) != 0)
		return -1;
	struct queue_loader *loader = queue_loader_new(queue_parameters(s->queue));
	struct scan scan;
	int result = loader ? scan_lines(text, len, path, shard_files_take_line, loader, &scan, err)
			    : error_set(err, ERROR_OS, path, "out of memory");
	free(text);
	if (result == 0 && (scan.end != len || scan.lacks_newline))
		result = error_set(err, ERROR_DATA, path, "ends in the middle of a line");
	if (result != 0) {
		queue_loader_free(loader);
		return -1;
	}
	if (queue_loader_finish(loader, out, err) != 0)
		return error_wrap(err, path);
	return 0;
}

static void verb_load(struct request *rq, void *service)
{
	struct service *s = service;
	const char *path;
	struct error err;
	struct queue *loaded;
	if (!may_touch_files(s, rq, &path))
		return;
	service_clock(s);
	if (read_queue(s, path, &loaded, &err) != 0) {
		file_error(rq, &err);
		return;
	}
	if (queue_roll_back(loaded, s->queue, &err) != 0) {
		queue_free(loaded);
		request_err(rq, "no-memory", "%s", err.text);
		return;
	}
	struct queue *replaced = s->queue;
	s->queue = loaded; /* for service_write_state() */
	if (s->compaction) {
		event_free(s->compaction);
		s->compaction = NULL;
	}
	int result = journal_begin(s->journal, service_write_state, s, &err);
	s->queue = replaced;
	if (result != 0) {
		queue_free(loaded);
		if (journal_is_broken(s->journal))
			service_set_fatal(s, &err);
		request_err(rq, "journal", "%s: %s", err.place, err.text);
		return;
	}
	service_adopt(s, loaded);
	s->is_fencing = 1;
	log_say(LOG_LEVEL_INFO, "rolled back to %s: incarnation %llu", path,
		(unsigned long long)queue_incarnation(s->queue));
	watch_load(s);
	request_ok(rq, "incarnation=%llu", (unsigned long long)queue_incarnation(s->queue));
}

const struct verb file_verbs[] = {
	{"save", "file", "incarnation boot", verb_save, 0, "the whole state into a file"},
	{"load", "file", "incarnation", verb_load, 0, "back to the state in a file"},
	{0}};
