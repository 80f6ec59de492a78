/* watchdog: see watchdog.h. */
#include "run/show.h"
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/grow.h"
#include "proc/inspect.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASK_SECONDS 1.0
#define LOOK_SECONDS 2.5 /* until the reports of the agents have come */
#define PRESENT_SECONDS 1.0 /* a daemon that answers later counts as away for workers */

/* ---- asking ---- */

static int is_lead(const struct sup_node *n)
{
	return n == sup_lead(n->sup);
}

static int is_worker(const struct sup_node *n)
{
	return n->role->ready == READY_MEMBER;
}

/* A spare owes nothing once it stands ready. */
static int is_spare(const struct sup_node *n)
{
	return n->role->ready == READY_ASKS;
}

/* Takes a worker's sign of life, and the work that it has done since the last one. */
static void take_counts(struct sup_node *n, uint64_t pushes, uint64_t samples)
{
	struct sup_seen *seen = &n->watch.seen;
	if (seen->pushes_known && pushes > seen->pushes && samples > seen->samples) {
		const struct sup_watchdog *w = &n->sup->watchdog;
		/* The time of a write or a pause is no measure of a batch. */
		if (seen->partly || w->saves || w->saves_now || w->pauses || w->pauses_now)
			pulse_resume(&n->watch.pulse);
		else
			pulse_work(&n->watch.pulse, samples - seen->samples);
		seen->partly = 0;
		n->watch.worked = 1;
	} else if (!seen->pushes_known || pushes != seen->pushes)
		pulse_sign(&n->watch.pulse); /* it was adopted, or another lead counts anew */
	seen->pushes = pushes;
	seen->samples = samples;
	seen->pushes_known = 1;
}

/* What its agent sees of a trainer. */
static void take_trainer(struct sup_node *n, const struct record *r)
{
	struct sup_seen *seen = &n->watch.seen;
	const char *state = record_get(r, "trainer"), *wchan = record_get(r, "wchan");
	int paused = seen->pauses > 0;
	seen->waits = record_get(r, "waits") != NULL;
	seen->stopped = record_get(r, "stopped") != NULL;
	seen->pauses = 0;
	record_real_opt(r, "pauses", 0, 1e9, &seen->pauses, NULL);
	snprintf(seen->state, sizeof seen->state, "%s", state ? state : "");
	snprintf(seen->wchan, sizeof seen->wchan, "%s", wchan ? wchan : "");
	if (paused != (seen->pauses > 0)) /* the batch after a pause begins only now */
		pulse_rest(&n->watch.pulse);
	n->sup->watchdog.pauses_now |= seen->pauses > 0;
}

static void take_member(struct supervisor *s, const struct record *r)
{
	const char *state = record_get(r, "state"), *owes = record_get(r, "owes");
	s->watchdog.saves_now |= record_get(r, "saves") != NULL;
	struct sup_node *n = sup_find_of(s, sup_trainers(s), record_get(r, "worker"));
	uint64_t pushes = 0, samples = 0, generation = 0;
	if (!n || !state)
		return;
	struct sup_seen *seen = &n->watch.seen;
	/* Behind its last batch it still owes what it was told to save. */
	int owed = (owes && owes[0] != '\0') ||
		   (record_get(r, "saves") && strcmp(state, "ended") == 0);
	record_u64_opt(r, "generation", 0, UINT64_MAX, &generation, NULL);
	record_u64_opt(r, "iteration", 0, UINT64_MAX, &seen->iteration, NULL);
	record_u64_opt(r, "pushes", 0, UINT64_MAX, &pushes, NULL);
	record_u64_opt(r, "samples", 0, UINT64_MAX, &samples, NULL);
	record_u64_opt(r, "size", 0, UINT64_MAX, &seen->size, NULL);
	if (!seen->member || generation != seen->member_generation || owed != seen->owes)
		pulse_sign(&n->watch.pulse);
	if (generation != seen->member_generation)
		seen->pushes = seen->samples = 0;
	take_counts(n, pushes, samples);
	take_trainer(n, r);
	if (job_has_delay(s->job))
		show_take_delays(&seen->delays, r);
	seen->member = 1;
	seen->member_generation = generation;
	seen->owes = owed;
	seen->round = s->watchdog.round;
	struct record_out o;
	record_begin(&o, seen->last, sizeof seen->last, r->type);
	record_add_fields(&o, r, NULL);
	if (record_end(&o, NULL) == 0)
		seen->last[0] = '\0';
}

