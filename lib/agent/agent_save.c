/*
 * Checkpoints of a trainer's own making: it is told where, writes by its own means, and says what.
 * Length and checksum of each file go to the lead, which enters them.  After a restart the trainer
 * hears where that is, once it has been found undamaged.
 */
#include "agent/agent_internal.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/log.h"
#include "ckpt/ckpt.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHY_MAX 500 /* each byte may be written as three */

void agent_save_free(struct agent *a)
{
	free(a->save.cut);
	free(a->save.dir);
	free(a->save.files);
	free(a->resume);
	free(a->resume_of);
}

/* ---- going on ---- */

static int take_resume(struct agent *a, struct ckpt_manifest *m, struct error *err)
{
	char path[CKPT_PATH_MAX], real[PATH_MAX];
	const char *dir = a->options.resume;
	if (ckpt_manifest_read(m, dir, err) != 0)
		return -1;
	if (!m->foreign)
		return error_set(err, ERROR_CONFIG, dir,
				 "holds parameters for ps-server, none of a trainer");
	const struct ckpt_saved *saved = ckpt_find_saved(m, a->options.id);
	if (!saved)
		return 0;
	if (ckpt_check_saved(m, dir, saved, path, sizeof path, err) != 0)
		return -1;
	if (!realpath(path, real))
		return error_errno(err, ERROR_DATA, path, "can't be found");
	a->resume = strdup(real);
	a->resume_of = strdup(saved->worker);
	a->resume_iteration = m->iteration;
	a->resume_due = 1;
	return a->resume && a->resume_of ? 0 : error_set(err, ERROR_OS, dir, "out of memory");
}

int agent_resume(struct agent *a, struct error *err)
{
	if (!a->options.resume)
		return 0;
	struct ckpt_manifest *m = malloc(sizeof *m); /* large */
	if (!m)
		return error_set(err, ERROR_OS, a->options.resume, "out of memory");
	int result = take_resume(a, m, err);
	free(m);
	return result;
}

/* ---- telling ---- */

static int to_lead(struct agent *a, const char *path, const char *failed, size_t bytes,
		   struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(&a->lead, &o, line, "saved");
	record_add_u64(&o, "iteration", a->save.iteration);
	if (failed) {
		char why[WHY_MAX];
		snprintf(why, sizeof why, "%.490s", failed);
		record_add_u64(&o, "failed", 1);
		record_add(&o, "why", why);
	} else if (path) {
		record_add(&o, "path", path);
	}
	if (bytes > 0)
		record_add_u64(&o, "bytes", bytes);
	return agent_ask(a, &o, (struct asked){.kind = ASK_SAVED}, a->save.files, bytes, err);
}

static int give_up(struct agent *a, const char *why, struct error *err)
{
	log_say(LOG_LEVEL_WARNING, "%s: the checkpoint %s: %s", a->options.id,
		a->save.cut ? a->save.cut : "", why);
	return to_lead(a, NULL, why, 0, err);
}

/* The trainer's directory in the checkpoint's. */
static int make_dir(struct agent *a, const char *cut, struct error *err)
{
	struct save *s = &a->save;
	char dir[CKPT_PATH_MAX];
	free(s->cut);
	free(s->dir);
	s->dir = NULL;
	s->cut = strdup(cut);
	if (!s->cut || fs_join(dir, sizeof dir, cut, a->options.id, err) != 0 ||
	    !(s->dir = strdup(dir)))
		return error_set(err, ERROR_OS, cut, "no memory for its name, or it is too long");
	return fs_make_dirs(s->dir, err);
}

int agent_save_due(struct agent *a, const struct record *r, struct error *err)
{
	struct save *s = &a->save;
	const char *path;
	struct error why = {0};
	char text[ERROR_PLACE_MAX + ERROR_TEXT_MAX];
	if (record_text(r, "path", &path, err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX, &s->iteration, err) != 0)
		return error_wrap(err, a->options.lead);
	s->given_up += (uint64_t)s->is_told;
	s->is_told = 0;
	if (make_dir(a, path, &why) == 0) {
		s->is_due = 1;
		return WORK_OK;
	}
	s->is_due = 0;
	error_format(&why, text, sizeof text);
	return give_up(a, text, err);
}

void agent_save_tell(struct agent *a)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (a->resume_due) {
		record_begin(&o, line, sizeof line, "resume");
		record_add(&o, "path", a->resume);
		record_add_u64(&o, "iteration", a->resume_iteration);
		if (strcmp(a->resume_of, a->options.id) != 0)
			record_add(&o, "from", a->resume_of);
		words_put(&a->words, &o, NULL);
		a->resume_due = 0;
	}
	if (!a->save.is_due)
		return;
	record_begin(&o, line, sizeof line, "save");
	record_add(&o, "path", a->save.dir);
	record_add_u64(&o, "iteration", a->save.iteration);
	words_put(&a->words, &o, NULL);
	a->save.is_due = 0;
	a->save.is_told = 1;
}

/* ---- what was written ---- */

struct tree {
	const char *base; /* directory of the checkpoint, as realpath(3) has it */
	size_t files;
	char *lines;
	size_t len, room;
};

