/* recover: see recover.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/human.h"
#include "ckpt/ckpt.h"
#include "wire/aside.h"

#include <signal.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAY_SECONDS 3.0 /* in which a replica that runs says whether it has parameters */

/* ---- a worker's death ---- */

/* Asks from the first question on. If there was an answer (r), it was a refusal: people are told,
 * and it is asked a little later. */
static void recover_again(struct sup_node *n, const struct record *r)
{
	char text[SUP_ANSWER_TEXT];
	n->fence.step = FENCE_WHO;
	if (r) {
		sup_note(n->sup, "retry", "%s can't be mended yet: %s", n->id,
			 sup_answer_text(r, text));
		sup_kick_after(n->sup, 1);
	}
}

static void recover_fenced(struct sup_node *n)
{
	n->fence.step = FENCE_WHO;
	if (n->leaving)
		sup_scale_fenced(n);
	else
		sup_node_fenced(n);
}

/* If shardd has no generation of it in force, a rollback or a person has fenced it. The lead may
 * still hold something of the last one. */
static int take_generation(struct sup_node *n, const struct record *r)
{
	if (record_u64(r, "generation", 0, UINT64_MAX, &n->fence.generation, NULL) != 0)
		return -1;
	if (n->fence.generation == 0)
		record_u64_opt(r, "last", 0, UINT64_MAX, &n->fence.generation, NULL);
	return 0;
}

static void recover_on_who(struct sup_node *n, const struct record *r)
{
	if (sup_answer_ok(r) && take_generation(n, r) == 0)
		n->fence.step = n->fence.generation > 0 && sup_lead(n->sup) ? FENCE_LEAD : FENCE_SHARDD;
	else if (strcmp(sup_answer_code(r), "unknown-worker") == 0)
		recover_fenced(n); /* it never said hello: there is nothing of it anywhere */
	else
		recover_again(n, r);
}

static void recover_on_fence(struct sup_node *n, const struct record *r)
{
	if (sup_answer_ok(r))
		n->fence.step = FENCE_SHARDD;
	else
		recover_again(n, r);
}

static void recover_on_fail(struct sup_node *n, const struct record *r)
{
	const char *code = sup_answer_code(r);
	if (sup_answer_ok(r) || strcmp(code, "unknown-worker") == 0 || strcmp(code, "fenced") == 0)
		recover_fenced(n);
	else
		recover_again(n, r);
}

static void recover_on_answer(const struct record *r, void *owner)
{
	static void (*const taken[])(struct sup_node * n,
				     const struct record *r) = {[FENCE_WHO] = recover_on_who,
								[FENCE_LEAD] = recover_on_fence,
								[FENCE_SHARDD] = recover_on_fail};
	struct sup_node *n = owner;
	sup_kick(n->sup);
	if (n->stage == STAGE_MENDING || sup_scale_fences(n))
		taken[n->fence.step](n, r);
}

void sup_fence_begin(struct sup_node *n)
{
	n->fence.step = FENCE_WHO;
	sup_ask_forget(&n->fence.question); /* it was about an earlier death */
}

static void recover_fence(struct sup_node *n)
{
	struct supervisor *s = n->sup;
	enum fence_step step = n->fence.step;
	struct link *link = step == FENCE_LEAD ? &sup_lead(s)->link : &sup_shardd(s)->link;
	/* A restart by intention is nobody's fault: shards must not be held for it. */
	int meant = n->restart.from > 0 || n->leaving;
	const char *const verb[] = {"who", "fence", meant ? "bye" : "fail"};
	int numbered = step == FENCE_LEAD || (step == FENCE_SHARDD && meant);
	sup_ask(&n->fence.question, link,
		RECORD(verb[step], F("worker", n->id),
		       numbered ? F("generation", n->fence.generation) : F_NONE),
		NULL, recover_on_answer, n);
}

