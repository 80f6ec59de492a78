/* restart: see restart.h. */
#include "run/sup.h"

#include "base/clock.h"

#include <event2/event.h>
#include <math.h>
#include <signal.h>
#include <string.h>

#define SAVE_SECONDS 30.0
#define STANDBY_PAUSE_SECONDS 1.0 /* after a standby that ended early; doubles */
#define STANDBY_DOUBLES 5         /* so many times */
#define STANDBY_WELL_SECONDS 10.0 /* one that lived so long did not end early */
#define STANDBY_LOST_SECONDS 30.0 /* its server knows nothing of it for so long: it hangs */
#define STANDBY_TELL_SECONDS 1.0  /* between two signals */

static double last_restart_of_any(const struct supervisor *s)
{
	double last = 0;
	EACH_NODE (n, s)
		if (n->restart.past.last > last)
			last = n->restart.past.last;
	return last;
}

static const char *restart_refusal(const struct sup_node *n, int force)
{
	const struct supervisor *s = n->sup;
	if (n->role->restart == RESTART_NEVER)
		return "role";
	if (s->phases.now != PHASE_RUNNING || n->stage != STAGE_READY)
		return "not-up";
	if (n->restart.wanted || sup_restart_hands_over(n) || n->restart.from > 0)
		return "under-way";
	if (n->role == &role_replica && !job_kind(s->job)->sums && !sup_others_serve(n))
		return "only";
	if (force)
		return NULL;
	struct restart_rules rules = {.window = s->job->heavy_window,
				      .cooldown = s->job->heavy_cooldown,
				      .limit = s->job->heavy_limit};
	return restart_guard_word(
		restart_guard(&rules, &n->restart.past, last_restart_of_any(s), clock_epoch()));
}

const char *sup_restart_why(const char *word)
{
	static const char *const text[][2] = {
		{"role", "only workers and servers are"},
		{"not-up", "it is not up, or the job is not running"},
		{"under-way", "it is being restarted already"},
		{"no-host", "the job has no other host, or BAD_HOSTS avoid is never"},
		{"hands-over", "a server hands over only on its own host"},
		{"only", "no other replica has the parameters that it would lose"},
		{"limit", "it was restarted KILL_RESTART limit times already"},
		{"window", "it was restarted less than KILL_RESTART window ago"},
		{"cool-down", "another node was restarted less than KILL_RESTART cooldown ago"}};
	for (size_t i = 0; i < sizeof text / sizeof *text; i++)
		if (strcmp(text[i][0], word) == 0)
			return text[i][1];
	return word;
}

static void restart_tell(struct sup_node *n, const char *reason)
{
	log_say(LOG_LEVEL_INFO, "%s is restarted: %s", n->id, reason);
	sup_log(n->sup, RECORD("restart", F("id", n->id), F("reason", reason)));
}

/* Whether a checkpoint is made first, as the node's parameters end with it, so that all go back; or
 * another trainer is awaited, which gets them. */
static int saves_first(const struct sup_node *n)
{
	return sup_takes_back(n) || sup_trainer_is_last(n) ||
	       (n->role == &role_agent && sup_goes_back(n) && sup_count(n->sup, n->role) == 1);
}

static uint64_t restart_cuts(const struct supervisor *s)
{
	return s->checkpoint.made + s->checkpoint.failed;
}

/* A host that is avoided already has been named, with the reason. */
static void restart_avoid_host(struct sup_node *n, const char *why)
{
	if (!sup_host_is_avoided(sup_host_of(n)))
		sup_host_avoid_of(n, why);
}

