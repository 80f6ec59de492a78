/*
 * Which replicas are in force.  One that comes says where it is: at the lead's iteration it is in
 * force; one unit behind, with the sum that was committed, it is told to step; any other is filled
 * from one in force, and meanwhile no settle goes out, so that it is not behind again.  All this is
 * looked at only while no settle is out, because a settle's answer decides where the lead is.
 *
 * A replica that goes takes its members with it.  When none is in force and none can be, only a
 * rollback helps.
 */
#include "lead/gate_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int replicas_new(struct gate *g)
{
	g->replica = calloc(g->options.replicas + 1, sizeof *g->replica);
	for (size_t i = 0; g->replica && i < g->options.replicas; i++)
		snprintf(g->replica[i].name, sizeof g->replica[i].name, "r%zu", i);
	return g->replica ? 0 : -1;
}

size_t replicas_in(const struct gate *g)
{
	size_t n = 0;

	for (size_t i = 0; i < g->options.replicas; i++)
		n += g->replica[i].state == REPLICA_IN;
	return n;
}

int replicas_hold(const struct gate *g)
{
	for (size_t i = 0; i < g->options.replicas; i++) {
		if (g->replica[i].state == REPLICA_FILLING)
			return 1;
	}
	return 0;
}

int replicas_same(const struct gate *g)
{
	size_t same = 0;

	for (size_t i = 0; i < g->options.replicas; i++)
		same += g->replica[i].state == REPLICA_IN && g->replica[i].told == g->sums.round;
	return same == g->sums.replicas && same == replicas_in(g);
}

int replicas_to(struct gate *g, struct gate_effect *e)
{
	e->to = calloc(g->options.replicas + 1, sizeof *e->to);
	for (size_t i = 0; e->to && i < g->options.replicas; i++) {
		if (g->replica[i].state == REPLICA_IN)
			e->to[e->tos++] = i;
	}
	return e->to ? 0 : -1;
}

/* ---- where they are ---- */

static void tell_step(struct gate *g, size_t i)
{
	struct gate_effect *e = effect_add(g, GATE_APPLY);

	if (!e || !(e->to = malloc(sizeof *e->to))) {
		g->failed = 1;
		return;
	}
	e->to[0] = i;
	e->tos = 1;
	e->iteration = g->sums.last.iteration - 1;
	e->round = g->sums.last.round;
	e->divisor = g->sums.last.divisor;
	e->samples = g->sums.last.samples;
}

static void replicas_place_one(struct gate *g, size_t i)
{
	const struct gate_commit *last = &g->sums.last;
	struct replica *r = &g->replica[i];

	r->is_new = 0;
	g->sums.is_changed = 1;
	if (states_are(g) && r->at.serving) /* it has nothing that could be old */
		r->state = REPLICA_IN;
	if (!g->sums.is_known && r->at.serving) {
		g->applied = g->open = r->at.iteration;
		g->sums.is_known = 1;
	}
	if (r->at.serving && r->at.iteration == g->applied)
		r->state = REPLICA_IN;
	else if (r->at.serving && last->iteration && last->iteration == g->applied &&
		 r->at.iteration + 1 == g->applied &&
		 (r->at.round == last->round || (last->divisor == 0 && !states_are(g)))) {
		tell_step(g, i);
		r->state = REPLICA_IN;
	} else if (!states_are(g))
		r->is_unfit = 1;
}

static void replicas_fill(struct gate *g, size_t i, size_t from)
{
	struct gate_effect *e = effect_add(g, GATE_FILL);

	if (!e)
		return;
	e->replica = i;
	e->from = from;
	e->round = ++g->sums.used;
	e->iteration = g->applied;
	g->replica[i].state = REPLICA_FILLING;
}

