/*
 * Members that have the parameters themselves, where replicas sum (struct gate_options, foreign and
 * replicas): who is at the lead's iteration, and who gives its state to those who are not.
 *
 * A member is at the lead's iteration, or about to be: it has been told of the commit.  One that
 * joins says at which iteration its state is.  At the lead's it enters at once; one behind it is
 * told the round of the sum that it lacks; any other is told where a member has put its state.
 * Until it is back the next settle is held, or its state would be too old again.
 *
 * Checkpoints: the answers to the pushes of a unit are held until shardd has saved, and then tell
 * the members.
 */
#include "lead/gate_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int states_are(const struct gate *g)
{
	return g->options.foreign && g->options.replicas;
}

static int states_waits(const struct gate *g, const struct worker *w)
{
	return w->state == WORKER_JOINING && w->join_token && gate_in_force(g, w->replica);
}

static int states_lacks(const struct gate *g, const struct worker *w)
{
	return states_waits(g, w) && w->version != g->applied;
}

static int states_has_step(const struct gate *g, const struct worker *w)
{
	const struct gate_commit *last = &g->sums.last;

	return last->round && last->iteration == g->applied && w->version + 1 == g->applied;
}

/* Whether w has the state of the lead's iteration, or is about to have it. AWAY: it may come back with
 * it. */
enum has { HAS_NOT, HAS_AWAY, HAS };

static enum has states_has(const struct gate *g, const struct worker *w)
{
	if (w->state == WORKER_ACTIVE || w->is_due ||
	    (w->state == WORKER_ENDED && w->version == g->applied))
		return HAS;
	/* As it has said with its join. */
	if (w->state == WORKER_JOINING && w->join_token &&
	    (w->version == g->applied || states_has_step(g, w)))
		return gate_in_force(g, w->replica) ? HAS : HAS_AWAY;
	/* One that lacks only what was committed last may be able to step. */
	return w->absent && w->absent >= g->applied ? HAS_AWAY : HAS_NOT;
}

/* Somebody but `other` has it. */
static int states_is_whole(const struct gate *g, const struct worker *other)
{
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (w != other && states_has(g, w) == HAS)
			return 1;
	}
	return 0;
}

static int states_is_needed(const struct gate *g)
{
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (states_lacks(g, w))
			return 1;
	}
	return 0;
}

const char *states_samples(const struct gate *g, char out[STATES_SAMPLES_MAX])
{
	out[0] = '\0';
	if (states_are(g))
		snprintf(out, STATES_SAMPLES_MAX, " samples=%llu round=%llu%s",
			 (unsigned long long)g->sums.last.samples,
			 (unsigned long long)g->sums.last.round, g->sums.was_bad ? " bad=1" : "");
	return out;
}

const char *states_beginning(const struct gate *g, char out[STATES_BEGINNING_MAX])
{
	out[0] = '\0';
	if (g->applied == 0 && g->beginning)
		snprintf(out, STATES_BEGINNING_MAX, " beginning=%llu", (unsigned long long)g->beginning);
	return out;
}

void states_absent(struct gate *g, struct worker *w, const char *why)
{
	/* A trainer that has ended may be gone for good with its connection. */
	int has = w->state != WORKER_ENDED && states_has(g, w) != HAS_NOT;

	worker_out(g, w, why);
	w->absent = states_are(g) && has ? g->applied + 1 : 0;
}

void states_put_out(struct gate *g, struct worker *w, const char *why)
{
	uint64_t connection = w->connection;

	states_absent(g, w, why);
	w->unaware = w->absent ? connection : 0;
}

enum gate_lost gate_lost(const struct gate *g)
{
	enum gate_lost lost = GATE_LOST;

	if (!states_are(g) || !g->sums.is_known || g->settling || g->expect || g->quit ||
	    !states_is_needed(g) || states_is_whole(g, NULL))
		return GATE_LOST_NOT;
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (w->unaware)
			return GATE_LOST_NOT;
		if (states_has(g, w) == HAS_AWAY)
			lost = GATE_LOST_ABSENT;
	}
	return lost;
}

/* ---- giving ---- */

/* Whether a gives rather than b: whoever has failed less often, on a host where somebody waits. */
static int states_is_better(const struct gate *g, const struct worker *a, const struct worker *b)
{
	int near_a = 0, near_b = 0;

	if (!b || (a->state == WORKER_ACTIVE) != (b->state == WORKER_ACTIVE))
		return !b || a->state == WORKER_ACTIVE;
	if (a->gives_failed != b->gives_failed)
		return a->gives_failed < b->gives_failed;
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		near_a |= states_lacks(g, w) && w->replica == a->replica;
		near_b |= states_lacks(g, w) && w->replica == b->replica;
	}
	return near_a != near_b ? near_a : worker_order(&a, &b) < 0;
}

