/* saved_files: see saved_files.h. The thread has copies of its own of all that it needs. */
#include "agent/saved_files.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/keep.h"
#include "base/thread.h"
#include "ckpt/ckpt.h"
#include "ckpt/memory.h"
#include "meter/load.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

struct tree {
	char base[PATH_MAX]; /* directory of the checkpoint, as realpath(3) has it */
	size_t files;
	char *lines;
	size_t len, room;
};

struct saved_files {
	pthread_t thread;
	int fd; /* readable when the thread is done */
	struct tree tree;
	char path[PATH_MAX]; /* the file or directory, as realpath(3) has it; "": neither */
	int memory;          /* what it is to be; later, what the next one is to be; -1: nothing */
	uint64_t next; /* bytes of the next one */
	struct saved_memory kept;
	struct saved_state held; /* later */
	int result;
	struct error error;
	atomic_int is_left; /* by the thread, or by who began it: the other one frees */
};

/* As MANIFEST names it: without the directory in front where it lies there. */
static const char *name_of(const struct tree *t, const char *path)
{
	size_t len = strlen(t->base);
	return strncmp(path, t->base, len) == 0 && path[len] == '/' ? path + len + 1 : path;
}

static int saved_files_check_name(const struct tree *t, const char *path, struct error *err)
{
	if (strlen(name_of(t, path)) < CKPT_FILE_NAME_MAX)
		return 0;
	return error_set(err, ERROR_DATA, path, "a name of more than %d bytes",
			 CKPT_FILE_NAME_MAX - 1);
}

/* path NULL: what is held in memory. */
static int add_line(struct tree *t, const char *path, uint64_t bytes, uint64_t sum,
		    struct error *err)
{
	char text[17];
	if (path && ++t->files > CKPT_FILES_MAX)
		return error_set(err, ERROR_DATA, path, "more than %d files", CKPT_FILES_MAX);
	snprintf(text, sizeof text, "%016" PRIx64, sum);
	struct record_out *o = RECORD(path ? "file" : "held",
				      path ? F("name", name_of(t, path)) : F_NONE, F("bytes", bytes),
				      F("sum", text));
	size_t len = record_end(o, NULL);
	if (len == 0 || GROW(t->lines, t->room, t->len + len) != 0)
		return error_set(err, ERROR_OS, path, "out of memory");
	memcpy(t->lines + t->len, o->data, len);
	t->len += len;
	return 0;
}

static int saved_files_add_one(struct tree *t, const char *path, struct error *err)
{
	uint64_t bytes, sum;
	return ckpt_sum_file(path, 1, &bytes, &sum, err) == 0 ? add_line(t, path, bytes, sum, err)
							      : -1;
}

static int saved_files_add(struct tree *t, const char *path, struct error *err);

