/* phase: see phase.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"
#include "job/spent.h"

#include <event2/event.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#define STEPS_MAX 64      /* phases passed before others get to run */
#define ALONE_SECONDS 5.0 /* for a checkpoint under way, although all who could save have ended */
#define ROOM_SECONDS 3.0  /* a job that is to stop does not wait longer for room */

void sup_kick(struct supervisor *s)
{
	event_active(s->phases.kick, EV_TIMEOUT, 0);
}

void sup_kick_after(struct supervisor *s, double seconds)
{
	double at = clock_mono() + seconds;
	if (timer_is_set(s->phases.retry) && s->phases.retry_at <= at)
		return; /* somebody is in more of a hurry */
	s->phases.retry_at = at;
	timer_set(s->phases.retry, seconds);
}

void sup_enter(struct supervisor *s, enum sup_phase phase)
{
	if (s->phases.now == phase)
		return;
	s->phases.now = phase;
	s->phases.cuts_before = s->checkpoint.made;
	s->phases.told_to_leave = 0;
	s->phases.entered = clock_mono();
	sup_progress_phase(s);
	sup_log(s, RECORD("phase", F("name", sup_phase_name(phase))));
	sup_kick(s);
}

static void phase_fail(struct supervisor *s, int status, const char *text, enum sup_phase next)
{
	if (s->phases.goal != GOAL_FAIL) {
		s->phases.goal = GOAL_FAIL;
		s->phases.fail_status = status ? status : ERROR_SOFTWARE;
		sup_note(s, "error", "job fails: %s", text);
	}
	if (s->phases.now < next)
		sup_enter(s, next);
}

void sup_fail(struct supervisor *s, int status, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	phase_fail(s, status, text, PHASE_STOPPING);
}

/* Whether there is something to save, and this node has not taken it along: a worker of the kit
 * holds no parameters, and a trainer for which replicas sum holds what the others do. */
static int can_be_saved(const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	return n->role->death == DEATH_FENCE && !sup_takes_back(n) && sup_lead(s) &&
	       s->progress.row.iteration > s->checkpoint.latest_iteration &&
	       s->phases.now >= PHASE_RUNNING && s->phases.now <= PHASE_LAST_CUT;
}

void sup_fail_by(struct sup_node *n, const char *fmt, ...)
{
	char text[1024], why[1024 + OPTION_ID_MAX + 2];
	struct supervisor *s = n->sup;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	snprintf(why, sizeof why, "%s: %s", n->id, text);
	sup_last_words(n);
	if (s->phases.goal != GOAL_FAIL) {
		s->phases.failed = n;
		s->phases.failed_end = n->end;
	}
	phase_fail(s, end_status(&n->end), why, can_be_saved(n) ? PHASE_WINDING : PHASE_STOPPING);
}

int sup_is_cut_short(const struct supervisor *s)
{
	return s->phases.goal == GOAL_STOP || s->phases.goal == GOAL_FAIL;
}

void sup_finish_early(struct supervisor *s, enum sup_goal goal, const char *reason)
{
	if (s->phases.goal == GOAL_FAIL || s->phases.goal == goal ||
	    s->phases.now >= PHASE_STOPPING)
		return;
	sup_note(s, "stop", "%s: a last checkpoint, then the end", reason);
	s->phases.goal = goal;
	if (s->phases.now == PHASE_RUNNING)
		sup_enter(s, PHASE_WINDING);
	sup_kick(s);
}

void sup_finish_by(struct supervisor *s, const char *by, const char *reason)
{
	sup_finish_early(s, GOAL_EARLY, reason);
	if (s->phases.goal == GOAL_EARLY && !s->phases.ended_by)
		s->phases.ended_by = by;
}

