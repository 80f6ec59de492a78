/* caching: see caching.h. */
#include "work/caching.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/human.h"
#include "base/log.h"
#include "base/thread.h"
#include "data/rowcache.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOOK_SECONDS 1 /* between two tries to get the lock */
#define PRIORITY 19    /* the lowest of nice(1) */
#define REST_SECONDS 600 /* a file that is being made was written since */

struct caching {
	struct caching_options options;
	pthread_t thread;
	int running;
	pthread_mutex_t lock;
	pthread_cond_t stopped;
	atomic_int stop;
	_Atomic double seconds; /* of processor time, once the thread ends; 0 before */
	char lock_path[PATH_MAX];
	int lock_fd; /* -1: another worker has it */
};

static int caching_lock_path(struct caching *c, struct error *err)
{
	const struct caching_options *o = &c->options;
	const char *dir = o->index_dir ? o->index_dir : o->paths[0],
		   *name = o->index_dir ? "/" : ".";
	int n = snprintf(c->lock_path, sizeof c->lock_path, "%s%srowcache.lock", dir, name);
	if (n < 0 || (size_t)n >= sizeof c->lock_path)
		return error_set(err, ERROR_CANTCREAT, dir, "the lock's path is too long");
	return 0;
}

static double clock_used(clockid_t clock)
{
	struct timespec t;
	return clock_gettime(clock, &t) == 0 ? (double)t.tv_sec + (double)t.tv_nsec * 1e-9 : 0;
}

/* A killed worker leaves its half of a cache where files need a name from the start, as on NFS.
 * What was written lately may be what another host is making, if locks don't reach that far. */
static void remove_rest(const char *path)
{
	char dir[PATH_MAX], rest[PATH_MAX + NAME_MAX + 2];
	struct stat st;
	const char *name = fs_basename(path);
	size_t len = strlen(name);
	fs_dirname(path, dir, sizeof dir);
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (strncmp(e->d_name, name, len) != 0 || strncmp(e->d_name + len, ".tmp.", 5) != 0)
			continue;
		snprintf(rest, sizeof rest, "%s/%s", dir, e->d_name);
		if (stat(rest, &st) == 0 && clock_epoch() - (double)st.st_mtime > REST_SECONDS)
			unlink(rest);
	}
	if (d)
		closedir(d);
}

/* Whether a cache of this file fits, beside it or at `path`, where it would be made; -1: an error. */
static int caching_is_there(const struct rowcache_making *making, struct error *err)
{
	char beside[PATH_MAX];
	struct rowcache_making other = *making;
	other.path = beside;
	if (making->index_dir &&
	    rowcache_path(beside, sizeof beside, making->data_path, NULL, NULL) == 0 &&
	    rowcache_is_made(&other, NULL) == 1)
		return 1;
	return rowcache_is_made(making, err);
}

/* All files; bytes of the caches that had to be made. */
static int make_all(struct caching *c, uint64_t *bytes, struct error *err)
{
	const struct caching_options *o = &c->options;
	char path[PATH_MAX];
	struct rowcache_made made;
	for (size_t i = 0; i < o->path_count; i++) {
		const struct rowcache_making making = {.schema = o->schema,
						       .data_path = o->paths[i],
						       .index_dir = o->index_dir,
						       .path = path,
						       .stop = &c->stop};
		if (rowcache_path(path, sizeof path, o->paths[i], o->index_dir, err) != 0)
			return -1;
		remove_rest(path);
		int there = caching_is_there(&making, err);
		if (there < 0 || (there == 0 && rowcache_make(&making, &made, err) != 0))
			return -1;
		*bytes += there ? 0 : made.bytes;
	}
	return 0;
}

static void caching_tell(const struct caching *c, uint64_t bytes)
{
	char size[HUMAN_MAX], dir[PATH_MAX];
	fs_dirname(c->lock_path, dir, sizeof dir);
	log_say(LOG_LEVEL_INFO,
		"later epochs read rows from a row cache: %s in %s; FORMAT=cache:off: none",
		human_bytes((double)bytes, size), dir);
}

static void caching_tell_why_not(const struct error *err)
{
	char text[ERROR_PLACE_MAX + ERROR_TEXT_MAX];
	error_format(err, text, sizeof text);
	log_say(LOG_LEVEL_WARNING, "there will be no row cache, and all epochs read text: %s",
		text);
}

/* Whether to try again. */
static int caching_try(struct caching *c)
{
	struct error err;
	uint64_t bytes = 0;
	if (fs_lock(c->lock_path, &c->lock_fd, &err) != 0) {
		c->lock_fd = -1;
		if (err.code != ERROR_TEMPFAIL)
			caching_tell_why_not(&err);
		return err.code == ERROR_TEMPFAIL;
	}
	int result = make_all(c, &bytes, &err);
	if (result == 0 && bytes > 0)
		caching_tell(c, bytes);
	if (result != 0 && !c->stop)
		caching_tell_why_not(&err);
	if (result == 0) {
		unlink(c->lock_path);
		close(c->lock_fd);
		c->lock_fd = -1;
	}
	return 0;
}

static void *caching_main(void *arg)
{
	struct caching *c = arg;
	setpriority(PRIO_PROCESS, (id_t)gettid(), PRIORITY);
	while (!c->stop && caching_try(c)) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += LOOK_SECONDS;
		pthread_mutex_lock(&c->lock);
		if (!c->stop)
			pthread_cond_timedwait(&c->stopped, &c->lock, &until);
		pthread_mutex_unlock(&c->lock);
	}
	c->seconds = clock_used(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

double caching_seconds(const void *caching)
{
	const struct caching *c = caching;
	clockid_t clock;
	if (c->seconds > 0 || pthread_getcpuclockid(c->thread, &clock) != 0)
		return c->seconds;
	return clock_used(clock);
}

int caching_start(struct caching **out, const struct caching_options *options, struct error *err)
{
	struct caching *c = calloc(1, sizeof *c);
	if (!c)
		return error_set(err, ERROR_OS, "", "out of memory");
	c->options = *options;
	c->lock_fd = -1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->stopped, NULL);
	int result = caching_lock_path(c, err);
	int errnum = result == 0 ? thread_start(&c->thread, caching_main, c) : 0;
	c->running = result == 0 && errnum == 0;
	if (errnum != 0)
		result = error_set(err, ERROR_OS, "", "the caching thread: %s", strerror(errnum));
	if (result == 0)
		*out = c;
	else
		caching_stop(c);
	return result;
}

void caching_stop(struct caching *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = 1;
	pthread_cond_signal(&c->stopped);
	pthread_mutex_unlock(&c->lock);
	if (c->running)
		pthread_join(c->thread, NULL);
	if (c->lock_fd >= 0) {
		unlink(c->lock_path);
		close(c->lock_fd);
	}
	pthread_cond_destroy(&c->stopped);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
