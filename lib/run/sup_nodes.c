/*
 * sup_nodes: the nodes of a job: wanted, stopped, killed, and what follows when their process ends.
 *
 * What an end means is the table's business (policy.h); what is done about it, that of the room for
 * the role (sup_mend, sup_rollback).  Processes are sup_process.c.
 */
#include "run/sup.h"

#include "base/clock.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const char *const role_name[] = {"shardd", "monitor", "server", "worker"};

const char *sup_role_name(enum sup_role role)
{
	return role_name[role];
}

void sup_arm(struct event *timer, double seconds)
{
	struct timeval tv = clock_timeval(seconds);
	event_add(timer, &tv);
}

/* ---- an end ---- */

void sup_node_ended(struct sup_node *n, const struct node_end *end)
{
	event_del(n->deadline);
	event_del(n->timer);
	n->end = *end;
	if (!n->asked)
		sup_restart_failed(n, "it ended by itself first");
	sup_event(n->sup, n, "exit", end);
	if (n->role != ROLE_WORKER)
		sup_kick(n->sup);
	sup_node_event(n, policy_class(end) == END_UNRETRYABLE ? EVENT_ENDED_BAD : EVENT_ENDED);
}

/* ---- launching ---- */

static void on_ready_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct sup_node *n = arg;
	(void)fd;
	(void)what;
	double seconds = clock_mono() - n->now.since;
	struct sup_silence silence = {.section = PULSE_START,
				      .seconds = seconds,
				      .limit = n->sup->hung.least[PULSE_START]};
	sup_lost(n, &silence);
}

/* One that runs now has to be ready within its time. Workers have no socket to be asked on: of them
 * sup_pulse.c knows. */
void sup_node_expect(struct sup_node *n, int adopted)
{
	double seconds = n->sup->hung.least[PULSE_START];
	n->ready_at = 0;
	sup_pulse_begin(n, adopted);
	if (n->role != ROLE_WORKER && isfinite(seconds))
		sup_arm(n->deadline, seconds);
}

void sup_node_want(struct sup_node *n)
{
	struct error err;
	if (n->stage != STAGE_OFF)
		return;
	if (sup_process_launch(&n->now, 0, &err) != 0) {
		char text[1024];
		error_format(&err, text, sizeof text);
		if (err.code == ERROR_TEMPFAIL || err.code == ERROR_OS) {
			sup_note(n->sup, "retry", "%s can't be started yet: %s", n->id, text);
			sup_kick_after(n->sup, 1);
		} else
			sup_fail(n->sup, err.code, "%s can't be started: %s", n->id, text);
		return;
	}
	n->restarts = n->now.life;
	n->asked = 0;
	sup_node_event(n, EVENT_LAUNCHED);
	sup_event(n->sup, n, n->lives > 1 ? "restart" : "start", NULL);
	sup_node_expect(n, 0);
}

/* ---- signals ---- */

static void on_timer(evutil_socket_t fd, short what, void *arg);

static void send_signal(struct sup_node *n)
{
	int result = sup_process_signal(&n->now, n->stop_signal);
	if (result < 0)
		sup_arm(n->timer, SUP_SOON_SECONDS);
	else if (n->stop_signal == SIGKILL)
		sup_arm(n->timer, deadline_seconds(DEADLINE_GONE));
	else if (n->now.runs) /* has gone, too: its parent may not say so */
		sup_arm(n->timer, deadline_seconds(DEADLINE_STOP));
}

static void pause_over(struct sup_node *n)
{
	sup_node_event(n, EVENT_PAUSE_OVER);
	sup_kick(n->sup);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct sup_node *n = arg;
	(void)fd;
	(void)what;
	if (n->stage == STAGE_PAUSING) {
		pause_over(n);
		return;
	}
	if (n->now.doomed && n->now.pid != 0) {
		if (sup_process_force(&n->now))
			sup_arm(n->timer, deadline_seconds(DEADLINE_GONE));
		return;
	}
	if (n->now.pid != 0 && n->stop_signal != SIGKILL) {
		sup_note(n->sup, "late", "%s does not end after %g s: SIGKILL", n->id,
			 deadline_seconds(DEADLINE_STOP));
		n->stop_signal = SIGKILL;
	}
	send_signal(n);
}

void sup_node_stop(struct sup_node *n, int signal)
{
	if (n->stage == STAGE_OFF || (n->stage == STAGE_STOPPING && signal == n->stop_signal))
		return;
	n->stop_signal = signal;
	event_del(n->deadline);
	sup_restart_failed(n, "it is to end");
	if (signal)
		sup_heir_kill(n);
	sup_node_event(n, EVENT_STOP);
}

void sup_node_kill(struct sup_node *n)
{
	if (n->stage != STAGE_STARTING && n->stage != STAGE_READY)
		return;
	n->asked = 1;
	n->stop_signal = SIGKILL;
	sup_event(n->sup, n, "kill", NULL);
	send_signal(n);
}

void sup_node_give_up(struct sup_node *n)
{
	n->asked = 0;
	n->stop_signal = SIGKILL;
	send_signal(n);
}

/* ---- the table's actions ---- */

/* Whether it may be launched again after this end. */
static int within_limit(struct sup_node *n)
{
	char text[128];
	struct supervisor *s = n->sup;
	double ready = n->ready_at > 0 ? clock_mono() - n->ready_at : 0;
	if (policy_did_well(ready, n->role != ROLE_WORKER || n->worked))
		n->in_a_row = 0;
	if (n->asked)
		return 1;
	n->in_a_row++;
	policy_end_text(&n->end, text, sizeof text);
	if (n->in_a_row <= s->job->restarts) {
		sup_note(s, "relaunch", "%s: %s; starts again (%llu of %llu)", n->id, text,
			 (unsigned long long)n->in_a_row, (unsigned long long)s->job->restarts);
		return 1;
	}
	sup_last_words(n);
	sup_failed_by(n);
	sup_fail(s, policy_end_status(&n->end), "%s: %s, %llu times in a row (RESTARTS)", n->id,
		 text, (unsigned long long)n->in_a_row);
	return 0;
}