/* Without a lead: a worker is ready when it asks for the first time, and is busy with its piece
 * from one request to the next. */
static void take_work(struct sup_node *n, const struct record *r, uint64_t asks,
		      uint64_t generation)
{
	struct sup_seen *seen = &n->watch.seen;
	uint64_t pieces = 0;
	record_u64_opt(r, "pieces", 0, UINT64_MAX, &pieces, NULL);
	int is_new = generation != seen->generation;
	if (is_new || asks != seen->asks) {
		if (!is_new && seen->owes && !seen->partly) {
			pulse_work(&n->watch.pulse, 1);
			n->watch.worked = 1;
		} else
			pulse_resume(&n->watch.pulse);
		seen->partly = 0;
	}
	seen->asks = asks;
	seen->generation = generation;
	seen->member = generation > 0;
	seen->owes = pieces > 0;
	if (n->stage == STAGE_STARTING && generation > 0)
		sup_node_answers(n, 0);
}

static void take_asks(struct supervisor *s, const struct record *r)
{
	struct sup_node *n = sup_find_of(s, sup_trainers(s), record_get(r, "worker"));
	uint64_t asks = 0, generation = 0;
	if (!n)
		return;
	record_u64_opt(r, "asks", 0, UINT64_MAX, &asks, NULL);
	record_u64_opt(r, "generation", 0, UINT64_MAX, &generation, NULL);
	if (!sup_lead(s)) {
		take_work(n, r, asks, generation);
		return;
	}
	if (asks != n->watch.seen.asks || generation != n->watch.seen.generation) {
		/* A member's get is made ahead of its batch: only the batch is what it owes. */
		if (!n->watch.seen.member)
			pulse_sign(&n->watch.pulse);
		n->watch.seen.asks = asks;
		n->watch.seen.generation = generation;
	}
}

/* A save or a pause has ended: the batch after it begins only now. */
static void end_saves(struct supervisor *s)
{
	struct sup_watchdog *w = &s->watchdog;
	if ((w->saves && !w->saves_now) || (w->pauses && !w->pauses_now))
		EACH_OF (n, s, sup_trainers(s))
			pulse_rest(&n->watch.pulse);
	w->saves = w->saves_now;
	w->saves_now = 0;
	w->pauses = w->pauses_now;
	w->pauses_now = 0;
}

/* A worker that the lead has not named in this round is no member. */
static void watchdog_end_round(struct supervisor *s)
{
	end_saves(s);
	EACH_OF (n, s, sup_trainers(s)) {
		if (n->watch.seen.round == s->watchdog.round || !n->watch.seen.member)
			continue;
		n->watch.seen.member = n->watch.seen.owes = 0;
		n->watch.seen.waits = n->watch.seen.stopped = 0; /* what is known of its trainer is old */
		pulse_sign(&n->watch.pulse);
	}
	s->watchdog.round++;
}

/* An empty replica is up, but has no parameters until another one has filled it. One that only sums
 * never has any. */
static void watchdog_take_state(struct sup_node *n, const struct record *r)
{
	const char *state = record_get(r, "state");
	int serves = (state && strcmp(state, "serving") == 0) || record_get(r, "sums");
	if (serves && !n->watch.seen.serves)
		sup_event(n, "serving", NULL);
	n->watch.seen.serves = serves;
	n->watch.seen.said = clock_mono();
}

static void watchdog_take_standby(struct sup_node *n, const struct record *r)
{
	const char *standby = record_get(r, "standby");
	snprintf(n->watch.seen.standby, sizeof n->watch.seen.standby, "%s", standby ? standby : "");
	n->watch.seen.standby_silent = 0;
	record_real_opt(r, "standby-silent", 0, 1e9, &n->watch.seen.standby_silent, NULL);
}