/* One who has ended is told at once: it waits for nothing else. */
static void states_pick(struct gate *g)
{
	struct worker *best = NULL;

	for (struct worker *w = g->workers; w; w = w->hh.next) {
		int can = w->state == WORKER_ACTIVE || (w->end_token && w->version == g->applied);
		if (can && states_is_better(g, w, best))
			best = w;
	}
	g->give = (struct give){.giver = best};
	if (!best || best->state == WORKER_ACTIVE)
		return;
	effect_ok(g, best->end_token, NULL, "wait=1");
	best->end_token = 0;
	states_tell(g, best);
}

int states_know(const struct gate *g)
{
	if (!states_are(g) || !g->enough)
		return 0;
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (w->state == WORKER_ACTIVE && !w->join_token && !w->knows_enough)
			return 0;
	}
	return 1;
}

void states_tell(struct gate *g, struct worker *w)
{
	struct gate_effect *e = effect_last(g);

	if (g->give.giver != w || g->give.attempt || g->failed)
		return;
	if (!states_is_needed(g)) {
		g->give = (struct give){0};
		return;
	}
	g->give.attempt = ++g->sums.used;
	g->give.iteration = g->applied;
	e->attempt = g->give.attempt;
	e->iteration = g->applied;
}

/* w gets what was given, unless it has tried that, or it is of another iteration. */
static int states_fill(struct gate *g, struct worker *w)
{
	struct given *given = &g->given;
	char beginning[STATES_BEGINNING_MAX];

	if (!given->attempt || given->iteration != g->applied || w->tried == given->attempt)
		return 0;
	effect_ok(g, w->join_token, NULL, "iteration=%llu fill=%s attempt=%llu%s",
		  (unsigned long long)g->applied, g->replica[given->replica].name,
		  (unsigned long long)given->attempt, states_beginning(g, beginning));
	w->join_token = 0;
	w->is_due = 1;
	w->tried = given->attempt;
	return 1;
}

static void states_bring_one(struct gate *g, struct worker *w)
{
	if (!states_has_step(g, w)) {
		if (!states_fill(g, w) && !g->give.giver)
			states_pick(g);
		return;
	}
	effect_ok(g, w->join_token, NULL, "iteration=%llu step=%llu samples=%llu%s",
		  (unsigned long long)g->applied, (unsigned long long)g->sums.last.round,
		  (unsigned long long)g->sums.last.samples, g->sums.was_bad ? " bad=1" : "");
	w->join_token = 0;
	w->is_due = 1;
}

void states_bring(struct gate *g)
{
	for (struct worker *w = states_are(g) ? g->workers : NULL; w; w = w->hh.next) {
		if (states_lacks(g, w))
			states_bring_one(g, w);
	}
}

void gate_given(struct gate *g, const struct gate_who *who, uint64_t attempt, int failed)
{
	struct worker *w = g->give.giver;

	if (!w || !attempt || attempt != g->give.attempt || strcmp(w->id, who->worker) != 0 ||
	    w->generation != who->generation || who->incarnation != g->options.incarnation) {
		effect_err(g, who->token, "no-give", "nobody waits for attempt %llu of %s",
			   (unsigned long long)attempt, who->worker);
		return;
	}
	effect_ok(g, who->token, NULL, "%s", "");
	w->gives_failed = failed ? w->gives_failed + 1 : 0;
	if (!failed)
		g->given = (struct given){attempt, g->give.iteration, w->replica};
	g->give = (struct give){0};
	units_step(g);
}

/* ---- entering ---- */

/* Before the first iteration any state is as good as another: the first worker's is everybody's. What
 * others have, or have given, was of an earlier beginning. */
void states_begin(struct gate *g)
{
	struct worker *first = NULL;

	if (!states_are(g) || g->applied || states_is_whole(g, NULL))
		return;
	for (struct worker *w = g->workers; w; w = w->hh.next) {
		if (states_waits(g, w) && (!first || worker_order(&w, &first) < 0))
			first = w;
	}
	if (!first)
		return;
	for (struct worker *w = g->workers; w; w = w->hh.next)
		w->version = GATE_NO_STATE;
	g->given = (struct given){0};
	first->version = g->applied;
	g->beginning = ++g->sums.used;
}

