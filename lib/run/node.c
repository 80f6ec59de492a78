/* node: see node.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/human.h"
#include "wire/transport.h"

#include <event2/event.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define END_TEXT_MAX  (128 + SAID_MAX + RUN_WAITS_MAX)
#define RENEW_SECONDS 2.0 /* then SIGKILL, because everybody waits for the next process */

static void node_step(struct sup_node *n, enum node_event event);
static void node_on_timer(void *node);
static void now_ended(struct sup_node *n, const struct node_end *end);

struct sup_node *sup_node_new(struct supervisor *s, const struct role *role, uint32_t number,
			      struct error *err)
{
	struct sup_node *n = calloc(1, sizeof *n);
	if (!n) {
		error_set(err, ERROR_OS, role->name, "out of memory");
		return NULL;
	}
	n->sup = s;
	n->role = role;
	n->number = n->made_number = number;
	n->made_as = role;
	if (role->limits) {
		const struct limits first = role->limits(s->job);
		n->cores = first.cores;
		n->memory = first.memory;
	}
	sup_host_home(n);
	sup_process_init(&n->now, n, now_ended);
	const char *number_at = strstr(role->id, "%u");
	int len = number_at ? (int)(number_at - role->id) : (int)strlen(role->id);
	snprintf(n->id, sizeof n->id, "%.*s", len, role->id);
	if (number_at)
		snprintf(n->id + len, sizeof n->id - (size_t)len, "%u", number);
	n->timer = timer_new(s->base, node_on_timer, n);
	if (sup_restart_init(n) == 0 && n->timer)
		return n;
	error_set(err, ERROR_OS, n->id, "out of memory");
	sup_node_free(n);
	return NULL;
}

void sup_node_free(struct sup_node *n)
{
	sup_links_close(n);
	sup_process_release(&n->now);
	sup_restart_release(n);
	timer_free(n->timer);
	free(n);
}

int sup_node_is_off(const struct sup_node *n)
{
	return n->stage == STAGE_OFF && !n->restart.next.runs;
}

int sup_node_runs(const struct sup_node *n)
{
	return (n->stage == STAGE_STARTING || n->stage == STAGE_READY) && !n->now.doomed;
}

enum end_class sup_node_class(const struct sup_node *n, const struct node_end *end)
{
	const struct node_end own = n->role->foreign ? sup_trainer_end(end) : *end;
	enum end_class c = n->place.launcher->class_of(&own);
	if (sup_trainer_is_done(n, &own))
		return END_CLEAN;
	if (n->role->foreign && c == END_UNRETRYABLE && sup_trainer_is_tried_again(n, &own))
		return END_RETRYABLE;
	if (!n->role->retried || c != END_UNRETRYABLE || (end->seen && end->status == ERROR_CONFIG))
		return c;
	return END_RETRYABLE;
}

void sup_node_lived(struct sup_node *n, uint64_t lives)
{
	n->lives = lives;
	n->restarts = lives > 0 ? lives - 1 : 0;
}

uint64_t sup_node_next_life(struct sup_node *n)
{
	return n->lives++;
}

/* ---- what it may use ---- */

/* The nodes of a host get whole cores one after the other, in the order of the roster. */
struct limits sup_node_limits(const struct sup_node *n, size_t at)
{
	struct limits l = {.cores = n->cores, .memory = n->memory};
	EACH_NODE (other, n->sup) {
		if (other == n && n->at == at)
			break;
		if (other != n && other->at == at)
			l.first_core += (uint64_t)ceil(other->cores);
	}
	return l;
}

void sup_node_sized(struct sup_node *n, double cores, uint64_t memory)
{
	n->cores = cores;
	n->memory = memory;
}

static void log_resize(struct sup_node *n, const char *reason)
{
	char cores[HUMAN_MAX], memory[HUMAN_MAX];
	log_say(LOG_LEVEL_INFO, "%s may use %s cores, %s of memory: %s", n->id,
		n->cores > 0 ? human_count(n->cores, cores) : "all",
		n->memory > 0 ? human_bytes((double)n->memory, memory) : "all", reason);
	sup_log(n->sup, RECORD("resize", F("id", n->id), F_REAL("cores", n->cores),
			       F("memory", n->memory), F("reason", reason)));
}

