/*
 * rule_antdt_nd: AntDT's solution for clusters that are shared (VI-A).  See rules.h.
 *
 * Beyond the paper's text: who is slow is judged by seconds per sample; a split stays exact while
 * nodes come and go, since it is made anew when the sizes don't sum to the batch; sizes are evened
 * out again when nobody is slow any more.
 */
#include "solve/rules.h"

#include "solve/crew.h"

#include <stdlib.h>
#include <string.h>

#define GAIN_MIN 0.01 /* of an iteration: less than that is noise */

struct nd {
	const struct snapshot *s;
	const struct solution_options *o;
	struct voice v;
	char why[ACTION_REASON_MAX]; /* nothing was done */
};

/* Keeps the first reason not to act, which is the weightiest. */
static void excuse(struct nd *d, const char *id, const char *reason)
{
	if (!d->why[0])
		say_reason(d->why, "antdt-nd: %s%s%s", id, id[0] ? ": " : "", reason);
}

/* The slowest node of the short window that counts as slow, or c->count. */
static size_t slowest_short(const struct nd *d, const struct crew *c)
{
	size_t slowest = c->count;
	double most = 0;
	for (size_t i = 0; i < c->count; i++) {
		double ratio = crew_ratio(c, i, CREW_SHORT);
		if (crew_is_slow(ratio, d->o->lambda) && ratio > most) {
			slowest = i;
			most = ratio;
		}
	}
	return slowest;
}

static int split_pays(struct nd *d, const struct crew *c, const struct split *split, size_t slow)
{
	char *why = d->why;
	if (!split->changes || (slow == c->count && split->sums && !split->uneven))
		return 0;
	if (slow < c->count)
		say_reason(
			why,
			"antdt-nd: %s takes %.3g times the mean per sample over %g s; the slowest "
			"would take %.4g s instead of %.4g s",
			c->node[slow]->id, crew_ratio(c, slow, CREW_SHORT), d->s->window_short,
			split->after, split->before);
	else if (!split->sums)
		say_reason(why, "antdt-nd: the sizes of the workers that are up don't sum to %llu",
			   (unsigned long long)solution_batch(d->o, d->s));
	else if (split->after < split->before * (1 - GAIN_MIN))
		say_reason(
			why,
			"antdt-nd: no worker is slow, but sizes are uneven; the slowest would take "
			"%.4g s instead of %.4g s",
			split->after, split->before);
	return why[0] != '\0';
}

static int antdt_nd_balance(struct nd *d, const struct crew *c)
{
	struct split split = {0};
	size_t slow = slowest_short(d, c);
	double *speed = calloc(c->count + 1, sizeof *speed);
	if (!speed)
		return error_set(d->v.err, ERROR_OS, NULL, "out of memory for speeds");
	for (size_t i = 0; i < c->count; i++)
		speed[i] = c->node[i]->speed_short;
	char why[ACTION_REASON_MAX];
	int result = crew_split(&split, c, speed, solution_batch(d->o, d->s), d->o->least, why,
				d->v.err);
	if (result == 1) {
		excuse(d, "", why);
		result = 0;
	} else if (result == 0 && split_pays(d, c, &split, slow)) {
		result = crew_say_sizes(c, split.w, d->why, &d->v);
		d->why[0] = '\0';
	} else if (result == 0 && slow < c->count)
		excuse(d, c->node[slow]->id, "slow, but sizes fit the speeds already");
	free(speed);
	free(split.w);
	return result;
}

static int antdt_nd_restart(struct nd *d, const struct crew *c)
{
	for (size_t i = 0; i < c->count; i++) {
		const struct snapshot_node *n = c->node[i];
		double ratio = crew_ratio(c, i, CREW_LONG);
		char reason[ACTION_REASON_MAX];
		if (!crew_is_slow(ratio, d->o->lambda))
			continue;
		if (n->up < d->s->window_long)
			excuse(d, n->id, "slow, but not up for the long window yet");
		else if (solution_busy(d->o, d->s))
			excuse(d, n->id, "slow for long, but the cluster is busy");
		else if (n->meant >= d->o->limit)
			excuse(d, n->id, "slow for long, but restarted often enough");
		else {
			say_reason(reason,
				   "antdt-nd: %s takes %.3g times the mean %s over %g s, up %.6g s",
				   n->id, ratio,
				   n->role == NODE_WORKER ? "per sample" : "of the servers",
				   d->s->window_long, n->up);
			if (say_restart(&d->v, n, reason) != 0)
				return -1;
		}
	}
	return 0;
}

int rule_antdt_nd(const struct snapshot *s, const struct solution_options *o, action_fn *take,
		  void *arg, struct error *err)
{
	struct nd d = {.s = s, .o = o, .v = {.take = take, .arg = arg, .err = err}};
	struct crew workers = {0}, servers = {0};
	int result = crew_gather(&workers, s, NODE_WORKER, 0, err);
	if (result == 0)
		result = crew_gather(&servers, s, NODE_SERVER, 0, err);
	if (result == 0 && solution_sync(o, s) != SYNC_ASP)
		result = antdt_nd_balance(&d, &workers);
	if (result == 0)
		result = antdt_nd_restart(&d, &workers);
	if (result == 0)
		result = antdt_nd_restart(&d, &servers);
	if (result == 0 && d.v.given == 0)
		result = say_none(&d.v, "%s", d.why[0] ? d.why : "antdt-nd: no node is slow");
	crew_free(&workers);
	crew_free(&servers);
	return result;
}