void sup_interrupt(struct supervisor *s, int sig)
{
	s->phases.interrupted++;
	if (s->phases.fail_status == 0)
		s->phases.fail_status = 128 + sig;
	if (s->phases.interrupted == 1) {
		sup_finish_early(s, GOAL_STOP, sig == SIGINT ? "interrupted" : "terminated");
		/* There is nothing to save: no parameters yet, or servers that begin with a
		 * checkpoint, as they do at the next start. */
		if (s->phases.now == PHASE_SERVICES ||
		    (s->recover.intent && s->phases.now < PHASE_FIRST_CUT))
			sup_enter(s, PHASE_STOPPING);
	} else if (s->phases.now < PHASE_STOPPING) {
		sup_note(s, "stop", "at once, without a checkpoint");
		sup_enter(s, PHASE_STOPPING);
	}
	sup_kick(s);
}

/* ---- the phases' steps ---- */

static void want_services(struct supervisor *s)
{
	EACH_NODE (n, s)
		if (n->role->service)
			sup_node_want(n);
	sup_links_services(s);
}

/* Whether trainers can go on without a rollback: all run; or none has begun, and there is no
 * checkpoint. A process that is started now would not know the checkpoint from which the lead goes
 * on. If an earlier supervisor did not start all trainers, those that run wait for the missing ones
 * in their collectives. Where replicas sum, one that runs is enough. */
static int trainers_go_on(const struct supervisor *s)
{
	size_t running = 0, begun = 0;
	EACH_OF (n, s, sup_trainers(s)) {
		running += sup_node_runs(n) != 0;
		begun += n->lives > 0;
	}
	if (job_kind(s->job)->sums)
		return running > 0;
	return (begun == 0 && !s->checkpoint.latest[0]) ||
	       running == sup_count(s, sup_trainers(s));
}

/* Whether those that run have all parameters: each server has a part of them, each replica all. */
static int phase_holds_all(const struct supervisor *s, size_t running)
{
	if (job_kind(s->job)->holds == HOLD_TRAINERS)
		return running == 1 && trainers_go_on(s);
	if (job_kind(s->job)->sums)
		return trainers_go_on(s);
	if (job_kind(s->job)->holds == HOLD_REPLICAS)
		return running > 0;
	EACH_OF (n, s, &role_server)
		if (sup_scale_has_part(n) && n->stage != STAGE_STARTING && n->stage != STAGE_READY)
			return 0;
	return 1;
}

static size_t running_servers(const struct supervisor *s)
{
	size_t running = 0;
	EACH_OF (n, s, sup_holders(s))
		running += n->stage == STAGE_STARTING || n->stage == STAGE_READY;
	return running;
}

static void phase_fail_without_cut(struct supervisor *s)
{
	const struct sup_stat *stat = &s->progress.stat;
	const char *what = "", *help = "; --fresh starts over";
	int code = ERROR_NOINPUT;
	if (s->newest.unread) {
		code = ERROR_IO;
		what = " that can be read now";
		help = "";
	} else if (s->newest.damaged_count) {
		code = ERROR_DATA;
		what = " that is not damaged";
	}
	sup_fail(s, code, "%s has no complete checkpoint%s, but %llu samples count as done%s%s",
		 s->dirs.state, what, (unsigned long long)stat->samples_done,
		 stat->lost ? ", or more: the machine was started anew since" : "", help);
}

/* shardd has answered: its state decides how the job goes on. After a reboot no server runs, and
 * what shardd had not yet written is lost: then only the queue of a checkpoint is right. */
static void phase_choose(struct supervisor *s)
{
	const struct sup_stat *stat = &s->progress.stat;
	const char *latest = s->checkpoint.latest;
	size_t running = running_servers(s);
	sup_incarnation(s, stat->incarnation);
	if (!sup_lead(s)) { /* what is done is done: there is nothing to go back to */
		sup_trainers_begin(s);
		sup_enter(s, s->phases.goal != GOAL_DONE ? PHASE_STOPPING : PHASE_RUNNING);
		return;
	}
	if (s->phases.goal != GOAL_DONE && !latest[0] && running == 0)
		sup_enter(s, PHASE_STOPPING); /* stopped before anything was done */
	else if (s->recover.intent)
		sup_rollback_begin(s, "a rollback was not finished");
	else if (phase_holds_all(s, running) && !stat->lost && !s->recover.strays)
		sup_servers_begin(s, 0);
	else if (!latest[0] && (stat->samples_done > 0 || stat->lost))
		phase_fail_without_cut(s);
	else if (latest[0] || running > 0)
		sup_rollback_begin(s, "the job goes on");
	else if (sup_scale_rolled_back(s) == 0)
		sup_servers_begin(s, 1);
}

