/*
 * Units of replicas: first the sum, then the commit, then the step.  What is summed is a list of
 * members (worker, generation) over the replicas in force, under a round.  When the list or the
 * replicas are others, a new round begins: sums_step() compares the open sum with the one that
 * should be, so no event has to know what it changes about it.  A unit is settled when its members
 * have pushed and its replicas have the sum; while that settle is out no new round begins.
 *
 * Without backup workers the sum of all members is opened as the iteration begins, so that replicas
 * sum while some members still compute.  With backup workers it is opened when enough have pushed,
 * and is of those; where members may be late (gate_late.c), when all have computed or are late.
 */
#include "lead/gate_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what should be summed ---- */

static int has_pushed(const struct worker *w)
{
	return worker_held(w) && !worker_held(w)->late;
}

static int gate_sums_is_listed(const struct worker *w)
{
	return w->state == WORKER_ACTIVE && w->listed && w->listed == w->generation;
}

static int gate_sums_is_wanted(const struct gate *g, const struct worker *w)
{
	return w->state == WORKER_ACTIVE && !late_is_out(g, w) && (!g->backup || has_pushed(w));
}

/* Pushes that are on time. */
static size_t pushed(const struct gate *g)
{
	return g->held.count - (size_t)g->late;
}

/* Members that would be in a sum that is opened now; 0: it is too early for one. */
static size_t gate_sums_wanted(const struct gate *g)
{
	size_t needed = g->active > g->backup ? g->active - (size_t)g->backup : 1, n = 0;

	if (g->backup && pushed(g) < needed)
		return 0;
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (!gate_sums_is_wanted(g, w))
			continue;
		if (g->options.late > 0.0 && !late_is_ready(w))
			return 0;
		n++;
	}
	return g->backup && n < needed ? 0 : n;
}

/* Whether the members of the open sum are those that should be. With backup workers, one who pushes
 * later does not change that: its push will be late. */
static int members_same(const struct gate *g)
{
	size_t listed = 0, wanted = 0;

	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		wanted += gate_sums_is_wanted(g, w) ? 1 : 0;
		listed += gate_sums_is_listed(w) && gate_sums_is_wanted(g, w) ? 1 : 0;
	}
	return listed == g->sums.members && (g->backup || listed == wanted);
}

int sums_cut_waits(const struct gate *g)
{
	return replicas_in(g) > 1 && g->active && !g->sums.was_checked;
}

static int wants_check(const struct gate *g)
{
	return replicas_in(g) > 1 &&
	       ((g->applied + 1) % GATE_CHECK_UNITS == 0 ||
		(g->cut == CUT_WANTED && !g->sums.was_checked));
}

/* ---- opening ---- */

static void shut(struct gate *g)
{
	for (struct worker *w = g->workers; w; w = w->hh.next)
		w->listed = 0;
	g->sums.is_open = 0;
	g->sums.members = g->sums.replicas = 0;
}

/* The members in worker order, so that all replicas sum in the same order. */
static size_t gate_sums_list_members(struct gate *g, struct order_member *member,
				     struct worker **order)
{
	size_t n = 0;

	for (struct worker *w = g->workers; w; w = w->hh.next) {
		if (gate_sums_is_wanted(g, w))
			order[n++] = w;
	}
	qsort(order, n, sizeof *order, worker_order);
	for (size_t i = 0; i < n; i++) {
		struct worker *w = order[i];
		memcpy(member[i].worker, w->id, sizeof member[i].worker);
		snprintf(member[i].replica, sizeof member[i].replica, "%s",
			 g->replica[w->replica].name);
		member[i].generation = w->listed = w->generation;
		member[i].scale = worker_held(w) ? worker_held(w)->scale : w->scale;
	}
	return n;
}

static void open_sum(struct gate *g)
{
	struct worker **order = malloc((g->active + 1) * sizeof *order);
	struct order_member *member = calloc(g->active + 1, sizeof *member);
	struct gate_effect *e = order && member ? effect_add(g, GATE_SUM) : NULL;

	shut(g);
	if (!e || replicas_to(g, e) != 0) {
		free(order);
		free(member);
		g->failed = 1;
		return;
	}
	e->round = g->sums.round = ++g->sums.used;
	e->iteration = g->applied;
	e->check = g->sums.is_checked = wants_check(g);
	e->member = member;
	e->members = g->sums.members = gate_sums_list_members(g, member, order);
	g->sums.replicas = e->tos;
	g->sums.is_open = 1;
	g->sums.is_bad = 0;
	for (size_t i = 0; i < e->tos; i++)
		g->replica[e->to[i]].told = e->round;
	free(order);
}

