/*
 * Units: when one closes, its settle, its application, and the cuts between units.  The order of
 * effects is the promise: HOLD, then (its answer) SETTLE, then (its answer) APPLY, then the answers
 * to workers; SAVE only while none of these is out, CUT behind the last APPLY.
 */
#include "lead/gate_internal.h"

#include "base/grow.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int units_bsp(const struct gate *g)
{
	return g->options.sync == GATE_BSP;
}

/* Whether all that is sent is one unit; else each push is. */
static int is_one_unit(const struct gate *g)
{
	return units_bsp(g) || g->is_group;
}

/* ---- closing ---- */

int units_has_step(const struct push *p)
{
	return !p->late && !p->refused && p->count > 0;
}

uint64_t units_delay(const struct push *p, uint64_t version)
{
	return p->pulled < version ? version - p->pulled : 0;
}

/* Whether a push that is to be committed after `version` units must be dropped. If a push before it
 * is refused later, its delay is less, and it is dropped all the same. One that does not say what
 * it pulled may be of any age, and is dropped. */
static int is_too_stale(const struct gate *g, const struct push *p, uint64_t version)
{
	return g->options.bounds_delay && !units_bsp(g) && units_has_step(p) &&
	       (p->pulled == GATE_PULLED_UNKNOWN ||
		units_delay(p, version) > g->options.delay_max);
}

/* Where nothing is announced there are no groups, and that line of a push is not looked at. */
static int is_of_group(const struct gate *g, const struct push *p)
{
	return g->options.announces && p->group;
}

static void send_one(struct gate *g, struct push *p)
{
	pushes_remove(&g->held, p);
	p->is_sent = 1;
	pushes_add(&g->sent, p);
}

/* Those that pulled first come first, of equals those that came first. */
static struct push *held_oldest(const struct gate *g)
{
	struct push *oldest = NULL;

	for (struct push *p = g->held.first; p; p = p->next) {
		if (!p->is_kept && !p->group && (!oldest || p->pulled < oldest->pulled))
			oldest = p;
	}
	return oldest;
}

/* With a bound of the delay: the oldest is sent first. One that would take the place of a push that
 * was granted is kept until that is here. */
static void send_in_time(struct gate *g)
{
	uint64_t version = g->applied;

	for (struct push *p = g->held.first; p; p = p->next)
		p->is_kept = 0;
	for (struct push *p; (p = held_oldest(g)) != NULL;) {
		if (is_too_stale(g, p, version))
			p->stale = 1;
		if (p->stale)
			p->late = 1;
		if (units_has_step(p) && !grants_let_commit(g, p, version)) {
			p->is_kept = 1;
			continue;
		}
		version += (uint64_t)units_has_step(p);
		send_one(g, p);
	}
}

/* All members of p's group that are here. */
static size_t group_here(const struct gate *g, const struct push *p, const struct push **oldest,
			 int *is_stale)
{
	size_t here = 0;

	*oldest = p;
	*is_stale = 0;
	for (struct push *q = g->held.first; q; q = q->next) {
		if (q->group != p->group)
			continue;
		here++;
		if (is_too_stale(g, q, g->applied))
			q->stale = 1;
		*is_stale |= q->stale;
		if (q->pulled < (*oldest)->pulled)
			*oldest = q;
	}
	return here;
}

/* Sends a group that is here, alone: it is settled as a whole. */
static int send_group(struct gate *g)
{
	for (struct push *p = g->held.first, *next; p; p = next) {
		const struct push *oldest;
		int is_stale;

		next = p->next;
		if (!p->group || group_here(g, p, &oldest, &is_stale) < p->members)
			continue;
		if (is_stale) {
			grants_give_up(g, p->group);
			continue;
		}
		if (!grants_let_commit(g, oldest, g->applied))
			continue;
		uint64_t group = p->group;
		for (p = g->held.first; p; p = next) {
			next = p->next;
			if (p->group == group)
				send_one(g, p);
		}
		return g->is_group = 1;
	}
	return 0;
}

