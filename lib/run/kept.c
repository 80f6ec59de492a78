/* kept: see kept.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"
#include "wire/aside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AGAIN_SECONDS 1.0
#define END_SECONDS   5.0

static const struct {
	const char *name, *what; /* what: before the path and why; may be empty */
} files[KEPT_FILES] = {
	[KEPT_INTENT] = {"intent", "the intent to roll back can't be written yet: "},
	[KEPT_REPEATED] = {"repeated", "samples that are trained again can't be counted yet: "},
	[KEPT_SCALE] = {"scale", "the number of nodes can't be written down yet: "},
	[KEPT_FORCE] = {"standing", ""},
	[KEPT_SPENT] = {"spent", "how long the job has run can't be written down yet: "},
};

struct writing {
	char path[DIRS_PATH_MAX], dir[DIRS_PATH_MAX], *text;
	size_t len;
	enum kept_file file;
	uint64_t serial;
	int result;
	struct error error;
};

static void work(void *arg)
{
	struct writing *w = arg;
	if (w->text)
		w->result = fs_replace_file(w->path, w->text, w->len, &w->error);
	else if (unlink(w->path) != 0 && errno != ENOENT)
		w->result = error_errno(&w->error, ERROR_IO, w->path, "can't be removed");
	else
		w->result = fs_sync_dir(w->dir, &w->error);
}

static void release(void *arg)
{
	struct writing *w = arg;
	free(w->text);
	free(w);
}

static void failed(struct supervisor *s, enum kept_file file, const struct error *err)
{
	sup_note(s, "retry", "%s%s: %s", files[file].what, err->place, err->text);
	s->kept.again = clock_mono() + AGAIN_SECONDS;
	sup_kick_after(s, AGAIN_SECONDS);
}

static void done(void *arg, void *owner)
{
	const struct writing *w = arg;
	struct supervisor *s = owner;
	if (w->result != 0)
		failed(s, w->file, &w->error);
	else if (w->serial == s->kept.file[w->file].serial)
		s->kept.file[w->file].durable = 1;
	sup_kept_step(s);
	sup_kick(s);
}

static int fill(const struct supervisor *s, struct writing *w, enum kept_file file,
		struct error *err)
{
	const char *text = s->kept.file[file].text;
	w->file = file;
	w->serial = s->kept.file[file].serial;
	w->len = s->kept.file[file].len;
	dirs_state(&s->dirs, files[file].name, w->path);
	memcpy(w->dir, s->dirs.state, sizeof w->dir);
	w->text = text ? malloc(w->len + 1) : NULL;
	if (text && !w->text)
		return error_set(err, ERROR_OS, w->path, "out of memory");
	if (text)
		memcpy(w->text, text, w->len);
	return 0;
}

static void write_one(struct supervisor *s, enum kept_file file)
{
	static const struct aside_work how = {work, done, release};
	struct writing *w = calloc(1, sizeof *w);
	struct error err;
	if (!w)
		error_set(&err, ERROR_OS, files[file].name, "out of memory");
	else if (fill(s, w, file, &err) == 0 &&
		 aside_start(&s->kept.writing, s->base, &how, w, s, &err) == 0)
		return;
	else
		release(w);
	failed(s, file, &err);
}

/* KEPT_FILES: all is as it is wanted. */
static enum kept_file first_wanted(const struct supervisor *s)
{
	int i = 0;
	while (i < KEPT_FILES && (!s->kept.file[i].wanted || s->kept.file[i].durable))
		i++;
	return (enum kept_file)i;
}

void sup_kept_step(struct supervisor *s)
{
	if (s->kept.writing || clock_mono() < s->kept.again)
		return;
	sup_force_flush(s);
	enum kept_file file = first_wanted(s);
	if (file < KEPT_FILES && !s->kept.writing)
		write_one(s, file);
}

int sup_keep(struct supervisor *s, enum kept_file file, const char *text, size_t len)
{
	struct sup_kept *k = &s->kept;
	const char *old = k->file[file].text;
	if (text && len == 0) {
		struct error err;
		error_set(&err, ERROR_SOFTWARE, files[file].name, "does not fit into a line");
		failed(s, file, &err);
		return -1;
	}
	int same = k->file[file].wanted &&
		   (text ? old && k->file[file].len == len && memcmp(old, text, len) == 0 : !old);
	if (!same) {
		char *copy = text ? malloc(len + 1) : NULL;
		struct error err;
		if (text && !copy) {
			error_set(&err, ERROR_OS, files[file].name, "out of memory");
			failed(s, file, &err);
			return -1;
		}
		if (text)
			memcpy(copy, text, len);
		free(k->file[file].text);
		k->file[file].text = copy;
		k->file[file].len = len;
		k->file[file].wanted = 1;
		k->file[file].durable = 0;
		k->file[file].serial++;
	}
	if (k->file[file].durable)
		return 0;
	if (!k->writing && clock_mono() >= k->again)
		write_one(s, file);
	return -1;
}

void sup_kept_end(struct supervisor *s)
{
	double until = clock_mono() + END_SECONDS;
	s->kept.again = 0;
	sup_kept_step(s);
	while (s->kept.writing && aside_wait(&s->kept.writing, until - clock_mono()) == 0)
		;
	if (s->kept.writing)
		sup_note(s, "warning", "%s: the disk gives no answer: %s may be an older one",
			 s->dirs.state, files[first_wanted(s)].name);
}

void sup_kept_free(struct supervisor *s)
{
	aside_abandon(&s->kept.writing);
	for (int i = 0; i < KEPT_FILES; i++)
		free(s->kept.file[i].text);
}
