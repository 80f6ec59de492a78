/* checkpoint: see checkpoint.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/grow.h"
#include "base/number.h"
#include "ckpt/ckpt.h"
#include "job/fresh.h"
#include "wire/aside.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CUT_RETRY_SECONDS 1.0
#define PRUNE_END_SECONDS 5.0
#define CUT_FAILURES_MAX 30 /* in a row, where the job can't go on without one */
#define CUT_FAILURES_STOP 3 /* the same, for who has interrupted the job, and waits for its end */

static void checkpoint_dir(const struct supervisor *s, char *out)
{
	dirs_state(&s->dirs, "checkpoints", out);
}

static void read_latest(struct supervisor *s)
{
	struct ckpt_manifest m;
	if (ckpt_manifest_read(&m, s->checkpoint.latest, NULL) == 0) {
		s->checkpoint.latest_at = m.at;
		s->checkpoint.latest_iteration = m.iteration;
	}
	s->checkpoint.in_memory = 0;
	for (size_t i = 0; i < m.saved_count; i++)
		s->checkpoint.in_memory += m.saved[i].bytes > 0;
	ckpt_manifest_free(&m);
}

void sup_checkpoint_use(struct supervisor *s, const char *path)
{
	snprintf(s->checkpoint.latest, sizeof s->checkpoint.latest, "%s", path);
	read_latest(s);
}

/* One above the greatest number that exists here, complete or not, or that was given: a failed
 * checkpoint may have left parts on other hosts. */
static uint64_t checkpoint_next_number(struct supervisor *s, const char *dir)
{
	uint64_t greatest = s->checkpoint.given, number;
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));)
		if (number_u64_span(e->d_name, strlen(e->d_name), &number) == 0 &&
		    number > greatest && number < UINT64_MAX)
			greatest = number;
	if (d)
		closedir(d);
	s->checkpoint.given = greatest + 1;
	return s->checkpoint.given;
}

/* ---- old ones are removed by a thread, because the disk may take long ---- */

struct pruning {
	struct ckpt_pruning how;
	struct dirs dirs;
	char dir[DIRS_PATH_MAX], intent[DIRS_PATH_MAX], scored[DIRS_PATH_MAX], good[DIRS_PATH_MAX];
	char name[SUP_DAMAGED_MAX][256];
	const char *protect[3], *damaged[SUP_DAMAGED_MAX + 1];
	int forgets;   /* removes what the run before left, too */
	char *removed; /* names, a line each */
	size_t len;
	FILE *out;
	int result, forget_result;
	struct error error, forget_error;
};

static void pruned(const char *name, void *arg)
{
	struct pruning *p = arg;
	fprintf(p->out, "%s\n", name);
}

static void prune_work(void *arg)
{
	struct pruning *p = arg;
	if (p->forgets)
		p->forget_result = fresh_forget(&p->dirs, &p->forget_error);
	p->result = ckpt_prune(p->dir, &p->how, &p->error);
	fflush(p->out);
}

static void prune_release(void *arg)
{
	struct pruning *p = arg;
	if (p->out)
		fclose(p->out);
	free(p->removed);
	free(p);
}

static void on_pruned(void *arg, void *owner)
{
	struct pruning *p = arg;
	struct supervisor *s = owner;
	char *save = NULL;
	for (char *name = strtok_r(p->removed, "\n", &save); name;
	     name = strtok_r(NULL, "\n", &save)) {
		sup_log(s, RECORD("pruned", F("checkpoint", name)));
	}
	if (p->forget_result != 0)
		sup_note(s, "warning", "the run before can't be removed: %s: %s",
			 p->forget_error.place, p->forget_error.text);
	if (p->result != 0)
		sup_note(s, "warning", "old checkpoints can't be removed: %s: %s", p->error.place,
			 p->error.text);
	sup_kick(s);
}