/* Sends a unit of BSP in the order of its members' seats, whoever pushed first. With a hundred thousand of them memory
 * sets the pace, and what belongs to a member mostly lies by its seat; besides, who applies the unit wants it by
 * worker. */
static void send_by_seat(struct gate *g)
{
	size_t seats = HASH_COUNT(g->workers);

	pushes_start(&g->held);
	for (size_t i = 0; i < seats; i++) {
		if (i + 2 * PUSHES_AHEAD < seats)
			fetch_ahead(g->seat[i + 2 * PUSHES_AHEAD], 1);
		if (i + PUSHES_AHEAD < seats)
			push_fetch(g->seat[i + PUSHES_AHEAD]->push, 1);
		struct push *p = worker_held(g->seat[i]);
		if (!p)
			continue;
		p->is_sent = !is_of_group(g, p);
		pushes_add(p->is_sent ? &g->sent : &g->held, p);
	}
}

/* What is held is sent. Under BSP that is the unit with the late pushes, or late pushes alone:
 * those on time stay held for their unit. Otherwise each push is a unit of its own. */
static void send_held(struct gate *g, int late_alone)
{
	if (!units_bsp(g) && send_group(g))
		return;
	g->late = 0;
	if (g->options.bounds_delay && !units_bsp(g)) {
		send_in_time(g);
		return;
	}
	/* Who was here once keeps a seat: where few of them push now, pushes go as they came, and no seat is looked at. */
	if (units_bsp(g) && !late_alone && g->held.count >= HASH_COUNT(g->workers) / 2) {
		send_by_seat(g);
		return;
	}
	for (struct push *p = g->held.first, *next; p; p = next) {
		next = p->next;
		if ((late_alone && !p->late) || is_of_group(g, p))
			continue;
		push_fetch(p->ahead, 1);
		send_one(g, p);
	}
}

/* So many pushes of members close a unit of BSP. */
static uint64_t units_needed(const struct gate *g)
{
	return g->active > g->backup ? g->active - g->backup : 1;
}

/* What can be sent is sent; 1 when something was. */
static int try_close(struct gate *g)
{
	uint64_t ready = g->held.count - g->late;

	if (g->held.count == 0)
		return 0;
	g->unit = !units_bsp(g) || (ready > 0 && ready >= units_needed(g));
	if (!g->unit && !g->late)
		return 0;
	send_held(g, !g->unit);
	if (!g->unit)
		return 1;
	if (g->sent.count == 0) /* all must wait for a push that was granted */
		return g->unit = 0;
	if (units_bsp(g)) {
		g->open++;
		g->begun = 0;
	}
	acts_publish(g);
	if (units_bsp(g))
		worker_let_in(g, 1);
	return 1;
}

/* The gradients of the unit, for the parts; an effect without any if there is none. */
static struct gate_effect *put_pushes(struct gate *g, enum gate_effect_kind kind)
{
	struct order_push *push = malloc((g->sent.count + 1) * sizeof *push);
	struct gate_effect *e = push ? effect_add(g, kind) : NULL;
	size_t n = 0;

	if (!e) {
		free(push);
		g->failed = 1;
		return NULL;
	}
	for (const struct push *p = g->sent.first; p; p = p->next) {
		if (!units_has_step(p))
			continue;
		push[n] = (struct order_push){.generation = p->generation,
					      .sequence = p->sequence,
					      .scale = p->scale,
					      .unit = is_one_unit(g) ? 0 : n,
					      .count = p->count,
					      .size = p->size};
		memcpy(push[n].worker, p->worker->id, sizeof push[n].worker);
		n++;
	}
	e->push = push;
	e->pushes = n;
	return e;
}

static int units_by_worker(const void *a, const void *b)
{
	return node_id_compare(((const struct order_push *)a)->worker,
			       ((const struct order_push *)b)->worker);
}