const char *sup_node_resize(struct sup_node *n, double cores, uint64_t memory, const char *reason)
{
	if (cores == n->cores && memory == n->memory)
		return NULL;
	sup_node_sized(n, cores, memory);
	sup_in_force_changed(n->sup);
	log_resize(n, reason);
	if (!sup_node_runs(n))
		return NULL;
	return sup_restart(n, 1, reason);
}

/* ---- beginnings and ends ---- */

/* It has another process than before. */
static void node_begin(struct sup_node *n, int adopted)
{
	n->ready_at = 0;
	sup_watch_begin(n, adopted);
}

void sup_node_want(struct sup_node *n)
{
	struct error err;
	if (n->stage != STAGE_OFF || n->leaving || !sup_scale_may_launch(n) ||
	    sup_host_choose(n) != 0)
		return;
	/* Without room its parent could not write the record, and would end. */
	if (sup_room_is_none(n->sup, 0)) {
		sup_kick_after(n->sup, 1);
		return;
	}
	if (sup_process_launch(&n->now, n->at, 0, &err) != 0) {
		char text[1024];
		error_format(&err, text, sizeof text);
		/* Storage that gives an error once may work the next time. */
		if (err.code == ERROR_TEMPFAIL || err.code == ERROR_OS || err.code == ERROR_IO) {
			sup_note(n->sup, "retry", "%s can't be started yet: %s", n->id, text);
			sup_kick_after(n->sup, 1);
		} else
			sup_fail(n->sup, err.code, "%s can't be started: %s", n->id, text);
		return;
	}
	n->restarts = n->now.life - n->uncounted;
	n->end_wanted = 0;
	node_step(n, EVENT_LAUNCHED);
	sup_event(n, n->restarts > 0 ? "restart" : "start", NULL);
	node_begin(n, 0);
}

void sup_node_found(struct sup_node *n)
{
	node_step(n, EVENT_LAUNCHED);
	sup_event(n, "adopt", NULL);
	node_begin(n, 1);
}

void sup_node_joins(struct sup_node *n)
{
	node_step(n, EVENT_HANDED);
	sup_event(n, "joins", NULL);
	node_begin(n, 0);
}

/* The new process may have answered on the connection that we had to the old one: connect again. */
void sup_node_replaced(struct sup_node *n)
{
	timer_stop(n->timer);
	n->restarts = n->now.life - n->uncounted;
	n->end_wanted = 0;
	node_step(n, EVENT_HANDED);
	sup_event(n, "restart", NULL);
	sup_link_again(n);
	node_begin(n, 0);
	sup_kick(n->sup);
}

void sup_node_answers(struct sup_node *n, uint64_t incarnation)
{
	struct supervisor *s = n->sup;
	int other = n->role->goes_back && incarnation != 0 && s->recover.incarnation != 0 &&
		    incarnation != s->recover.incarnation;
	/* What we launched is of this incarnation. So another one answers in its place, which was given up
	 * on its host: the new one is about to end it. */
	if (other && !n->now.found)
		return;
	/* After a rollback that an earlier supervisor left half-way there may be one of another. */
	if (other)
		sup_rollback_begin(s, "a server of another incarnation runs");
	else if (n->stage == STAGE_STARTING || n->stage == STAGE_READY) {
		sup_process_pid(&n->now); /* read now: its record may be gone when it is to end */
		node_step(n, EVENT_ANSWERS);
	}
}

void sup_node_remove_socket(const struct sup_process *p, const char *more)
{
	char path[DIRS_PATH_MAX + 16];
	if (p->at != 0)
		return; /* its socket here is the relay's */
	sup_socket(p->node->sup, p->node->id, path);
	snprintf(path + strlen(path), 16, "%s", more);
	transport_remove_dead(path, NULL);
}

void sup_node_ended(struct sup_node *n, const struct node_end *end)
{
	timer_stop(n->timer);
	n->end = *end;
	sup_trainer_said(n);
	sup_node_remove_socket(&n->now, "");
	sup_node_remove_socket(&n->restart.next, ".standby");
	if (!n->end_wanted)
		sup_restart_failed(n, "it ended by itself first");
	sup_event(n, "exit", end);
	if (n->role->ready != READY_MEMBER)
		sup_kick(n->sup);
	sup_host_ended(&n->now, end);
	n->oom.stepped = 0;
	if (sup_node_class(n, end) == END_OOM)
		sup_oom_ended(n);
	sup_trainer_ended(n, end);
	sup_finish_ended(n);
	node_step(n, sup_node_class(n, end) == END_UNRETRYABLE && !n->leaving ? EVENT_ENDED_BAD
									      : EVENT_ENDED);
}