static void prune_fill(struct supervisor *s, struct pruning *p)
{
	/* The one that servers are to restore stays, and the one that is being scored. */
	size_t n = 0;
	memcpy(p->intent, s->recover.cut, sizeof p->intent);
	snprintf(p->scored, sizeof p->scored, "%s", s->score.scored);
	memcpy(p->good, s->checkpoint.latest, sizeof p->good);
	if (s->recover.intent)
		p->protect[n++] = p->intent;
	if (s->score.child)
		p->protect[n++] = p->scored;
	/* A damaged one does not count: nobody goes back to it. */
	memcpy(p->name, s->newest.damaged, sizeof p->name);
	for (size_t i = 0; i < s->newest.damaged_count && i < SUP_DAMAGED_MAX; i++)
		p->damaged[i] = p->name[i];
	checkpoint_dir(s, p->dir);
	p->dirs = s->dirs;
	p->forgets = s->checkpoint.samples > 0; /* this run has saved something itself */
	/* The latest is known to be whole: it was written a moment ago, by servers that gave its
	 * sums. */
	p->how = (struct ckpt_pruning){.keep = s->job->keep,
				       .protect = p->protect,
				       .damaged = p->damaged,
				       .good = p->good,
				       .removed = pruned,
				       .arg = p};
}

static void checkpoint_prune(struct supervisor *s)
{
	static const struct aside_work work = {prune_work, on_pruned, prune_release};
	struct pruning *p;
	struct error err;
	if (s->checkpoint.pruning) /* done after the next checkpoint */
		return;
	p = calloc(1, sizeof *p);
	if (p)
		p->out = grow_stream(&p->removed, &p->len);
	if (!p || !p->out) {
		error_set(&err, ERROR_OS, "checkpoints", "out of memory");
	} else {
		prune_fill(s, p);
		if (aside_start(&s->checkpoint.pruning, s->base, &work, p, s, &err) == 0)
			return;
	}
	if (p)
		prune_release(p);
	sup_note(s, "warning", "old checkpoints can't be removed: %s: %s", err.place, err.text);
}

void sup_checkpoint_prune_end(struct supervisor *s)
{
	if (s->checkpoint.pruning)
		aside_wait(&s->checkpoint.pruning, PRUNE_END_SECONDS);
	aside_abandon(&s->checkpoint.pruning);
}

/* What the lead says of a checkpoint. */
static void checkpoint_add_answer(struct record_out *o, const struct record *r)
{
	const char *const keys[] = {"base", "iteration", "incarnation", "stall"};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (record_get(r, keys[i]))
			record_add(o, keys[i], record_get(r, keys[i]));
}

static void checkpoint_succeeded(struct supervisor *s, const struct record *r)
{
	sup_checkpoint_use(s, s->checkpoint.making);
	s->checkpoint.made++;
	s->checkpoint.failures = 0;
	s->checkpoint.at = clock_mono();
	uint64_t iteration = 0;
	record_u64_opt(r, "iteration", 0, UINT64_MAX, &iteration, NULL);
	s->checkpoint.latest_at = clock_epoch();
	s->checkpoint.latest_iteration = iteration;
	if (iteration > s->checkpoint.iteration) {
		s->checkpoint.iteration = iteration;
		sup_rollback_gained(s);
	}
	if (record_get(r, "base")) {
		s->checkpoint.since_full++;
	} else {
		snprintf(s->checkpoint.full, sizeof s->checkpoint.full, "%s", s->checkpoint.latest);
		s->checkpoint.since_full = 0;
	}
	struct record_out *o = RECORD("checkpoint", F("path", s->checkpoint.latest));
	checkpoint_add_answer(o, r);
	record_add_seconds(o, "seconds", s->checkpoint.at - s->checkpoint.asked);
	sup_log(s, o);
	sup_checkpoint_answer(s, 1);
	checkpoint_prune(s);
}

/* Whether there is no room for one as long as the last. */
static int has_no_room(struct supervisor *s)
{
	uint64_t bytes = 0;
	struct ckpt_manifest m;
	ckpt_manifest_read(&m, s->checkpoint.latest, NULL);
	for (size_t i = 0; i < m.count; i++)
		bytes += m.file[i].bytes;
	ckpt_manifest_free(&m);
	return sup_room_is_none(s, bytes);
}