/* Ends the lead if all replicas are here and none can go on. */
static void none_can(struct gate *g)
{
	char why[160];
	size_t len;

	for (size_t i = 0; i < g->options.replicas; i++) {
		const struct replica *r = &g->replica[i];
		if (r->state != REPLICA_HERE || r->at.filling || (!r->is_unfit && r->at.serving))
			return;
	}
	if (!g->sums.is_known) {
		units_quit(g, "no replica has parameters: start one with --serve or --restore");
		return;
	}
	len = (size_t)snprintf(why, sizeof why, "no replica is at iteration %llu:",
			       (unsigned long long)g->applied);
	for (size_t i = 0; i < g->options.replicas && len < sizeof why; i++) {
		const struct replica *r = &g->replica[i];
		char at[32] = "empty";
		if (r->at.serving)
			snprintf(at, sizeof at, "at %llu", (unsigned long long)r->at.iteration);
		len += (size_t)snprintf(why + len, sizeof why - len, " %s is %s", r->name, at);
	}
	units_quit(g, why);
}

void replicas_place(struct gate *g)
{
	size_t from = 0;

	if (g->settling || !g->sums.term || g->quit)
		return;
	for (size_t i = 0; i < g->options.replicas; i++) {
		if (g->replica[i].state == REPLICA_HERE && g->replica[i].is_new &&
		    (g->sums.is_known || g->replica[i].at.serving))
			replicas_place_one(g, i);
	}
	while (from < g->options.replicas && g->replica[from].state != REPLICA_IN)
		from++;
	if (from == g->options.replicas) {
		none_can(g);
		return;
	}
	for (size_t i = 0; i < g->options.replicas; i++) {
		const struct replica *r = &g->replica[i];
		if (r->state == REPLICA_HERE && r->is_unfit && !r->is_waiting)
			replicas_fill(g, i, from);
	}
}

/* ---- events ---- */

static void replicas_out(struct gate *g, size_t i)
{
	struct replica *r = &g->replica[i];
	char why[64];
	struct worker *w, *next;

	snprintf(why, sizeof why, "its replica %s is gone", r->name);
	r->state = REPLICA_GONE;
	r->is_new = r->is_unfit = r->is_waiting = 0;
	r->told = r->summed = 0;
	g->sums.is_changed = 1;
	if (g->given.replica == i)
		g->given.attempt = 0;
	HASH_ITER(hh, g->workers, w, next)
	{
		if ((w->state == WORKER_ACTIVE || w->state == WORKER_JOINING) && w->replica == i)
			states_put_out(g, w, why);
	}
}

void gate_replica(struct gate *g, size_t replica, const struct gate_replica *where)
{
	struct replica *r = &g->replica[replica];

	if (r->state == REPLICA_HERE && r->at.filling) /* asked again: its members wait on */
		r->is_unfit = r->is_waiting = 0;
	else if (r->state != REPLICA_GONE)
		replicas_out(g, replica);
	r->state = REPLICA_HERE;
	r->at = *where;
	r->is_new = 1;
	units_step(g);
}

void gate_replica_gone(struct gate *g, size_t replica)
{
	if (g->replica[replica].state != REPLICA_GONE)
		replicas_out(g, replica);
	units_step(g);
}

int gate_turn_away(struct gate *g)
{
	struct worker *w, *next;
	int waits = 0;

	HASH_ITER(hh, g->workers, w, next)
	{
		char why[64];
		if (w->state != WORKER_JOINING || gate_in_force(g, w->replica))
			continue;
		if (replicas_in(g) == 0) {
			waits = 1;
			continue;
		}
		snprintf(why, sizeof why, "its replica %s is not in force",
			 g->replica[w->replica].name);
		states_absent(g, w, why);
	}
	units_step(g);
	return waits;
}

void gate_filled(struct gate *g, size_t replica)
{
	struct replica *r = &g->replica[replica];

	if (r->state != REPLICA_FILLING)
		return;
	r->state = REPLICA_IN;
	r->is_unfit = 0;
	g->sums.is_changed = 1;
	units_step(g);
}

void gate_fill_failed(struct gate *g, size_t replica)
{
	struct replica *r = &g->replica[replica];

	if (r->state != REPLICA_FILLING)
		return;
	r->state = REPLICA_HERE;
	r->at.serving = r->at.filling = 0;
	r->is_waiting = 1;
	units_step(g);
}

void gate_fill_again(struct gate *g, size_t replica)
{
	g->replica[replica].is_waiting = 0;
	units_step(g);
}

int gate_is_settling(const struct gate *g)
{
	return g->settling;
}

int gate_in_force(const struct gate *g, size_t replica)
{
	return g->replica[replica].state == REPLICA_IN;
}