/* Makes the open sum the one that should be. A push changes nothing about an open one. */
static void keep_sum(struct gate *g)
{
	int lacks_check = !g->sums.is_checked && wants_check(g);

	if (g->sums.is_open && !g->sums.is_changed && !lacks_check)
		return;
	g->sums.is_changed = 0;
	if (replicas_in(g) == 0 || gate_sums_wanted(g) == 0)
		shut(g);
	else if (!g->sums.is_open || !members_same(g) || !replicas_same(g) ||
		 lacks_check)
		open_sum(g);
}

/* ---- settling ---- */

/* Whether all replicas in force have the sum. If they have different ones, the lead ends. */
static int is_summed(struct gate *g)
{
	const struct replica *first = NULL;
	char why[160];

	for (size_t i = 0; i < g->options.replicas; i++) {
		const struct replica *r = &g->replica[i];
		if (r->state != REPLICA_IN)
			continue;
		if (r->summed != g->sums.round)
			return 0;
		if (first && g->sums.is_checked && r->sum != first->sum) {
			snprintf(why, sizeof why,
				 "iteration %llu: the sums of %s and %s differ (%016llx, %016llx)",
				 (unsigned long long)g->applied, first->name, r->name,
				 (unsigned long long)first->sum, (unsigned long long)r->sum);
			units_quit(g, why);
			return 0;
		}
		first = first ? first : r;
	}
	return 1;
}

static int is_pushed(const struct gate *g)
{
	if (pushed(g) < g->sums.members)
		return 0;
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (gate_sums_is_listed(w) && !has_pushed(w))
			return 0;
	}
	return 1;
}

/* w has told its replica something else than the lead. This generation is out for good, and its
 * staged pushes are thrown away. */
static void gate_sums_refuse(struct gate *g, struct worker *w, const char *why)
{
	struct gate_effect *e = effect_add(g, GATE_REFUSED);

	if (!e)
		return;
	e->worker = w->id;
	e->generation = w->generation;
	snprintf(e->fields, sizeof e->fields, "%s", why);
	if (w->fenced < w->generation)
		w->fenced = w->generation;
	if (w->throw_upto < w->generation)
		w->throw_upto = w->generation;
	worker_out(g, w, why);
	units_throw(g, w);
}

/* Whether the replicas have added what the members told the lead. A member who told its replica
 * something else is out, and the sum is of no use. */
static int is_true(struct gate *g)
{
	int all = 1;
	char why[192];

	for (struct worker *w = g->workers; w && !g->quit; w = w->hh.next) {
		const struct push *p = worker_held(w);
		if (!gate_sums_is_listed(w))
			continue;
		if (w->summed != g->sums.round) {
			snprintf(why, sizeof why,
				 "iteration %llu: %s does not say what it has summed of %.64s",
				 (unsigned long long)g->applied, g->replica[w->replica].name,
				 w->id);
			units_quit(g, why);
			all = 0;
		} else if (w->summed_sequence != p->sequence || w->summed_count != p->count) {
			snprintf(why, sizeof why,
				 "it told %s of sequence %llu with %llu samples, and the lead of "
				 "sequence %llu with %llu",
				 g->replica[w->replica].name,
				 (unsigned long long)w->summed_sequence,
				 (unsigned long long)w->summed_count,
				 (unsigned long long)p->sequence, (unsigned long long)p->count);
			gate_sums_refuse(g, w, why);
			all = 0;
		}
	}
	return all;
}

/* What the sum is divided by: its samples; but a batch that the end of the data cut short counts as
 * a whole one, also that of an idle worker (gate_idle()), and none as more than the largest that was
 * ever settled (struct order_push). */
