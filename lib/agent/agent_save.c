/*
 * Checkpoints of trainers: the trainer is told a directory, writes its files there, and names them.
 * Or it writes one file into memory, and trains on while a thread puts it into that directory.  One
 * that is only to hold its state in memory writes no file.  Length and checksum of each file go to
 * the lead, which records them.  After a restart the trainer gets the path, once its files were
 * found undamaged; that of the file in memory, if it is still held.
 */
#include "agent/agent_internal.h"

#include "base/fs.h"
#include "base/keep.h"
#include "base/log.h"
#include "ckpt/ckpt.h"
#include "ckpt/memory.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHY_MAX 500 /* each byte may be written as three */

void agent_save_free(struct agent *a)
{
	saved_files_abandon(a->save.reading);
	fs_close(&a->save.memory);
	fs_close(&a->save.resumed);
	fs_close(&a->save.held.fd);
	free(a->save.cut);
	free(a->save.dir);
	free(a->save.files);
	free(a->resume);
	free(a->resume_of);
}

/* ---- going on ---- */

static void put_resume(const struct agent *a, struct record_out *o, char line[RECORD_LINE_MAX])
{
	record_begin(o, line, RECORD_LINE_MAX, "resume");
	record_add(o, "path", a->resume);
	record_add_u64(o, "iteration", a->resume_iteration);
	if (strcmp(a->resume_of, a->options.meter.id) != 0)
		record_add(o, "from", a->resume_of);
}

static void agent_save_keep(struct agent *a, int fd, uint64_t sum)
{
	struct saved_memory *kept = &a->options.memory;
	struct error err = {0};
	if (ckpt_memory_keep(kept->dir, kept->worker, sum, fd, kept->keeper, &err) == 0)
		return;
	log_say(LOG_LEVEL_WARNING, "the checkpoint is on the disk, but not in memory: %s: %s", err.place,
		err.text);
	kept->keeper = -1; /* it would make us wait each time, and what it answers may be to this */
}

/* If it is still held in memory. Then it is held for the next restart, too. */
static int resume_from_memory(struct agent *a, const struct ckpt_saved *saved,
			      char path[CKPT_PATH_MAX])
{
	const struct saved_memory *kept = &a->options.memory;
	if (!kept->dir || saved->bytes == 0)
		return -1;
	a->save.resumed = ckpt_memory_find(kept->dir, saved->worker, saved->bytes, saved->sum);
	if (a->save.resumed < 0)
		return -1;
	words_memory_path(path, CKPT_PATH_MAX, a->save.resumed);
	log_say(LOG_LEVEL_INFO, "%s goes on from memory", a->options.meter.id);
	if (strcmp(saved->worker, kept->worker) == 0 && kept->keeper >= 0)
		agent_save_keep(a, a->save.resumed, saved->sum);
	return 0;
}

/* What is held here of this checkpoint. Where replicas sum, all had the same: then another trainer's
 * will do, too. NULL: nothing. */
static const struct ckpt_saved *find_held(struct agent *a, const struct ckpt_manifest *m,
					  const struct ckpt_saved *first, char path[CKPT_PATH_MAX])
{
	for (int own = 1; own >= 0; own--) {
		for (size_t i = 0; i < m->saved_count; i++) {
			const struct ckpt_saved *s = &m->saved[i];
			int is_own = strcmp(s->worker, a->options.meter.id) == 0;
			if (is_own == own && (own || s == first || a->options.replica) &&
			    resume_from_memory(a, s, path) == 0)
				return s;
		}
	}
	return NULL;
}

/* It will save as much again: the memory for that is made while the trainer loads, as memory that is
 * new takes three times as long to write. Without it, it is slower. */
static void agent_save_prepare(struct agent *a, const char *path)
{
	struct save *s = &a->save;
	struct stat st;
	struct error err = {0};
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	s->reading_is_old = 1; /* nothing is read */
	(void)saved_files_start(&s->reading, "", "", NULL, -1, (uint64_t)st.st_size,
				&a->options.memory, &err);
}

