/*
 * files: writes drag files: each under another name first, then renamed, so that a node reads the
 * old content or the new one. They are not synced: after a power cut no node runs that they could
 * slow down.
 */
#include "cmd/straggle.h"

#include "base/fs.h"
#include "record/drag.h"
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
	char path[PATH_MAX], fresh[PATH_MAX];
	int kept; /* the file stays from start to end: a supervisor looks for it when it starts a
		   * node */
	int there;
};

struct files {
	struct file *row;
	size_t count;
};

static int files_name(struct file *f, const char *dir, const struct schedule_slot *slot,
		      struct error *err)
{
	char life[32] = "";
	if (slot->life != SCHEDULE_EVERY_LIFE)
		snprintf(life, sizeof life, ".%lld", (long long)slot->life);
	int n = snprintf(f->path, sizeof f->path, "%s/%s%s", dir, slot->id, life);
	int m = snprintf(f->fresh, sizeof f->fresh, "%s/.%s%s.straggle", dir, slot->id, life);
	if (n >= PATH_MAX || m >= PATH_MAX)
		return error_set(err, ERROR_USAGE, "--dir", "is too long a path");
	f->kept = life[0] != '\0';
	return 0;
}

static int files_write(struct file *f, const struct drag *drag, struct error *err)
{
	struct record_out *o = RECORD_BARE("drag");
	drag_add(o, drag);
	size_t len = record_end(o, NULL);
	int fd = open(f->fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return error_errno(err, 0, f->fresh, "create");
	int result = fs_write_all(fd, o->data, len, f->fresh, err);
	if (close(fd) != 0 && result == 0)
		result = error_errno(err, 0, f->fresh, "close");
	if (result == 0 && rename(f->fresh, f->path) != 0)
		result = error_errno(err, 0, f->path, "rename");
	if (result < 0)
		unlink(f->fresh);
	else
		f->there = 1;
	return result;
}

static int remove_file(struct file *f, struct error *err)
{
	f->there = 0;
	if (unlink(f->path) != 0 && errno != ENOENT)
		return error_errno(err, 0, f->path, "remove");
	return 0;
}

static int check_free(const struct file *f, int force, struct error *err)
{
	struct stat st;
	if (lstat(f->path, &st) != 0)
		return errno == ENOENT ? 0 : error_errno(err, 0, f->path, "stat");
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERROR_CANTCREAT, f->path, "is no regular file");
	return force ? 0
		     : error_set(err, ERROR_CANTCREAT, f->path,
				 "is there already, of another straggle perhaps; --force takes it "
				 "over");
}

static int files_take_over(struct files *f, const char *dir, const struct schedule *s, int force,
			   struct guard *g, struct error *err)
{
	struct stat st;
	if (stat(dir, &st) != 0)
		return error_errno(err, ERROR_CANTCREAT, dir, "directory of drag files");
	if (!S_ISDIR(st.st_mode))
		return error_set(err, ERROR_CANTCREAT, dir, "is no directory");
	for (size_t i = 0; i < f->count; i++)
		if (files_name(&f->row[i], dir, schedule_slot(s, i), err) != 0 ||
		    check_free(&f->row[i], force, err) != 0)
			return -1;
	for (size_t i = 0; i < f->count; i++)
		if (guard_file(g, f->row[i].fresh, err) != 0 ||
		    guard_file(g, f->row[i].path, err) != 0)
			return -1;
	for (size_t i = 0; i < f->count; i++) {
		struct drag none = {0};
		if (f->row[i].kept ? files_write(&f->row[i], &none, err) != 0
				   : force && remove_file(&f->row[i], err) != 0)
			return -1;
	}
	return 0;
}

int files_new(struct files **out, const char *dir, const struct schedule *s, int force,
	      struct guard *g, struct error *err)
{
	struct files *f = calloc(1, sizeof *f);
	struct file *row = calloc(schedule_slots(s) + 1, sizeof *row);
	char *full = realpath(dir, NULL); /* absolute, because the guardian may have another current
					   * directory */
	int result = -1;
	if (!f || !row)
		error_set(err, ERROR_OS, NULL, "out of memory for %zu files", schedule_slots(s));
	else {
		*f = (struct files){row, schedule_slots(s)};
		result = files_take_over(f, full ? full : dir, s, force, g, err);
	}
	free(full);
	if (result == 0) {
		*out = f;
		return 0;
	}
	if (f && f->row) {
		files_free(f);
	} else {
		free(f);
		free(row);
	}
	return -1;
}

int files_set(struct files *f, size_t slot, const struct schedule_state *state, struct error *err)
{
	struct file *file = &f->row[slot];
	return state->on || file->kept ? files_write(file, &state->drag, err)
				       : remove_file(file, err);
}

void files_free(struct files *f)
{
	struct error ignored;
	if (!f)
		return;
	for (size_t i = 0; i < f->count; i++)
		if (f->row[i].there)
			remove_file(&f->row[i], &ignored);
	free(f->row);
	free(f);
}
