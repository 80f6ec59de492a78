/* outputs: see outputs.h. */
#include "agent/outputs.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/option.h"
#include "base/thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define NAME_BYTES 512
#define ROOM_BYTES 4096 /* with less room than this the disk counts as full */

struct kept {
	struct output output;
	int result;
	struct error error;
};

struct kept_list {
	struct kept *item;
	size_t first, count, room;
};

struct outputs {
	char *dir;
	const char *id;
	int dir_fd;
	int epoch_digits, row_digits;
	size_t waiting; /* the owner's */
	uint64_t begun;
	int news;       /* eventfd */
	pthread_t thread;
	int has_thread;
	pthread_mutex_t mutex;
	pthread_cond_t change;
	/* under the mutex */
	int quit;
	struct kept_list todo, done;
};

/* ---- names ---- */

static int outputs_digits(uint64_t largest)
{
	int n = 1;
	while (largest >= 10) {
		largest /= 10;
		n++;
	}
	return n;
}

static void final_name(const struct outputs *o, const struct output *out, char name[NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "%0*llu-%0*llu", o->epoch_digits,
		 (unsigned long long)out->epoch, o->row_digits, (unsigned long long)out->begin);
}

static void growing_name(const struct outputs *o, const struct output *out, char name[NAME_BYTES])
{
	snprintf(name, NAME_BYTES, ".%llu-%llu.%llu.%.*s", (unsigned long long)out->epoch,
		 (unsigned long long)out->begin, (unsigned long long)out->number, OPTION_ID_MAX,
		 o->id);
}

/* .DIGITS-DIGITS.DIGITS.ID */
static int is_left_over(const struct outputs *o, const char *name)
{
	for (const char *before = ".-.", *c = before; *c; c++) {
		size_t n = *name == *c ? strspn(name + 1, "0123456789") : 0;
		if (n == 0)
			return 0;
		name += n + 1;
	}
	return *name == '.' && strcmp(name + 1, o->id) == 0;
}

static void remove_left_over(const struct outputs *o)
{
	DIR *dir = opendir(o->dir);
	if (!dir)
		return;
	for (const struct dirent *e; (e = readdir(dir)) != NULL;)
		if (is_left_over(o, e->d_name))
			unlinkat(o->dir_fd, e->d_name, 0);
	closedir(dir);
}

static int outputs_failed(const struct outputs *o, int code, const char *name, const char *what,
			  struct error *err)
{
	char place[PATH_MAX];
	int errnum = errno;
	snprintf(place, sizeof place, "%s/%s", o->dir, name);
	errno = errnum;
	return error_errno(err, code, place, "%s", what);
}

/* ---- the thread ---- */

static int sync_one(const struct outputs *o, struct output *out, struct error *err)
{
	char from[NAME_BYTES], to[NAME_BYTES];
	final_name(o, out, to);
	growing_name(o, out, from);
	int result = 0;
	if (fsync(out->fd) != 0)
		result = outputs_failed(o, 0, to, "can't be written", err);
	else if (renameat(o->dir_fd, from, o->dir_fd, to) != 0)
		result = outputs_failed(o, 0, to, "can't be named", err);
	if (result != 0)
		unlinkat(o->dir_fd, from, 0);
	close(out->fd);
	return result;
}

/* Syncs all files, and the directory once: the disk works on the second while we wait for the
 * first. */