static int units_are_sorted(const struct order_push *push, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (units_by_worker(&push[i - 1], &push[i]) > 0)
			return 0;
	return 1;
}

/* The same as they are applied: with what a part must know for that. */
static struct gate_effect *put_steps(struct gate *g, enum gate_effect_kind kind)
{
	if (g->options.counts)
		return effect_add(g, kind);
	struct gate_effect *e = put_pushes(g, kind);
	uint64_t largest = g->largest, version = g->applied;
	struct order_push *push = e ? e->push : NULL;

	for (const struct push *p = g->sent.first; e && p; p = p->next) {
		if (!units_has_step(p))
			continue;
		largest = p->count > largest ? p->count : largest;
		push++->delay = units_delay(p, version);
		version += !is_one_unit(g);
	}
	for (size_t i = 0; e && i < e->pushes; i++) {
		push = &e->push[i];
		if (push->size > largest)
			push->size = largest;
		if (push->size < push->count)
			push->size = push->count;
	}
	if (e && e->pushes) {
		uint64_t idle = worker_idle_samples(g), room = ORDER_COUNT_MAX - e->push[0].size;
		e->push[0].size += idle < room ? idle : room;
	}
	/* The same contributions give the same bits, whoever came first. */
	if (e && is_one_unit(g) && !units_are_sorted(e->push, e->pushes))
		qsort(e->push, e->pushes, sizeof *e->push, units_by_worker);
	return e;
}

/* Behind those whose settle is answered. */
static void find_unsettled(struct gate *g)
{
	g->unsettled = g->sent.first;
	for (uint64_t i = 0; i < g->settled; i++)
		g->unsettled = g->unsettled->next;
}

/* With replicas, and where a new lead may have to go on, a unit is settled as a whole or not at
 * all; and so is a group. */
static int units_is_whole(const struct gate *g)
{
	return g->is_group || ((g->options.replicas || g->round) && g->unit);
}

/* Finds the pushes of the next settle; returns how many lines it has. */
static size_t next_settle(struct gate *g)
{
	size_t lines = 0, most = units_is_whole(g) ? SIZE_MAX : GATE_SETTLE_LINES;
	struct push *p;

	g->asked = 0;
	for (p = g->unsettled; p; p = p->next) {
		push_fetch(p->ahead, PUSH_LINES_SETTLE);
		if (lines && lines + p->ranges > most)
			break;
		lines += p->ranges;
		g->asked++;
	}
	g->behind = p;
	return lines;
}

static int has_lines(const struct gate *g)
{
	const struct push *p = g->unsettled;

	while (p && p->ranges == 0)
		p = p->next;
	return p != NULL;
}

/* Of a settle: what a new lead must know to have it applied. */
static void put_units(const struct gate *g, struct gate_effect *e)
{
	uint64_t steps = 0;

	for (const struct push *p = g->sent.first; p; p = p->next) {
		if (!units_has_step(p))
			continue;
		steps++;
		e->samples += p->count;
	}
	e->round = steps ? g->round : 0;
	e->divisor = units_bsp(g) || (g->is_group && steps) ? 1 : steps;
}

static void put_settle(struct gate *g)
{
	if (!g->unsettled) /* after a hand-over */
		find_unsettled(g);
	size_t lines = next_settle(g), n = 0;
	struct gate_line *line = malloc((lines + 1) * sizeof *line);
	struct gate_effect *e = line ? effect_add(g, GATE_SETTLE) : NULL;

	if (!e) {
		free(line);
		g->failed = 1;
		return;
	}
	for (const struct push *p = g->unsettled; p != g->behind; p = p->next) {
		for (size_t i = 0; i < p->ranges; i++, n++)
			line[n] = (struct gate_line){.worker = p->worker->id,
						     .seat = p->seat,
						     .generation = p->generation,
						     .range = push_ranges(p)[i],
						     .back = p->late};
	}
	e->number = g->number;
	e->iteration = g->applied;
	e->line = line;
	e->lines = lines;
	e->whole = units_is_whole(g);
	if (e->whole && g->options.replicas) {
		e->round = g->sums.next.round;
		e->divisor = g->sums.next.divisor;
		e->samples = g->sums.next.samples;
		e->beginning = g->sums.next.beginning;
	} else if (e->whole)
		put_units(g, e);
}

