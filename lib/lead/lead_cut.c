/*
 * Checkpoints: one cut through shardd and all servers.  The gate says when; this makes the
 * directory, has every part written, and commits with the manifest.  Whatever fails, training goes
 * on: the directory without a manifest is no checkpoint and is removed.
 */
#include "lead/lead_internal.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Who asked gets the answer, if still there. */
static void answer(struct lead *l, const char *why)
{
	struct cutting *c = &l->cut;
	struct request *rq = lead_undefer(l, c->token);
	char line[RECORD_LINE_MAX];
	struct record_out o;

	if (!rq)
		return;
	if (why) {
		request_err(rq, "cut", "%s", why);
		return;
	}
	record_begin(&o, line, sizeof line, "ok");
	record_add(&o, "path", c->dir);
	if (c->base[0])
		record_add(&o, "base", c->base);
	record_add_u64(&o, "iteration", c->iteration);
	record_add_u64(&o, "incarnation", l->options.gate.incarnation);
	record_add_seconds(&o, "stall", c->hold + c->fork);
	request_ok_record(rq, &o);
}

static void remove_dir(struct lead *l)
{
	struct error err = {0};

	if (fs_remove_tree(l->cut.dir, &err) != 0)
		log_say(LOG_LEVEL_WARNING, "%s: %s", err.place, err.text);
}

void lead_cut_fail(struct lead *l, const char *place, const char *why)
{
	struct cutting *c = &l->cut;

	if (!c->failed)
		snprintf(c->why, sizeof c->why, "%.200s: %.380s", place, why);
	c->failed = 1;
}

/* Who writes a file each: of replicas one writes all parameters. */
static size_t files_of(const struct lead *l)
{
	return l->replicas ? 1 : lead_parts_count(l->parts);
}

static int has_layout(const struct ckpt_manifest *m)
{
	for (size_t i = 0; i < m->count; i++) {
		if (strcmp(m->file[i].name, "layout") == 0)
			return 1;
	}
	return 0;
}

static int add_parts(struct lead *l, struct ckpt_manifest *m, struct error *err)
{
	char name[CKPT_NAME_MAX];

	for (size_t i = 0; i < files_of(l); i++) {
		ckpt_part_name((uint32_t)i, name);
		if (ckpt_add(m, name, l->cut.part[i].bytes, l->cut.part[i].sum, err) != 0)
			return -1;
	}
	return 0;
}

static int add_files(struct lead *l, struct ckpt_manifest *m, struct error *err)
{
	struct cutting *c = &l->cut;
	const struct option_list *include = l->options.include;
	char path[CKPT_PATH_MAX];

	m->foreign = l->options.gate.foreign;
	if ((m->foreign ? lead_trainers_files(l, m, err) : add_parts(l, m, err)) != 0)
		return -1;
	if (l->shards && ckpt_add_file(m, c->dir, "shards", err) != 0)
		return -1;
	for (size_t i = 0; include && i < include->count; i++) {
		if (ckpt_include(m, c->dir, include->item[i], NULL, err) != 0)
			return -1;
	}
	if (has_layout(m) || m->foreign)
		return 0;
	if (!l->options.layout)
		return error_set(err, ERROR_CONFIG, "layout",
				 "none is known here: start the lead with --layout FILE");
	if (fs_join(path, sizeof path, c->dir, "layout", err) != 0 ||
	    layout_write(l->options.layout, path, err) != 0)
		return -1;
	return ckpt_add_file(m, c->dir, "layout", err);
}

static int commit(struct lead *l, struct error *err)
{
	struct cutting *c = &l->cut;
	struct ckpt_manifest *m = calloc(1, sizeof *m);
	int rc;

	if (!m)
		return error_set(err, ERROR_OS, c->dir, "out of memory");
	rc = ckpt_manifest_start(m, l->options.job, c->iteration, l->options.gate.incarnation,
				 clock_epoch(), err);
	if (rc == 0 && c->base[0])
		rc = ckpt_set_base(m, c->dir, c->base, err);
	if (rc == 0)
		rc = add_files(l, m, err);
	if (rc == 0)
		rc = ckpt_commit(m, c->dir, err);
	free(m);
	return rc;
}

/* The last part has answered. */
static void finish(struct lead *l)
{
	struct cutting *c = &l->cut;
	struct error err = {0};
	char why[ERROR_PLACE_MAX + ERROR_TEXT_MAX];

	if (!c->failed && commit(l, &err) != 0) {
		error_format(&err, why, sizeof why);
		lead_cut_fail(l, "manifest", why);
	}
	if (c->failed) {
		log_say(LOG_LEVEL_ERROR, "checkpoint %s: %s", c->dir, c->why);
		if (!c->is_left)
			remove_dir(l);
	}
	answer(l, c->failed ? c->why : NULL);
	c->busy = 0;
	lead_trainers_forget(l);
	gate_cut_over(l->gate);
	lead_pump(l);
}

void lead_cut_answered(struct lead *l)
{
	if (--l->cut.writing == 0)
		finish(l);
}

static void on_written(uint32_t part, const struct order_result *result, void *lead)
{
	struct lead *l = lead;
	struct cutting *c = &l->cut;

	if (l->broken)
		return;
	if (result->code)
		lead_cut_fail(l, l->replicas ? "the replica" : lead_parts_name(l->parts, part),
			      result->text);
	c->part[part] = (struct part_file){result->bytes, result->sum};
	if (result->stall > c->fork)
		c->fork = result->stall;
	lead_cut_answered(l);
}