void sup_fence_step(struct supervisor *s)
{
	EACH_OF (n, s, &role_replica) {
		if (n->stage != STAGE_MENDING || sup_rollback_is_unsure(n))
			continue;
		if (!sup_rollback_is_due(n)) {
			sup_node_fenced(n);
			continue;
		}
		sup_rollback_after(n);
		return;
	}
	EACH_NODE (n, s)
		if (n->role->ready != READY_ANSWERS && !sup_takes_back(n) &&
		    (n->stage == STAGE_MENDING || sup_scale_fences(n)))
			recover_fence(n);
}

/* ---- the intent ---- */

/* The checkpoint is one of this job's state, also when that was moved: what another job's file says
 * must never be taken. */
int sup_intent_take(struct supervisor *s, const struct record *r, struct error *err)
{
	const char *cut, *kind, *name;
	char path[DIRS_MAX];
	if (record_text(r, "kind", &kind, err) != 0)
		return -1;
	if (strcmp(kind, "rollback") != 0)
		return error_set(err, ERROR_DATA, NULL, "kind=%.40s is no intent of this version",
				 kind);
	if (record_text(r, "cut", &cut, err) != 0)
		return -1;
	name = fs_basename(cut);
	if (!name[0] || name[0] == '.' || strlen(name) > NAME_MAX)
		return error_set(err, ERROR_DATA, NULL, "cut=%.100s names no checkpoint", cut);
	snprintf(path, sizeof path, "checkpoints/%s", name);
	dirs_state(&s->dirs, path, s->recover.cut);
	s->recover.intent = 1;
	return 0;
}

static int write_intent(struct supervisor *s, const char *cut, const char *reason)
{
	struct record_out *o = RECORD("intent", F("kind", "rollback"), F("cut", cut),
				      F("reason", reason), F_SECONDS("at", s->recover.began));
	size_t len = record_end(o, NULL);
	if (sup_keep(s, KEPT_INTENT, o->data, len) != 0)
		return -1;
	snprintf(s->recover.cut, sizeof s->recover.cut, "%s", cut);
	s->recover.intent = 1;
	return 0;
}

/* If a crash leaves the line there, the rollback is done once more, which does no harm. */
void sup_intent_remove(struct supervisor *s)
{
	sup_keep(s, KEPT_INTENT, NULL, 0);
	s->recover.intent = 0;
}

/* ---- going back ---- */

void sup_incarnation(struct supervisor *s, uint64_t incarnation)
{
	s->recover.incarnation = incarnation;
}

void sup_rollback_gained(struct supervisor *s)
{
	s->recover.in_a_row = 0;
}

static double recover_pause(const struct supervisor *s)
{
	double longest = 0;
	EACH_NODE (n, s) {
		int waits = sup_goes_back(n) && !n->end_wanted && n->in_a_row > 0 &&
			    n->stage == STAGE_MENDING;
		double pause = waits ? again_pause(n->in_a_row) : 0;
		longest = pause > longest ? pause : longest;
	}
	return longest;
}

void sup_rollback_begin(struct supervisor *s, const char *reason)
{
	double ready = clock_mono() + recover_pause(s);
	if (ready > s->recover.not_before)
		s->recover.not_before = ready;
	s->recover.loaded = 0;
	if (s->phases.now == PHASE_ROLLBACK || s->phases.now >= PHASE_STOPPING)
		return;
	s->recover.chosen = 0;
	s->recover.began = clock_epoch();
	if (s->phases.goal == GOAL_EARLY && job_kind(s->job)->cut == CUT_SAVED) {
		s->phases.goal = GOAL_DONE; /* what was enough is not there any more */
		s->phases.ended_by = NULL;
	}
	s->checkpoint.full[0] = '\0'; /* new servers know of no full checkpoint */
	s->recover.rollbacks++;
	s->recover.told = 0;
	s->recover.before = s->progress.stat.known ? s->progress.stat.samples_done : 0;
	int has_cut = s->checkpoint.latest[0] || s->recover.intent;
	sup_note(s, "rollback", "%s: all %ss %s", reason,
		 job_kind(s->job)->foreign ? "trainer" : sup_holders(s)->name,
		 !has_cut                            ? "start anew"
		 : s->phases.now == PHASE_SERVICES ? "begin with the last checkpoint"
						     : "go back to the last checkpoint");
	sup_checkpoint_abandon(s);
	sup_enter(s, PHASE_ROLLBACK);
}