static void units_commit(struct gate *g);

/* Asks the parts, or shardd, for what they have not answered, if they are connected. */
static void units_ask(struct gate *g)
{
	if (!g->settling || !g->unanswered || g->quit)
		return;
	if (g->holding ? !g->servers_up : !g->shards_up)
		return;
	g->unanswered = 0;
	if (!g->holding) {
		put_settle(g);
		return;
	}
	struct gate_effect *e = put_steps(g, GATE_HOLD);
	if (e)
		e->round = g->round;
}

/* Asks shardd for what it has not answered, or commits when there is nothing to ask. */
static void units_settle_next(struct gate *g)
{
	if (g->settled == 0)
		find_unsettled(g);
	if (!g->options.commit || (!has_lines(g) && !units_is_whole(g))) {
		units_commit(g);
		return;
	}
	g->number++;
	g->unanswered = 1;
	units_ask(g);
}

static int has_steps(const struct gate *g)
{
	const struct push *p = g->sent.first;

	while (p && !units_has_step(p))
		p = p->next;
	return p != NULL;
}

static uint64_t count_steps(const struct gate *g)
{
	uint64_t steps = 0;

	for (const struct push *p = g->sent.first; p; p = p->next)
		steps += (uint64_t)units_has_step(p);
	return steps;
}

/* First all servers say that they have what is to be applied: shardd's word can't be taken back. */
static void units_hold(struct gate *g)
{
	g->settling = 1;
	if (!has_steps(g)) {
		units_settle_next(g);
		return;
	}
	g->holding = g->unanswered = 1;
	g->round += g->round ? 1 : 0;
	units_ask(g);
}

/* Some pushes of the unit were refused: a round is of one unit, so parts are asked for the others
 * under a new one. */
static void settle_others(struct gate *g)
{
	if (g->round && g->unit)
		units_hold(g);
	else
		units_settle_next(g);
}

void units_settle(struct gate *g)
{
	g->settling = g->unit = 1;
	units_settle_next(g);
}

void units_late(struct gate *g)
{
	send_held(g, 1);
	g->unit = 0;
	units_hold(g);
}

void units_cut(struct gate *g)
{
	if (g->options.foreign && !states_are(g)) /* at its own place: gate_begins.c */
		return;
	if (g->cut != CUT_WANTED || g->settling || !g->servers_up || g->still == STILL_IS)
		return;
	if (g->options.replicas && ((replicas_in(g) == 0 && !states_are(g)) || sums_cut_waits(g)))
		return;
	if (states_are(g) && !states_may_cut(g))
		return;
	if (!g->options.commit) {
		g->cut = CUT_SAVING;
		gate_saved(g);
		return;
	}
	g->cut = CUT_SAVING;
	if (g->shards_up)
		effect_add(g, GATE_SAVE);
}

/* Whether nothing more may be settled before the cut. A cut of foreign members waits for them
 * instead. */
static int cut_holds(const struct gate *g)
{
	return g->cut == CUT_SAVING || (g->cut == CUT_WANTED && !g->options.foreign);
}

static void stand_still(struct gate *g)
{
	if (g->still != STILL_WANTED || g->settling || !g->servers_up || g->cut != CUT_NONE)
		return;
	g->still = STILL_IS;
	effect_add(g, GATE_STILL);
}

void gate_still(struct gate *g)
{
	g->still = STILL_WANTED;
	units_step(g);
}