/* A lead that is a process of its own ends when it finds no replica: so it starts after the first
 * replica. */
static void want_servers(struct supervisor *s)
{
	enum sup_phase phase = s->phases.now;
	EACH_OF (n, s, sup_holders(s))
		if (s->phases.now == phase)
			sup_node_want(n);
	EACH_OF (n, s, &role_lead)
		if (s->phases.now == phase && running_servers(s) > 0)
			sup_node_want(n);
}

static void step_services(struct supervisor *s)
{
	if (!sup_link_up(&sup_shardd(s)->link))
		return;
	if (!s->progress.stat.known)
		sup_ask_stat(s);
	else
		phase_choose(s);
}

/* Whether this phase waits for the node. A replica that is filled for a new host is not waited for:
 * other replicas serve, and scale.h has the deadline. */
static int is_to_be_up(const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	if (!n->role->goes_back || sup_host_is_awaited(n))
		return 0;
	if (n->role == &role_replica)
		return !s->scale.hosts.under_way || n->watch.seen.serves || !sup_others_serve(n);
	return n->role != &role_server || sup_scale_has_part(n);
}

static void step_servers(struct supervisor *s)
{
	int up = 1;
	if (s->recover.verifying)
		return;
	want_servers(s);
	if (s->phases.now != PHASE_SERVERS)
		return; /* one of them can't be started */
	sup_links_servers(s);
	EACH_NODE (n, s)
		if (is_to_be_up(n))
			up &= n->stage == STAGE_READY && sup_link_up(&n->link);
	if (!up || running_servers(s) == 0)
		return;
	if (s->recover.together && s->recover.cut[0])
		sup_parts_left(s);
	s->recover.together = 0; /* a node that starts later does not begin with the others */
	sup_intent_remove(s);
	if (job_kind(s->job)->cut == CUT_SAVED && s->phases.goal != GOAL_DONE && s->checkpoint.latest[0])
		sup_enter(s, PHASE_STOPPING); /* nothing was trained since the checkpoint */
	else
		sup_enter(s, !s->checkpoint.latest[0]      ? PHASE_FIRST_CUT
			     : s->phases.goal == GOAL_DONE ? PHASE_RUNNING
							   : PHASE_WINDING);
}

static void step_first_cut(struct supervisor *s)
{
	if (s->checkpoint.latest[0])
		sup_enter(s, s->phases.goal == GOAL_DONE ? PHASE_RUNNING : PHASE_WINDING);
	else
		sup_checkpoint_make(s);
}

static int any_starting(const struct supervisor *s)
{
	EACH_OF (n, s, sup_trainers(s))
		if (n->stage == STAGE_STARTING)
			return 1;
	return 0;
}

/* Whether those run whose parameters are to be saved. */
static int phase_all_run(const struct supervisor *s)
{
	size_t running = 0;
	EACH_OF (n, s, sup_trainers(s))
		running += sup_node_runs(n) != 0;
	return job_kind(s->job)->goes_back ? running == sup_count(s, sup_trainers(s)) : running > 0;
}

/* Nothing was trained since it was enough: trainers only do what follows their loops. Those on hosts
 * that are still being connected are awaited, as all are to run when they are told. */
static int was_enough(const struct supervisor *s)
{
	return s->phases.enough[0] && phase_all_run(s) &&
	       strcmp(s->phases.enough, fs_basename(s->checkpoint.latest)) == 0;
}