static void watchdog_on_record(const struct record *r, void *owner)
{
	struct sup_node *n = owner;
	if (is_lead(n) && record_is(r, "member"))
		take_member(n->sup, r);
	else if (n == sup_shardd(n->sup) && record_is(r, "worker"))
		take_asks(n->sup, r);
	else if (n->role == &role_replica && record_is(r, "stat"))
		watchdog_take_state(n, r);
	else if (n->role == &role_server && record_is(r, "stat"))
		watchdog_take_standby(n, r);
}

static void watchdog_on_answer(const struct record *r, void *owner)
{
	struct sup_node *n = owner;
	if (!r)
		return; /* the connection was lost: it still owes the answer */
	if (is_lead(n) && sup_answer_ok(r)) {
		watchdog_take_standby(n, r);
		watchdog_end_round(n->sup);
	}
	pulse_work(&n->watch.pulse, 1);
}

/* If the question can't be sent, the daemon owes the answer all the same. */
static void watchdog_ask(struct sup_node *n)
{
	const char *asked = n->role->question ? n->role->question : "counters";
	sup_ask(&n->watch.question, &n->watch_link, RECORD_BARE(is_lead(n) ? "members" : asked),
		watchdog_on_record, watchdog_on_answer, n);
}

/* ---- giving up ---- */

/* Writes what is known of the node into its log: of all processes of its group, as a template may
 * leave several. */
static void write_last_words(struct sup_node *n, const char *why)
{
	char path[DIRS_PATH_MAX], *text = NULL;
	size_t len = 0;
	struct error err;
	FILE *out = grow_stream(&text, &len);
	if (!out)
		return;
	fprintf(out, "trainctl: %s %s\n", n->id, why);
	if (n->watch.seen.last[0])
		fprintf(out, "trainctl: the lead said last: %s", n->watch.seen.last);
	if (n->now.pid > 0)
		inspect_group(out, "trainctl: ", n->now.pid);
	if (n->restart.next.runs && n->restart.next.pid > 0)
		inspect_group(out, "trainctl: ", n->restart.next.pid);
	sup_node_log_path(n, path);
	int fd = fclose(out) == 0
			 ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600)
			 : -1;
	if (fd >= 0 && fs_write_all(fd, text, len, path, &err) != 0)
		log_say(LOG_LEVEL_WARNING, "%s: %s", path, err.text);
	if (fd >= 0)
		close(fd);
	free(text);
}

/* A user's trainer, whose parameters go back with those of all others. */
static int is_trainer(const struct sup_node *n)
{
	return is_worker(n) && sup_goes_back(n);
}

/* The state of the process; of one on another host not what starts it from here. For a trainer it
 * is what the agent said of it; the agent's own, if it said nothing. */
static void look_last(const struct sup_node *n, struct sup_process *p, struct sup_silence *silence)
{
	const struct sup_seen *seen = &n->watch.seen;
	pid_t pid = sup_process_pid(p);
	if (pid > 0 && !n->place.launcher->is_far)
		inspect_process(pid, silence->state, sizeof silence->state, silence->wchan,
				sizeof silence->wchan);
	if (!is_trainer(n) || silence->state[0] == 'T')
		return;
	if (seen->state[0]) {
		memcpy(silence->state, seen->state, sizeof silence->state);
		memcpy(silence->wchan, seen->wchan, sizeof silence->wchan);
	} else if (n->watch.motion.stopped > 0) { /* its agent is not */
		snprintf(silence->state, sizeof silence->state, "T (stopped)");
		silence->wchan[0] = '\0';
	}
}

static void look_who_waits(const struct sup_node *n, struct sup_silence *silence)
{
	size_t at = 0, more = 0;
	EACH_OF (other, n->sup, n->role) {
		if (other == n || !sup_waits_for_others(other))
			continue;
		if (at + 40 < sizeof silence->waiting)
			at += (size_t)snprintf(silence->waiting + at, sizeof silence->waiting - at,
					       "%s%.24s", at ? ", " : "", other->id);
		else
			more++;
	}
	if (more)
		snprintf(silence->waiting + at, sizeof silence->waiting - at, " and %zu more", more);
}

/* What a person can do if it was no fault of the trainer. */
static const char *advice(const struct sup_node *n, const struct sup_silence *silence)
{
	if (!is_trainer(n) || silence->state[0] == 'T')
		return "";
	if (silence->section == PULSE_PAUSE)
		return "; a longer pause names its seconds, as pause(seconds=7200), or HUNG=pause:7200";
	return "; put other work (a validation) into batches.pause(), and give longer batches a "
	       "longer HUNG (paceline-trainers(7))";
}