/* The owner adds to this answer which map is in force. */
static void units_refuse_map(struct gate *g, struct push *p)
{
	pushes_remove(&g->held, p);
	pushes_end(p);
	grants_give_up(g, p->group);
	for (size_t i = 0; i < p->tokens; i++)
		effect_err(g, p->token[i], "map", "the map of the parts is another one");
	push_free(g, p);
}

void gate_go_on(struct gate *g, int moved)
{
	g->still = STILL_NOT;
	while (moved && g->held.first)
		units_refuse_map(g, g->held.first);
	if (moved)
		g->late = 0;
	units_step(g);
}

/* Under BSP most steps find a unit that waits for more pushes, and nothing else to be done. */
static int units_only_wait(const struct gate *g)
{
	return units_bsp(g) && g->held.count < units_needed(g) && g->late == 0 && !g->options.replicas &&
	       !g->options.foreign && !g->announced.first && g->cut == CUT_NONE && g->still == STILL_NOT &&
	       g->joining == 0 && g->active > 0;
}

size_t gate_awaits(const struct gate *g)
{
	return !g->quit && units_only_wait(g) ? units_needed(g) - g->held.count : 0;
}

void units_step(struct gate *g)
{
	if (g->quit || units_only_wait(g))
		return;
	if (g->options.replicas) {
		sums_step(g);
		if (g->pending && g->active == 0 && !g->settling)
			acts_publish(g);
		return;
	}
	grants_step(g);
	units_cut(g);
	stand_still(g);
	begins_step(g);
	while (!g->settling && g->servers_up && !cut_holds(g) && g->still != STILL_IS &&
	       try_close(g)) {
		units_hold(g);
		units_cut(g);
		stand_still(g);
		begins_step(g);
	}
	if (units_bsp(g))
		worker_let_in(g, 0);
	/* No answer will carry these actions: they hold for those who join. */
	if (g->pending && g->active == 0)
		acts_publish(g);
	units_release(g);
}

/* ---- committing ---- */

/* Notes the delays of the pushes. Under ASP and SSP each push is a unit, so that the next one has
 * one more before it. */
static void count_delays(struct gate *g)
{
	uint64_t version = g->applied;

	for (const struct push *p = g->sent.first; p; p = p->next) {
		if (!units_has_step(p))
			continue;
		uint64_t delay = units_delay(p, version);
		if (p->pulled != GATE_PULLED_UNKNOWN) {
			delay_count(&g->delays, delay);
			if (p->generation == p->worker->newest)
				delay_count(&p->worker->delays, delay);
		}
		version += !is_one_unit(g);
	}
}

/* APPLY, to which the pushes of the unit that shardd took will be added; NULL: there is none. */
static struct gate_effect *put_apply(struct gate *g)
{
	struct gate_effect *e;

	if (!units_bsp(g) && !has_steps(g))
		return NULL;
	e = put_steps(g, GATE_APPLY);
	if (!e)
		return NULL;
	e->pushes = 0;
	if (g->says_pulled)
		count_delays(g);
	e->iteration = g->applied;
	e->units = is_one_unit(g) ? 1 : count_steps(g);
	g->applied += e->units;
	return e;
}

static void add_applied(struct gate *g, struct gate_effect *e, const struct push *p)
{
	if (!units_has_step(p))
		return;
	if (p->count > g->largest)
		g->largest = p->count;
	e->pushes++;
	e->samples += p->count;
	e->loss += p->loss;
}

/* Actions may set another size: then what the worker said of its next batch is void. */
static void units_answer(struct gate *g, struct push *p)
{
	const char *word = p->late ? "dropped" : "applied";
	struct worker *w = p->worker;
	int is_news = p->tokens && (sizes_wait(w) || acts_wait(g, w));
	char *actions = is_news ? sizes_tell(g, w, acts_unseen(g, w), 0) : NULL;
	int obeys = actions != NULL;
	int is_plain = !g->options.foreign && !g->enough; /* nothing else is told with it */
	char samples[STATES_SAMPLES_MAX];

	w->answered = g->now;
	for (size_t i = 0; i < p->tokens; i++) {
		if (is_plain && i == 0) {
			effect_done(g, p->token[i], actions, word);
			continue;
		}
		effect_ok(g, p->token[i], i == 0 ? actions : NULL, "iteration=%llu %s=1%s%s",
			  (unsigned long long)g->applied, word, states_samples(g, samples), i ? " repeated=1" : "");
		begins_tell(g, w);
		states_tell(g, w);
	}
	if (obeys) {
		w->voids = w->begin_token == 0; /* else it is here already */
		begins_again(g, w);
	}
}