static void step_running(struct supervisor *s)
{
	if (s->phases.goal != GOAL_DONE) {
		sup_enter(s, PHASE_WINDING);
		return;
	}
	EACH_OF (n, s, sup_trainers(s)) {
		if (sup_trainer_is_needed(n))
			sup_node_want(n);
		if (s->phases.now != PHASE_RUNNING)
			return;
	}
	if (was_enough(s)) {
		sup_finish_by(s, SPENT_ENOUGH, "it was enough before");
		return;
	}
	sup_spares_step(s);
	sup_fence_step(s);
	sup_standbys_step(s);
	if (any_starting(s))
		sup_ask_members(s);
	sup_turns_step(s);
	if (s->phases.now != PHASE_RUNNING)
		return; /* it failed */
	sup_wait_done(s);
	if (s->progress.all_done && !sup_lead(s))
		sup_enter(s, PHASE_FINISHING);
	else if (s->progress.all_done && !sup_turn_is(s, TURN_CUT) &&
		 (!job_kind(s->job)->goes_back || phase_all_run(s)))
		sup_enter(s, PHASE_LAST_CUT); /* each one saves, and does what follows its loop */
	else if (s->checkpoint.waiters.first)
		sup_checkpoint_make(s);
}

/* Whether any of those that run now has trained, as far as is known. */
static int any_trained(const struct supervisor *s)
{
	if (s->progress.members_trained)
		return 1;
	EACH_OF (n, s, sup_trainers(s))
		if (n->watch.worked || n->watch.seen.partly)
			return 1;
	return 0;
}

/* As long as there is no room, no checkpoint can be made, and the batch under way does not end. A job
 * that has failed waits for its lead no longer than a checkpoint may take: nobody else would end it. */
static int stops_without(struct supervisor *s)
{
	double waits = clock_mono() - s->phases.entered;
	if (sup_is_cut_short(s) && sup_room_is_waited_for(s) && waits >= ROOM_SECONDS)
		sup_stop_without(s, "no room in %s for a last checkpoint", s->dirs.state);
	else if (s->phases.goal == GOAL_FAIL && waits >= deadline_seconds(job_kind(s->job)->cut_limit))
		sup_stop_without(s, "no last checkpoint within %.0f s", waits);
	else
		return 0;
	return 1;
}

void sup_stop_without(struct supervisor *s, const char *fmt, ...)
{
	char why[DIRS_MAX + 64];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	s->phases.saves_nothing = 1;
	sup_note(s, "stop", "%s: what was trained since %s is trained again", why,
		 s->checkpoint.latest[0] ? s->checkpoint.latest : "the start");
	sup_enter(s, PHASE_STOPPING);
}

static void phase_on_told(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	if (!sup_answer_ok(r))
		s->phases.told_to_leave = 0;
	sup_kick(s);
}

/* Tells the lead that workers are to leave: `enough`, `finish`. */
static int phase_tell(struct supervisor *s, const char *word)
{
	struct sup_node *lead = sup_lead(s);
	if (lead && sup_ask_now(&s->phases.finish, &lead->link, RECORD_BARE(word), NULL, phase_on_told,
				s) != 0)
		return -1;
	s->phases.told_to_leave = 1;
	s->phases.told_to_leave_at = clock_mono();
	return 0;
}

/* Whether the loops of users' trainers end before all is trained, as if all were. */
static int phase_is_enough(const struct supervisor *s)
{
	return s->phases.goal == GOAL_EARLY && job_kind(s->job)->cut == CUT_SAVED;
}

/* Users' trainers save what they have before they end. Workers of the kit just end: the servers
 * have everything that they know. */
static void step_winding(struct supervisor *s)
{
	if (stops_without(s))
		return;
	if (job_kind(s->job)->cut == CUT_SAVED) {
		if (!phase_all_run(s))
			sup_enter(s, PHASE_STOPPING); /* what some did alone is done again */
		else if (phase_is_enough(s) && !s->phases.told_to_leave)
			phase_tell(s, "enough");
		else if (any_starting(s) && !any_trained(s) && !phase_is_enough(s)) {
			/* Some may have done batches that we have not heard of. */
			if (sup_members_heard(s))
				sup_enter(s, PHASE_STOPPING); /* nothing is newer than the last checkpoint */
		} else if (!sup_turn_is(s, TURN_CUT))
			sup_enter(s, PHASE_LAST_CUT);
		return;
	}
	sup_stop_all(s, sup_trainers(s), s->phases.interrupted > 1 ? SIGKILL : SIGTERM);
	if (!sup_off(s, sup_trainers(s)) || sup_turn_is(s, TURN_CUT))
		return;
	if (sup_lead(s))
		sup_enter(s, PHASE_LAST_CUT);
	else if (!s->progress.last.known)
		sup_ask_last(s); /* what they have finished stays finished */
	else
		sup_enter(s, PHASE_STOPPING);
}