static void watchdog_tell(struct sup_node *n, struct sup_process *p, struct sup_silence *silence)
{
	char why[256], who[SUP_WHO_MAX], waiting[160] = "";
	int by_itself = silence->section == PULSE_PAUSE &&
			!n->sup->watchdog.rules.fixed[PULSE_PAUSE];
	look_last(n, p, silence);
	if (is_trainer(n) && silence->state[0] != 'T')
		sup_said(n, 0, silence->in);
	if (is_trainer(n))
		look_who_waits(n, silence);
	if (silence->waiting[0] && job_kind(n->sup->job)->sums)
		snprintf(waiting, sizeof waiting, "; in the sum of iteration %llu %s waited for it",
			 (unsigned long long)n->watch.seen.iteration, silence->waiting);
	else if (silence->waiting[0])
		snprintf(waiting, sizeof waiting, "; %s waited for it", silence->waiting);
	snprintf(why, sizeof why,
		 "has given no sign of life for %.3g s (section %s, at most %.3g s by %s): killed",
		 silence->seconds, pulse_section_name(silence->section), silence->limit,
		 by_itself ? "its own word" : "HUNG");
	write_last_words(n, why);
	sup_event_hung(p, silence);
	log_say(LOG_LEVEL_WARNING, "%s %s%s%s%s%s%s%s", sup_who(n, who), why,
		silence->state[0] ? "; it was " : "", silence->state, silence->in[0] ? " in " : "",
		silence->in, waiting, advice(n, silence));
}

static int waits_for_save(const struct sup_node *n)
{
	return is_worker(n) && n->watch.seen.member && n->sup->watchdog.saves;
}

static double limit_of(const struct sup_node *n, enum pulse_section section, uint64_t units)
{
	const struct sup_watchdog *w = &n->sup->watchdog;
	if (section == PULSE_PAUSE && !w->rules.fixed[PULSE_PAUSE])
		return n->watch.seen.pauses;
	return pulse_limit(&n->watch.pulse, waits_for_save(n) ? &w->saving : &w->rules, section,
			   units);
}

/* Whether it is this node's turn to do something, as far as is known. */
static int has_turn(const struct sup_node *n)
{
	return sup_node_runs(n) && (!n->watch.seen.member || n->watch.seen.owes);
}

/* Whether the silence is known to be its own fault: it is stopped, or pauses, or all other silent
 * trainers say that they wait. */
static int is_guilty(const struct sup_node *n)
{
	const struct sup_seen *seen = &n->watch.seen;
	if (!is_trainer(n) || seen->stopped || seen->pauses > 0 || n->watch.motion.stopped > 0)
		return 1;
	if (job_kind(n->sup->job)->sums && !seen->waits) /* who waits in a sum has no turn */
		return 1;
	EACH_OF (other, n->sup, n->role)
		if (other != n && has_turn(other) && !other->watch.seen.waits)
			return 0;
	return !seen->waits;
}

static void watchdog_give_up(struct sup_node *n, enum pulse_section section, double limit)
{
	struct sup_silence silence = {
		.section = section, .seconds = n->watch.pulse.silent, .limit = limit};
	watchdog_tell(n, &n->now, &silence);
	sup_restart_failed(n, "it gave no sign of life");
	sup_host_doubt(n);
	if (is_guilty(n)) {
		sup_host_avoid_of(n, "gave no sign of life there");
		sup_self_test(n->sup, n->id);
	} else {
		log_say(LOG_LEVEL_WARNING,
			"%s is one of several trainers that stand still, and it is not known for "
			"which of them the others wait; their logs say what each was doing",
			n->id);
	}
	n->sup->watchdog.gives_up |= is_trainer(n);
	sup_node_give_up(n);
}

/* Gives up the next process of a hand-over; the old one goes on. */
static void give_up_next(struct sup_node *n)
{
	struct sup_silence silence = {.section = PULSE_HANDOVER,
				      .seconds = n->watch.next.silent,
				      .limit = fmin(n->watch.next.silent,
						    n->sup->watchdog.rules.least[PULSE_HANDOVER])};
	watchdog_tell(n, &n->restart.next, &silence);
	sup_restart_kill_next(n);
}