static int take_resume(struct agent *a, const struct ckpt_manifest *m, struct error *err)
{
	char path[CKPT_PATH_MAX], real[PATH_MAX], line[RECORD_LINE_MAX];
	struct record_out o;
	const char *dir = a->options.resume;
	if (!m->foreign)
		return error_set(err, ERROR_CONFIG, dir,
				 "holds parameters for ps-server, none of a trainer");
	const struct ckpt_saved *saved = ckpt_find_saved(m, a->options.meter.id);
	if (!saved)
		return 0;
	const struct ckpt_saved *held = find_held(a, m, saved, path);
	if (held) {
		saved = held;
		a->resume = strdup(path);
	} else if (ckpt_check_saved(m, dir, saved, path, sizeof path, err) != 0)
		return -1;
	else if (!realpath(path, real))
		return error_errno(err, ERROR_DATA, path, "can't be found");
	else
		a->resume = strdup(real);
	if (a->resume && strcmp(saved->worker, a->options.meter.id) == 0)
		agent_save_prepare(a, a->resume);
	a->resume_of = strdup(saved->worker);
	a->resume_iteration = m->iteration;
	a->resume_due = 1;
	if (!a->resume || !a->resume_of)
		return error_set(err, ERROR_OS, dir, "out of memory");
	put_resume(a, &o, line);
	if (record_end(&o, NULL) == 0) /* without a path a trainer begins anew */
		return error_set(err, ERROR_CONFIG, dir,
				 "the full path is too long for a line to the trainer");
	return 0;
}

int agent_resume(struct agent *a, struct error *err)
{
	if (!a->options.resume)
		return 0;
	struct ckpt_manifest m;
	if (ckpt_manifest_read(&m, a->options.resume, err) != 0)
		return -1;
	int result = take_resume(a, &m, err);
	ckpt_manifest_free(&m);
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
	if (a->phase == PHASE_ENDED && !a->lead.call) /* the lead has gone, and needs none */
		return WORK_OK;
	int result = agent_ask(a, &o, (struct asked){.kind = ASK_SAVED}, a->save.files, bytes, err);
	if (result != WORK_OK && a->phase == PHASE_ENDED) {
		conversation_close(&a->lead);
		return WORK_OK;
	}
	return result;
}

/* The trainer's directory, in which nothing of the checkpoint is. */
static void agent_save_drop_dir(struct agent *a)
{
	struct save *s = &a->save;
	if (!s->only_memory) {
		rmdir(s->dir);
		return;
	}
	if (fs_remove_tree(s->dir, NULL) == 0)
		rmdir(s->cut); /* on a host where nobody saves it is empty now */
}

static int agent_save_give_up(struct agent *a, const char *why, struct error *err)
{
	log_say(LOG_LEVEL_WARNING, "%s: the checkpoint %s%s: %s", a->options.meter.id,
		a->save.cut ? a->save.cut : "", a->save.only_memory ? ", in memory" : "", why);
	if (a->save.only_memory && a->save.dir)
		agent_save_drop_dir(a);
	return to_lead(a, NULL, why, 0, err);
}

/* The trainer's directory in the checkpoint's. */
static int agent_save_make_dir(struct agent *a, const char *cut, struct error *err)
{
	struct save *s = &a->save;
	char dir[CKPT_PATH_MAX];
	free(s->cut);
	free(s->dir);
	s->dir = NULL;
	s->cut = strdup(cut);
	if (!s->cut || fs_join(dir, sizeof dir, cut, a->options.meter.id, err) != 0 ||
	    !(s->dir = strdup(dir)))
		return error_set(err, ERROR_OS, cut, "no memory for its name, or it is too long");
	return fs_make_dirs(s->dir, err);
}

void agent_save_over(struct agent *a, enum saving kind)
{
	struct save *s = &a->save;
	for (size_t i = 0; i < s->told_count; i++)
		if (s->told[i] == kind)
			s->told[i] = SAVING_OVER;
	if (kind == SAVING_GIVE) {
		a->sums.give.is_due = 0;
		return;
	}
	s->is_due = 0;
	s->reading_is_old = 1;
}