/* Nobody is left that could save: ranks whose gradients are summed have all ended, as when a whole
 * allocation is told to go. The lead may still wait for them: it can't know that nobody starts one. */
static int saves_no_more(struct supervisor *s)
{
	if (!job_kind(s->job)->sums || s->checkpoint.made != s->phases.cuts_before || phase_all_run(s))
		return 0;
	if (sup_turn_is(s, TURN_CUT) &&
	    !(sup_is_cut_short(s) && clock_mono() - s->phases.entered >= ALONE_SECONDS))
		return 0;
	if (sup_is_cut_short(s))
		sup_stop_without(s, "no trainer is left for a last checkpoint");
	else
		sup_rollback_after(sup_first(s, sup_trainers(s)));
	return 1;
}

/* What follows the loop is to run in each rank: one that has died meanwhile is started anew, and gets the last
 * state from one that waits for the end. Whether all are there. */
static int phase_ranks_are_there(struct supervisor *s)
{
	int all = 1;
	if (!job_kind(s->job)->sums || sup_is_cut_short(s))
		return 1;
	sup_fence_step(s);
	EACH_OF (n, s, sup_trainers(s)) {
		if (n->leaving || n->lives == 0)
			continue;
		sup_node_want(n);
		if (s->phases.now != PHASE_LAST_CUT)
			return 0;
		all &= n->stage == STAGE_READY;
	}
	return all;
}

static void step_last_cut(struct supervisor *s)
{
	if (stops_without(s) || saves_no_more(s))
		return;
	int all = phase_ranks_are_there(s);
	if (s->phases.now != PHASE_LAST_CUT)
		return; /* one of them can't be started */
	if (any_starting(s)) /* trainers that have parameters, and are to save them */
		sup_ask_members(s);
	if (s->checkpoint.made == s->phases.cuts_before) {
		sup_checkpoint_make(s);
		return;
	}
	if (!s->progress.last.known) {
		sup_ask_last(s);
		return;
	}
	if (s->phases.goal != GOAL_DONE && !phase_is_enough(s))
		sup_enter(s, PHASE_STOPPING);
	else if (s->progress.stat.todo + s->progress.stat.doing > 0 && !phase_is_enough(s))
		sup_enter(s, PHASE_RUNNING); /* rolled back in between: there is work again */
	else if (all) {
		if (s->progress.last.held[0])
			sup_note(
				s, "held",
				"shards %s are held: their workers kept dying, and they are not in "
				"the model",
				s->progress.last.held);
		sup_enter(s, PHASE_FINISHING);
	}
}

/* Tells workers to leave; from here on their end is expected. */
static void tell_finish(struct supervisor *s)
{
	if (phase_tell(s, "finish") == 0)
		sup_stop_all(s, sup_trainers(s), 0);
}

static void finish_failed(struct sup_node *n)
{
	struct supervisor *s = n->sup;
	char text[128];
	end_text(&n->end, text, sizeof text);
	int again = sup_node_class(n, &n->end) != END_UNRETRYABLE &&
		    s->phases.late_tries + 1 < TRAINERS_TRIES;
	sup_note(s, "warning", "%s has ended with %s after all was trained; the checkpoint is complete%s",
		 n->id, text,
		 again ? ", and what follows the loop runs again in all" : "");
	sup_last_words(n);
	s->phases.late_again |= again;
	if (s->phases.late_status == 0)
		s->phases.late_status = end_status(&n->end);
}

/* What a trainer does after all is trained (it may write its model) is its own business. If it
 * fails, the exit status says so, and the checkpoint does not change. */