/* Makes the directory; its full name into out: shardd and the other servers may run elsewhere. */
static int make_dir(const char *dir, char out[CKPT_PATH_MAX], struct error *err)
{
	char parent[CKPT_PATH_MAX], name[CKPT_PATH_MAX];
	size_t len = strlen(dir);

	if (len >= CKPT_PATH_MAX)
		return error_set(err, ERROR_CANTCREAT, NULL, "the path is too long");
	while (len > 1 && dir[len - 1] == '/')
		len--;
	snprintf(name, sizeof name, "%.*s", (int)len, dir);
	fs_dirname(name, parent, sizeof parent);
	if (fs_make_dirs(parent, err) != 0)
		return -1;
	/* A name of its own: an older checkpoint is never written over. */
	if (mkdir(name, 0700) != 0)
		return error_errno(err, 0, dir, "mkdir");
	/* An absolute path stays as it is: its links are each host's own. */
	char *full = name[0] == '/' ? strdup(name) : realpath(name, NULL);
	if (!full || strlen(full) >= CKPT_PATH_MAX) {
		error_errno(err, 0, dir, "its full name");
		free(full);
		rmdir(name);
		return -1;
	}
	strcpy(out, full);
	free(full);
	return 0;
}

/* Whether the base is there, before anything is done. */
static int take_base(struct lead *l, const char *dir, const char *base, struct error *err)
{
	struct cutting *c = &l->cut;
	struct ckpt_manifest *m = NULL;

	const struct layout *layout = l->options.layout;

	c->base[0] = '\0';
	if (!base || (layout && !layout->has_table)) /* there are no rows to leave out */
		return 0;
	if (l->options.gate.foreign)
		return error_set(err, ERROR_CONFIG, NULL, "trainers save all that they save");
	m = calloc(1, sizeof *m); /* large */
	int rc = m ? ckpt_set_base(m, dir, base, err)
		   : error_set(err, ERROR_OS, dir, "out of memory");
	if (rc == 0)
		memcpy(c->base, m->base, sizeof c->base);
	free(m);
	return rc;
}

void lead_cut_begin(struct lead *l, struct request *rq, const char *dir, const char *base)
{
	struct cutting *c = &l->cut;
	struct error err = {0};

	if (c->busy) {
		request_err(rq, "busy", "%s is being written", c->dir);
		return;
	}
	if (take_base(l, dir, base, &err) != 0 || make_dir(dir, c->dir, &err) != 0) {
		request_err(rq, "cut", "%s: %s", err.place, err.text);
		return;
	}
	c->busy = 1;
	c->failed = c->is_left = 0;
	c->held = c->hold = c->fork = 0.0;
	c->token = lead_defer(l, rq);
	if (!c->token) {
		c->busy = 0;
		remove_dir(l);
		return;
	}
	gate_cut(l->gate, c->token);
}

/* The gate refused, or shardd did, or the lead comes to its end meanwhile. */
void lead_cut_refused(struct lead *l)
{
	l->cut.busy = 0;
	remove_dir(l);
}

static void on_saved(const struct record *r, int closing, void *lead)
{
	struct lead *l = lead;
	const char *code = r ? record_get(r, "code") : NULL;

	if (!r || !closing)
		return; /* lost: asked again when shardd is back */
	if (record_is(r, "ok"))
		gate_saved(l->gate);
	else
		gate_save_refused(l->gate, code && strcmp(code, "fenced") == 0,
				  r->text ? r->text
				  : code  ? code
					  : "refused");
	lead_pump(l);
}

void lead_cut_save(struct lead *l)
{
	char line[RECORD_LINE_MAX], path[CKPT_PATH_MAX];
	struct record_out o;
	struct error err = {0};
	size_t len = 0;

	if (l->cut.held <= 0.0)
		l->cut.held = clock_mono();
	if (fs_join(path, sizeof path, l->cut.dir, "shards", &err) == 0) {
		record_begin(&o, line, sizeof line, "save");
		record_add(&o, "file", path);
		record_add_u64(&o, "incarnation", l->options.gate.incarnation);
		len = record_end(&o, NULL);
	}
	if (len == 0 || peer_send(l->shards, line, len, NULL, 0, on_saved, l) != 0)
		gate_save_refused(l->gate, 0, "the request could not be sent");
}

void lead_cut_fork(struct lead *l, const struct gate_effect *e)
{
	struct cutting *c = &l->cut;
	struct order order = {.kind = ORDER_CUT, .iteration = e->iteration, .path = c->dir,
			      .base = c->base[0] ? c->base : NULL};
	struct order_answer answer = {.done = on_written, .arg = l};
	double start = clock_mono();

	c->iteration = e->iteration;
	c->writing = files_of(l) + 1; /* and this function */
	if (l->options.gate.foreign)
		lead_trainers_cut(l, e);
	else if (l->replicas)
		lead_replicas_cut(l, &order, &answer);
	else
		lead_parts_give(l->parts, &order, &answer);
	double took = clock_mono() - start;
	c->hold = c->held > 0.0 ? start - c->held : 0.0;
	if (took > c->fork)
		c->fork = took;
	lead_cut_answered(l);
}