/* Whether there may be one more rollback; if not, the job fails. A job that only goes back is over,
 * even if each server runs for a while in between. Servers that end together make one rollback. */
static int recover_within_limit(struct sup_node *n)
{
	char text[128];
	struct supervisor *s = n->sup;
	if (n->end_wanted || sup_host_was_lost(n, &n->end) || s->phases.now == PHASE_ROLLBACK ||
	    s->phases.now >= PHASE_STOPPING)
		return 1;
	if (++s->recover.in_a_row <= s->job->rollbacks)
		return 1;
	if (sup_trainer_is_judged(n)) {
		s->trainers.is_last = 1;
		return 1;
	}
	end_text(&n->end, text, sizeof text);
	sup_fail_by(n,
		    "%s; that is rollback %llu in a row without a checkpoint that goes further "
		    "(RESTARTS rollbacks)",
		    text, (unsigned long long)s->recover.in_a_row);
	return 0;
}

void sup_rollback_after(struct sup_node *n)
{
	char reason[32 + SAID_MAX];
	snprintf(reason, sizeof reason, "%s %s ended%s%s", n->role == &role_lead ? "the" : "a",
		 n->role->name, n->said[0] ? ": " : "", n->said);
	if (n->role == &role_replica)
		snprintf(reason, sizeof reason, "the last replica ended");
	if (n->role == &role_agent)
		snprintf(reason, sizeof reason, "the trainer %.32s ended", n->id);
	if (recover_within_limit(n))
		sup_rollback_begin(n->sup, reason);
}

int sup_others_serve(const struct sup_node *n)
{
	EACH_OF (other, n->sup, &role_replica)
		if (other != n && sup_node_runs(other) && other->watch.seen.serves)
			return 1;
	return 0;
}

/* A lead that finds no replica with parameters, or no trainer, says so by its status. */
int sup_rollback_is_due(const struct sup_node *n)
{
	if (job_kind(n->sup->job)->goes_back)
		return 1; /* trainers do not know what was committed */
	if (n->role == &role_lead)
		return n->end.seen && !n->end.signal && n->end.status == ERROR_TEMPFAIL;
	if (job_kind(n->sup->job)->sums)
		return 0; /* it has no parameters */
	/* An end that no supervisor saw is judged later, when it is known which nodes run. */
	return n->sup->phases.now != PHASE_SERVICES && !sup_others_serve(n);
}

/* Another one that runs may have been filled since it was last heard. */
int sup_rollback_is_unsure(const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	if (s->phases.now != PHASE_RUNNING || !sup_rollback_is_due(n) ||
	    clock_mono() > n->fence.ended + SAY_SECONDS)
		return 0;
	EACH_OF (other, s, &role_replica)
		if (other != n && sup_node_runs(other) &&
		    other->watch.seen.said <= n->fence.ended)
			return 1;
	return 0;
}

void sup_servers_begin(struct supervisor *s, int together)
{
	s->recover.together = together;
	sup_trainers_begin(s);
	sup_enter(s, PHASE_SERVERS);
}

/* A load names the incarnation that it replaces: so shardd is asked for that one before each
 * load. */
static void on_load(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	char text[SUP_ANSWER_TEXT];
	sup_stat_forget(s); /* whatever happened, the question comes first again */
	sup_kick(s);
	if (s->phases.now != PHASE_ROLLBACK || !r)
		return;
	if (sup_answer_ok(r) &&
	    record_u64(r, "incarnation", 1, UINT64_MAX, &s->recover.incarnation, NULL) == 0) {
		s->recover.loaded = 1;
		return;
	}
	sup_note(s, "retry", "shardd does not load %s/shards yet: %s", s->recover.cut,
		 sup_answer_text(r, text));
	sup_kick_after(s, 1);
}