/* ---- judging ---- */

static enum pulse_section watchdog_section_of(const struct sup_node *n)
{
	if (is_trainer(n) && n->watch.seen.pauses > 0)
		return PULSE_PAUSE;
	if (waits_for_save(n))
		return PULSE_CHECKPOINT;
	if (is_worker(n) && !n->watch.pulse.begun)
		return PULSE_START;
	if (is_worker(n))
		return n->watch.seen.member || is_trainer(n) ? PULSE_BATCH : PULSE_EXCHANGE;
	if (sup_restart_hands_over(n))
		return PULSE_HANDOVER;
	if (n->stage == STAGE_STARTING)
		return PULSE_START;
	return n != sup_monitor(n->sup) && n->watch.cutting ? PULSE_CHECKPOINT : PULSE_EXCHANGE;
}

/* Samples of the batch in its hand: the larger of what it had and what it may have been told. */
static uint64_t units_of(struct sup_node *n)
{
	if (!is_worker(n))
		return 1;
	const struct action *a = sup_in_force_find(n->sup, ACTION_ADJUST_BS, n->id);
	uint64_t told = a ? a->size * a->accum : 0;
	return told > n->watch.seen.size ? told : n->watch.seen.size;
}

/* Whether it means something if the process uses no processor. A launch template may be the client
 * of a process elsewhere, and a user's trainer may sleep: of these it only means something if they
 * are stopped. */
static int watchdog_is_ours(const struct sup_node *n)
{
	const char *front = n->role->template ? n->role->template(n->sup->job) : "";
	return (is_worker(n) || is_spare(n)) && !n->role->foreign && (!front || !front[0]);
}

static int others_train(const struct sup_node *n)
{
	return n->sup->watchdog.trained > (n->watch.worked ? 1 : 0);
}

static void watchdog_look_at(struct sup_node *n, struct sup_process *p, struct inspect_motion *m,
			     double *looked, double seconds)
{
	struct sup_watchdog *all = &n->sup->watchdog;
	pid_t pid = sup_process_pid(p);
	*looked += seconds;
	if (!all->looks || pid <= 0)
		return;
	if (n->place.launcher->is_far)
		inspect_shown(m, pid);
	else {
		if (!all->groups.is_read)
			inspect_groups_read(&all->groups);
		inspect_motion(m, &all->groups, pid, *looked);
	}
	*looked = 0;
}

/* A look at all processes is expensive: none is made if one file says that the node is not
 * stopped, where the node is one process. */
static int may_be_stopped(struct sup_node *n, struct sup_process *p)
{
	char state[64], wchan[64];
	const char *front = n->role->template ? n->role->template(n->sup->job) : "";
	if (n->place.launcher->is_far || (front && front[0]) || n->role->foreign)
		return 1;
	inspect_process(sup_process_pid(p), state, sizeof state, wchan, sizeof wchan);
	return state[0] == 'T' || state[0] == 't';
}

/* Seconds after which a stopped node is hung, in a section for which HUNG gives no limit. */
static double stopped_limit(const struct sup_node *n)
{
	return deadline_stopped(&n->sup->watchdog.rules, is_worker(n) ? PULSE_BATCH : PULSE_EXCHANGE);
}

static void look_whether_stopped(struct sup_node *n, struct sup_process *p, struct inspect_motion *m,
				 double *looked, double silent, double seconds)
{
	if (silent > ASK_SECONDS && (m->stopped > 0 || *looked > 0 || may_be_stopped(n, p)))
		watchdog_look_at(n, p, m, looked, seconds);
	else if (silent <= ASK_SECONDS)
		*m = (struct inspect_motion){0};
}

static int is_stopped(struct sup_node *n, enum pulse_section section, double seconds, double *limit)
{
	struct sup_watched *w = &n->watch;
	const struct pulse_rules *rules =
		waits_for_save(n) ? &n->sup->watchdog.saving : &n->sup->watchdog.rules;
	if (rules->fixed[section])
		return 0;
	w->stopped = w->seen.stopped ? w->stopped + seconds : 0;
	look_whether_stopped(n, &n->now, &w->motion, &w->looked, w->pulse.silent, seconds);
	*limit = stopped_limit(n);
	double seen = fmax(w->motion.stopped, w->stopped);
	/* The first look comes after ASK_SECONDS of silence, and the next ones so far apart. */
	return w->pulse.silent > *limit && seen > 0 && seen > *limit - 2 * ASK_SECONDS;
}