void sup_finish_ended(struct sup_node *n)
{
	struct supervisor *s = n->sup;
	/* Those that were told to leave are stopping, also when the lead is to be told again. */
	if (s->phases.now != PHASE_FINISHING || n->stage != STAGE_STOPPING || s->phases.interrupted ||
	    !sup_goes_back(n) || n->role->goes_back)
		return; /* a server's death is mended by a rollback, also now */
	if (n->leaving)
		return; /* a smaller job has no need of it, and nothing that follows the loop was asked of it */
	n->end_unsure = !n->end.seen;
	if (n->end.seen && (n->end.signal || n->end.status != 0))
		finish_failed(n);
}

static void finish_on_who(const struct record *r, void *owner)
{
	struct sup_node *n = owner;
	uint64_t generation;
	sup_kick(n->sup);
	if (n->sup->phases.now != PHASE_FINISHING || !n->end_unsure || !r)
		return;
	n->end_unsure = 0;
	/* A worker that shardd does not know has never said a word to it. */
	if (!sup_answer_ok(r) ||
	    record_u64(r, "generation", 0, UINT64_MAX, &generation, NULL) != 0 || generation > 0)
		finish_failed(n);
	else
		n->end = (struct node_end){.seen = 1};
}

/* Of trainers whose end nobody saw shardd knows whether they ended well: then their agents have said bye.
 * 0: it has not answered yet. */
static int finish_is_sure(struct supervisor *s)
{
	int sure = 1;
	EACH_OF (n, s, sup_trainers(s)) {
		if (!n->end_unsure)
			continue;
		sure = 0;
		sup_ask(&n->fence.question, &sup_shardd(s)->link, RECORD("who", F("worker", n->id)),
			NULL, finish_on_who, n);
	}
	return sure;
}

int sup_enough_take(struct supervisor *s, const struct record *r, struct error *err)
{
	const char *checkpoint;
	if (record_text(r, "checkpoint", &checkpoint, err) != 0)
		return -1;
	snprintf(s->phases.enough, sizeof s->phases.enough, "%.*s", OPTION_ID_MAX - 1, checkpoint);
	return 0;
}

static int keep_enough(struct supervisor *s)
{
	if (!phase_is_enough(s) || strcmp(s->phases.ended_by, SPENT_ENOUGH) != 0)
		return 0;
	snprintf(s->phases.enough, sizeof s->phases.enough, "%.*s", OPTION_ID_MAX - 1,
		 fs_basename(s->checkpoint.latest));
	struct record_out *o = RECORD("enough", F("checkpoint", s->phases.enough));
	size_t len = record_end(o, NULL);
	return sup_keep(s, KEPT_ENOUGH, o->data, len);
}

static void step_finishing(struct supervisor *s)
{
	if (keep_enough(s) != 0)
		return;
	if (!s->phases.told_to_leave)
		tell_finish(s);
	if (!s->progress.last.known)
		sup_ask_last(s);
	int off = sup_off(s, sup_trainers(s)) && (s->phases.interrupted || finish_is_sure(s));
	if (off && s->phases.late_again && !s->phases.interrupted) {
		s->phases.late_again = s->phases.late_status = 0;
		s->phases.late_tries++;
		sup_rollback_begin(s, "a trainer failed in what follows its loop");
		return;
	}
	if (off && s->progress.last.known) {
		if (!sup_lead(s) && s->progress.last.held[0])
			sup_note(s, "held",
				 "shards %s are held: their commands kept failing, and they are not done; "
				 "`trainctl logs ID` of a worker says why",
				 s->progress.last.held);
		sup_enter(s, PHASE_STOPPING);
		return;
	}
	/* All that they did is in the checkpoint: a person who presses Ctrl-C need not wait for
	 * them. */
	double limit = deadline_seconds(job_kind(s->job)->finish_limit);
	double left = s->phases.told_to_leave_at + limit - clock_mono();
	if (s->phases.interrupted || (s->phases.told_to_leave && left <= 0))
		sup_stop_all(s, sup_trainers(s), s->phases.interrupted > 1 ? SIGKILL : SIGTERM);
	else
		sup_kick_after(s, left > 0 ? left : 1);
}