/* A job that only ever goes back is over: each server may well run for a while in between. Servers
 * that end together make one rollback. */
static int within_rollbacks(struct sup_node *n)
{
	char text[128];
	struct supervisor *s = n->sup;
	if (n->asked || s->phase == PHASE_ROLLBACK || s->phase >= PHASE_STOPPING)
		return 1;
	if (++s->rollbacks <= s->job->restarts)
		return 1;
	policy_end_text(&n->end, text, sizeof text);
	sup_last_words(n);
	sup_fail(s, policy_end_status(&n->end),
		 "%s: %s; that is rollback %llu in a row without a checkpoint that goes further "
		 "(RESTARTS)",
		 n->id, text, (unsigned long long)s->rollbacks);
	return 0;
}

static void mend(struct sup_node *n)
{
	if (!within_limit(n))
		return;
	switch (n->role) {
	case ROLE_WORKER:
		n->mend = MEND_ASK;
		break;
	case ROLE_SERVER:
		if (within_rollbacks(n))
			sup_rollback_begin(n->sup, "a server ended");
		break;
	default:
		sup_node_event(n, EVENT_MENDED);
	}
	sup_kick(n->sup);
}

static void fail(struct sup_node *n)
{
	char text[128];
	policy_end_text(&n->end, text, sizeof text);
	sup_last_words(n);
	sup_failed_by(n);
	sup_fail(n->sup, policy_end_status(&n->end), "%s: %s, which would happen again", n->id,
		 text);
}

void sup_node_event(struct sup_node *n, enum node_event event)
{
	struct error err;
	enum node_action action;
	if (policy_step(&n->stage, event, &action, &err) != 0) {
		sup_fail(n->sup, err.code, "%s: %s", n->id, err.text);
		return;
	}
	switch (action) {
	case DO_NOTHING:
		break;
	case DO_TELL:
		event_del(n->deadline);
		n->ready_at = clock_mono();
		sup_event(n->sup, n, "ready", NULL);
		sup_restart_ready(n);
		break;
	case DO_MEND:
		mend(n);
		break;
	case DO_FAIL:
		fail(n);
		break;
	case DO_PAUSE:
		sup_arm(n->timer, n->asked ? 0 : policy_pause(n->in_a_row));
		break;
	case DO_LAUNCH:
		break; /* the phase's step wants it, when it is time */
	case DO_SIGNAL:
		if (n->stop_signal)
			send_signal(n);
		break;
	case DO_GONE:
		event_del(n->timer);
		break;
	}
	sup_kick(n->sup);
}

/* ---- all ---- */

static int node_init(struct supervisor *s, struct sup_node *n, enum sup_role role, uint32_t index,
		     const char *id, struct error *err)
{
	n->sup = s;
	n->role = role;
	n->index = index;
	sup_process_init(&n->now, n);
	sup_process_init(&n->heir, n);
	snprintf(n->id, sizeof n->id, "%s", id);
	n->timer = evtimer_new(s->base, on_timer, n);
	n->deadline = evtimer_new(s->base, on_ready_deadline, n);
	if (!n->timer || !n->deadline)
		return error_set(err, ERROR_OS, id, "out of memory");
	return sup_heir_new(n, err);
}

int sup_nodes_new(struct supervisor *s, struct error *err)
{
	size_t servers = s->job->servers, workers = s->job->workers;
	s->node_count = 2 + servers + workers;
	s->node = calloc(s->node_count, sizeof *s->node);
	if (!s->node)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	s->shardd = s->node;
	s->monitor = s->node + 1;
	s->servers = s->node + 2;
	s->workers = s->servers + servers;
	if (node_init(s, s->shardd, ROLE_SHARDD, 0, "shardd", err) != 0 ||
	    node_init(s, s->monitor, ROLE_MONITOR, 0, "bpt-monitor", err) != 0)
		return -1;
	for (size_t i = 0; i < servers + workers; i++) {
		char id[32];
		int server = i < servers;
		uint32_t index = (uint32_t)(server ? i : i - servers);
		snprintf(id, sizeof id, server ? "ps%u" : "w%u", index);
		if (node_init(s, &s->servers[i], server ? ROLE_SERVER : ROLE_WORKER, index, id,
			      err) != 0)
			return -1;
	}
	return 0;
}

void sup_nodes_free(struct supervisor *s)
{
	for (size_t i = 0; s->node && i < s->node_count; i++) {
		struct sup_node *n = &s->node[i];
		struct event *const timers[] = {n->timer, n->deadline, n->heir_deadline};
		sup_links_close(n);
		sup_process_release(&n->now);
		sup_process_release(&n->heir);
		for (size_t k = 0; k < sizeof timers / sizeof *timers; k++)
			if (timers[k])
				event_free(timers[k]);
	}
	free(s->node);
	s->node = NULL;
}

int sup_nodes_off(const struct sup_node *first, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (first[i].stage != STAGE_OFF || first[i].heir.runs)
			return 0;
	return 1;
}

struct sup_node *sup_node_find(struct supervisor *s, const char *id)
{
	for (size_t i = 0; i < s->node_count; i++)
		if (strcmp(s->node[i].id, id) == 0)
			return &s->node[i];
	return NULL;
}