/* A worker of the kit that starts and does nothing for longer than a batch may take. A smaller HUNG
 * does not make it dead sooner: it may wait for something. */
static int is_still(struct sup_node *n, double seconds, double *limit)
{
	struct sup_watched *w = &n->watch;
	*limit = fmax(limit_of(n, PULSE_BATCH, 1), deadline_seconds(DEADLINE_BATCH));
	if (!watchdog_is_ours(n) || n->sup->watchdog.rules.fixed[PULSE_START] ||
	    *limit >= limit_of(n, PULSE_START, 1))
		return 0;
	if (!may_be_stopped(n, &n->now)) /* else is_stopped() has looked at it already */
		watchdog_look_at(n, &n->now, &w->motion, &w->looked, seconds);
	w->others = others_train(n) ? w->others + seconds : 0;
	return w->pulse.silent > *limit && w->motion.still > *limit && w->others > *limit;
}

/* Asks the agents of all trainers whose turn it is: what the others are doing shows what they wait
 * for. A stopped one says nothing. */
static void ask_agents(struct sup_node *n)
{
	EACH_OF (other, n->sup, n->role)
		if (has_turn(other) && !(other->watch.asked > 0)) {
			other->watch.asked = 1e-9;
			sup_process_signal(&other->now, SIGUSR1);
		}
}

/* It has been silent for too long. Before a trainer is given up, agents are asked. */
static void watchdog_is_over(struct sup_node *n, enum pulse_section section, double limit)
{
	if (is_trainer(n) && n->watch.motion.stopped <= 0) {
		ask_agents(n);
		if (n->watch.asked <= LOOK_SECONDS)
			return;
	}
	watchdog_give_up(n, section, limit);
}

static void watchdog_judge(struct sup_node *n, double seconds, int owes)
{
	double limit;
	/* A silence that began while a checkpoint was cut belongs to that section. */
	n->watch.cutting =
		!is_worker(n) && (sup_turn_is(n->sup, TURN_CUT) || (n->watch.cutting && owes));
	enum pulse_section section = watchdog_section_of(n);
	uint64_t units = units_of(n);
	pulse_tick(&n->watch.pulse, seconds, owes);
	double tick = seconds < PULSE_TICK_MAX ? seconds : PULSE_TICK_MAX;
	/* A daemon answers soon, once it is up; a batch may take long. */
	int takes_long = is_worker(n) || section == PULSE_START;
	if (!owes)
		return;
	if (n->watch.pulse.silent <= ASK_SECONDS)
		n->watch.asked = 0;
	n->watch.asked += n->watch.asked > 0 ? tick : 0;
	sup_host_silent(n, n->watch.pulse.silent, takes_long ? limit_of(n, section, units) : 0);
	if (n->watch.pulse.silent > limit_of(n, section, units))
		watchdog_is_over(n, section, limit_of(n, section, units));
	else if (is_stopped(n, section, tick, &limit))
		watchdog_is_over(n, section, limit);
	else if (section == PULSE_START && is_still(n, tick, &limit))
		watchdog_give_up(n, section, limit);
}

/* The old process serves nobody meanwhile. If it is stopped, its next process waits in vain. */
static void judge_next(struct sup_node *n, double seconds)
{
	struct sup_watched *w = &n->watch;
	const struct pulse_rules *rules = &n->sup->watchdog.rules;
	double stopped = rules->fixed[PULSE_HANDOVER] ? INFINITY : stopped_limit(n);
	pulse_rest(&w->pulse);
	pulse_tick(&w->next, seconds, 1);
	look_whether_stopped(n, &n->now, &w->motion, &w->looked, w->next.silent, seconds);
	look_whether_stopped(n, &n->restart.next, &w->next_motion, &w->next_looked, w->next.silent,
			     seconds);
	if (!n->restart.next.doomed &&
	    (w->next.silent > rules->least[PULSE_HANDOVER] || w->motion.stopped > stopped ||
	     w->next_motion.stopped > stopped))
		give_up_next(n);
}

