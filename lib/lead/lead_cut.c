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
#include "wire/aside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Who asked gets the answer, if still there. */
static void lead_cut_answer(struct lead *l, const char *why)
{
	struct cutting *c = &l->cut;
	struct request *rq = lead_undefer(l, c->token);

	if (!rq)
		return;
	if (why) {
		request_err(rq, "cut", "%s", why);
		return;
	}
	request_ok_record(rq,
			  RECORD("ok", F("path", c->dir), c->base[0] ? F("base", c->base) : F_NONE,
				 F("iteration", c->iteration),
				 F("incarnation", l->options.gate.incarnation),
				 F_SECONDS("stall", c->hold + c->fork)));
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

/* How many files are written: one of each part; of replicas one writes all parameters, if they have
 * any. */
static size_t files_of(const struct lead *l)
{
	return l->replicas ? !l->options.sums : lead_parts_count(l->parts);
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

/* ---- the commit: aside, for the storage may take long ---- */

struct commit {
	struct ckpt_manifest manifest;
	struct layout layout;
	char dir[CKPT_PATH_MAX], base[CKPT_NAME_MAX];
	int has_layout, has_shards, removes;
	char **include; /* NULL behind the last */
	int result;
	struct error error;
};

static void commit_release(void *arg)
{
	struct commit *k = arg;

	for (char **path = k->include; path && *path; path++)
		free(*path);
	free(k->include);
	ckpt_manifest_free(&k->manifest);
	free(k);
}

static int add_layout(struct commit *k)
{
	struct ckpt_manifest *m = &k->manifest;
	struct error *err = &k->error;
	char path[CKPT_PATH_MAX];

	if (m->foreign || ckpt_manifest_file(m, "layout"))
		return 0;
	if (!k->has_layout)
		return error_set(err, ERROR_CONFIG, "layout",
				 "no layout is known here: start the lead with --layout FILE");
	if (fs_join(path, sizeof path, k->dir, "layout", err) != 0 ||
	    layout_write(&k->layout, path, err) != 0)
		return -1;
	return ckpt_add_file(m, k->dir, "layout", err);
}

static void commit_work(void *arg)
{
	struct commit *k = arg;
	struct ckpt_manifest *m = &k->manifest;
	struct error *err = &k->error, why = {0};
	char **path = k->include, parent[CKPT_PATH_MAX];

	if (!k->removes) {
		fs_dirname(k->dir, parent, sizeof parent);
		k->result = fs_make_dirs(parent, err);
		if (k->result == 0 && k->base[0])
			k->result = ckpt_set_base(m, k->dir, k->base, err);
		if (k->result == 0 && k->has_shards)
			k->result = ckpt_add_file(m, k->dir, "shards", err);
		for (; k->result == 0 && *path; path++)
			k->result = ckpt_include(m, k->dir, *path, NULL, err);
		if (k->result == 0)
			k->result = add_layout(k);
		if (k->result == 0)
			k->result = ckpt_commit(m, k->dir, err);
		k->removes = k->result != 0;
	}
	if (k->removes && fs_remove_tree(k->dir, &why) != 0)
		log_say(LOG_LEVEL_WARNING, "%s: %s", why.place, why.text);
}

static int commit_fill(struct lead *l, struct commit *k, struct error *err)
{
	struct cutting *c = &l->cut;
	struct ckpt_manifest *m = &k->manifest;
	const struct option_list *include = l->options.include;
	size_t count = include ? include->count : 0;

	k->removes = c->failed;
	k->has_shards = l->shards != NULL;
	memcpy(k->dir, c->dir, sizeof k->dir);
	memcpy(k->base, c->base, sizeof k->base);
	k->has_layout = l->options.layout != NULL;
	if (k->has_layout)
		k->layout = *l->options.layout;
	k->include = calloc(count + 1, sizeof *k->include);
	for (size_t i = 0; k->include && i < count; i++) {
		if (!(k->include[i] = strdup(include->item[i])))
			return error_set(err, ERROR_OS, c->dir, "out of memory");
	}
	if (!k->include)
		return error_set(err, ERROR_OS, c->dir, "out of memory");
	if (c->failed)
		return 0;
	if (ckpt_manifest_start(m, l->options.job, c->iteration, l->options.gate.incarnation,
				clock_epoch(), err) != 0)
		return -1;
	m->foreign = l->options.gate.foreign;
	memcpy(m->reported, l->reported, sizeof m->reported);
	return m->foreign ? lead_trainers_files(l, m, err) : add_parts(l, m, err);
}

/* The cut is over: the directory is a checkpoint now, or removed, or left without a manifest. */
static void lead_cut_over(struct lead *l)
{
	struct cutting *c = &l->cut;

	if (c->failed)
		log_say(LOG_LEVEL_ERROR, "checkpoint %s: %s", c->dir, c->why);
	else
		gate_cut_saved(l->gate);
	lead_cut_answer(l, c->failed ? c->why : NULL);
	c->busy = 0;
	lead_trainers_forget(l);
	gate_cut_over(l->gate);
	lead_pump(l);
}

static void fail_commit(struct lead *l, const struct error *err)
{
	char why[ERROR_PLACE_MAX + ERROR_TEXT_MAX];

	error_format(err, why, sizeof why);
	lead_cut_fail(l, "manifest", why);
}

static void on_committed(void *arg, void *lead)
{
	const struct commit *k = arg;

	if (k->result != 0)
		fail_commit(lead, &k->error);
	lead_cut_over(lead);
}

/* The last part has answered. */
static void lead_cut_finish(struct lead *l)
{
	static const struct aside_work work = {commit_work, on_committed, commit_release};
	struct cutting *c = &l->cut;
	struct commit *k = calloc(1, sizeof *k);
	struct error err = {0};

	if (c->failed && c->is_left) {
		free(k);
		lead_cut_over(l);
		return;
	}
	if (!k)
		error_set(&err, ERROR_OS, c->dir, "out of memory");
	else if (commit_fill(l, k, &err) == 0 &&
		 aside_start(&c->commit, server_base(l->server), &work, k, l, &err) == 0)
		return;
	else
		commit_release(k);
	fail_commit(l, &err);
	remove_dir(l);
	lead_cut_over(l);
}

void lead_cut_stop(struct lead *l)
{
	if (l->cut.commit)
		l->cut.busy = 0; /* it goes on alone, at most until the process ends */
	aside_abandon(&l->cut.commit);
}

void lead_cut_answered(struct lead *l)
{
	if (--l->cut.writing == 0)
		lead_cut_finish(l);
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

/* Makes the directory; out gets its full name, as shardd and the other servers may run in other
 * directories. */
static int lead_cut_make_dir(const char *dir, char out[CKPT_PATH_MAX], struct error *err)
{
	char parent[CKPT_PATH_MAX], name[CKPT_PATH_MAX];
	size_t len = strlen(dir);

	if (len >= CKPT_PATH_MAX)
		return error_set(err, ERROR_CANTCREAT, NULL, "the path is too long");
	while (len > 1 && dir[len - 1] == '/')
		len--;
	snprintf(name, sizeof name, "%.*s", (int)len, dir);
	fs_dirname(name, parent, sizeof parent);
	/* The names of directories that are there already are synced by the commit. */
	if (access(parent, F_OK) != 0 && fs_make_dirs(parent, err) != 0)
		return -1;
	/* It must be new: an older checkpoint is never written over. */
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
static int lead_cut_take_base(struct lead *l, const char *dir, const char *base, struct error *err)
{
	struct cutting *c = &l->cut;
	struct ckpt_manifest m = {0}; /* stays without files */
	const struct layout *layout = l->options.layout;

	c->base[0] = '\0';
	if (!base || (layout && !layout->has_table)) /* there are no rows to leave out */
		return 0;
	if (l->options.gate.foreign)
		return error_set(err, ERROR_CONFIG, NULL, "trainers save their whole state");
	if (ckpt_set_base(&m, dir, base, err) != 0)
		return -1;
	memcpy(c->base, m.base, sizeof c->base);
	return 0;
}

void lead_cut_begin(struct lead *l, struct request *rq, const char *dir, const char *base)
{
	struct cutting *c = &l->cut;
	struct error err = {0};

	if (c->busy) {
		request_err(rq, "busy", "%s is being written", c->dir);
		return;
	}
	if (lead_cut_take_base(l, dir, base, &err) != 0 ||
	    lead_cut_make_dir(dir, c->dir, &err) != 0) {
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
		/* All workers wait for this answer; the commit syncs the file beside them. */
		record_add(&o, "boot", l->boot);
		len = record_end(&o, NULL);
	}
	if (len == 0 || peer_send(l->shards, line, len, NULL, 0, on_saved, l) != 0)
		gate_save_refused(l->gate, 0, "the request could not be sent");
}

void lead_cut_fork(struct lead *l, const struct gate_effect *e)
{
	struct cutting *c = &l->cut;
	struct order order = {.kind = ORDER_CUT, .iteration = e->iteration, .path = c->dir,
			      .base = c->base[0] ? c->base : NULL, .attempt = ++l->attempts};
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
