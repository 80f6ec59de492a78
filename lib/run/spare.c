/* spare: see spare.h. */
#include "run/sup.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>

const struct role *sup_spares(const struct supervisor *s)
{
	return job_kind(s->job)->foreign ? &role_spare_agent : &role_spare;
}

int sup_node_is_spare(const struct sup_node *n)
{
	return n->role == sup_spares(n->sup);
}

/* ---- roles ---- */

/* a is the spare, b the one that is missed, or drops out. The monitor still counts b as a worker, and a solution that
 * is told of more workers than it sees decides nothing. */
static void swap_roles(struct sup_node *a, struct sup_node *b)
{
	const struct role *role = a->role;
	uint32_t number = a->number;
	sup_event(b, "left", NULL);
	sup_snapshot_is_old(a->sup);
	a->role = b->role;
	a->number = b->number;
	b->role = role;
	b->number = number;
	a->joining_share = b->joining_share;
	b->joining = b->joining_share = 0;
	sup_roster_order(a->sup);
}

/* ---- fewer workers ---- */

static int is_to_go(const struct sup_node *n, uint64_t workers)
{
	return n->made_as == sup_trainers(n->sup) && n->made_number >= workers;
}

/* A worker in a place that stays, which leaves. */
static struct sup_node *find_to_go(struct supervisor *s, uint64_t workers)
{
	EACH_OF (n, s, sup_trainers(s))
		if (n->number < workers && is_to_go(n, workers))
			return n;
	return NULL;
}

/* A worker in a place that goes, which stays. */
static struct sup_node *find_to_stay(struct supervisor *s, uint64_t workers)
{
	EACH_OF (n, s, sup_trainers(s))
		if (n->number >= workers && !is_to_go(n, workers))
			return n;
	return NULL;
}

void sup_spares_settle(struct supervisor *s, uint64_t workers)
{
	struct sup_node *leaver, *stayer;
	while ((leaver = find_to_go(s, workers)) && (stayer = find_to_stay(s, workers))) {
		uint32_t number = leaver->number;
		leaver->number = stayer->number;
		stayer->number = number;
		sup_roster_order(s);
	}
	EACH_OF (n, s, sup_spares(s))
		if (is_to_go(n, workers))
			n->leaving = 1;
	sup_in_force_changed(s);
}

struct sup_node *sup_spare_drops(struct sup_node *worker)
{
	struct supervisor *s = worker->sup;
	if (worker->role != sup_trainers(s) || is_to_go(worker, s->scale.now.workers))
		return worker;
	EACH_OF (n, s, sup_spares(s)) {
		if (!n->leaving)
			continue;
		sup_node_stop(n, SIGTERM);
		if (!sup_node_is_off(n))
			return NULL;
		swap_roles(n, worker);
		worker->leaving = 0;
		sup_event(worker, "spare", NULL);
		sup_in_force_drop(s, worker->id);
		return n;
	}
	return worker;
}

void sup_spares_print(const struct supervisor *s, FILE *out)
{
	EACH_NODE (n, s) {
		if (n->role == n->made_as && n->number == n->made_number)
			continue;
		record_print(out,
			     RECORD("place", F("id", n->id), F("spare", sup_node_is_spare(n) != 0),
				    F("number", n->number)));
	}
}

void sup_spare_restore(struct sup_node *n, int is_spare, uint32_t number)
{
	n->role = is_spare ? sup_spares(n->sup) : sup_trainers(n->sup);
	n->number = number;
	sup_roster_order(n->sup);
}

void sup_spares_forget(struct supervisor *s)
{
	int differ = 0;
	EACH_NODE (n, s) {
		differ |= n->role != n->made_as;
		n->role = n->made_as;
		n->number = n->made_number;
	}
	if (differ)
		sup_roster_order(s);
}

/* ---- a place ---- */

/* Tells the spare what holds for its place, as the dead worker was told. In an earlier place the
 * spare may have been told something else. */
