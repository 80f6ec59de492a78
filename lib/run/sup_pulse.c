/*
 * sup_pulse: whether the nodes move, seen from outside.  Every daemon is asked something cheap once
 * a second, on a connection of its own, and owes the answer.  The answers of shardd and of the lead
 * tell of workers, too: one that was answered owes its next push, one that is no member owes its
 * next step, and one that waits for others owes nothing.  How long a silence may be is a pure
 * function (monitor/pulse.h); a node that is silent for longer is given up (sup_lost.c).
 *
 * While a daemon is silent that workers talk to, their silence says nothing: nobody is killed for
 * waiting.  So the daemon is found first, and whoever hung beside it afterwards.
 */
#include "run/sup.h"

#include "base/clock.h"

#include <string.h>

#define ASK_SECONDS 1.0
#define PRESENT_SECONDS 1.0 /* a daemon whose answer is later than that is not there for workers */

/* ---- asking ---- */

static int is_lead(const struct sup_node *n)
{
	return n == n->sup->servers;
}

/* A worker's sign of life, and the work that it has done since it was seen last. */
static void take_counts(struct sup_node *n, uint64_t pushes, uint64_t samples)
{
	struct sup_seen *seen = &n->seen;
	if (seen->pushes_known && pushes > seen->pushes && samples > seen->samples) {
		if (seen->partly)
			pulse_resume(&n->pulse);
		else
			pulse_work(&n->pulse, samples - seen->samples);
		seen->partly = 0;
		n->worked = 1;
	} else if (!seen->pushes_known || pushes != seen->pushes)
		pulse_sign(&n->pulse); /* one that is adopted, or another lead counts anew */
	seen->pushes = pushes;
	seen->samples = samples;
	seen->pushes_known = 1;
}

static void take_member(struct supervisor *s, const struct record *r)
{
	const char *id = record_get(r, "worker"), *state = record_get(r, "state");
	const char *owes = record_get(r, "owes");
	struct sup_node *n = id ? sup_node_find(s, id) : NULL;
	uint64_t pushes = 0, samples = 0, generation = 0;
	if (!n || n->role != ROLE_WORKER || !state)
		return;
	struct sup_seen *seen = &n->seen;
	int owed = owes && owes[0] != '\0';
	record_u64_opt(r, "generation", 0, UINT64_MAX, &generation, NULL);
	record_u64_opt(r, "pushes", 0, UINT64_MAX, &pushes, NULL);
	record_u64_opt(r, "samples", 0, UINT64_MAX, &samples, NULL);
	record_u64_opt(r, "size", 0, UINT64_MAX, &seen->size, NULL);
	if (!seen->member || generation != seen->member_generation || owed != seen->owes)
		pulse_sign(&n->pulse);
	if (generation != seen->member_generation)
		seen->pushes = seen->samples = 0;
	take_counts(n, pushes, samples);
	seen->member = 1;
	seen->member_generation = generation;
	seen->owes = owed;
	seen->round = s->pulse_round;
	struct record_out o;
	record_begin(&o, seen->last, sizeof seen->last, r->type);
	record_add_fields(&o, r, NULL);
	if (record_end(&o, NULL) == 0)
		seen->last[0] = '\0';
}

static void take_asks(struct supervisor *s, const struct record *r)
{
	const char *id = record_get(r, "worker");
	struct sup_node *n = id ? sup_node_find(s, id) : NULL;
	uint64_t asks = 0, generation = 0;
	if (!n || n->role != ROLE_WORKER)
		return;
	record_u64_opt(r, "asks", 0, UINT64_MAX, &asks, NULL);
	record_u64_opt(r, "generation", 0, UINT64_MAX, &generation, NULL);
	if (asks != n->seen.asks || generation != n->seen.generation) {
		/* A member's get is made ahead of its batch: only the batch is what it owes. */
		if (!n->seen.member)
			pulse_sign(&n->pulse);
		n->seen.asks = asks;
		n->seen.generation = generation;
	}
}

/* Who was not told of is no member. */
static void end_round(struct supervisor *s)
{
	for (size_t i = 0; i < s->job->workers; i++) {
		struct sup_node *n = &s->workers[i];
		if (n->seen.round == s->pulse_round || !n->seen.member)
			continue;
		n->seen.member = n->seen.owes = 0;
		pulse_sign(&n->pulse);
	}
	s->pulse_round++;
}

static void on_answer(const struct record *r, int closing, const void *payload, size_t bytes,
		      void *arg)
{
	struct sup_node *n = arg;
	(void)payload;
	(void)bytes;
	if (!closing) {
		if (is_lead(n) && record_is(r, "member"))
			take_member(n->sup, r);
		else if (n->role == ROLE_SHARDD && record_is(r, "worker"))
			take_asks(n->sup, r);
		return;
	}
	n->questioned = 0;
	if (!r)
		return; /* the connection went: it owes still */
	if (is_lead(n) && record_is(r, "ok"))
		end_round(n->sup);
	pulse_work(&n->pulse, 1);
}