static void recover_load(struct supervisor *s)
{
	char file[DIRS_PATH_MAX + 8];
	if (!s->progress.stat.known) {
		sup_ask_stat(s);
		return;
	}
	if (sup_repeated_before(s) != 0)
		return;
	snprintf(file, sizeof file, "%s/shards", s->recover.cut);
	sup_ask(&s->recover.load, &sup_shardd(s)->link,
		RECORD("load", F("file", file), F("incarnation", s->progress.stat.incarnation)), NULL,
		on_load, s);
}

/* ---- damaged checkpoints ---- */

struct verifying {
	char cut[DIRS_PATH_MAX], id[OPTION_ID_MAX];
	int damaged;
	struct error first;
};

static void first_damage(const char *place, const char *text, void *out)
{
	struct error *first = out;
	if (!first->code)
		error_set(first, ERROR_DATA, place, "%s", text);
}

static void verify_cut(void *arg)
{
	struct verifying *v = arg;
	v->damaged = ckpt_verify(v->cut, first_damage, &v->first, NULL) > 0;
}

static void on_verified(void *arg, void *owner)
{
	const struct verifying *v = arg;
	struct supervisor *s = owner;
	struct sup_node *n = sup_find(s, v->id);
	char text[ERROR_PLACE_MAX + ERROR_TEXT_MAX];
	sup_kick(s);
	if (s->phases.now >= PHASE_STOPPING)
		return;
	if (v->damaged) {
		error_format(&v->first, text, sizeof text);
		sup_pass_over(s, v->cut, text);
		sup_rollback_begin(s, "the checkpoint is damaged");
	} else if (n) {
		sup_node_failed(n);
	}
}

/* A node that restores reads every byte, and ends if one is wrong. Only then we read the whole cut
 * here to see whether it is damaged; in a thread, because that takes long. A good cut is never read
 * here. */
int sup_rollback_passes_over(struct sup_node *n)
{
	static const struct aside_work work = {verify_cut, on_verified, free};
	struct supervisor *s = n->sup;
	struct error err;
	int status = end_status(&n->end);
	if (!sup_goes_back(n) || !s->recover.intent || s->phases.now >= PHASE_STOPPING ||
	    (status != ERROR_DATA && status != ERROR_IO && status != ERROR_NOINPUT))
		return 0;
	/* One of the others has found out, or is about to. */
	if (sup_is_passed_over(s, s->recover.cut) || s->recover.verifying)
		return 1;
	struct verifying *v = calloc(1, sizeof *v);
	if (!v)
		return 0;
	memcpy(v->cut, s->recover.cut, sizeof v->cut);
	memcpy(v->id, n->id, sizeof v->id);
	if (aside_start(&s->recover.verifying, s->base, &work, v, s, &err) == 0)
		return 1;
	free(v);
	return 0;
}

void sup_rollback_free(struct supervisor *s)
{
	aside_abandon(&s->recover.verifying);
}

/* Chooses the cut, once, before the servers are touched. A cut that was completed while its lead
 * died can be used. If the intent's own cut is gone or damaged by now, another one can be used,
 * because shardd loads its queue anew. -1: not chosen yet, or there is none and the job fails. */
