/* fresh: see fresh.h. Must never remove what it does not know by name: a state directory may be
 * shared with others. */
#include "job/fresh.h"

#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAKING "fresh.making"
#define READY "fresh.ready"
#define MOVING "fresh.moving"
#define PREVIOUS "previous"
#define PREVIOUS_MAKING "previous.making"
#define PREVIOUS_GONE "previous.gone"

/* The files of a run in its state directory. In addition: what workers have learnt, predict-ID, and
 * measured, device-ID. */
static const struct {
	const char *name;
	int is_dir;
} ours[] = {
	{"summary", 0},     {"kept", 0},          {"nodes", 1},   {"journal", 1},  {"checkpoints", 1},
	{"schema", 0},      {"model", 0},         {"layout", 0},  {"job.env", 0},  {"job.log", 0},
	{"job.log.1", 0},   {"logs", 1},          {"run-dir", 0}, {"spill", 1},    {"data-sums", 0},
	{"balance.log", 0}, {"balance.log.1", 0}, {"bpt.log", 0}, {"bpt.log.1", 0},
	{"saved", 0},
};
#define OURS (sizeof ours / sizeof *ours)

/* By name and type: a directory that somebody else keeps there may have the same name as one of our
 * files. */
static int fresh_is_ours(const char *dir, const char *name)
{
	char path[DIRS_PATH_MAX + 256];
	struct stat st;
	int is_dir = -1;
	if (strncmp(name, "predict-", 8) == 0 || strncmp(name, "device-", 7) == 0)
		is_dir = 0;
	for (size_t i = 0; i < OURS; i++)
		if (strcmp(ours[i].name, name) == 0)
			is_dir = ours[i].is_dir;
	if (is_dir < 0)
		return 0;
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return lstat(path, &st) == 0 && !S_ISDIR(st.st_mode) == !is_dir;
}

int fresh_takes(const struct dirs *dirs, const char *path)
{
	char whole[PATH_MAX], top[PATH_MAX];
	if (!realpath(path, whole) || !realpath(dirs->state, top))
		return 0;
	size_t len = strlen(top);
	if (strncmp(whole, top, len) != 0 || whole[len] != '/')
		return 0;
	whole[len + 1 + strcspn(whole + len + 1, "/")] = '\0';
	return fresh_is_ours(top, whole + len + 1) || strcmp(whole + len + 1, PREVIOUS) == 0;
}

/* ---- one directory ---- */

typedef int each_fn(const char *path, const char *name, void *arg, struct error *err);

/* Calls fn, which removes the file, for each of a run's names in dir, as dir/name. It reads the
 * directory again after each, because reading while names disappear is undefined. */
static int each(const char *dir, each_fn *fn, void *arg, struct error *err)
{
	char path[DIRS_PATH_MAX + 256];
	for (;;) {
		int found = 0, result = 0;
		DIR *d = opendir(dir);
		if (!d)
			return errno == ENOENT ? 0 : error_errno(err, 0, dir, "can't be listed");
		for (struct dirent *e; !found && (e = readdir(d));) {
			found = fresh_is_ours(dir, e->d_name);
			if (found && snprintf(path, sizeof path, "%s/%s", dir, e->d_name) > 0)
				result = fn(path, e->d_name, arg, err);
		}
		closedir(d);
		if (!found || result != 0)
			return result;
	}
}

static int fresh_remove_one(const char *path, const char *name, void *arg, struct error *err)
{
	(void)name;
	(void)arg;
	return fs_remove_tree(path, err);
}