static void now_ended(struct sup_node *n, const struct node_end *end)
{
	if (n->restart.next.runs)
		sup_restart_old_ended(n, end);
	else
		sup_node_ended(n, end);
}

void sup_node_missed_end(struct sup_node *n, const struct node_end *end)
{
	node_step(n, EVENT_LAUNCHED);
	sup_node_ended(n, end);
}

void sup_node_fenced(struct sup_node *n)
{
	node_step(n, EVENT_MENDED);
}

/* ---- signals ---- */

/* An agent gives its trainer time for the batch in hand, and as much again to end. */
static double stop_seconds(const struct sup_node *n)
{
	double seconds = deadline_seconds(DEADLINE_STOP);
	return n->role->foreign ? seconds + 2 * n->sup->job->trainer_grace : seconds;
}

static void node_send_signal(struct sup_node *n)
{
	int result = sup_process_signal(&n->now, n->stop_signal);
	if (result < 0)
		timer_set(n->timer, SUP_SOON_SECONDS);
	else if (n->stop_signal == SIGKILL)
		timer_set(n->timer, deadline_seconds(DEADLINE_GONE));
	else if (n->now.runs) /* even if it has ended: its parent may not say so */
		timer_set(n->timer, n->stage == STAGE_STOPPING ? stop_seconds(n) : RENEW_SECONDS);
}

static void node_on_timer(void *node)
{
	struct sup_node *n = node;
	if (n->stage == STAGE_PAUSING) {
		node_step(n, EVENT_PAUSE_OVER);
		sup_kick(n->sup);
		return;
	}
	if (sup_process_is_late(&n->now)) {
		if (sup_process_force(&n->now))
			timer_set(n->timer, deadline_seconds(DEADLINE_GONE));
		return;
	}
	if (n->now.pid != 0 && n->stop_signal != SIGKILL) {
		sup_note(n->sup, "late", "%s does not end after %g s: SIGKILL", n->id,
			 n->stage == STAGE_STOPPING ? stop_seconds(n) : RENEW_SECONDS);
		n->stop_signal = SIGKILL;
	}
	node_send_signal(n);
}

void sup_node_stop(struct sup_node *n, int signal)
{
	/* For a process that got SIGKILL no other signal has an effect. */
	if ((n->stage == STAGE_STOPPING && n->stop_signal == SIGKILL) ||
	    (n->now.runs && n->now.doomed))
		signal = SIGKILL;
	if (n->stage == STAGE_OFF || (n->stage == STAGE_STOPPING && signal == n->stop_signal))
		return;
	n->stop_signal = signal;
	/* In a rollback a trainer that is being restarted comes back with all the others. */
	if (!n->role->foreign || n->sup->phases.now != PHASE_ROLLBACK)
		sup_restart_failed(n, "it is to end");
	/* A standby ends by itself when its server does. */
	if (signal && !(signal == SIGTERM && n->restart.stands))
		sup_restart_kill_next(n);
	node_step(n, EVENT_STOP);
}

void sup_stop_all(struct supervisor *s, const struct role *role, int signal)
{
	EACH_OF (n, s, role)
		sup_node_stop(n, signal);
}

void sup_node_renew(struct sup_node *n, int signal)
{
	if (n->stage != STAGE_STARTING && n->stage != STAGE_READY)
		return;
	n->end_wanted = 1;
	n->stop_signal = signal;
	sup_event(n, "kill", NULL);
	if (signal)
		node_send_signal(n);
	else
		timer_set(n->timer, RENEW_SECONDS);
}

void sup_node_kill(struct sup_node *n)
{
	sup_node_renew(n, SIGKILL);
}

void sup_node_give_up(struct sup_node *n)
{
	n->end_wanted = 0;
	n->stop_signal = SIGKILL;
	node_send_signal(n);
}

/* ---- the table's actions ---- */

/* Says how it ended, and what a trainer has printed about it. If the disk is full, that is most often
 * the reason, and is said, too. */
static void say_end(const struct sup_node *n, char *out, size_t max)
{
	char waits[RUN_WAITS_MAX];
	end_text(&n->end, out, max);
	size_t len = strlen(out);
	/* Of trainers that are judged together only the one that failed first is told with it. */
	if (n->said[0] && !sup_trainer_is_judged(n))
		snprintf(out + len, max - len, ": %s", n->said);
	if (!sup_room_is_none(n->sup, 0))
		return;
	sup_waits(n->sup, waits, sizeof waits);
	len = strlen(out);
	snprintf(out + len, max - len, "; %s", waits);
}