static void count_unit(struct gate *g)
{
	uint64_t largest = g->largest, size;
	struct sums *s = &g->sums;

	s->next = (struct gate_commit){.iteration = g->applied + 1,
				       .round = s->round,
				       .beginning = g->applied ? 0 : g->beginning};
	s->loss = 0.0;
	for (const struct push *p = g->sent.first; p; p = p->next)
		largest = p->count > largest ? p->count : largest;
	for (const struct push *p = g->sent.first; p; p = p->next) {
		size = p->size < largest ? p->size : largest;
		if (p->count)
			s->next.divisor += size > p->count ? size : p->count;
		s->next.samples += p->count;
		s->loss += p->loss;
	}
	if (s->next.divisor)
		s->next.divisor += worker_idle_samples(g);
}

static void settle_unit(struct gate *g)
{
	for (struct push *p = g->held.first, *next; p; p = next) {
		next = p->next;
		if (p->late || !gate_sums_is_listed(p->worker))
			continue;
		pushes_remove(&g->held, p);
		p->is_sent = 1;
		pushes_add(&g->sent, p);
	}
	count_unit(g);
	units_settle(g);
}

/* 1: something was settled, or somebody is out, so that more may be possible now. */
static int gate_sums_go_on(struct gate *g)
{
	if (g->late) {
		units_late(g);
		return 1;
	}
	if (!g->sums.is_open || replicas_hold(g) || states_hold(g) || !is_pushed(g) || !is_summed(g))
		return 0;
	if (!is_true(g))
		return 1;
	settle_unit(g);
	return 1;
}

void sums_step(struct gate *g)
{
	do {
		g->late_at = INT64_MAX;
		replicas_place(g);
		if (!g->settling)
			late_alone(g);
		worker_let_in(g, 0);
		units_cut(g);
		units_release(g);
		if (g->settling || !g->sums.is_known || g->quit)
			return;
		late_step(g);
		keep_sum(g);
		if (g->cut == CUT_SAVING || g->cut == CUT_FORKING ||
		    (g->cut == CUT_WANTED && !sums_cut_waits(g) && !states_are(g)))
			return;
	} while (!g->failed && gate_sums_go_on(g));
}

/* ---- the answer ---- */

static void mark_late(struct gate *g)
{
	for (struct push *p = g->held.first; p; p = p->next) {
		if (!p->late && p->iteration < g->open) {
			p->late = 1;
			g->late++;
		}
	}
}

void sums_commit(struct gate *g)
{
	struct sums *s = &g->sums;
	struct gate_effect *e = effect_add(g, GATE_APPLY);

	if (!e || replicas_to(g, e) != 0) {
		g->failed = 1;
		return;
	}
	s->last = s->next;
	s->was_checked = s->is_checked;
	s->was_bad = s->is_bad;
	e->iteration = g->applied;
	e->units = 1;
	e->round = s->last.round;
	e->divisor = s->last.divisor;
	e->samples = s->last.samples;
	e->loss = s->loss;
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		const struct push *p = worker_sent(w);
		if (p && p->count > g->largest)
			g->largest = p->count;
	}
	shut(g);
	g->applied++;
	g->open = g->applied;
	mark_late(g);
	acts_publish(g);
	worker_let_in(g, 1);
}

/* Those who were refused are out; the pushes of the others are held again, for the next sum. */
void sums_refused(struct gate *g)
{
	struct pushes sent = g->sent;
	struct worker *w, *w_next;

	g->settling = g->unit = 0;
	pushes_start(&g->sent);
	shut(g);
	for (struct push *p = sent.first, *next; p; p = next) {
		next = p->next;
		w = p->worker;
		if (!p->refused && w->state == WORKER_ACTIVE && w->generation == p->generation) {
			p->is_sent = 0;
			pushes_add(&g->held, p);
			continue;
		}
		if (!p->refused) { /* it has gone meanwhile */
			effect_name(g, GATE_DROP, w->id, p->generation, p->sequence);
			p->refused = REFUSED_BY_SHARDD;
		}
		units_finish(g, p);
	}
	HASH_ITER(hh, g->workers, w, w_next)
	{
		worker_fence(g, w);
		units_throw(g, w);
	}
}

/* ---- events ---- */