static void sync_all(const struct outputs *o, struct kept_list *l)
{
	for (size_t i = 0; i < l->count; i++)
		(void)sync_file_range(l->item[i].output.fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	for (size_t i = 0; i < l->count; i++)
		l->item[i].result = sync_one(o, &l->item[i].output, &l->item[i].error);
	if (fsync(o->dir_fd) != 0)
		for (size_t i = 0; i < l->count; i++)
			if (l->item[i].result == 0)
				l->item[i].result =
					outputs_failed(o, 0, ".", "fsync", &l->item[i].error);
}

static void *outputs_work(void *arg)
{
	struct outputs *o = arg;
	uint64_t one = 1;
	pthread_mutex_lock(&o->mutex);
	while (!o->quit || o->todo.count > 0) {
		if (o->todo.count == 0) {
			pthread_cond_wait(&o->change, &o->mutex);
			continue;
		}
		struct kept_list now = o->todo;
		o->todo = (struct kept_list){0};
		pthread_mutex_unlock(&o->mutex);
		sync_all(o, &now);
		pthread_mutex_lock(&o->mutex);
		/* There is room: see outputs_keep(). */
		memcpy(o->done.item + o->done.count, now.item, now.count * sizeof *now.item);
		o->done.count += now.count;
		free(now.item);
		if (write(o->news, &one, sizeof one) < 0 && errno != EAGAIN)
			break;
	}
	pthread_mutex_unlock(&o->mutex);
	return NULL;
}

/* ---- the owner ---- */

static int open_dir(struct outputs *o, const char *dir, struct error *err)
{
	o->dir = strdup(dir);
	if (!o->dir)
		return error_set(err, ERROR_OS, "", "out of memory");
	if (fs_make_dirs(dir, err) != 0)
		return -1;
	o->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (o->dir_fd < 0)
		return error_errno(err, ERROR_CANTCREAT, dir, "open");
	if (faccessat(o->dir_fd, ".", W_OK | X_OK, AT_EACCESS) != 0)
		return error_errno(err, ERROR_CANTCREAT, dir, "can't be written");
	remove_left_over(o);
	return 0;
}

static int outputs_start(struct outputs *o, struct error *err)
{
	o->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (o->news < 0)
		return error_errno(err, ERROR_OS, "", "eventfd");
	int errnum = thread_start(&o->thread, outputs_work, o);
	if (errnum != 0)
		return error_set(err, ERROR_OS, "", "thread: %s", strerror(errnum));
	o->has_thread = 1;
	return 0;
}

int outputs_open(struct outputs **out, const char *dir, const char *id, uint64_t epochs,
		 uint64_t samples, struct error *err)
{
	struct outputs *o = calloc(1, sizeof *o);
	if (!o)
		return error_set(err, ERROR_OS, "", "out of memory");
	*o = (struct outputs){.id = id,
			      .dir_fd = -1,
			      .news = -1,
			      .epoch_digits = outputs_digits(epochs ? epochs - 1 : 0),
			      .row_digits = outputs_digits(samples ? samples - 1 : 0)};
	pthread_mutex_init(&o->mutex, NULL);
	pthread_cond_init(&o->change, NULL);
	if (open_dir(o, dir, err) != 0 || outputs_start(o, err) != 0) {
		outputs_free(o);
		return -1;
	}
	*out = o;
	return 0;
}

void outputs_free(struct outputs *o)
{
	if (!o)
		return;
	if (o->has_thread) {
		pthread_mutex_lock(&o->mutex);
		o->quit = 1;
		pthread_cond_broadcast(&o->change);
		pthread_mutex_unlock(&o->mutex);
		pthread_join(o->thread, NULL);
	}
	if (o->dir_fd >= 0)
		close(o->dir_fd);
	if (o->news >= 0)
		close(o->news);
	pthread_mutex_destroy(&o->mutex);
	pthread_cond_destroy(&o->change);
	free(o->todo.item);
	free(o->done.item);
	free(o->dir);
	free(o);
}

int outputs_begin(struct outputs *o, const struct piece *piece, struct output *out,
		  struct error *err)
{
	char name[NAME_BYTES];
	*out = (struct output){-1, piece->id, piece->epoch, piece->begin + piece->skip,
			       o->begun++};
	growing_name(o, out, name);
	out->fd = openat(o->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (out->fd < 0)
		return outputs_failed(o, ERROR_CANTCREAT, name, "can't be made", err);
	return 0;
}

void outputs_drop(struct outputs *o, struct output *out)
{
	char name[NAME_BYTES];
	if (out->fd < 0)
		return;
	growing_name(o, out, name);
	unlinkat(o->dir_fd, name, 0);
	close(out->fd);
	out->fd = -1;
}

int outputs_keep(struct outputs *o, struct output *out, struct error *err)
{
	pthread_mutex_lock(&o->mutex);
	int result = GROW(o->todo.item, o->todo.room, o->todo.count + 1);
	/* All that wait may be done at once. */
	if (result == 0)
		result = GROW(o->done.item, o->done.room, o->done.count + o->waiting + 1);
	if (result == 0) {
		o->todo.item[o->todo.count++] = (struct kept){.output = *out};
		o->waiting++;
	}
	pthread_cond_broadcast(&o->change);
	pthread_mutex_unlock(&o->mutex);
	if (result != 0) {
		outputs_drop(o, out);
		return error_set(err, ERROR_OS, "", "out of memory");
	}
	out->fd = -1;
	return 0;
}

int outputs_is_full(const struct outputs *o)
{
	struct statvfs fs;
	return fstatvfs(o->dir_fd, &fs) == 0 && fs.f_blocks > 0 &&
	       (uint64_t)fs.f_bavail * fs.f_frsize < ROOM_BYTES;
}

int outputs_fd(const struct outputs *o)
{
	return o->news;
}

size_t outputs_waiting(const struct outputs *o)
{
	return o->waiting;
}

int outputs_next(struct outputs *o, uint64_t *id, struct error *err)
{
	uint64_t count;
	int result = 0;
	if (read(o->news, &count, sizeof count) < 0 && errno != EAGAIN)
		return error_errno(err, ERROR_OS, o->dir, "eventfd");
	pthread_mutex_lock(&o->mutex);
	struct kept_list *l = &o->done;
	if (l->first < l->count) {
		const struct kept *k = &l->item[l->first++];
		*id = k->output.id;
		result = k->result == 0 ? 1 : -1;
		if (result < 0)
			*err = k->error;
		o->waiting--;
	}
	if (l->first == l->count)
		l->first = l->count = 0;
	pthread_mutex_unlock(&o->mutex);
	return result;
}