static void ask(struct sup_node *n)
{
	char line[64];
	struct record_out o;
	if (n->questioned)
		return;
	record_begin(&o, line, sizeof line,
		     is_lead(n)                ? "members"
		     : n->role == ROLE_SHARDD ? "workers"
					      : "counters");
	if (sup_link_send(&n->asking, &o, NULL, 0, on_answer, n) == 0)
		n->questioned = 1;
}

/* ---- judging ---- */

static enum pulse_section section_of(const struct sup_node *n)
{
	if (n->role != ROLE_WORKER && n->heir.runs)
		return PULSE_HANDOVER;
	if (n->role == ROLE_WORKER ? !n->pulse.begun : n->stage == STAGE_STARTING)
		return PULSE_START;
	if (n->role == ROLE_WORKER)
		return n->seen.member ? PULSE_BATCH : PULSE_EXCHANGE;
	return n->role != ROLE_MONITOR && n->cutting ? PULSE_CHECKPOINT : PULSE_EXCHANGE;
}

/* Samples of the batch in its hand: the larger of what it had and what it may have been told. */
static uint64_t units_of(const struct sup_node *n)
{
	const struct action *a = n->role == ROLE_WORKER
					 ? sup_force_find(n->sup, ACTION_ADJUST_BS, n->id)
					 : NULL;
	uint64_t told = a ? a->size * a->accum : 0;
	if (n->role != ROLE_WORKER)
		return 1;
	return told > n->seen.size ? told : n->seen.size;
}

static int runs(const struct sup_node *n)
{
	return (n->stage == STAGE_STARTING || n->stage == STAGE_READY) && !n->now.doomed;
}

static void judge(struct sup_node *n, double seconds, int owes)
{
	const struct pulse_rules *rules = &n->sup->hung;
	/* A silence that began while a checkpoint was cut is one of that. */
	n->cutting = n->role != ROLE_WORKER && (n->sup->cut_pending || (n->cutting && owes));
	enum pulse_section section = section_of(n);
	uint64_t units = units_of(n);
	pulse_tick(&n->pulse, seconds, owes);
	if (!owes || !pulse_hung(&n->pulse, rules, section, units))
		return;
	struct sup_silence silence = {.section = section,
				      .seconds = n->pulse.silent,
				      .limit = pulse_limit(&n->pulse, rules, section, units)};
	sup_lost(n, &silence);
}

/* One that starts, or hands over, has a timer of its own. */
static void judge_daemon(struct sup_node *n, double seconds)
{
	if (!runs(n) || n->stage != STAGE_READY || n->heir.runs)
		n->pulse.silent = n->pulse.busy = 0;
	else
		judge(n, seconds, n->questioned || !sup_link_up(&n->asking));
}

static int is_there(const struct sup_node *n)
{
	return n->stage == STAGE_READY && !n->now.doomed && !n->heir.runs &&
	       sup_link_up(&n->asking) && n->pulse.silent < PRESENT_SECONDS;
}

/* Whether all are there that a worker may be waiting for. */
static int all_there(const struct supervisor *s)
{
	int there = s->phase == PHASE_RUNNING && is_there(s->shardd);
	for (size_t i = 0; i < s->job->servers; i++)
		there &= is_there(&s->servers[i]);
	return there;
}

static void judge_worker(struct sup_node *n, double seconds, int there)
{
	if (!runs(n))
		return;
	judge(n, seconds, there && (!n->seen.member || n->seen.owes));
}

void sup_pulse_begin(struct sup_node *n, int adopted)
{
	pulse_begin(&n->pulse);
	/* How long one that is adopted took for what it has done already nobody knows. */
	n->seen = (struct sup_seen){
		.round = n->sup->pulse_round, .pushes_known = !adopted, .partly = adopted};
	n->worked = 0;
	n->questioned = 0;
}

const char *sup_pulse_section(const struct sup_node *n)
{
	if (!runs(n))
		return "";
	if (n->role == ROLE_WORKER && n->seen.member && !n->seen.owes)
		return "wait";
	return pulse_section_name(section_of(n));
}

void sup_pulse_tick(struct supervisor *s)
{
	double now = clock_mono(), seconds = s->pulse_at > 0 ? now - s->pulse_at : 0;
	s->pulse_at = now;
	if (s->phase >= PHASE_STOPPING)
		return; /* their ends have deadlines */
	int due = now - s->pulse_asked >= ASK_SECONDS;
	if (due)
		s->pulse_asked = now;
	for (struct sup_node *n = s->node; n < s->workers; n++) {
		judge_daemon(n, seconds);
		if (due && runs(n))
			ask(n);
	}
	int there = all_there(s);
	for (size_t i = 0; i < s->job->workers; i++)
		judge_worker(&s->workers[i], seconds, there);
}
