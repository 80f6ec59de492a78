/*
 * rule_antdt_dd: AntDT's solution for dedicated clusters of several device types (VI-B): Eq. 4
 * over the types, to be done once, since such stragglers are slow by their hardware.
 *
 * A type is what `type=` says; nodes without it are of one type when all that they measured is
 * equal.  Of what the nodes of a type measured, the mean speed and launch cost count, the largest
 * saturation point and the smallest bound, so that no node is asked for more than it has.
 *
 * All devices of a type get the same by Eq. 4, which has no solution when B is no sum of multiples
 * of the n_i.  Then the nearest batch below that has one is solved, and what is left over is given
 * out one sample a step to as many devices as it takes; the reason says so.
 */
#include "solve/rules.h"

#include "solve/accum.h"
#include "solve/batch.h"
#include "solve/crew.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 64              /* batches below B that are tried when B has no solution */
#define REST_CELLS (1u << 22) /* types times samples left over: what the search may cost */

struct dd {
	struct crew crew;
	size_t *type; /* by worker: its row in device */
	struct accum_type *device;
	size_t types;
	uint64_t *more; /* by type: devices that get one sample a step more */
	char why[ACTION_REASON_MAX];
};

static int same_type(const struct snapshot_node *a, const struct snapshot_node *b)
{
	if (a->type[0] || b->type[0])
		return strcmp(a->type, b->type) == 0;
	return a->device_speed == b->device_speed && a->saturation == b->saturation &&
	       a->max == b->max &&
	       (a->launch == b->launch || (isnan(a->launch) && isnan(b->launch)));
}

static void join_type(struct accum_type *t, const struct snapshot_node *n)
{
	double count = (double)++t->count;
	uint64_t least = n->saturation > 1 ? n->saturation : 1;
	t->speed += (n->device_speed - t->speed) / count;
	t->fixed += ((isnan(n->launch) ? 0 : n->launch) - t->fixed) / count;
	t->min = least > t->min ? least : t->min;
	t->max = n->max < t->max ? n->max : t->max;
}

/* 1: a measurement is missing, and why says which. */
static int find_types(struct dd *d, const struct solution_options *o)
{
	for (size_t i = 0; i < d->crew.count; i++) {
		const struct snapshot_node *n = d->crew.node[i];
		if (!snapshot_known(n->device_speed) || n->max == 0) {
			say_reason(d->why, "%s has not measured its device: %s", n->id,
				   snapshot_known(n->device_speed) ? "max= is missing"
								   : "device-speed= is missing");
			return 1;
		}
		size_t before = 0;
		while (before < i && !same_type(d->crew.node[before], n))
			before++;
		d->type[i] = before < i ? d->type[before] : d->types++;
		struct accum_type *t = &d->device[d->type[i]];
		if (before == i)
			*t = (struct accum_type){
				.min = o->least, .max = BATCH_SIZE_MAX, .cmin = 1, .cmax = o->cmax};
		join_type(t, n);
	}
	for (size_t t = 0; t < d->types; t++)
		d->device[t].min = batch_least(d->device[t].min, d->device[t].max);
	return 0;
}

/*
 * Distributes `rest` samples: a device that gets one more a step takes `accum` of them. Goes type
 * by type, with as many as leave a rest that later types can take; dead[] remembers the rests that
 * they can't, so each (type, rest) is tried once. The recursion is as deep as there are types.
 */
static int give_rest(struct dd *d, size_t type, uint64_t rest, unsigned char *dead)
{
	if (type == d->types)
		return rest == 0;
	const struct accum_type *t = &d->device[type];
	unsigned char *known_dead = &dead[rest * d->types + type];
	uint64_t most = t->size < t->max ? rest / t->accum : 0;
	most = most < t->count ? most : t->count;
	for (d->more[type] = most; !*known_dead; d->more[type]--) {
		if (give_rest(d, type + 1, rest - d->more[type] * t->accum, dead))
			return 1;
		*known_dead = d->more[type] == 0;
	}
	return 0;
}

static int can_give(struct dd *d, uint64_t rest)
{
	if (rest >= REST_CELLS / d->types)
		return 0;
	unsigned char *dead = calloc((rest + 1) * d->types, 1);
	int can = dead && give_rest(d, 0, rest, dead);
	free(dead);
	return can;
}