static void limit_failures(struct supervisor *s)
{
	int stops = sup_is_cut_short(s) && s->phases.now == PHASE_LAST_CUT;
	if (stops && has_no_room(s)) {
		sup_stop_without(s, "no room in %s for a last checkpoint", s->dirs.state);
		return;
	}
	if (stops && s->checkpoint.failures >= CUT_FAILURES_STOP) {
		sup_stop_without(s, "no last checkpoint after %u tries", s->checkpoint.failures);
		return;
	}
	if (s->checkpoint.failures >= CUT_FAILURES_MAX && s->phases.now != PHASE_RUNNING)
		sup_fail(s, ERROR_IO, "no checkpoint after %u tries", s->checkpoint.failures);
	sup_kick_after(s, CUT_RETRY_SECONDS);
}

static void checkpoint_failed(struct supervisor *s, const struct record *r)
{
	char text[SUP_ANSWER_TEXT];
	/* The lead still makes one that an earlier supervisor asked for. */
	if (strcmp(sup_answer_code(r), "busy") == 0) {
		s->checkpoint.retry_at = clock_mono() + CUT_RETRY_SECONDS;
		sup_kick_after(s, CUT_RETRY_SECONDS);
		return;
	}
	sup_parts_left(s);
	s->checkpoint.full[0] = '\0'; /* whatever was wrong, the next one has all rows */
	s->checkpoint.failures++;
	s->checkpoint.failed++;
	s->checkpoint.retry_at = clock_mono() + CUT_RETRY_SECONDS;
	s->checkpoint.at = clock_mono();
	if (!r) { /* a rollback, a hand-over, or the deadline: the phases deal with it */
		if (s->phases.now == PHASE_FIRST_CUT || s->phases.now == PHASE_LAST_CUT)
			limit_failures(s);
		return;
	}
	sup_checkpoint_answer(s, 0);
	if (log_is_worth(s->checkpoint.failures))
		sup_note(s, "warning", "checkpoint %s failed: %s", s->checkpoint.making,
			 sup_answer_text(r, text));
	limit_failures(s);
}

/* Keeps the lead's answer until all parts are here. -1: it is too long. */
static int bring_parts(struct supervisor *s, const struct record *r)
{
	struct record_out o;
	record_begin(&o, s->checkpoint.cut_line, sizeof s->checkpoint.cut_line, r->type);
	checkpoint_add_answer(&o, r);
	if (record_end(&o, NULL) == 0)
		return -1;
	sup_parts_bring(s, s->checkpoint.making);
	return 0;
}

static void remove_half(struct supervisor *s)
{
	struct error err;
	if (fs_remove_tree(s->checkpoint.making, &err) != 0)
		sup_note(s, "warning", "%s: %s", err.place, err.text);
	sup_checkpoint_answer(s, 0);
	checkpoint_failed(s, NULL);
}

/* All parts that can be brought here are here. But a trainer may have saved something where only
 * its own host sees it. */
static void checkpoint_complete(struct supervisor *s, const struct record *r)
{
	struct error err;
	if (job_kind(s->job)->cut == CUT_PARTS ||
	    sup_cut_is_whole(s, s->checkpoint.making, &err) == 0) {
		checkpoint_succeeded(s, r);
		return;
	}
	sup_note(s, "warning",
		 "checkpoint %s failed: %s: %s; a trainer on another host has to "
		 "save below the directory that the job gives it",
		 s->checkpoint.making, err.place, err.text);
	remove_half(s);
	limit_failures(s);
}

void sup_checkpoint_parts(struct supervisor *s, int here)
{
	struct record r;
	struct error err;
	char line[sizeof s->checkpoint.cut_line];
	memcpy(line, s->checkpoint.cut_line, sizeof line);
	s->checkpoint.cut_line[0] = '\0';
	if (here && record_first(&r, line, strlen(line), &err) == 0)
		checkpoint_complete(s, &r);
	else {
		sup_note(s, "warning", "checkpoint %s failed: a part can't be brought here",
			 s->checkpoint.making);
		remove_half(s);
		limit_failures(s);
	}
	sup_kick(s);
}