/* The trainer may still write into the file that it was told before; it is told the same one. */
static void offer_memory(struct agent *a)
{
	struct save *s = &a->save;
	if (s->memory < 0 && saved_files_fit(a->options.memory.load_root, s->length))
		s->memory = keep_new(CKPT_MEMORY_STATE, NULL);
}

int agent_save_due(struct agent *a, const struct record *r, struct error *err)
{
	struct save *s = &a->save;
	const char *path;
	uint64_t only_memory = 0;
	struct error why = {0};
	char text[ERROR_PLACE_MAX + ERROR_TEXT_MAX];
	if (record_text(r, "path", &path, err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX, &s->iteration, err) != 0 ||
	    record_u64_opt(r, "memory", 0, 1, &only_memory, err) != 0)
		return error_wrap(err, a->options.lead);
	agent_save_over(a, SAVING_CUT);
	fs_close(&s->held.fd); /* what it has written before has become no checkpoint */
	s->only_memory = (int)only_memory;
	offer_memory(a);
	if (only_memory &&
	    (s->memory < 0 || !a->options.memory.dir || a->options.memory.keeper < 0))
		return to_lead(a, NULL, NULL, 0, err);
	if (s->told_count + 2 > SAVES_MAX)
		error_set(&why, ERROR_DATA, NULL, SAVES_OPEN);
	else if (agent_save_make_dir(a, path, &why) == 0) {
		s->is_due = 1;
		return WORK_OK;
	}
	error_format(&why, text, sizeof text);
	return agent_save_give_up(a, text, err);
}

static void agent_save_put(struct agent *a, enum saving kind, const char *path,
			   const char *memory, uint64_t iteration)
{
	words_put(&a->words,
		  RECORD("save", F("path", path), F("iteration", iteration),
			 memory ? F("memory", memory) : F_NONE),
		  NULL);
	a->save.told[a->save.told_count++] = kind;
}

void agent_save_tell(struct agent *a)
{
	char line[RECORD_LINE_MAX], path[64];
	struct record_out o;
	if (a->place == PLACE_NEW) {
		words_put(&a->words, RECORD("place", F("rank", a->spare.rank)), NULL);
		a->place = PLACE_KNOWN;
	}
	if (a->resume_due) {
		put_resume(a, &o, line);
		words_put(&a->words, &o, NULL);
		a->resume_due = 0;
		a->sums.loading = 1;
	}
	if (a->save.is_due) {
		words_memory_path(path, sizeof path, a->save.memory);
		agent_save_put(a, SAVING_CUT, a->save.dir, a->save.memory >= 0 ? path : NULL,
			       a->save.iteration);
	}
	a->save.is_due = 0;
	if (!a->sums.give.is_due)
		return;
	words_memory_path(path, sizeof path, a->sums.give.fd);
	agent_save_put(a, SAVING_GIVE, path, NULL, a->sums.give.iteration);
	a->sums.give.is_due = 0;
}

/* ---- what was written ---- */

static void agent_save_answer_ok(struct agent *a)
{
	words_put(&a->words, RECORD_BARE("ok"), NULL);
	words_send(&a->words);
}

/* What the save that is being answered is for; the trainer is answered if nobody waits for it. */
static enum saving agent_save_answered(struct agent *a)
{
	struct save *s = &a->save;
	if (s->told_count == 0) {
		agent_refuse(a, "order", "no checkpoint is due");
		return SAVING_OVER;
	}
	enum saving kind = s->told[0];
	memmove(s->told, s->told + 1, --s->told_count * sizeof *s->told);
	if (kind != SAVING_CUT)
		agent_save_answer_ok(a);
	return kind;
}

/* fd: the file in memory; -1: it is at path. path NULL: it is only held. Behind the first step there
 * are the optimizer's states, too: Adam's are twice as long as the parameters. */
