/*
 * sup_rollback: a server ended (the life of a batch, 6).  The intent, naming the cut, is on disk
 * before anything is done; then all servers are off, shardd loads that cut's queue under a new
 * incarnation, and the servers start with that cut and no other, even if a forked child completes a
 * later one meanwhile.  A supervisor that finds an intent does all of it again: every step may be
 * repeated, because shardd's incarnation says whether the load that is answered is the last.
 */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"
#include "ckpt/ckpt.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void intent_path(const struct supervisor *s, char *out)
{
	place_state(&s->place, "intent", out);
}

int sup_intent_read(struct supervisor *s, struct error *err)
{
	char path[PLACE_MAX], *text;
	struct record r;
	const char *cut, *kind;
	intent_path(s, path);
	if (fs_read_file(path, RECORD_LINE_MAX, &text, NULL, err) != 0)
		return err->code == ERROR_NOINPUT ? 0 : -1;
	int result = record_parse(&r, text, strcspn(text, "\n"), err);
	free(text);
	if (result == 0)
		result = record_text(&r, "kind", &kind, err);
	if (result == 0 && strcmp(kind, "rollback") != 0)
		result = error_set(err, ERROR_DATA, NULL, "kind=%.40s is no intent of this version",
				   kind);
	if (result == 0)
		result = record_text(&r, "cut", &cut, err);
	if (result != 0)
		return error_wrap(err, path);
	snprintf(s->cut, sizeof s->cut, "%s", cut);
	s->intent = 1;
	return 0;
}

static int write_intent(struct supervisor *s, const char *cut, const char *reason)
{
	char path[PLACE_MAX], line[RECORD_LINE_MAX];
	struct record_out o;
	struct error err;
	intent_path(s, path);
	record_begin(&o, line, sizeof line, "intent");
	record_add(&o, "kind", "rollback");
	record_add(&o, "cut", cut);
	record_add(&o, "reason", reason);
	record_add_seconds(&o, "at", clock_epoch());
	size_t len = record_end(&o, NULL);
	if (len == 0 || fs_replace_file(path, line, len, &err) != 0) {
		sup_note(s, "retry", "the intent to roll back can't be written yet: %s", err.text);
		sup_kick_after(s, 1);
		return -1;
	}
	snprintf(s->cut, sizeof s->cut, "%s", cut);
	s->intent = 1;
	return 0;
}

void sup_intent_remove(struct supervisor *s)
{
	char path[PLACE_MAX];
	struct error err;
	if (!s->intent)
		return;
	intent_path(s, path);
	if (unlink(path) != 0 && errno != ENOENT) {
		sup_note(s, "retry", "%s can't be removed: %s", path, strerror(errno));
		return;
	}
	/* One that comes back after a power cut is only done once more. */
	if (fs_sync_dir(s->place.state, &err) != 0)
		sup_note(s, "warning", "%s: %s", err.place, err.text);
	s->intent = 0;
}

static double backoff(struct supervisor *s)
{
	double pause = 0;
	for (size_t i = 0; i < s->job->servers; i++)
		if (!s->servers[i].asked && s->servers[i].in_a_row > 0 &&
		    s->servers[i].stage == STAGE_MENDING &&
		    policy_pause(s->servers[i].in_a_row) > pause)
			pause = policy_pause(s->servers[i].in_a_row);
	return pause;
}

void sup_rollback_begin(struct supervisor *s, const char *reason)
{
	double ready = clock_mono() + backoff(s);
	if (ready > s->not_before)
		s->not_before = ready;
	s->loaded = s->all_done = s->cut_done = s->finish_asked = s->last_known = 0;
	if (s->phase == PHASE_ROLLBACK || s->phase >= PHASE_STOPPING)
		return;
	s->chosen = 0;
	sup_note(s, "rollback", "%s: all servers %s", reason,
		 s->latest[0] || s->intent ? "go back to the last checkpoint" : "start anew");
	sup_enter(s, PHASE_ROLLBACK);
}

/* Which incarnation is in force? Then the load that replaces exactly this one. */
static void on_load(const struct record *r, int closing, const void *payload, size_t bytes,
		    void *arg)
{
	struct supervisor *s = arg;
	(void)payload;
	(void)bytes;
	if (!closing)
		return;
	s->load_asked = 0;
	s->stat.known = 0; /* whatever happened, the question comes first again */
	if (s->phase != PHASE_ROLLBACK || !r) {
		sup_kick(s);
		return;
	}
	if (record_is(r, "ok") &&
	    record_u64(r, "incarnation", 1, UINT64_MAX, &s->incarnation, NULL) == 0) {
		s->loaded = 1;
	} else {
		const char *code = record_get(r, "code");
		sup_note(s, "retry", "shardd does not load %s/shards yet: %s%s%s", s->cut,
			 code ? code : r->type, r->text ? ": " : "", r->text ? r->text : "");
		sup_kick_after(s, 1);
	}
	sup_kick(s);
}