/* Removes a run's files in the directory, and the directory itself if nothing else is in it. */
static int remove_run(const char *dir, struct error *err)
{
	if (each(dir, fresh_remove_one, NULL, err) != 0)
		return -1;
	if (rmdir(dir) != 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
		return error_errno(err, ERROR_IO, dir, "can't be removed");
	return 0;
}

/* A file that is already there was moved before a crash; the file with its old name was made since
 * then, and is empty. */
static int move_one(const char *path, const char *name, void *arg, struct error *err)
{
	char to[DIRS_PATH_MAX + 256];
	struct stat st;
	snprintf(to, sizeof to, "%s/%s", (const char *)arg, name);
	if (lstat(to, &st) == 0)
		return fs_remove_tree(path, err);
	if (rename(path, to) != 0)
		return error_errno(err, ERROR_IO, path, "can't be moved to %.300s", to);
	return 0;
}

static int move_run(const char *from, const char *to, struct error *err)
{
	if (fs_make_dirs(to, err) != 0 || each(from, move_one, (void *)(size_t)to, err) != 0)
		return -1;
	return fs_sync_dir(to, err);
}

static int rename_in(const struct dirs *dirs, const char *from, const char *to, struct error *err)
{
	char a[DIRS_PATH_MAX], b[DIRS_PATH_MAX];
	dirs_state(dirs, from, a);
	dirs_state(dirs, to, b);
	if (rename(a, b) != 0)
		return error_errno(err, ERROR_IO, a, "can't be renamed to %.300s", b);
	return fs_sync_dir(dirs->state, err);
}

static int is_dir(const struct dirs *dirs, const char *name)
{
	char path[DIRS_PATH_MAX];
	struct stat st;
	dirs_state(dirs, name, path);
	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int fresh_is_there(const struct dirs *dirs, const char *name)
{
	char path[DIRS_PATH_MAX];
	struct stat st;
	dirs_state(dirs, name, path);
	return lstat(path, &st) == 0;
}

static int holds_anything(const struct dirs *dirs, const char *name)
{
	char path[DIRS_PATH_MAX];
	int found = 0;
	dirs_state(dirs, name, path);
	DIR *d = opendir(path);
	for (struct dirent *e; d && !found && (e = readdir(d));)
		found = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	if (d)
		closedir(d);
	return found;
}

/* ---- the two change places ---- */

/* Until fresh.ready is renamed, the whole state directory belongs to the earlier run. If it was
 * moved halfway, its job.env is gone, but the target directory is still there. */
static int put_aside(const struct dirs *dirs, struct error *err)
{
	char path[DIRS_PATH_MAX];
	int is_run = fresh_is_there(dirs, "job.env") || holds_anything(dirs, "checkpoints") ||
		     is_dir(dirs, PREVIOUS_MAKING);
	dirs_state(dirs, PREVIOUS_MAKING, path);
	if (is_dir(dirs, PREVIOUS) || !is_run)
		return each(dirs->state, fresh_remove_one, NULL, err);
	if (move_run(dirs->state, path, err) != 0)
		return -1;
	return rename_in(dirs, PREVIOUS_MAKING, PREVIOUS, err);
}

static int move_in(const struct dirs *dirs, struct error *err)
{
	char path[DIRS_PATH_MAX];
	dirs_state(dirs, MOVING, path);
	if (move_run(path, dirs->state, err) != 0)
		return -1;
	return remove_run(path, err);
}

int fresh_recover(const struct dirs *dirs, struct error *err)
{
	char path[DIRS_PATH_MAX];
	dirs_state(dirs, MAKING, path);
	if (fs_remove_tree(path, err) != 0) /* including temporary files of all these names */
		return -1;
	dirs_state(dirs, PREVIOUS_GONE, path);
	if (remove_run(path, err) != 0)
		return -1;
	if (is_dir(dirs, READY) &&
	    (put_aside(dirs, err) != 0 || rename_in(dirs, READY, MOVING, err) != 0))
		return -1;
	return is_dir(dirs, MOVING) ? move_in(dirs, err) : 0;
}

/* The target of a link is not ours to move, and the new run would continue from it. */
static int check_link(const struct dirs *dirs, const char *name, struct error *err)
{
	char path[DIRS_PATH_MAX];
	struct stat st;
	dirs_state(dirs, name, path);
	if (lstat(path, &st) != 0 || !S_ISLNK(st.st_mode) || !holds_anything(dirs, name))
		return 0;
	return error_set(err, ERROR_CONFIG, path,
			 "is a link to a directory that is not empty, which --fresh does not move: "
			 "let it lead to an empty directory, or remove the link");
}

int fresh_check(const struct dirs *dirs, struct error *err)
{
	char kept[DIRS_PATH_MAX];
	if (check_link(dirs, "checkpoints", err) != 0 || check_link(dirs, "journal", err) != 0)
		return -1;
	dirs_state(dirs, PREVIOUS, kept);
	if (fresh_is_there(dirs, PREVIOUS) && !fresh_is_there(dirs, PREVIOUS "/job.env") &&
	    !fresh_is_there(dirs, PREVIOUS "/checkpoints"))
		return error_set(err, ERROR_CONFIG, kept,
				 "is in the way of --fresh: it is not the state of a job");
	return 0;
}

int fresh_begin(const struct dirs *dirs, struct dirs *made, struct error *err)
{
	if (fresh_check(dirs, err) != 0)
		return -1;
	*made = *dirs;
	int n = snprintf(made->state, sizeof made->state, "%s/" MAKING, dirs->state);
	if (n < 0 || (size_t)n >= sizeof made->state)
		return error_set(err, ERROR_CONFIG, dirs->state, "path too long");
	return fs_make_dirs(made->state, err);
}

int fresh_commit(const struct dirs *dirs, struct error *err)
{
	char path[DIRS_PATH_MAX];
	dirs_state(dirs, MAKING, path);
	if (fs_sync_dir(path, err) != 0 || rename_in(dirs, MAKING, READY, err) != 0)
		return -1;
	return fresh_recover(dirs, err);
}

void fresh_give_up(const struct dirs *dirs)
{
	char path[DIRS_PATH_MAX];
	dirs_state(dirs, MAKING, path);
	fs_remove_tree(path, NULL);
}

int fresh_kept(const struct dirs *dirs, char *out)
{
	dirs_state(dirs, PREVIOUS, out);
	return is_dir(dirs, PREVIOUS);
}

int fresh_forget(const struct dirs *dirs, struct error *err)
{
	char path[DIRS_PATH_MAX];
	if (!fresh_kept(dirs, path))
		return 0;
	/* When it is removed only halfway, it must not look like a run to keep. */
	if (rename_in(dirs, PREVIOUS, PREVIOUS_GONE, err) != 0)
		return -1;
	dirs_state(dirs, PREVIOUS_GONE, path);
	return remove_run(path, err);
}