/* As MANIFEST names it: without the directory in front where it lies there. */
static const char *name_of(const struct tree *t, const char *path)
{
	size_t len = strlen(t->base);
	return strncmp(path, t->base, len) == 0 && path[len] == '/' ? path + len + 1 : path;
}

static int add_file(struct tree *t, const char *path, struct error *err)
{
	char line[RECORD_LINE_MAX], text[17];
	struct record_out o;
	uint64_t bytes, sum;
	if (++t->files > CKPT_FILES_MAX)
		return error_set(err, ERROR_DATA, path, "more than %d files", CKPT_FILES_MAX);
	if (strlen(name_of(t, path)) >= CKPT_FILE_NAME_MAX)
		return error_set(err, ERROR_DATA, path, "a name of more than %d bytes",
				 CKPT_FILE_NAME_MAX - 1);
	if (ckpt_sum_file(path, 1, &bytes, &sum, err) != 0)
		return -1;
	snprintf(text, sizeof text, "%016" PRIx64, sum);
	record_begin(&o, line, sizeof line, "file");
	record_add(&o, "name", name_of(t, path));
	record_add_u64(&o, "bytes", bytes);
	record_add(&o, "sum", text);
	size_t len = record_end(&o, NULL);
	if (len == 0 || GROW(t->lines, t->room, t->len + len) != 0)
		return error_set(err, ERROR_OS, path, "out of memory");
	memcpy(t->lines + t->len, line, len);
	t->len += len;
	return 0;
}

static int add(struct tree *t, const char *path, struct error *err);

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
			result = add(t, below, err);
		free(entry[i]);
	}
	free(entry);
	return result == 0 ? fs_sync_dir(path, err) : -1;
}

/* A file, or a directory with all that is below it. Links in it are taken for what they lead to, a
 * directory's are not followed: they may lead in a circle. */
static int add(struct tree *t, const char *path, struct error *err)
{
	struct stat st, link;
	if (stat(path, &st) != 0 || lstat(path, &link) != 0)
		return error_errno(err, ERROR_DATA, path, "can't be found");
	if (S_ISREG(st.st_mode))
		return add_file(t, path, err);
	if (S_ISDIR(st.st_mode) && !S_ISLNK(link.st_mode))
		return add_dir(t, path, err);
	return error_set(err, ERROR_DATA, path, "is neither a file nor a directory");
}

/* To the disk, with the names above it as far as the checkpoint's directory. */
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

/* t->lines, and what the trainer named, as MANIFEST has it. */
static int gather(struct agent *a, const char *path, struct tree *t, char *name, size_t max,
		  struct error *err)
{
	char full[CKPT_PATH_MAX], real[PATH_MAX], base[PATH_MAX];
	if (fs_join(full, sizeof full, a->save.dir, path, err) != 0)
		return -1;
	if (!realpath(full, real))
		return error_errno(err, ERROR_DATA, full, "can't be found");
	if (!realpath(a->save.cut, base))
		return error_errno(err, ERROR_DATA, a->save.cut, "can't be found");
	t->base = base;
	if (strcmp(real, base) == 0)
		return error_set(err, ERROR_DATA, full, "is the whole checkpoint's directory");
	if (add(t, real, err) != 0 || sync_above(base, real, err) != 0)
		return -1;
	if (t->files == 0)
		return error_set(err, ERROR_DATA, full, "has no file");
	if (strlen(name_of(t, real)) >= max)
		return error_set(err, ERROR_DATA, full, "a name of more than %zu bytes", max - 1);
	strcpy(name, name_of(t, real));
	return 0;
}

static void answer_ok(struct agent *a)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "ok");
	words_put(&a->words, &o, NULL);
	words_send(&a->words);
}

/* Whether a save is being answered that somebody still waits for; answered otherwise. */
static int is_wanted(struct agent *a)
{
	struct save *s = &a->save;
	if (s->given_up > 0) {
		s->given_up--;
		answer_ok(a);
		return 0;
	}
	if (!s->is_told)
		agent_refuse(a, "order", "no checkpoint is due");
	int wanted = s->is_told;
	s->is_told = 0;
	return wanted;
}

int agent_saved(struct agent *a, const struct record *r, struct error *err)
{
	const char *path = record_get(r, "path");
	struct tree t = {0};
	struct error why = {0};
	char text[ERROR_PLACE_MAX + ERROR_TEXT_MAX], name[CKPT_FILE_NAME_MAX];
	if (!is_wanted(a))
		return WORK_OK;
	free(a->save.files);
	a->save.files = NULL;
	if (!path) {
		answer_ok(a);
		rmdir(a->save.dir);
		return to_lead(a, NULL, NULL, 0, err);
	}
	if (gather(a, path, &t, name, sizeof name, &why) != 0) {
		free(t.lines);
		error_format(&why, text, sizeof text);
		agent_refuse(a, "no-file", text);
		return give_up(a, text, err);
	}
	answer_ok(a);
	a->save.files = t.lines;
	return to_lead(a, name, NULL, t.len, err);
}

int agent_save_failed(struct agent *a, const struct record *r, struct error *err)
{
	const char *why = record_get(r, "why");
	if (!is_wanted(a))
		return WORK_OK;
	answer_ok(a);
	if (!why)
		why = r->text ? r->text : "the trainer could not write it";
	return give_up(a, why, err);
}