/* Without a limit by HUNG the server itself gives it up. */
static void judge_standby(struct sup_node *n)
{
	const struct pulse_rules *rules = &n->sup->watchdog.rules;
	double silent = n->watch.seen.standby_silent, limit = rules->least[PULSE_EXCHANGE];
	if (!n->restart.stands || n->restart.next.doomed || !rules->fixed[PULSE_EXCHANGE] ||
	    silent <= limit)
		return;
	sup_note(
		n->sup, "warning",
		"the standby of %s has not answered it for %.3g s (at most %.3g s by HUNG): killed",
		n->id, silent, limit);
	sup_restart_kill_next(n);
}

static void judge_daemon(struct sup_node *n, double seconds)
{
	if (sup_restart_hands_over(n))
		judge_next(n, seconds);
	else if (!sup_node_runs(n) || !sup_host_is_reached(n))
		pulse_rest(&n->watch.pulse);
	else
		watchdog_judge(n, seconds,
			       n->stage == STAGE_STARTING || n->watch.question.open ||
				       !sup_link_up(&n->watch_link));
	judge_standby(n);
}

static int watchdog_is_there(const struct sup_node *n)
{
	return n->stage == STAGE_READY && !n->now.doomed && !sup_restart_hands_over(n) &&
	       sup_link_up(&n->watch_link) && n->watch.pulse.silent < PRESENT_SECONDS &&
	       n->watch.seen.standby_silent < PRESENT_SECONDS;
}

/* Trainers of the user's own are needed for the last checkpoint, too. */
static int job_trains(const struct supervisor *s)
{
	return s->phases.now == PHASE_RUNNING ||
	       (s->phases.now == PHASE_LAST_CUT && job_kind(s->job)->cut == CUT_SAVED);
}

/* Whether all daemons are there that a worker may wait for. */
static int all_there(const struct supervisor *s)
{
	int there = job_trains(s) && watchdog_is_there(sup_shardd(s));
	EACH_NODE (n, s)
		if (n->role->goes_back && !sup_host_is_awaited(n))
			there &= watchdog_is_there(n);
	EACH_OF (n, s, sup_trainers(s))
		there &= sup_host_is_reached(n);
	return there;
}

/* An adopted worker did batches before: the monitor knows how long they took. */
static void watchdog_recall(struct sup_node *n)
{
	const struct sup_seen *seen = &n->watch.seen;
	const struct snapshot_node *m = sup_measured(n);
	if (n->watch.pulse.begun || !seen->partly || !seen->member || seen->pushes == 0 || !m ||
	    !(m->mean_short > 0) || m->size == 0)
		return;
	n->watch.pulse.usual = m->mean_short / (double)m->size;
	pulse_resume(&n->watch.pulse);
}

/* Whether a trainer owes nothing, because another one pauses, or has its turn and is in no
 * collective. */
static int waits_for_others(const struct sup_node *n)
{
	const struct sup_seen *seen = &n->watch.seen;
	if (!is_trainer(n) || seen->stopped || seen->pauses > 0)
		return 0;
	if (n->sup->watchdog.pauses)
		return 1;
	if (!seen->waits)
		return 0;
	EACH_OF (other, n->sup, n->role)
		if (other != n && has_turn(other) && !other->watch.seen.waits)
			return 1;
	return 0;
}

static void judge_worker(struct sup_node *n, double seconds, int there)
{
	watchdog_recall(n);
	if (sup_node_runs(n) && !n->sup->watchdog.gives_up)
		watchdog_judge(n, seconds, there && has_turn(n) && !waits_for_others(n));
}

/* It was told to leave, because all is trained: a stopped node never hears that. */
static void judge_leaving(struct sup_node *n, double seconds)
{
	struct sup_watched *w = &n->watch;
	double since = clock_mono() - n->sup->phases.told_to_leave_at, limit = stopped_limit(n);
	/* Of one that was killed already, the end may only not be known yet. */
	if (!n->now.runs || n->now.doomed || n->stop_signal == SIGKILL)
		return;
	w->stopped = w->seen.stopped ? w->stopped + seconds : 0;
	look_whether_stopped(n, &n->now, &w->motion, &w->looked, since, seconds);
	if (fmax(w->motion.stopped, w->stopped) <= limit)
		return;
	struct sup_silence silence = {
		.section = watchdog_section_of(n), .seconds = since, .limit = limit};
	watchdog_tell(n, &n->now, &silence);
	sup_node_stop(n, SIGKILL);
}