static const char *const refused_why[REFUSED_KINDS] = {
	[REFUSED_BY_SHARDD] = "shardd refused it: not all of its rows are in this worker's hand",
	[REFUSED_BY_SERVER] = "a server does not have its part of it",
};

/* A member that has nothing to do, and said so, holds up nobody. */
static size_t units_counts(const struct worker *w)
{
	return w->state == WORKER_ACTIVE && !w->begin_token;
}

void units_goes_on(struct gate *g, const struct worker *w)
{
	if (g->slowest_members && w->clock == g->slowest)
		g->slowest_members -= units_counts(w);
}

static void units_waits(struct gate *g, struct worker *w)
{
	if (g->waits_known && GROW(g->waits, g->waits_room, g->waits_count + 1) == 0)
		g->waits[g->waits_count++] = w;
	else
		g->waits_known = 0;
}

void units_finish(struct gate *g, struct push *p)
{
	struct worker *w = p->worker;

	pushes_end(p);
	if (p->refused) {
		for (size_t i = 0; i < p->tokens; i++)
			effect_err(g, p->token[i], "fenced", "%s", refused_why[p->refused]);
		/* Its parts are thrown away everywhere, also those that come later: it can't come
		 * back. */
		if (w->fenced < p->generation)
			w->fenced = p->generation;
		if (w->throw_upto < p->generation)
			w->throw_upto = p->generation;
		if (w->generation == p->generation)
			worker_out(g, w, refused_why[p->refused]);
		push_free(g, p);
		return;
	}
	if (p->late && !units_bsp(g)) { /* parts have staged it, and nobody will name it again */
		effect_name(g, GATE_DROP, w->id, p->generation, p->sequence);
		w->delays.dropped += p->stale && p->generation == w->newest;
		g->delays.dropped += (uint64_t)p->stale;
	}
	w->done = 1;
	w->done_generation = p->generation;
	w->done_sequence = p->sequence;
	w->done_dropped = p->late;
	if (p->generation == w->newest) { /* not one of a life before */
		w->pushes++;
		w->samples += p->count;
	}
	if (!p->late && p->count)
		begins_trained(g, w, p->generation);
	if (!p->late && w->generation == p->generation) {
		units_goes_on(g, w);
		w->clock++;
	}
	if ((g->options.sync == GATE_SSP || states_keeps(g)) && w->state == WORKER_ACTIVE &&
	    w->generation == p->generation && !w->waiting) {
		w->waiting = p; /* units_release() answers, now or when the others have caught up */
		units_waits(g, w);
		return;
	}
	units_answer(g, p);
	push_free(g, p);
}

/* Ends a push and does what waited for its end: fences, and what is to be thrown. */
static void finish_all(struct gate *g, struct push *p)
{
	struct worker *w = p->worker;

	units_finish(g, p);
	worker_fence(g, w);
	units_throw(g, w);
}