static int read_files(struct agent *a, const char *path, int fd, struct error *err)
{
	struct save *s = &a->save;
	saved_files_abandon(s->reading); /* files of a save that was given up */
	s->reading = NULL;
	s->reading_is_old = 0;
	fs_close(&s->resumed);
	return saved_files_start(&s->reading, s->cut, s->dir, path, fd,
				 s->iteration == 0 ? 3 * s->length : s->length, &a->options.memory,
				 err);
}

static int read_memory(struct agent *a, const char *name, struct error *err)
{
	struct save *s = &a->save;
	struct stat st;
	int fd = s->memory;
	if (fd < 0 || strchr(name, '/') || name[0] == '.' || !name[0] || strlen(name) > NAME_MAX)
		return error_set(err, ERROR_DATA, NULL, "memory=%.80s: %s", name,
				 fd < 0 ? "no memory was offered" : "is not the name of a file");
	if (fstat(fd, &st) != 0 || st.st_size == 0)
		return error_set(err, ERROR_DATA, NULL, "nothing was written into memory");
	if (keep_seal(fd) != 0)
		return error_errno(err, ERROR_DATA, NULL, "the trainer still has the memory mapped");
	s->length = (uint64_t)st.st_size;
	s->memory = -1;
	return read_files(a, s->only_memory ? NULL : name, fd, err);
}

int agent_saved(struct agent *a, const struct record *r, struct error *err)
{
	const char *path = record_get(r, "path"), *name = record_get(r, "memory");
	struct error why = {0};
	char text[ERROR_PLACE_MAX + ERROR_TEXT_MAX];
	enum saving kind = agent_save_answered(a);
	if (kind == SAVING_GIVE)
		return agent_sums_given(a, NULL, err);
	if (kind == SAVING_OVER)
		return WORK_OK;
	if (!name && (!path || a->save.only_memory)) {
		agent_save_answer_ok(a);
		agent_save_drop_dir(a);
		return to_lead(a, NULL, NULL, 0, err);
	}
	if ((name ? read_memory(a, name, &why) : read_files(a, path, -1, &why)) == 0) {
		agent_save_answer_ok(a);
		if (a->save.only_memory)
			agent_save_drop_dir(a);
		return WORK_OK;
	}
	error_format(&why, text, sizeof text);
	agent_refuse(a, "no-file", text);
	return agent_save_give_up(a, text, err);
}

int agent_save_hold(struct agent *a, const struct record *r, struct error *err)
{
	struct save *s = &a->save;
	uint64_t iteration;
	if (record_u64(r, "iteration", 0, UINT64_MAX, &iteration, err) != 0)
		return error_wrap(err, a->options.lead);
	if (s->held.fd >= 0 && iteration == s->iteration && a->options.memory.keeper >= 0)
		agent_save_keep(a, s->held.fd, s->held.sum);
	fs_close(&s->held.fd);
	return WORK_OK;
}

/* All files are read. */
int agent_save_gathered(struct agent *a, struct error *err)
{
	struct save *s = &a->save;
	struct error why = {0};
	char text[ERROR_PLACE_MAX + ERROR_TEXT_MAX], name[CKPT_FILE_NAME_MAX];
	size_t len;
	int memory;
	free(s->files);
	fs_close(&s->held.fd);
	int result = saved_files_take(s->reading, name, &s->files, &len, &s->held, &memory, &why);
	s->reading = NULL;
	if (s->memory < 0)
		s->memory = memory;
	else
		fs_close(&memory);
	if (s->reading_is_old) {
		fs_close(&s->held.fd);
		return WORK_OK;
	}
	if (result == 0)
		return to_lead(a, a->save.only_memory ? NULL : name, NULL, len, err);
	error_format(&why, text, sizeof text);
	return agent_save_give_up(a, text, err);
}

int agent_save_failed(struct agent *a, const struct record *r, struct error *err)
{
	const char *why = record_get(r, "why");
	enum saving kind = agent_save_answered(a);
	if (!why)
		why = r->text ? r->text : "the trainer could not write it";
	if (kind == SAVING_GIVE)
		return agent_sums_given(a, why, err);
	if (kind == SAVING_OVER)
		return WORK_OK;
	agent_save_answer_ok(a);
	return agent_save_give_up(a, why, err);
}