const char *sup_restart(struct sup_node *n, int force, const char *reason)
{
	const char *refused = restart_refusal(n, force);
	if (refused)
		return refused;
	n->restart.past.count++;
	n->restart.past.last = clock_epoch();
	n->restart.from = clock_mono();
	sup_in_force_changed(n->sup);
	restart_tell(n, reason && reason[0] ? reason : "no reason given");
	if (!force)
		sup_self_test(n->sup, n->id);
	/* It was restarted there before and is slow again: its host may be the reason. */
	if (!force && n->restart.past.count > 1 && n->role->restart == RESTART_KILL)
		restart_avoid_host(n, "was slow there even after a restart");
	if (!force && saves_first(n)) {
		n->restart.save_until = clock_mono() + SAVE_SECONDS;
		n->restart.saves_before = restart_cuts(n->sup);
		sup_kick(n->sup);
		sup_kick_after(n->sup, SAVE_SECONDS);
	} else if (n->role->restart == RESTART_KILL)
		sup_node_kill(n);
	else {
		n->restart.wanted = 1;
		sup_kick(n->sup);
	}
	return NULL;
}

const char *sup_restart_elsewhere(struct sup_node *n, int force, const char *reason)
{
	const char *refused = restart_refusal(n, force);
	if (refused)
		return refused;
	if (n->role->restart != RESTART_KILL)
		return "hands-over";
	if (n->sup->job->host_avoid <= 0 || sup_host_stays(n))
		return "no-host";
	restart_avoid_host(n, reason);
	return sup_restart(n, force, reason);
}

void sup_restart_past(struct sup_node *n, struct restart_past past)
{
	n->restart.past = past;
}

/* ---- a hand-over ---- */

static void log_hand_over(struct sup_node *n, const char *type, const struct node_end *end)
{
	struct record_out *o = RECORD(type, F("id", n->id), F("life", n->restart.next.life));
	if (end)
		sup_add_end(o, end);
	sup_log(n->sup, o);
}

static void kill_next(struct sup_node *n)
{
	if (n->restart.next.runs)
		timer_set(n->restart.timer, sup_process_signal(&n->restart.next, SIGKILL) < 0
						    ? SUP_SOON_SECONDS
						    : deadline_seconds(DEADLINE_GONE));
}

static void restart_begin(struct sup_node *n)
{
	struct error err;
	n->restart.wanted = n->restart.stands = 0;
	n->restart.from = clock_mono(); /* the wait for a checkpoint is not part of its cost */
	if (sup_process_launch(&n->restart.next, n->at, 1, &err) != 0) {
		char text[1024];
		error_format(&err, text, sizeof text);
		sup_note(n->sup, "warning", "%s can't be restarted: %s", n->id, text);
		sup_restart_failed(n, text);
		return;
	}
	sup_restart_goes_on(n);
}

/* ---- standbys ---- */

int sup_restart_hands_over(const struct sup_node *n)
{
	return n->restart.next.runs && !n->restart.stands;
}

static void log_standby(struct sup_node *n, const char *type, const struct node_end *end)
{
	const struct supervisor *s = n->sup;
	struct record_out *o =
		RECORD(type, F("id", n->id), F("life", n->restart.next.life),
		       F("host", s->hosts.host[n->restart.next.at].place->host));
	if (end)
		sup_add_end(o, end);
	sup_log(n->sup, o);
}

static int restart_has_standbys(const struct supervisor *s)
{
	return strcmp(s->job->standby, "on") == 0;
}

/* While parameters move, a part has no standby. If other servers or hosts were asked for, the
 * servers change hosts first. */
static int wants_standby(const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	int goes = sup_scale_goes(n);
	return (goes || (restart_has_standbys(s) && !sup_turn_is(s, TURN_MOVE))) &&
	       sup_scale_has_part(n) && !n->leaving && n->stage == STAGE_READY && !n->now.doomed &&
	       !n->restart.wanted && !n->restart.next.runs && !sup_turn_is(s, TURN_REBALANCE);
}

static void standby_later(struct sup_node *n)
{
	double pause = ldexp(STANDBY_PAUSE_SECONDS, n->restart.stood);
	if (n->restart.stood < STANDBY_DOUBLES)
		n->restart.stood++;
	n->restart.stand_from = clock_mono() + pause;
	sup_kick_after(n->sup, pause);
}