/* The commit is known: apply, then tell. */
static void units_commit(struct gate *g)
{
	struct pushes sent = g->sent;
	struct push *p, *next, *ahead;
	struct gate_effect *apply = NULL;
	int unit = g->unit;

	if (g->is_group && sent.first)
		grants_judge_crew(g, sent.first, 1);
	if (unit && !g->options.replicas)
		apply = put_apply(g);
	else if (unit)
		count_delays(g);
	g->settling = g->unit = g->is_group = 0;
	g->settled = 0;
	g->unsettled = NULL;
	pushes_start(&g->sent);
	if (unit && g->options.replicas)
		sums_commit(g);
	for (ahead = pushes_ahead(sent.first, PUSHES_AHEAD), p = sent.first; p; p = next) {
		next = p->next;
		push_fetch(p->ahead, PUSH_LINES_ANSWER);
		if (ahead) {
			fetch_ahead(ahead->worker, 1);
			fetch_ahead(&ahead->worker->newest, sizeof ahead->worker->newest);
			ahead = ahead->next;
		}
		if (apply)
			add_applied(g, apply, p);
		finish_all(g, p);
	}
}

void units_throw(struct gate *g, struct worker *w)
{
	if (!w->throw_upto || worker_sent(w))
		return;
	effect_name(g, GATE_THROW, w->id, w->throw_upto, 0);
	w->throw_upto = 0;
}

/* The clock of the slowest active member. All are looked at when the last of the slowest has gone on, so
 * once in about as many pushes as there are members. */
uint64_t units_slowest(struct gate *g)
{
	if (g->slowest_members)
		return g->slowest;
	g->slowest = 0;
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (!units_counts(w) || (g->slowest_members && w->clock > g->slowest))
			continue;
		g->slowest_members = w->clock == g->slowest ? g->slowest_members + 1 : 1;
		g->slowest = w->clock;
	}
	return g->slowest;
}

static void units_release_one(struct gate *g, struct worker *w, uint64_t most)
{
	if (!w->waiting || w->clock > most)
		return;
	units_answer(g, w->waiting);
	push_free(g, w->waiting);
	w->waiting = NULL;
}

static int units_by_seat(const void *a, const void *b)
{
	const struct worker *x = *(struct worker *const *)a, *y = *(struct worker *const *)b;

	return (x->seat > y->seat) - (x->seat < y->seat);
}

/* Answers that waited: under SSP for slower members, else for a cut. */
void units_release(struct gate *g)
{
	struct worker *w, *next;
	uint64_t most;

	if ((g->options.sync != GATE_SSP && !states_are(g)) || (states_are(g) && g->cut == CUT_SAVING))
		return;
	most = states_are(g) ? UINT64_MAX : units_slowest(g) + g->options.staleness;
	if (g->waits_known && g->released == most && !states_are(g)) {
		if (g->waits_count > 1)
			qsort(g->waits, g->waits_count, sizeof(struct worker *), units_by_seat);
		for (size_t i = 0; i < g->waits_count; i++)
			units_release_one(g, g->waits[i], most);
	} else {
		HASH_ITER(hh, g->workers, w, next)
		{
			units_release_one(g, w, most);
		}
	}
	g->released = most;
	g->waits_count = 0;
	g->waits_known = 1;
}

/* ---- answers of servers and shardd ---- */

/* Returns how many pushes were marked: 0 or 1, as a worker has one with shardd. */
static size_t mark_refused(struct gate *g, const char *worker, enum refused by)
{
	struct worker *w = worker_find(g, worker);
	struct push *sent = w ? worker_sent(w) : NULL;

	if (!sent || sent->late)
		return 0;
	sent->refused = by & 15;
	return 1;
}

/* Ends the pushes that a part lacks, or shardd refused: it is not asked about their rows. The others
 * of a group are dropped. */
static void drop_refused(struct gate *g)
{
	struct pushes sent = g->sent;
	struct push *p, *next;

	pushes_start(&g->sent);
	for (p = sent.first; p; p = next) {
		next = p->next;
		if (!p->refused) {
			if (g->is_group)
				p->late = 1;
			pushes_add(&g->sent, p);
			continue;
		}
		finish_all(g, p);
	}
	g->is_group = 0;
}