/* A command may take any time for a shard, or for all rows: only HUNG limits it. */
int sup_watch_init(struct supervisor *s, struct error *err)
{
	struct pulse_rules *rules = &s->watchdog.rules;
	if (deadline_rules(rules, s->job->hung, err) != 0 ||
	    deadline_rules_saving(&s->watchdog.saving, s->job->hung, err) != 0)
		return -1;
	if (rules->fixed[PULSE_BATCH])
		return 0;
	switch (job_kind(s->job)->given) {
	case GIVEN_BATCHES:
		break;
	case GIVEN_WORDS:
		rules->least[PULSE_BATCH] = deadline_seconds(DEADLINE_TRAINER);
		break;
	case GIVEN_SHARD:
		rules->least[PULSE_BATCH] = rules->least[PULSE_START];
		break;
	case GIVEN_ROWS:
		rules->least[PULSE_BATCH] = INFINITY;
		break;
	}
	return 0;
}

void sup_watch_begin(struct sup_node *n, int adopted)
{
	pulse_begin(&n->watch.pulse);
	n->watch.motion = (struct inspect_motion){0};
	n->watch.looked = n->watch.others = n->watch.stopped = 0;
	n->watch.asked = 0;
	/* It is not known when an adopted node began its present work. */
	n->watch.seen = (struct sup_seen){
		.round = n->sup->watchdog.round, .pushes_known = !adopted, .partly = adopted, .serves = adopted};
	n->watch.worked = 0;
}

/* Workers start over with a daemon that is there again: what they owe begins only now. */
void sup_watch_ready(struct sup_node *n)
{
	pulse_sign(&n->watch.pulse);
	if (n == sup_shardd(n->sup) || n->role->goes_back)
		EACH_OF (worker, n->sup, sup_trainers(n->sup))
			pulse_sign(&worker->watch.pulse);
}

void sup_watch_next(struct sup_node *n)
{
	n->watch.next = (struct pulse){0};
	n->watch.next_motion = (struct inspect_motion){0};
	n->watch.next_looked = 0;
}

const char *sup_watch_section(const struct sup_node *n)
{
	if (!sup_node_runs(n))
		return "";
	if ((is_worker(n) && n->watch.seen.member && (!n->watch.seen.owes || n->watch.seen.waits)) ||
	    (is_spare(n) && n->stage == STAGE_READY))
		return "wait";
	return pulse_section_name(watchdog_section_of(n));
}

void sup_watch_tick(struct supervisor *s)
{
	struct sup_watchdog *w = &s->watchdog;
	double now = clock_mono(), seconds = w->at > 0 ? now - w->at : 0;
	w->at = now;
	if (s->phases.now >= PHASE_STOPPING)
		return; /* their ends have deadlines */
	int due = now - w->asked >= ASK_SECONDS;
	if (due)
		w->asked = now;
	w->looks = due;
	w->trained = 0;
	EACH_OF (n, s, sup_trainers(s))
		w->trained += n->watch.worked != 0;
	EACH_NODE (n, s) {
		if (is_worker(n))
			continue;
		if (is_spare(n)) {
			if (sup_node_runs(n))
				watchdog_judge(n, seconds, n->stage == STAGE_STARTING);
			continue;
		}
		judge_daemon(n, seconds);
		if (due && sup_node_runs(n))
			watchdog_ask(n);
	}
	int there = all_there(s);
	w->gives_up = 0;
	EACH_OF (n, s, sup_trainers(s))
		w->gives_up |= is_trainer(n) && n->now.runs && n->now.doomed;
	int leave = s->phases.now == PHASE_FINISHING && s->phases.told_to_leave;
	EACH_NODE (n, s) {
		if (is_worker(n) && leave)
			judge_leaving(n, seconds);
		else if (is_worker(n))
			judge_worker(n, seconds, there);
	}
	inspect_groups_free(&w->groups);
}