/* At any time but while a settle is out: then it is not known where the lead will be. */
int states_let_in(const struct gate *g, const struct worker *w)
{
	return !states_are(g) || w->version == g->applied;
}

void states_out(struct gate *g, struct worker *w)
{
	w->is_due = 0;
	w->version = GATE_NO_STATE;
	if (g->give.giver == w)
		g->give = (struct give){0};
}

int states_stays(struct gate *g, struct worker *w)
{
	if (!states_are(g) || g->settling || states_has(g, w) != HAS || states_is_whole(g, w) ||
	    !states_is_needed(g))
		return 0;
	if (!g->give.attempt)
		g->give.giver = w;
	return 1;
}

int states_hold(const struct gate *g)
{
	if (!states_are(g) || g->unheld == g->applied + 1)
		return 0;
	if (g->give.attempt)
		return 1;
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (w->is_due)
			return 1;
	}
	return 0;
}

uint64_t gate_state_due(const struct gate *g)
{
	return states_hold(g) ? g->applied + 1 : 0;
}

void gate_state_late(struct gate *g)
{
	struct worker *w, *next;

	if (!states_hold(g))
		return;
	g->unheld = g->applied + 1;
	if (g->give.attempt) {
		g->give.giver->gives_failed++;
		g->give = (struct give){0};
	}
	HASH_ITER(hh, g->workers, w, next)
	{
		if (w->is_due)
			states_put_out(g, w, "its state was not there in time");
	}
	units_step(g);
}

void gate_state(struct gate *g, const struct gate_who *who, uint64_t version, uint64_t beginning)
{
	struct worker *w = worker_telling(g, who);

	if (!w || !states_are(g))
		return;
	if (w->state != WORKER_OUT) /* what it has now may be anything */
		worker_out(g, w, "it joins again");
	w->version = version == 0 && beginning != g->beginning ? GATE_NO_STATE : version;
}

/* ---- cuts ---- */

int states_keeps(const struct gate *g)
{
	return states_are(g) && g->cut == CUT_WANTED;
}

static int states_may_save(const struct gate *g, const struct worker *w)
{
	return w->waiting || (w->state == WORKER_ENDED && w->version == g->applied);
}

/* Whether somebody can save this iteration, or there is nothing to be saved. Who comes, or may come
 * back, is waited for; if nobody ever will, the cut is refused. */
int states_may_cut(struct gate *g)
{
	int comes = !g->workers;

	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (states_may_save(g, w))
			return 1;
		comes |= w->state == WORKER_JOINING || w->absent;
	}
	if (g->active || !g->sums.is_known)
		return 0;
	if (g->applied == 0)
		return 1;
	if (comes)
		return 0;
	effect_err(g, g->cut_token, "cut", "no trainer is here");
	g->cut = CUT_NONE;
	return 0;
}

static void states_save(struct gate *g, struct gate_effect *e, struct worker *w, enum gate_saves how)
{
	struct order_member *m = &e->member[e->members];

	for (size_t i = 0; i < e->members; i++) {
		if (strcmp(e->member[i].replica, g->replica[w->replica].name) == 0)
			return; /* one for each host */
	}
	w->owes_save = how;
	memcpy(m->worker, w->id, sizeof m->worker);
	snprintf(m->replica, sizeof m->replica, "%s", g->replica[w->replica].name);
	m->generation = w->generation;
	m->only_memory = how == GATE_SAVES_MEMORY;
	e->members++;
}

/* All are alike: one of those who know of no later iteration saves. On each other host one of them
 * holds its state in memory, so that hosts need not read what was saved. */
void states_saved(struct gate *g)
{
	struct gate_effect *e = effect_add(g, GATE_CUT);
	struct worker *first = NULL;

	g->cut = CUT_WRITING;
	g->cut_iteration = g->applied;
	if (!e || !(e->member = calloc(HASH_COUNT(g->workers) + 1, sizeof *e->member))) {
		g->failed = 1;
		return;
	}
	e->iteration = g->applied;
	for (struct worker *w = g->workers; w; w = w->hh.next) {
		if (states_may_save(g, w) && (!first || worker_order(&w, &first) < 0))
			first = w;
	}
	if (!first)
		return;
	states_save(g, e, first, GATE_SAVES_FILES);
	for (struct worker *w = g->workers; w; w = w->hh.next) {
		if (w->waiting)
			states_save(g, e, w, GATE_SAVES_MEMORY);
	}
	if (!first->end_token)
		return;
	effect_ok(g, first->end_token, NULL, "wait=1");
	first->end_token = 0;
	begins_tell(g, first);
}