/* Whether it may be launched again after this end. */
static int node_within_limit(struct sup_node *n)
{
	char text[END_TEXT_MAX], who[SUP_WHO_MAX];
	struct supervisor *s = n->sup;
	double ready = n->ready_at > 0 ? clock_mono() - n->ready_at : 0;
	/* A fabric that was up ends when any of its hosts fails. So only a fabric that does not
	 * come up has failed. */
	if (again_did_well(ready, n->role->ready != READY_MEMBER || n->watch.worked) ||
	    (n->role == &role_fabric && n->ready_at > 0))
		n->in_a_row = 0;
	if (n->end_wanted || n->leaving || n->oom.stepped || sup_host_was_lost(n, &n->end) ||
	    sup_trainer_is_done(n, &n->end))
		return 1; /* no failure of its own */
	n->in_a_row++;
	say_end(n, text, sizeof text);
	if (n->joining && !sup_scale_is_tried(n) && sup_scale_gives_up(n, text))
		return 1;
	if (n->in_a_row <= s->job->restarts || sup_trainer_is_judged(n)) {
		sup_note(s, "relaunch", "%s: %s; starts again (%llu of %llu)", sup_who(n, who), text,
			 (unsigned long long)n->in_a_row, (unsigned long long)s->job->restarts);
		sup_trainer_tell(n, text);
		return 1;
	}
	if (sup_node_is_spare(n)) {
		sup_spare_give_up(n, text);
		return 1;
	}
	sup_fail_by(n, "%s, %llu times in a row (RESTARTS)", text, (unsigned long long)n->in_a_row);
	return 0;
}

static void node_mend(struct sup_node *n)
{
	if (!node_within_limit(n))
		return;
	switch (n->role->death) {
	case DEATH_FENCE:
		if (sup_takes_back(n) || sup_trainers_are_gone(n))
			sup_rollback_after(n);
		else
			sup_fence_begin(n);
		break;
	case DEATH_REPLICA:
		n->fence.ended = clock_mono();
		if (sup_rollback_is_unsure(n))
			break;
		/* fallthrough */
	case DEATH_LEAD:
		if (!sup_rollback_is_due(n)) {
			node_step(n, EVENT_MENDED);
			break;
		}
		/* fallthrough */
	case DEATH_ROLLBACK:
		if (n->role != &role_server || sup_scale_has_part(n)) {
			sup_rollback_after(n);
			break;
		}
		sup_scale_joiner_ended(n);
		node_step(n, EVENT_MENDED);
		break;
	case DEATH_NOTHING:
		node_step(n, EVENT_MENDED);
	}
	sup_kick(n->sup);
}

static void node_ready(struct sup_node *n)
{
	n->ready_at = clock_mono();
	sup_watch_ready(n);
	sup_event(n, "ready", NULL);
	sup_restart_ready(n);
}

void sup_node_failed(struct sup_node *n)
{
	char text[END_TEXT_MAX];
	say_end(n, text, sizeof text);
	if (sup_node_is_spare(n))
		sup_spare_give_up(n, text);
	else if (!sup_scale_gives_up(n, text))
		sup_fail_by(n, "%s, which would happen again", text);
}

static void node_fail(struct sup_node *n)
{
	if (!sup_rollback_passes_over(n))
		sup_node_failed(n);
}

static void node_step(struct sup_node *n, enum node_event event)
{
	struct error err;
	enum node_action action;
	if (stage_step(&n->stage, event, &action, &err) != 0) {
		sup_fail(n->sup, err.code, "%s: %s", n->id, err.text);
		return;
	}
	switch (action) {
	case DO_NOTHING:
		break;
	case DO_TELL:
		node_ready(n);
		break;
	case DO_MEND:
		node_mend(n);
		break;
	case DO_FAIL:
		node_fail(n);
		break;
	case DO_PAUSE:
		timer_set(n->timer, n->end_wanted ? 0 : again_pause(n->in_a_row));
		break;
	case DO_LAUNCH:
		break; /* the phase's step wants it, when it is time */
	case DO_SIGNAL:
		if (n->stop_signal)
			node_send_signal(n);
		break;
	case DO_GONE:
		timer_stop(n->timer);
		break;
	}
	sup_kick(n->sup);
}