static int phase_stop(struct supervisor *s, int service, int sig)
{
	int off = 1;
	EACH_NODE (n, s) {
		if (n->role->service != service)
			continue;
		if (n->role == &role_fabric)
			sup_fabric_stop(n);
		else
			sup_node_stop(n, sig);
		off &= sup_node_is_off(n);
	}
	return off;
}

/* Servers and workers end first: shardd outlives those that write to it. Then it is seen on each
 * host what they have left there. */
static void step_stopping(struct supervisor *s)
{
	int sig = s->phases.goal == GOAL_FAIL || s->phases.interrupted > 1 ||
				  s->phases.saves_nothing
			  ? SIGKILL
			  : SIGTERM;
	if (sig == SIGKILL)
		sup_checkpoint_abandon(s);
	if (phase_stop(s, 0, sig) && phase_stop(s, 1, SIGTERM) && sup_parts_end(s))
		sup_enter(s, PHASE_SCORING);
}

static void step_scoring(struct supervisor *s)
{
	int finished = s->phases.goal == GOAL_DONE || s->phases.goal == GOAL_EARLY;
	if (finished && s->job->test.count > 0 && !s->score.done && !s->phases.interrupted) {
		sup_score_start(s, s->checkpoint.latest, 1);
		if (!s->score.done)
			return;
	}
	sup_enter(s, PHASE_OVER);
}

static void step_over(struct supervisor *s)
{
	sup_links_close_servers(s); /* those who wait for an answer are told */
	sup_answer_all(s);
	server_stop(s->server);
}

static const struct {
	const char *name;
	void (*step)(struct supervisor *s);
} phases[PHASES] = {
	[PHASE_SERVICES] = {"services", step_services},
	[PHASE_ROLLBACK] = {"rollback", sup_rollback_step},
	[PHASE_SERVERS] = {"servers", step_servers},
	[PHASE_FIRST_CUT] = {"first-cut", step_first_cut},
	[PHASE_RUNNING] = {"running", step_running},
	[PHASE_WINDING] = {"winding", step_winding},
	[PHASE_LAST_CUT] = {"last-cut", step_last_cut},
	[PHASE_FINISHING] = {"finishing", step_finishing},
	[PHASE_STOPPING] = {"stopping", step_stopping},
	[PHASE_SCORING] = {"scoring", step_scoring},
	[PHASE_OVER] = {"over", step_over},
};

const char *sup_phase_name(enum sup_phase phase)
{
	return phases[phase].name;
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
	struct supervisor *s = arg;
	(void)fd;
	(void)what;
	sup_kept_step(s);
	for (int i = 0; i < STEPS_MAX; i++) {
		enum sup_phase before = s->phases.now;
		if (s->phases.now < PHASE_STOPPING) {
			sup_hosts_step(s);
			sup_standbys_tell(s);
			want_services(s);
		}
		/* After a rollback the phases above start all that went back. A replica or a lead
		 * that ended alone is started again here, in any phase. */
		if (s->phases.now >= PHASE_FIRST_CUT && s->phases.now < PHASE_STOPPING)
			want_servers(s);
		phases[s->phases.now].step(s);
		if (s->phases.now == before)
			return;
	}
	sup_kick(s); /* others get to run in between */
}

static void phase_on_retry(void *supervisor)
{
	on_kick(-1, 0, supervisor);
}

int sup_phase_init(struct supervisor *s, struct error *err)
{
	s->phases.started = clock_mono();
	s->phases.kick = event_new(s->base, -1, 0, on_kick, s);
	s->phases.retry = timer_new(s->base, phase_on_retry, s);
	return s->phases.kick && s->phases.retry
		       ? 0
		       : error_set(err, ERROR_OS, "events", "out of memory");
}

void sup_phase_free(struct supervisor *s)
{
	if (s->phases.kick)
		event_free(s->phases.kick);
	timer_free(s->phases.retry);
}