/* 0, 1: no solution, and why says what, -1. */
static int solve_below(struct dd *d, uint64_t batch, struct error *err)
{
	struct error local;
	uint64_t step = accum_unit(d->device, d->types);
	if (accum_solve(d->device, d->types, batch, &local) == 0) {
		say_reason(d->why, "antdt-dd: Eq. 4 over %zu types", d->types);
		return 0;
	}
	say_reason(d->why, "%s", local.text);
	uint64_t below = batch - (batch % step ? batch % step : step);
	for (int i = 0; local.code == ERROR_DATA && i < TRIES && below > 0 && below < batch; i++) {
		if (accum_solve(d->device, d->types, below, &local) == 0 &&
		    can_give(d, batch - below)) {
			say_reason(
				d->why,
				"antdt-dd: Eq. 4 over %zu types has no solution for %llu: this is "
				"the solution for %llu, with one sample more in some steps",
				d->types, (unsigned long long)batch, (unsigned long long)below);
			return 0;
		}
		below -= step;
	}
	if (local.code != ERROR_DATA) {
		*err = local;
		return -1;
	}
	return 1;
}

static int say_steps(struct dd *d, struct voice *v)
{
	struct action a = {.kind = ACTION_ADJUST_BS};
	double slowest = 0;
	size_t len = strlen(d->why);
	for (size_t t = 0; t < d->types; t++) {
		struct accum_type larger = d->device[t];
		larger.size += d->more[t] > 0;
		slowest = fmax(slowest, accum_time(&larger));
	}
	snprintf(d->why + len, sizeof d->why - len, ", the slowest takes %.4g s", slowest);
	memcpy(a.reason, d->why, sizeof a.reason);
	for (size_t i = 0; i < d->crew.count; i++) {
		const struct accum_type *t = &d->device[d->type[i]];
		memcpy(a.id, d->crew.node[i]->id, sizeof a.id);
		a.size = t->size;
		a.accum = t->accum;
		if (d->more[d->type[i]] > 0) {
			d->more[d->type[i]]--;
			a.size++;
		}
		if (say_action(v, &a) != 0)
			return -1;
	}
	return 0;
}

/* It does not matter which devices of a type got one more before. */
static int as_solved(const struct dd *d)
{
	for (size_t t = 0; t < d->types; t++) {
		const struct accum_type *type = &d->device[t];
		uint64_t larger = 0;
		for (size_t i = 0; i < d->crew.count; i++) {
			const struct snapshot_node *n = d->crew.node[i];
			if (d->type[i] != t)
				continue;
			uint64_t steps = n->accum ? n->accum : 1;
			if (steps != type->accum ||
			    (n->size != type->size * steps && n->size != (type->size + 1) * steps))
				return 0;
			larger += n->size == (type->size + 1) * steps;
		}
		if (larger != d->more[t])
			return 0;
	}
	return 1;
}

static int antdt_dd_decide(struct dd *d, const struct snapshot *s, const struct solution_options *o,
			   struct voice *v)
{
	uint64_t batch = solution_batch(o, s);
	if (d->crew.count == 0)
		return say_none(v, "antdt-dd: no worker is up");
	if (batch == 0)
		return say_none(v, "antdt-dd: no size reported yet and no batch= given");
	if (find_types(d, o) != 0)
		return say_none(v, "antdt-dd: %s", d->why);
	int result = solve_below(d, batch, v->err);
	if (result == 1)
		return say_none(v, "antdt-dd: %s", d->why);
	if (result == 0 && as_solved(d))
		return say_none(v, "antdt-dd: sizes and steps already are those of Eq. 4");
	return result == 0 ? say_steps(d, v) : -1;
}

int rule_antdt_dd(const struct snapshot *s, const struct solution_options *o, action_fn *take,
		  void *arg, struct error *err)
{
	struct voice v = {.take = take, .arg = arg, .err = err};
	struct dd d = {0};
	if (crew_gather(&d.crew, s, NODE_WORKER, 0, err) != 0)
		return -1;
	d.type = calloc(d.crew.count + 1, sizeof *d.type);
	d.device = calloc(d.crew.count + 1, sizeof *d.device);
	d.more = calloc(d.crew.count + 1, sizeof *d.more);
	int result = d.type && d.device && d.more
			     ? antdt_dd_decide(&d, s, o, &v)
			     : error_set(err, ERROR_OS, NULL, "out of memory for device types");
	free(d.type);
	free(d.device);
	free(d.more);
	crew_free(&d.crew);
	return result;
}