void gate_term(struct gate *g, uint64_t term, const struct gate_commit *last)
{
	struct sums *s = &g->sums;

	s->term = term;
	s->round = s->used = term << 32;
	g->number = term << 32;
	if (last) {
		s->last = *last;
		s->is_known = 1;
		g->applied = g->open = last->iteration;
		g->beginning = last->beginning;
	} else if (states_are(g))
		s->is_known = 1; /* replicas do not know it */
	units_step(g);
}

void gate_summed_of(struct gate *g, size_t replica, uint64_t round, const char *worker,
		    uint64_t generation, uint64_t sequence, uint64_t count)
{
	struct worker *w = worker_find(g, worker);

	if (!w || w->replica != replica || round != g->sums.round || w->generation != generation ||
	    !gate_sums_is_listed(w))
		return;
	w->summed = round;
	w->summed_sequence = sequence;
	w->summed_count = count;
}

void gate_summed(struct gate *g, size_t replica, uint64_t round, uint64_t sum)
{
	struct replica *r = &g->replica[replica];

	if (round != r->told || round != g->sums.round)
		return;
	r->summed = round;
	r->sum = sum;
	units_step(g);
}

/* Whether that sum is still of use, and its unit is not with shardd (late pushes may be). */
static int is_summing(const struct gate *g, uint64_t round)
{
	return round == g->sums.round && g->sums.is_open && !(g->settling && g->unit);
}

void gate_sum_is_bad(struct gate *g)
{
	g->sums.is_bad = 1;
}

void gate_diverged(struct gate *g, uint64_t round, const char *worker, uint64_t generation,
		   const char *why)
{
	struct worker *w;
	struct push *p;

	HASH_FIND_STR(g->workers, worker, w);
	if (!w || !is_summing(g, round) || w->generation != generation || !gate_sums_is_listed(w))
		return;
	w->diverged = generation;
	snprintf(w->why, sizeof w->why, "%s", why);
	p = worker_held(w);
	for (size_t i = 0; p && i < p->tokens; i++)
		effect_err(g, p->token[i], "diverged", "%s", w->why);
	if (p)
		p->tokens = 0;
	worker_out(g, w, "its gradient can't be summed");
	units_step(g);
}

void gate_refused(struct gate *g, uint64_t round, const char *worker, uint64_t generation,
		  const char *why)
{
	struct worker *w = worker_find(g, worker);

	if (!w || !is_summing(g, round) || w->generation != generation || !gate_sums_is_listed(w))
		return;
	gate_sums_refuse(g, w, why);
	units_step(g);
}

static int lacks_sum(const struct gate *g, size_t replica)
{
	const struct replica *r = &g->replica[replica];

	return r->state == REPLICA_IN && r->told == g->sums.round && r->summed != g->sums.round;
}

uint64_t gate_sum_due(const struct gate *g)
{
	if (!is_summing(g, g->sums.round) || g->quit || !is_pushed(g))
		return 0;
	for (size_t i = 0; i < g->options.replicas; i++) {
		if (lacks_sum(g, i))
			return g->sums.round;
	}
	return 0;
}

void gate_sum_late(struct gate *g)
{
	struct order_push *push;
	struct gate_effect *e;

	if (!gate_sum_due(g))
		return;
	push = calloc(g->sums.members, sizeof *push);
	e = push ? effect_add(g, GATE_HOLD) : NULL;
	if (!e || !(e->to = calloc(g->options.replicas, sizeof *e->to))) {
		free(push);
		g->failed = 1;
		return;
	}
	e->round = g->sums.round;
	e->push = push;
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (!gate_sums_is_listed(w))
			continue;
		memcpy(push[e->pushes].worker, w->id, sizeof push->worker);
		push[e->pushes].generation = w->generation;
		push[e->pushes].sequence = worker_held(w)->sequence;
		push[e->pushes].scale = 1.0;
		push[e->pushes++].count = worker_held(w)->count;
	}
	for (size_t i = 0; i < g->options.replicas; i++) {
		if (lacks_sum(g, i))
			e->to[e->tos++] = i;
	}
}

void gate_sum_again(struct gate *g, uint64_t round)
{
	if (!is_summing(g, round))
		return;
	shut(g);
	units_step(g);
}

uint64_t gate_round(const struct gate *g)
{
	return g->sums.round;
}