static void tell_sizes(struct sup_node *n, const struct sup_node *dead)
{
	struct supervisor *s = n->sup;
	struct decision list = {0};
	struct error err;
	const struct action *size = sup_in_force_find(s, ACTION_ADJUST_BS, dead->id);
	const struct action *lr = sup_in_force_find(s, ACTION_ADJUST_LR, dead->id);
	struct action set = {.kind = ACTION_ADJUST_BS,
			     .size = size ? size->size : sup_share(n),
			     .accum = size ? size->accum : 1};
	int had_lr = lr || sup_in_force_find(s, ACTION_ADJUST_LR, n->id);
	snprintf(set.id, sizeof set.id, "%s", n->id);
	snprintf(set.reason, sizeof set.reason, "spare");
	if (!job_balance(s->job) && (size || n->lives > 1))
		decision_add(&list, &set, 0, NULL);
	set.kind = ACTION_ADJUST_LR;
	set.scale = lr ? lr->scale : 1;
	if (had_lr)
		decision_add(&list, &set, 0, NULL);
	sup_in_force_drop(s, dead->id);
	if (list.count > 0 && sup_actions_carry(s, &list, "spare", NULL, &err) < 0)
		sup_note(s, "warning", "%s is not told what %s was: %s", n->id, dead->id, err.text);
	decision_free(&list);
}

static void spare_answer(struct sup_node *n)
{
	struct request *rq = n->spare.rq;
	n->spare.rq = NULL;
	request_ok_record(rq,
			  RECORD("ok", F("batch", sup_share(n)), F("rank", (uint64_t)sup_rank(n))));
}

static void spare_take_place(struct sup_node *n, struct sup_node *dead)
{
	struct supervisor *s = n->sup;
	swap_roles(n, dead);
	s->roster.spares_used++;
	sup_in_force_changed(s);
	log_say(LOG_LEVEL_INFO, "%s, which stood ready, takes the place of %s", n->id, dead->id);
	sup_log(s, RECORD("spare", F("id", n->id), F("for", dead->id),
			  F_SECONDS("waited", clock_mono() - n->ready_at)));
	spare_answer(n);
	sup_node_joins(n);
	tell_sizes(n, dead);
}

/* It has ended, and is not up again. */
static int is_missed(const struct sup_node *n)
{
	return n->lives > 0 && !n->leaving && !n->joining &&
	       (n->stage == STAGE_MENDING || n->stage == STAGE_PAUSING || n->stage == STAGE_OFF);
}

/* A spare that waits; on another host if possible, because the dead one's host may be why it
 * died. */
static struct sup_node *find_waiting(const struct supervisor *s, const struct sup_node *missed)
{
	struct sup_node *found = NULL;
	EACH_OF (n, s, sup_spares(s)) {
		const struct sup_host *h = sup_host_of(n);
		if (!n->spare.rq || n->leaving || !sup_node_runs(n) || h->state != HOST_THERE)
			continue;
		if (n->at != missed->at && !sup_host_is_avoided(h))
			return n;
		found = found ? found : n;
	}
	return found;
}

/* The first worker that is missed. NULL: none. */
static struct sup_node *find_missed(const struct supervisor *s)
{
	EACH_OF (n, s, sup_trainers(s))
		if (is_missed(n))
			return n;
	return NULL;
}

void sup_spares_step(struct supervisor *s)
{
	struct sup_node *missed, *spare;
	while (!s->progress.all_done && (missed = find_missed(s)) &&
	       (spare = find_waiting(s, missed)))
		spare_take_place(spare, missed);
	EACH_OF (n, s, sup_spares(s))
		if (!n->spare.given_up && !s->progress.all_done)
			sup_node_want(n);
}

/* ---- a spare ---- */

static void spare_cancelled(struct request *rq, void *arg)
{
	struct sup_node *n = arg;
	if (n->spare.rq == rq)
		n->spare.rq = NULL;
}

void sup_spare_asks(struct sup_node *n, struct request *rq)
{
	struct supervisor *s = n->sup;
	if (s->phases.now >= PHASE_STOPPING) {
		request_err(rq, "over", "the job ends");
		return;
	}
	if (n->spare.rq) { /* that connection has gone, or is about to */
		request_err(n->spare.rq, "again", "asked again");
		n->spare.rq = NULL;
	}
	n->spare.rq = rq;
	if (!sup_node_is_spare(n)) { /* its place was given before it could be told */
		spare_answer(n);
		return;
	}
	request_defer(rq, spare_cancelled, n);
	sup_node_answers(n, 0);
	sup_kick(s);
}

void sup_spare_give_up(struct sup_node *n, const char *why)
{
	sup_note(n->sup, "warning", "%s is no longer a spare: %s; %llu are left", n->id, why,
		 (unsigned long long)(sup_count(n->sup, n->role) - 1));
	n->spare.given_up = 1;
}