/* A checkpoint that has all its parts by now stays, and can be used. */
void sup_checkpoint_abandon(struct supervisor *s)
{
	if (!s->checkpoint.cut_line[0])
		return;
	sup_parts_stop(s);
	s->checkpoint.cut_line[0] = '\0';
	if (sup_parts_are_away(s, s->checkpoint.making))
		remove_half(s);
	else
		sup_checkpoint_answer(s, 0);
}

static void checkpoint_on_cut(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	/* The answer is late, or the lead has died, whether we know it yet or not. */
	if (!r && s->phases.now < PHASE_STOPPING && !sup_turn_is(s, TURN_HAND_OVER) &&
	    log_is_worth(s->checkpoint.failures + 1))
		sup_note(s, "warning", "checkpoint %s failed: the lead gave no answer",
			 s->checkpoint.making);
	if (!sup_answer_ok(r))
		checkpoint_failed(s, r);
	else if (!sup_parts_are_due(s, s->checkpoint.making))
		checkpoint_complete(s, r);
	else if (s->phases.now == PHASE_ROLLBACK && sup_parts_are_away(s, s->checkpoint.making))
		remove_half(s); /* parts are missing, and its servers end */
	else if (s->phases.now == PHASE_ROLLBACK || bring_parts(s, r) != 0)
		checkpoint_succeeded(s, r);
	sup_kick(s);
}

/* The name of the checkpoint that the next one may build on: the next one leaves out the rows that
 * have not changed since. NULL: it must have all rows. */
static const char *checkpoint_base(struct supervisor *s)
{
	const char *slash = strrchr(s->checkpoint.full, '/');
	/* The last one of a job has all rows, because people take it elsewhere. */
	if (!slash || job_kind(s->job)->cut != CUT_PARTS || s->phases.now != PHASE_RUNNING ||
	    s->checkpoint.since_full + 1 >= s->job->checkpoint_full_every ||
	    access(s->checkpoint.full, F_OK) != 0)
		return NULL;
	return slash + 1;
}

void sup_checkpoint_make(struct supervisor *s)
{
	char dir[DIRS_PATH_MAX];
	if (!sup_lead(s) || !sup_trainers_can_save(s) || clock_mono() < s->checkpoint.retry_at ||
	    !sup_turn_may_begin(s, TURN_CUT) ||
	    !sup_link_up(&s->links.lead_cut)) /* else a number would be used up for nothing */
		return;
	checkpoint_dir(s, dir);
	snprintf(s->checkpoint.making, sizeof s->checkpoint.making, "%.3900s/%06llu", dir,
		 (unsigned long long)checkpoint_next_number(s, dir));
	struct record_out *o = RECORD("cut", F("path", s->checkpoint.making),
				      checkpoint_base(s) ? F("base", checkpoint_base(s)) : F_NONE);
	s->checkpoint.asked = clock_mono();
	s->checkpoint.samples = s->progress.stat.samples_done; /* it will have at least these */
	sup_ask(&s->checkpoint.cut, &s->links.lead_cut, o, NULL, checkpoint_on_cut, s);
}

void sup_checkpoint_begin(struct supervisor *s)
{
	s->checkpoint.at = clock_mono();
}

void sup_checkpoint_periodic(struct supervisor *s)
{
	double every = s->job->checkpoint_every;
	int due = every > 0 && clock_mono() - s->checkpoint.at >= every;
	if (due || s->checkpoint.waiters.first)
		sup_checkpoint_make(s);
}

void sup_checkpoint_answer(struct supervisor *s, int ok)
{
	while (s->checkpoint.waiters.first) {
		struct request *rq = sup_wait_take(&s->checkpoint.waiters);
		if (!ok) {
			request_err(rq, "cut", "the checkpoint failed; the job's log says why");
			continue;
		}
		request_ok_record(rq, RECORD("ok", F("path", s->checkpoint.latest)));
	}
}
