/*
 * sup_restart: a worker or a server is restarted by intention, because it is slow: at most as often
 * as the guard (heavy.h) lets anybody, and never a node that is not up.  How long such restarts
 * take is measured here, so that a solution can set their price against their use.
 *
 * A worker is killed, mended and started again at once; a server hands over (sup_heir.c).
 */
#include "run/sup.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

static double last_of_any(const struct supervisor *s)
{
	double last = 0;
	for (size_t i = 0; i < s->node_count; i++)
		if (s->node[i].heavy.last > last)
			last = s->node[i].heavy.last;
	return last;
}

static const char *refusal(const struct sup_node *n, int force)
{
	const struct supervisor *s = n->sup;
	if (n->role != ROLE_WORKER && n->role != ROLE_SERVER)
		return "role";
	if (s->phase != PHASE_RUNNING || n->stage != STAGE_READY)
		return "not-up";
	if (n->hand_over || n->heir.runs || n->restart_from > 0)
		return "under-way";
	if (force)
		return NULL;
	struct heavy_rules rules = {.window = s->job->heavy_window,
				    .cooldown = s->job->heavy_cooldown,
				    .limit = s->job->heavy_limit};
	return heavy_word(heavy_check(&rules, &n->heavy, last_of_any(s), clock_epoch()));
}

const char *sup_restart_why(const char *word)
{
	static const char *const text[][2] = {
		{"role", "only workers and servers are"},
		{"not-up", "it is not up, or the job is not running"},
		{"under-way", "it is being restarted already"},
		{"limit", "HEAVY_LIMIT times are over"},
		{"window", "it was, less than HEAVY_WINDOW ago"},
		{"cool-down", "another node was, less than HEAVY_COOLDOWN ago"}};
	for (size_t i = 0; i < sizeof text / sizeof *text; i++)
		if (strcmp(text[i][0], word) == 0)
			return text[i][1];
	return word;
}

static void tell(struct sup_node *n, const char *reason)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	log_say(LOG_LEVEL_INFO, "%s is restarted: %s", n->id, reason);
	record_begin(&o, line, sizeof line, "restart");
	record_add(&o, "id", n->id);
	record_add(&o, "reason", reason);
	sup_log(n->sup, &o);
}

const char *sup_restart(struct sup_node *n, int force, const char *reason)
{
	const char *refused = refusal(n, force);
	if (refused)
		return refused;
	n->heavy.count++;
	n->heavy.last = clock_epoch();
	n->restart_from = clock_mono();
	sup_standing_write(n->sup);
	tell(n, reason && reason[0] ? reason : "no reason given");
	if (n->role == ROLE_WORKER)
		sup_node_kill(n);
	else {
		n->hand_over = 1;
		sup_kick(n->sup);
	}
	return NULL;
}

/* ---- how long it took ---- */

/* Only the restarts that were meant are counted: after a crash a node waits a while, and a server's
 * takes all others along. */
void sup_restart_ready(struct sup_node *n)
{
	struct sup_duration *d = &n->sup->duration[n->role];
	double now = clock_mono(), took = now - n->restart_from;
	if (n->restart_from > 0) {
		d->restarts++;
		d->restart_sum += took;
	} else if (n->now.life == 0 && n->now.since >= n->sup->started) {
		d->launches++;
		d->launch_sum += now - n->now.since;
	}
	n->restart_from = 0;
	while (n->restart_waiters) {
		char line[RECORD_LINE_MAX];
		struct record_out o;
		record_begin(&o, line, sizeof line, "ok");
		record_add(&o, "id", n->id);
		record_add_seconds(&o, "seconds", took);
		request_ok_record(sup_wait_take(&n->restart_waiters), &o);
	}
}

void sup_restart_failed(struct sup_node *n, const char *why)
{
	n->restart_from = 0;
	n->hand_over = 0;
	while (n->restart_waiters)
		request_err(sup_wait_take(&n->restart_waiters), "not-restarted", "%s: %s", n->id,
			    why);
}

double sup_restart_seconds(const struct supervisor *s, enum sup_role role)
{
	const struct sup_duration *d = &s->duration[role];
	if (d->restarts > 0)
		return d->restart_sum / (double)d->restarts;
	return d->launches > 0 ? d->launch_sum / (double)d->launches : NAN;
}
