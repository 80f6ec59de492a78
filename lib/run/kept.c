/* kept: see kept.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/grow.h"
#include "record/sealed.h"
#include "wire/aside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_SECONDS 1.0
#define END_SECONDS 5.0

static const struct {
	const char *type;
	int (*take)(struct supervisor *s, const struct record *r, struct error *err);
	const char *late; /* if it can't be written; the path and the reason follow */
	const char *without; /* what is without a line that can't be read */
} types[KEPT_TYPES] = {
	[KEPT_TIME] = {"time", sup_time_take, "", "the time that the job has run counts from 0"},
	[KEPT_SCALE] = {"scale", sup_scale_take, "the number of nodes can't be written down yet: ",
			"the job goes on from its last checkpoint, with WORKERS and SERVERS of the "
			"job file"},
	[KEPT_INTENT] = {"intent", sup_intent_take,
			 "the intent to roll back can't be written yet: ",
			 "the job goes back to its last checkpoint if it has to"},
	[KEPT_REPEATED] = {"repeated", sup_repeated_take,
			   "samples that are trained again can't be counted yet: ",
			   "samples that are trained again count from 0"},
	[KEPT_ENOUGH] = {"enough", sup_enough_take,
			 "that a trainer found it enough can't be written down yet: ",
			 "what a trainer found enough is trained further"},
	[KEPT_IN_FORCE] = {"", sup_in_force_restore, "", "what it says holds no longer"},
};

/* ---- reading ---- */

static enum kept_type type_of(const struct record_walk *line)
{
	int type = 0;
	for (; type < KEPT_IN_FORCE; type++) {
		size_t len = strlen(types[type].type);
		if (line->len > len && memcmp(line->line, types[type].type, len) == 0 &&
		    line->line[len] == ' ')
			break;
	}
	return (enum kept_type)type;
}