void gate_held(struct gate *g, const char *const *missing, size_t count)
{
	size_t refused = 0;

	if (!g->holding || g->unanswered || g->quit)
		return;
	for (size_t i = 0; i < count; i++)
		refused += mark_refused(g, missing[i], REFUSED_BY_SERVER);
	g->holding = 0;
	if (refused)
		drop_refused(g);
	if (refused)
		settle_others(g);
	else
		units_settle_next(g);
	units_step(g);
}

/* The pushes of the settle that was out are settled. */
static void settle_is_over(struct gate *g)
{
	if (!g->unsettled) { /* a lead before this one asked */
		find_unsettled(g);
		(void)next_settle(g);
	}
	g->settled += g->asked;
	g->unsettled = g->behind;
	g->asked = 0;
}

void gate_settled(struct gate *g, uint64_t number, const char *const *fenced, size_t count)
{
	if (!g->settling || g->holding || number != g->number || g->quit)
		return;
	for (size_t i = 0; i < count; i++)
		mark_refused(g, fenced[i], REFUSED_BY_SHARDD);
	if (units_is_whole(g)) {
		if (count && !g->options.replicas) {
			drop_refused(g);
			settle_others(g);
		} else if (count)
			sums_refused(g);
		else
			units_commit(g);
		units_step(g);
		return;
	}
	settle_is_over(g);
	units_settle_next(g);
	units_step(g);
}

void units_quit(struct gate *g, const char *why)
{
	struct gate_effect *e = effect_add(g, GATE_QUIT);

	g->quit = 1;
	if (e)
		snprintf(e->fields, sizeof e->fields, "%s", why);
}

void gate_settle_refused(struct gate *g, uint64_t number, enum gate_refusal why)
{
	if (!g->settling || g->holding || number != g->number || g->quit)
		return;
	if (why == GATE_REFUSED_INCARNATION)
		units_quit(g, "");
	else
		g->unanswered = 1;
}

void gate_shards(struct gate *g, int up)
{
	int was = g->shards_up;

	g->shards_up = up;
	if (g->quit)
		return;
	if (!up) {
		g->unanswered |= g->settling && !g->holding;
		return;
	}
	/* The same settle under the same number: shardd knows whether it did it already. */
	units_ask(g);
	if (g->cut == CUT_SAVING && !was)
		effect_add(g, GATE_SAVE);
}

void gate_servers(struct gate *g, int up)
{
	g->servers_up = up;
	if (up)
		units_ask(g);
	units_step(g);
}

/* ---- cuts ---- */

void gate_cut(struct gate *g, uint64_t token)
{
	if (g->cut != CUT_NONE) {
		effect_err(g, token, "busy", "a cut is being made");
		return;
	}
	g->cut = CUT_WANTED;
	g->cut_token = token;
	units_step(g);
}

void gate_saved(struct gate *g)
{
	struct gate_effect *e;

	if (g->cut != CUT_SAVING)
		return;
	if (g->options.foreign) {
		if (states_are(g))
			states_saved(g);
		else
			begins_saved(g);
		if (g->options.commit)
			units_step(g);
		return;
	}
	g->cut = g->options.replicas ? CUT_FORKING : CUT_WRITING;
	e = effect_add(g, GATE_CUT);
	if (e)
		e->iteration = g->applied;
	if (g->options.commit)
		units_step(g);
}

void gate_save_refused(struct gate *g, int incarnation, const char *why)
{
	if (g->cut != CUT_SAVING)
		return;
	g->cut = CUT_NONE;
	effect_err(g, g->cut_token, "cut", "shardd: %s", why);
	if (incarnation)
		units_quit(g, "");
	units_step(g);
}

void gate_cut_forked(struct gate *g)
{
	if (g->cut != CUT_FORKING)
		return;
	g->cut = CUT_WRITING;
	units_step(g);
}

void gate_cut_over(struct gate *g)
{
	if (g->cut == CUT_WRITING || g->cut == CUT_FORKING)
		g->cut = CUT_NONE;
	begins_cut_over(g);
	units_step(g); /* a move waits for this, too */
}