int sup_restart_has_far(const struct sup_node *n)
{
	return n->restart.stands && n->restart.next.at != n->at;
}

/* Another host must be able to reach its socket before the server is asked for it. */
static void standby_begin(struct sup_node *n)
{
	struct supervisor *s = n->sup;
	struct error err;
	n->restart.stands = 1;
	n->restart.next.at = sup_scale_goes(n) ? sup_host_choice(n) : sup_host_standby(n);
	sup_routes_step(s);
	if (sup_restart_has_far(n) && !sup_host_routes_hold(s))
		return;
	n->restart.stood_at = clock_mono();
	if (sup_process_launch(&n->restart.next, n->restart.next.at, 1, &err) == 0) {
		n->uncounted++; /* it is no restart, unless it takes over */
		log_standby(n, "standby", NULL);
		return;
	}
	n->restart.stands = 0;
	sup_note(n->sup, "retry", "a standby of %s can't be started yet: %s", n->id, err.text);
	standby_later(n);
}

static int standby_is_wrong(struct sup_node *n)
{
	struct sup_restart *r = &n->restart;
	if (!r->stands || !r->next.runs || r->next.doomed || n->stage != STAGE_READY)
		return 0;
	if (sup_scale_goes(n)
		    ? r->next.at != sup_host_choice(n)
		    : !restart_has_standbys(n->sup) || !sup_host_standby_stays(n, r->next.at))
		return 1;
	if (n->watch.seen.standby[0] || !sup_link_up(&n->watch_link))
		r->stood_at = clock_mono();
	return clock_mono() - r->stood_at >= STANDBY_LOST_SECONDS;
}

/* The server is to go to the host of its standby. */
static int standby_is_to_replace(const struct sup_node *n)
{
	return sup_scale_goes(n) && n->restart.stands && n->restart.next.runs &&
	       !n->restart.next.doomed && n->stage == STAGE_READY && !sup_turn_is(n->sup, TURN_CUT);
}

/* What the watchdog has seen may be old: a standby is lost when the fabric begins anew. */
static void standby_replaces(const struct record *r, void *owner)
{
	struct sup_node *n = owner;
	const char *standby = record_is(r, "stat") ? record_get(r, "standby") : NULL;
	if (standby && strcmp(standby, "in-force") == 0 && standby_is_to_replace(n))
		sup_process_signal(&n->now, SIGKILL);
}

void sup_standbys_step(struct supervisor *s)
{
	EACH_OF (n, s, &role_server) {
		double left = n->restart.stand_from - clock_mono();
		if (standby_is_wrong(n))
			kill_next(n);
		else if (standby_is_to_replace(n) && n->watch.seen.standby[0])
			sup_ask(&n->restart.question, &n->link, RECORD_BARE("stat"),
				standby_replaces, NULL, n);
		if (!wants_standby(n))
			continue;
		if (left > 0)
			sup_kick_after(s, left);
		else
			standby_begin(n);
	}
}

static void standby_ended(struct sup_node *n, const struct node_end *end)
{
	log_standby(n, "standby-ended", end);
	sup_host_ended(&n->restart.next, end);
	sup_node_remove_socket(&n->restart.next, ".standby");
	n->watch.seen.standby[0] = '\0';
	n->watch.seen.standby_silent = 0;
	if (clock_mono() - n->restart.next.since >= STANDBY_WELL_SECONDS)
		n->restart.stood = 0;
	if (n->restart.next.doomed)
		n->restart.stand_from = 0;
	else
		standby_later(n);
	n->restart.stands = 0;
	sup_kick(n->sup);
}

/* 1: the standby takes over, or ends. Only a signal leaves it the part; a server that ends by
 * itself has a reason that its standby would have, too. */