/* Keeps the line, so that it is written again with the others, and hands it to its owner. */
static int kept_take(struct supervisor *s, enum kept_type type, const struct record_walk *line,
		     const struct record *r, struct error *err)
{
	struct sup_kept *k = &s->kept;
	size_t content = sealed_alone(line->line, line->len, sealed_seed(s->job->name));
	size_t len = k->of[type].len;
	if (content == 0 || (content == line->len && record_get(r, "sum")))
		return error_set(err, ERROR_DATA, NULL,
				 "damaged, or of another job: its checksum differs");
	if (GROW(k->of[type].text, k->of[type].room, len + content + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	memcpy(k->of[type].text + len, line->line, content);
	k->of[type].text[len + content] = '\n';
	k->of[type].len += content + 1;
	return types[type].take(s, r, err);
}

int sup_kept_read(struct supervisor *s, enum kept_type first, enum kept_type last,
		  struct error *err)
{
	char path[DIRS_PATH_MAX], place[DIRS_PATH_MAX + 32], why[256], *text;
	enum kept_type type = KEPT_TIME;
	size_t len;
	struct record r;
	int got, result = 0;
	dirs_state(&s->dirs, DIRS_KEPT, path);
	if (fs_read_file(path, DIRS_KEPT_BYTES_MAX, &text, &len, err) != 0)
		return err->code == ERROR_NOINPUT && access(path, F_OK) != 0 ? 0 : -1;
	struct record_walk line = record_walk(text, len);
	while (result == 0 && (got = record_next(&line, &r, err)) != RECORD_END) {
		type = type_of(&line);
		if (type >= first && type <= last)
			result = got == RECORD_ONE ? kept_take(s, type, &line, &r, err) : -1;
	}
	free(text);
	if (result == 0)
		return 0;
	snprintf(place, sizeof place, "%s:%llu", path, (unsigned long long)line.number);
	snprintf(why, sizeof why, "%.200s", err->text);
	if (err->code != ERROR_DATA)
		return error_set(err, err->code, place, "%s", why);
	return error_set(err, err->code, place, "%s; without this line %s", why,
			 types[type].without);
}

/* ---- writing ---- */

struct writing {
	char path[DIRS_PATH_MAX];
	struct sealed_out out;
	uint64_t serial;
	int result;
	struct error error;
};

static void kept_work(void *arg)
{
	struct writing *w = arg;
	w->result = fs_replace_file(w->path, w->out.data, w->out.len, &w->error);
}

static void kept_release(void *arg)
{
	struct writing *w = arg;
	sealed_free(&w->out);
	free(w);
}

/* Says what could not be written. The job never waits for the time and for what is in force. */
static void kept_failed(struct supervisor *s, const struct error *err)
{
	struct sup_kept *k = &s->kept;
	int late = KEPT_SCALE;
	while (late < KEPT_IN_FORCE && k->of[late].serial <= k->durable)
		late++;
	sup_note(s, "retry", "%s%s: %s", types[late].late, err->place, err->text);
	snprintf(k->why, sizeof k->why, "%s", late < KEPT_IN_FORCE ? err->text : "");
	k->retry_at = clock_mono() + RETRY_SECONDS;
	sup_kick_after(s, RETRY_SECONDS);
}

static void kept_done(void *arg, void *owner)
{
	const struct writing *w = arg;
	struct supervisor *s = owner;
	if (w->result != 0)
		kept_failed(s, &w->error);
	else {
		s->kept.durable = w->serial;
		s->kept.why[0] = '\0';
	}
	sup_kept_step(s);
	sup_kick(s);
}

static void add_lines(struct sealed_out *out, uint32_t seed, const char *text, size_t len)
{
	for (const char *end = text + len, *newline; text < end; text = newline + 1) {
		newline = memchr(text, '\n', (size_t)(end - text));
		out->chain = seed; /* each for itself */
		sealed_add(out, text, (size_t)(newline - text));
	}
}

static void kept_write_all(struct supervisor *s)
{
	static const struct aside_work how = {kept_work, kept_done, kept_release};
	struct sup_kept *k = &s->kept;
	struct writing *w = calloc(1, sizeof *w);
	uint32_t seed = sealed_seed(s->job->name);
	struct error err;
	error_set(&err, ERROR_OS, DIRS_KEPT, "out of memory");
	if (w) {
		dirs_state(&s->dirs, DIRS_KEPT, w->path);
		w->serial = k->serial;
		w->out.fd = -1;
		for (int i = 0; i < KEPT_TYPES; i++)
			if (k->of[i].len > 0)
				add_lines(&w->out, seed, k->of[i].text, k->of[i].len);
		if (!w->out.errnum && aside_start(&k->writing, s->base, &how, w, s, &err) == 0)
			return;
		kept_release(w);
	}
	kept_failed(s, &err);
}

static int kept_may_write(const struct sup_kept *k)
{
	return !k->writing && clock_mono() >= k->retry_at;
}

void sup_kept_step(struct supervisor *s)
{
	if (kept_may_write(&s->kept))
		sup_in_force_flush(s);
	if (s->kept.durable < s->kept.serial && kept_may_write(&s->kept))
		kept_write_all(s);
}

static int kept_change(struct sup_kept *k, enum kept_type type, const char *text, size_t len,
		       struct error *err)
{
	if (text && len == 0)
		return error_set(err, ERROR_SOFTWARE, types[type].type, "does not fit into a line");
	if (len == k->of[type].len && (len == 0 || memcmp(k->of[type].text, text, len) == 0))
		return 0;
	if (GROW(k->of[type].text, k->of[type].room, len) != 0)
		return error_set(err, ERROR_OS, types[type].type, "out of memory");
	if (len > 0)
		memcpy(k->of[type].text, text, len);
	k->of[type].len = len;
	k->of[type].serial = ++k->serial;
	return 0;
}

int sup_keep(struct supervisor *s, enum kept_type type, const char *text, size_t len)
{
	struct sup_kept *k = &s->kept;
	struct error err;
	if (kept_change(k, type, text, len, &err) != 0)
		kept_failed(s, &err);
	else if (k->of[type].serial <= k->durable)
		return 0;
	else if (kept_may_write(k))
		kept_write_all(s);
	return -1;
}

void sup_kept_end(struct supervisor *s)
{
	double until = clock_mono() + END_SECONDS;
	s->kept.retry_at = 0;
	sup_kept_step(s);
	while (s->kept.writing && aside_wait(&s->kept.writing, until - clock_mono()) == 0)
		;
	if (s->kept.writing)
		sup_note(s, "warning",
			 "%s/" DIRS_KEPT ": the disk gives no answer, so the file may be an older one",
			 s->dirs.state);
}

void sup_kept_free(struct supervisor *s)
{
	aside_abandon(&s->kept.writing);
	for (int i = 0; i < KEPT_TYPES; i++)
		free(s->kept.of[i].text);
}