static void load(struct supervisor *s)
{
	char line[RECORD_LINE_MAX], file[PLACE_MAX + 8];
	struct record_out o;
	if (!s->stat.known) {
		sup_ask_stat(s);
		return;
	}
	if (s->load_asked)
		return;
	snprintf(file, sizeof file, "%s/shards", s->cut);
	record_begin(&o, line, sizeof line, "load");
	record_add(&o, "file", file);
	record_add_u64(&o, "incarnation", s->stat.incarnation);
	if (sup_link_send(&s->shardd->link, &o, NULL, 0, on_load, s) == 0)
		s->load_asked = 1;
}

static void close_links(struct supervisor *s)
{
	sup_link_close(&s->lead_cut);
	sup_link_close(&s->lead_act);
	sup_link_close(&s->lead_watch);
	for (size_t i = 0; i < s->job->servers; i++)
		sup_links_close(&s->servers[i]);
}

/* Whether servers and shardd can go back to it, as far as that is quickly seen: servers look at the
 * sums of their parts themselves. */
static int is_whole(const char *cut, struct error *err)
{
	char path[CKPT_PATH_MAX];
	struct ckpt *c;
	if (ckpt_open(&c, cut, err) != 0)
		return -1;
	int result = ckpt_check_file(c, "shards", path, sizeof path, err);
	ckpt_close(c);
	return result;
}

/* The cut is chosen once, before the servers are touched. One that was completed while its lead died
 * is as good as any; where the intent's own is gone by now, another is as good, too, because shardd
 * loads its queue anew. -1: not yet, or never. */
static int choose_cut(struct supervisor *s)
{
	struct error err;
	int gone = 0;
	if (s->intent) {
		if (s->chosen || is_whole(s->cut, &err) == 0)
			return 0;
		gone = 1;
		sup_note(s, "warning", "the intent's checkpoint: %s: %s", err.place, err.text);
	}
	if (sup_cut_find(s, &err) != 0 || (s->latest[0] && is_whole(s->latest, &err) != 0)) {
		sup_fail(s, err.code,
			 "no checkpoint to go back to: %s: %s; one that is removed is passed over",
			 err.place, err.text);
		return -1;
	}
	if (s->latest[0])
		return write_intent(s, s->latest, "server");
	if (!gone)
		return 0;
	sup_fail(s, ERROR_NOINPUT,
		 "%s, which an intent names, is gone, and so are all others; --fresh starts over",
		 s->cut);
	return -1;
}

/* Without a cut servers begin with nothing. That is right only when nothing was trained, and nobody
 * holds a shard whose settlement may be on its way still. */
static int may_start_anew(struct supervisor *s)
{
	if (!s->stat.known) {
		sup_ask_stat(s);
		return 0;
	}
	if (s->stat.samples_done == 0 && s->stat.doing == 0)
		return 1;
	sup_fail(s, ERROR_NOINPUT,
		 "%s/checkpoints holds no complete checkpoint to go back to%s, but %llu samples "
		 "count as done and %llu shards are in hand; --fresh starts over",
		 s->place.state, s->had_cut ? " any more" : "",
		 (unsigned long long)s->stat.samples_done, (unsigned long long)s->stat.doing);
	return 0;
}

void sup_rollback_step(struct supervisor *s)
{
	if (!s->chosen) {
		s->had_cut = s->latest[0] != '\0';
		if (choose_cut(s) != 0)
			return;
		s->chosen = 1;
	}
	close_links(s);
	for (size_t i = 0; i < s->job->servers; i++)
		sup_node_stop(&s->servers[i], SIGKILL);
	if (!sup_nodes_off(s->servers, s->job->servers)) {
		s->stat.known = 0; /* a lead that lives may change it */
		return;
	}
	if (!s->intent && !may_start_anew(s))
		return;
	if (s->intent && !s->loaded) {
		load(s);
		return;
	}
	double pause = s->not_before - clock_mono();
	if (pause > 0)
		sup_kick_after(s, pause);
	else
		sup_enter(s, PHASE_SERVERS);
}