static int standby_takes_over(struct sup_node *n, const struct node_end *end)
{
	const struct supervisor *s = n->sup;
	const char *host = s->hosts.host[n->restart.next.at].place->host;
	char text[128];
	int is_far = sup_restart_has_far(n);
	if (end->seen && !end->signal && !sup_host_was_lost(n, end) &&
	    sup_node_class(n, end) != END_OOM)
		return 0;
	end_text(end, text, sizeof text);
	if (sup_scale_goes(n))
		sup_note(n->sup, "goes", "%s goes to %s", n->id, host);
	else
		sup_note(n->sup, "takes-over", "%s: %s; its standby%s%s takes over", n->id, text,
			 is_far ? " on " : "", is_far ? host : "");
	n->restart.tells = is_far;
	n->restart.told_at = 0;
	n->uncounted -= !sup_scale_goes(n);
	n->restart.stands = 0;
	n->restart.stood = 0;
	n->restart.stand_from = 0;
	return 1;
}

/* Until it answers under the server's name: a signal that comes too early is lost. */
void sup_standbys_tell(struct supervisor *s)
{
	EACH_OF (n, s, &role_server) {
		struct sup_restart *r = &n->restart;
		double left = r->told_at + STANDBY_TELL_SECONDS - clock_mono();
		r->tells &= n->stage == STAGE_STARTING;
		if (!r->tells || !sup_host_routes_hold(s))
			continue;
		if (left <= 0) {
			left = sup_process_signal(&n->now, SIGUSR1) < 0 ? SUP_SOON_SECONDS
									: STANDBY_TELL_SECONDS;
			r->told_at = clock_mono() + left - STANDBY_TELL_SECONDS;
		}
		sup_kick_after(s, left);
	}
}

/* A trainer that is to be restarted is killed when the checkpoint is made, or can't be made: this
 * trainer may be the one for which it waits. Where others have the parameters, it needs none. */
static void step_trainers(struct supervisor *s)
{
	EACH_OF (n, s, &role_agent) {
		if (n->restart.save_until <= 0)
			continue;
		int waits = restart_cuts(s) == n->restart.saves_before && saves_first(n) &&
			    clock_mono() < n->restart.save_until;
		if (waits && sup_trainer_is_last(n))
			continue;
		if (waits && n->stage == STAGE_READY && sup_trainers_can_save(s)) {
			sup_checkpoint_make(s);
			continue;
		}
		n->restart.save_until = 0;
		if (n->stage == STAGE_READY)
			sup_node_kill(n);
	}
}

void sup_restart_step(struct supervisor *s)
{
	step_trainers(s);
	EACH_NODE (n, s) {
		if (!n->restart.wanted)
			continue;
		if (!sup_turn_may_begin(s, TURN_HAND_OVER))
			return;
		if (n->restart.stands && n->restart.next.runs) { /* this waits for its end */
			kill_next(n);
			continue;
		}
		if (n->stage == STAGE_READY)
			restart_begin(n);
		else {
			n->restart.wanted = 0;
			sup_restart_failed(n, "it is not up any more");
		}
	}
}

static void restart_on_timer(void *node)
{
	struct sup_node *n = node;
	if (!sup_process_is_late(&n->restart.next))
		sup_restart_kill_next(n);
	else if (sup_process_force(&n->restart.next))
		timer_set(n->restart.timer, deadline_seconds(DEADLINE_GONE));
}

void sup_restart_release(struct sup_node *n)
{
	sup_process_release(&n->restart.next);
	timer_free(n->restart.timer);
}

void sup_restart_goes_on(struct sup_node *n)
{
	/* Of one that is found here, nobody knows which it is; a hand-over ends by itself. */
	n->restart.stands = n->restart.next.at != n->at ||
			    (restart_has_standbys(n->sup) && n->restart.from <= 0);
	if (n->restart.stands) {
		n->uncounted++;
		return;
	}
	log_hand_over(n, "hand-over", NULL);
	sup_watch_next(n);
}