static int is_entry(const struct dirent *e)
{
	return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

static int add_dir(struct tree *t, const char *path, struct error *err)
{
	struct dirent **entry;
	int result = 0, n = scandir(path, &entry, is_entry, alphasort);
	if (n < 0)
		return error_errno(err, ERROR_IO, path, "can't be listed");
	for (int i = 0; i < n; i++) {
		char below[CKPT_PATH_MAX];
		if (result == 0)
			result = fs_join(below, sizeof below, path, entry[i]->d_name, err);
		if (result == 0)
			result = saved_files_add(t, below, err);
		free(entry[i]);
	}
	free(entry);
	return result == 0 ? fs_sync_dir(path, err) : -1;
}

/* Adds a file, or a directory with everything below it, as deep as a path can be. A link to a file
 * counts as the file; a link to a directory is not followed, because links may form a circle. */
static int saved_files_add(struct tree *t, const char *path, struct error *err)
{
	struct stat st, link;
	if (saved_files_check_name(t, path, err) != 0)
		return -1;
	if (stat(path, &st) != 0 || lstat(path, &link) != 0)
		return error_errno(err, ERROR_DATA, path, "can't be found");
	if (S_ISREG(st.st_mode))
		return saved_files_add_one(t, path, err);
	if (S_ISDIR(st.st_mode) && !S_ISLNK(link.st_mode))
		return add_dir(t, path, err);
	return error_set(err, ERROR_DATA, path, "is neither a file nor a directory");
}

/* Syncs the file, and the directories above it up to the checkpoint's. */
static int sync_above(const char *base, const char *path, struct error *err)
{
	char dir[CKPT_PATH_MAX], at[CKPT_PATH_MAX];
	snprintf(at, sizeof at, "%s", path);
	for (;;) {
		fs_dirname(at, dir, sizeof dir);
		if (fs_sync_dir(dir, err) != 0)
			return -1;
		if (strncmp(dir, base, strlen(base)) != 0 || strlen(dir) <= strlen(base))
			return 0;
		snprintf(at, sizeof at, "%s", dir);
	}
}

static void saved_files_free(struct saved_files *s)
{
	fs_close(&s->memory);
	fs_close(&s->held.fd);
	close(s->fd);
	free(s);
}

static void saved_files_forget(struct saved_files *s)
{
	if (!atomic_exchange(&s->is_left, 1))
		return;
	free(s->tree.lines);
	saved_files_free(s);
}

/* ---- memory ---- */

int saved_files_fit(const char *load_root, uint64_t bytes)
{
	struct load *l;
	if (load_new(&l, load_root, NULL) != 0)
		return 0;
	uint64_t left = load_memory_left(l);
	load_free(l);
	return left == 0 || left / 2 > bytes;
}

/* To the disk, unless it is only to be held. */
static int saved_files_write(struct saved_files *s)
{
	char path[64];
	uint64_t bytes, *sum = &s->held.sum;
	snprintf(path, sizeof path, "/proc/self/fd/%d", s->memory);
	if (s->path[0] ? ckpt_copy_file(s->memory, "memory", s->path, &bytes, sum, &s->error) != 0 ||
				 add_line(&s->tree, s->path, bytes, *sum, &s->error) != 0
		       : ckpt_sum_file(path, 0, &bytes, sum, &s->error) != 0)
		return -1;
	if (s->kept.dir && s->kept.keeper >= 0) {
		if (add_line(&s->tree, NULL, bytes, *sum, &s->error) != 0)
			return -1;
		s->held.fd = s->memory;
		s->memory = -1;
	}
	fs_close(&s->memory);
	return 0;
}

/* If it can be had. */
static void saved_files_prepare(struct saved_files *s)
{
	if (saved_files_fit(s->kept.load_root, s->next))
		s->memory = keep_new(CKPT_MEMORY_STATE, NULL);
	if (s->memory >= 0)
		(void)keep_fill(s->memory, s->next);
}

/* ---- the thread ---- */

static void *saved_files_gather(void *saved_files)
{
	struct saved_files *s = saved_files;
	uint64_t one = 1;
	int wants_next = s->memory >= 0 || !s->path[0];
	if (s->memory >= 0)
		s->result = saved_files_write(s);
	else if (s->path[0])
		s->result = saved_files_add(&s->tree, s->path, &s->error);
	if (s->result == 0 && wants_next)
		saved_files_prepare(s);
	if (s->result == 0 && s->path[0])
		s->result = sync_above(s->tree.base, s->path, &s->error);
	if (s->result == 0 && s->path[0] && s->tree.files == 0)
		s->result = error_set(&s->error, ERROR_DATA, s->path, "has no file");
	if (write(s->fd, &one, sizeof one) < 0) /* an eventfd of ours takes it */
		s->result = error_errno(&s->error, ERROR_OS, s->path, "eventfd");
	saved_files_forget(s);
	return NULL;
}

static int saved_files_find(struct saved_files *s, const char *cut, const char *dir,
			    const char *path, struct error *err)
{
	char full[CKPT_PATH_MAX];
	if (fs_join(full, sizeof full, dir, path, err) != 0)
		return -1;
	if (!realpath(s->memory >= 0 ? dir : full, s->path))
		return error_errno(err, ERROR_DATA, full, "can't be found");
	if (s->memory >= 0) {
		if (strlen(s->path) + strlen(path) + 2 > sizeof s->path)
			return error_set(err, ERROR_DATA, full, "a path that is too long");
		strcat(strcat(s->path, "/"), path);
	}
	if (!realpath(cut, s->tree.base))
		return error_errno(err, ERROR_DATA, cut, "can't be found");
	if (strcmp(s->path, s->tree.base) == 0)
		return error_set(err, ERROR_DATA, full, "is the whole checkpoint's directory");
	return saved_files_check_name(&s->tree, s->path, err);
}

static int saved_files_start_thread(struct saved_files *s, struct error *err)
{
	s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->fd < 0)
		return error_errno(err, ERROR_OS, s->path, "eventfd");
	int errnum = thread_start(&s->thread, saved_files_gather, s);
	if (errnum == 0)
		return 0;
	close(s->fd);
	return error_set(err, ERROR_OS, s->path, "a thread to read it: %s", strerror(errnum));
}

int saved_files_start(struct saved_files **out, const char *cut, const char *dir, const char *path,
		      int memory, uint64_t next, const struct saved_memory *kept, struct error *err)
{
	struct saved_files *s = calloc(1, sizeof *s);
	if (!s) {
		fs_close(&memory);
		return error_set(err, ERROR_OS, cut, "out of memory");
	}
	s->memory = memory;
	s->held.fd = -1;
	s->next = next;
	s->kept = *kept;
	if ((path && saved_files_find(s, cut, dir, path, err) != 0) ||
	    saved_files_start_thread(s, err) != 0) {
		fs_close(&memory);
		free(s);
		return -1;
	}
	*out = s;
	return 0;
}

int saved_files_fd(const struct saved_files *s)
{
	return s->fd;
}

int saved_files_take(struct saved_files *s, char name[CKPT_FILE_NAME_MAX], char **lines, size_t *len,
		     struct saved_state *held, int *memory, struct error *err)
{
	pthread_join(s->thread, NULL);
	int result = s->result;
	strcpy(name, name_of(&s->tree, s->path));
	*err = s->error;
	*lines = result == 0 ? s->tree.lines : NULL;
	*len = result == 0 ? s->tree.len : 0;
	if (result != 0)
		free(s->tree.lines);
	*memory = result == 0 ? s->memory : -1;
	*held = (struct saved_state){result == 0 ? s->held.fd : -1, s->held.sum};
	if (result == 0)
		s->memory = s->held.fd = -1;
	saved_files_free(s);
	return result;
}

void saved_files_abandon(struct saved_files *s)
{
	if (!s)
		return;
	pthread_detach(s->thread);
	saved_files_forget(s);
}