static int choose_cut(struct supervisor *s)
{
	struct error err;
	int gone = 0;
	if (s->recover.intent && !s->recover.chosen && sup_is_passed_over(s, s->recover.cut)) {
		gone = 1;
	} else if (s->recover.intent) {
		if (s->recover.chosen || sup_cut_is_whole(s, s->recover.cut, &err) == 0)
			return 0;
		gone = 1;
		sup_note(s, "warning", "the intent's checkpoint: %s: %s", err.place, err.text);
	}
	if (sup_newest_find(s, &err) != 0) {
		sup_fail(s, err.code, "no checkpoint to go back to: %s: %s", err.place, err.text);
		return -1;
	}
	if (s->checkpoint.latest[0])
		return write_intent(s, s->checkpoint.latest, "server");
	if (!gone)
		return 0;
	sup_fail(s, ERROR_NOINPUT,
		 "%s, the checkpoint of a rollback, is gone, and so are all others; --fresh starts "
		 "over",
		 s->recover.cut);
	return -1;
}

/* Without a cut servers begin with nothing. That is right only if nothing was trained, and nobody
 * holds a shard whose settlement may still be on its way. */
static int may_start_anew(struct supervisor *s)
{
	if (!s->progress.stat.known) {
		sup_ask_stat(s);
		return 0;
	}
	if (s->progress.stat.samples_done == 0 && s->progress.stat.doing == 0 &&
	    !s->progress.stat.lost)
		return 1;
	sup_fail(s, ERROR_NOINPUT,
		 "%s/checkpoints holds no complete checkpoint to go back to%s, but %llu samples "
		 "count as done and %llu shards are in hand; --fresh starts over",
		 s->dirs.state, s->recover.had_cut ? " any more" : "",
		 (unsigned long long)s->progress.stat.samples_done,
		 (unsigned long long)s->progress.stat.doing);
	return 0;
}

/* Tells people where the job goes on. -1: shardd has not said yet what is done now. */
static int tell_from(struct supervisor *s)
{
	char done[HUMAN_MAX], all[HUMAN_MAX], again[HUMAN_MAX];
	uint64_t now = s->progress.stat.samples_done;
	if (s->recover.told)
		return 0;
	if (!s->progress.stat.known) {
		sup_ask_stat(s);
		return -1;
	}
	s->recover.told = 1;
	human_count((double)now, done);
	human_count((double)s->options.samples * (double)s->job->epochs, all);
	human_count((double)(s->recover.before > now ? s->recover.before - now : 0), again);
	if (s->recover.before > now && !job_kind(s->job)->foreign)
		log_say(LOG_LEVEL_INFO, "the job goes on at %s of %s samples; %s since that "
			"checkpoint are trained again", done, all, again);
	else
		log_say(LOG_LEVEL_INFO, "the job goes on at %s of %s samples", done, all);
	return 0;
}

void sup_rollback_step(struct supervisor *s)
{
	/* The next start begins with that checkpoint: there is nothing to save, and what hinders
	 * the rollback, a file that can't be written, may last. */
	if (sup_is_cut_short(s)) {
		sup_enter(s, PHASE_STOPPING);
		return;
	}
	if (s->checkpoint.pruning) /* it could remove the cut that is chosen here */
		return;
	if (!s->recover.chosen) {
		s->recover.had_cut = s->checkpoint.latest[0] != '\0';
		if (choose_cut(s) != 0)
			return;
		s->recover.chosen = 1;
	}
	if (sup_trainers_judge(s) != 0)
		return;
	sup_links_close_servers(s);
	int off = 1;
	EACH_NODE (n, s) {
		if (!sup_goes_back(n))
			continue;
		sup_node_stop(n, SIGKILL);
		off &= sup_node_is_off(n);
	}
	if (!off) {
		sup_stat_forget(s); /* a lead that still runs may change it */
		return;
	}
	if (!s->recover.intent && !may_start_anew(s))
		return;
	if (s->recover.intent && !s->recover.loaded) {
		recover_load(s);
		return;
	}
	if (s->recover.intent && (sup_repeated_after(s) != 0 || tell_from(s) != 0))
		return;
	double pause = s->recover.not_before - clock_mono();
	if (pause > 0)
		sup_kick_after(s, pause);
	else if (sup_scale_rolled_back(s) == 0)
		sup_servers_begin(s, 1);
}
