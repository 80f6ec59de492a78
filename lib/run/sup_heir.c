/*
 * sup_heir: a live server gives its part to its next process (the heir) without a rollback: kill-
 * restart of a server.  The two do it between themselves (`take-over`, `taken`: ps-server(8)); here
 * the heir is started, both are watched, and whoever ends first says how it went:
 * - the old one, with 0: it has handed over, and the heir is the node now;
 * - the heir: the old one goes on as if nothing had been;
 * - the old one otherwise: the heir is killed, and all servers roll back;
 * - nobody for too long: the heir is killed first, so that the old one goes on if it can.
 * An old one of which nobody saw the end may have handed over: the heir knows, and ends with 69 if
 * it has not.
 */
#include "run/sup.h"

#include "base/clock.h"

#include <math.h>
#include <signal.h>

static void log_hand_over(struct sup_node *n, const char *type, const struct node_end *end)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, type);
	record_add(&o, "id", n->id);
	record_add_u64(&o, "life", n->heir.life);
	if (end)
		sup_add_end(&o, end);
	sup_log(n->sup, &o);
}

int sup_heir_any(const struct supervisor *s)
{
	for (size_t i = 0; i < s->job->servers; i++)
		if (s->servers[i].heir.runs)
			return 1;
	return 0;
}

/* ---- beginning ---- */

static void arm(struct sup_node *n)
{
	double seconds = n->sup->hung.least[PULSE_HANDOVER];
	if (isfinite(seconds))
		sup_arm(n->heir_deadline, seconds);
}

static void begin(struct sup_node *n)
{
	struct error err;
	n->hand_over = 0;
	if (sup_process_launch(&n->heir, 1, &err) != 0) {
		char text[1024];
		error_format(&err, text, sizeof text);
		sup_note(n->sup, "warning", "%s can't be restarted: %s", n->id, text);
		sup_restart_failed(n, text);
		return;
	}
	log_hand_over(n, "hand-over", NULL);
	arm(n);
}

/* One at a time, and not while a checkpoint is made: the old one would only let it wait. */
void sup_heir_step(struct supervisor *s)
{
	for (size_t i = 0; i < s->job->servers; i++) {
		struct sup_node *n = &s->servers[i];
		if (s->cut_pending || sup_heir_any(s))
			return;
		if (n->hand_over && n->stage == STAGE_READY)
			begin(n);
		else if (n->hand_over) {
			n->hand_over = 0;
			sup_restart_failed(n, "it is not up any more");
		}
	}
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct sup_node *n = arg;
	(void)fd;
	(void)what;
	if (n->heir.doomed && n->heir.pid != 0) {
		if (sup_process_force(&n->heir))
			sup_arm(n->heir_deadline, deadline_seconds(DEADLINE_GONE));
		return;
	}
	if (!n->heir.doomed) {
		struct sup_silence silence = {.section = PULSE_HANDOVER,
					      .seconds = clock_mono() - n->heir.since,
					      .limit = n->sup->hung.least[PULSE_HANDOVER]};
		sup_lost_words(n, &n->heir, &silence);
	}
	sup_heir_kill(n);
}

int sup_heir_new(struct sup_node *n, struct error *err)
{
	n->heir_deadline = evtimer_new(n->sup->base, on_deadline, n);
	return n->heir_deadline ? 0 : error_set(err, ERROR_OS, n->id, "out of memory");
}

void sup_heir_watch(struct sup_node *n)
{
	log_hand_over(n, "hand-over", NULL);
	arm(n);
}

void sup_heir_kill(struct sup_node *n)
{
	n->hand_over = 0;
	if (n->heir.runs)
		sup_arm(n->heir_deadline, sup_process_signal(&n->heir, SIGKILL) < 0
						  ? SUP_SOON_SECONDS
						  : deadline_seconds(DEADLINE_GONE));
}

/* ---- ends ---- */

void sup_heir_ended(struct sup_node *n, const struct node_end *end)
{
	event_del(n->heir_deadline);
	log_hand_over(n, "handover-failed", end);
	if (n->stage == STAGE_STARTING || n->stage == STAGE_READY) {
		char text[128];
		policy_end_text(end, text, sizeof text);
		sup_note(n->sup, "warning",
			 "%s was not restarted: its next process ended first (%s)", n->id, text);
		sup_restart_failed(n, text);
	}
	sup_kick(n->sup);
}

/* The heir is the node now. It may have answered already, on a connection that we take for the old
 * one's: made anew. */
static void promote(struct sup_node *n)
{
	struct supervisor *s = n->sup;
	event_del(n->heir_deadline);
	event_del(n->deadline);
	event_del(n->timer);
	sup_process_move(&n->now, &n->heir);
	n->restarts = n->now.life;
	n->asked = 0;
	sup_node_event(n, EVENT_HANDED);
	sup_event(s, n, "restart", NULL);
	sup_link_again(n);
	sup_node_expect(n, 0);
	sup_kick(s);
}

void sup_heir_old_ended(struct sup_node *n, const struct node_end *end)
{
	int wanted = n->stage == STAGE_STARTING || n->stage == STAGE_READY;
	if (wanted && !n->heir.doomed && (!end->seen || policy_class(end) == END_CLEAN)) {
		sup_event(n->sup, n, "exit", end);
		promote(n);
		return;
	}
	sup_heir_kill(n);
	sup_node_ended(n, end);
}