/* It may be a standby, whose server has died meanwhile. To a server the signal means nothing. */
void sup_restart_found(struct sup_node *n)
{
	n->restart.tells = n->role == &role_server;
}

void sup_restart_kill_next(struct sup_node *n)
{
	n->restart.wanted = 0;
	kill_next(n);
}

static void next_ended(struct sup_node *n, const struct node_end *end)
{
	timer_stop(n->restart.timer);
	if (n->restart.stands) {
		standby_ended(n, end);
		return;
	}
	log_hand_over(n, "handover-failed", end);
	if (n->stage == STAGE_STARTING || n->stage == STAGE_READY) {
		char text[128];
		end_text(end, text, sizeof text);
		sup_note(n->sup, "warning",
			 "%s was not restarted: its next process ended first (%s)", n->id, text);
		sup_restart_failed(n, text);
	}
	sup_kick(n->sup);
}

int sup_restart_init(struct sup_node *n)
{
	sup_process_init(&n->restart.next, n, next_ended);
	n->restart.next.at = n->at;
	n->restart.timer = timer_new(n->sup->base, restart_on_timer, n);
	return n->restart.timer ? 0 : -1;
}

void sup_restart_old_ended(struct sup_node *n, const struct node_end *end)
{
	int wanted = n->stage == STAGE_STARTING || n->stage == STAGE_READY;
	int well = !end->seen || sup_node_class(n, end) == END_CLEAN;
	if (!wanted || n->restart.next.doomed ||
	    !(n->restart.stands ? standby_takes_over(n, end) : well)) {
		/* The standby of a server that has ended in order removes its socket. */
		if (n->restart.stands && end->seen && well && !n->restart.next.doomed) {
			n->restart.wanted = 0;
			sup_process_signal(&n->restart.next, SIGTERM);
			timer_set(n->restart.timer, deadline_seconds(DEADLINE_GONE));
		} else {
			sup_restart_kill_next(n);
		}
		sup_node_ended(n, end);
		return;
	}
	sup_event(n, "exit", end);
	sup_host_ended(&n->now, end);
	timer_stop(n->restart.timer);
	sup_process_move(&n->now, &n->restart.next);
	if (n->now.at != n->at)
		sup_host_put(n, n->now.at);
	sup_node_replaced(n);
}

/* ---- how long it took ---- */

/* Only intended restarts are counted: after a crash a node first waits a while, and the crash of a
 * server makes all others go back. */
void sup_restart_ready(struct sup_node *n)
{
	struct sup_restart *r = &n->restart;
	double now = clock_mono(), took = now - r->from;
	if (r->from > 0) {
		r->restarts++;
		r->restart_sum += took;
	} else if (n->now.life == 0 && n->now.since >= n->sup->phases.started) {
		r->launches++;
		r->launch_sum += now - n->now.since;
	}
	r->from = r->save_until = 0;
	while (n->restart.waiters.first) {
		request_ok_record(sup_wait_take(&n->restart.waiters),
				  RECORD("ok", F("id", n->id), F_SECONDS("seconds", took)));
	}
}

void sup_restart_failed(struct sup_node *n, const char *why)
{
	n->restart.from = n->restart.save_until = 0;
	n->restart.wanted = 0;
	while (n->restart.waiters.first)
		request_err(sup_wait_take(&n->restart.waiters), "not-restarted", "%s: %s", n->id,
			    why);
}

double sup_restart_seconds(const struct supervisor *s, const struct role *role)
{
	uint64_t launches = 0, restarts = 0;
	double launch_sum = 0, restart_sum = 0;
	EACH_OF (n, s, role) {
		launches += n->restart.launches;
		launch_sum += n->restart.launch_sum;
		restarts += n->restart.restarts;
		restart_sum += n->restart.restart_sum;
	}
	if (restarts > 0)
		return restart_sum / (double)restarts;
	return launches > 0 ? launch_sum / (double)launches : NAN;
}
