/*
 * A part that is asked for more than others gives some of its keys away.  All parts are asked how
 * much of their places is in demand; param/map_balance.h says where the bounds should be;
 * lead_move.c moves them.
 *
 * Never decides when: the supervisor (run/rebalance.h), or a person, asks.
 */
#include "lead/lead_internal.h"

#include "base/log.h"
#include "param/map_balance.h"
#include "wire/timer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GAIN 0.1       /* nothing is moved if the busiest part gains less than that */
#define UNITS_MIN 16.0 /* counts of fewer units say little */
#define RANGES_MAX 1024 /* of a part */
#define HEAT_SECONDS 10.0

struct rebalance {
	uint64_t token, version; /* who asked; the map that all answers are of */
	uint64_t attempt;        /* answers to earlier ones may come late */
	struct timer *timer;     /* for the answers */
	double gain, element, units;
	size_t left; /* answers */
	struct map_load *range; /* in the order of answers */
	size_t ranges, room;
	char why[ERROR_TEXT_MAX];
};

void lead_rebalance_stop(struct lead *l)
{
	struct rebalance *b = l->rebalance;

	l->rebalance = NULL;
	if (!b)
		return;
	free(b->range);
	timer_free(b->timer);
	free(b);
}

static void lead_rebalance_fail(struct rebalance *b, const char *who, const char *why)
{
	if (!b->why[0])
		snprintf(b->why, sizeof b->why, "%.200s: %.290s", who, why);
}

/* Adds the ranges of a part, which have as many places each; -1: `heat` can't be read. */
static int lead_rebalance_add_ranges(struct rebalance *b, const char *heat, uint64_t begin,
				     uint64_t places)
{
	size_t count = 1, n = 0;

	for (const char *at = heat; *at; at++)
		count += *at == ',';
	if (count > RANGES_MAX)
		return -1;
	if (b->ranges + count > b->room) {
		size_t room = b->ranges + count + RANGES_MAX;
		struct map_load *more = realloc(b->range, room * sizeof *more);
		if (!more)
			return -1;
		b->range = more;
		b->room = room;
	}
	for (const char *at = heat; n < count; n++) {
		char *stop;
		double load = strtod(at, &stop);
		uint64_t from = places * n / count, to = places * (n + 1) / count;
		if (stop == at || (*stop && *stop != ',') || !(load >= 0.0 && load < 1e18))
			return -1;
		at = stop + (*stop == ',');
		b->range[b->ranges++] = (struct map_load){
			.begin = begin + from, .places = to - from, .load = to > from ? load : 0.0};
	}
	return 0;
}

static int lead_rebalance_by_begin(const void *a, const void *b)
{
	const struct map_load *x = a, *y = b;

	return (x->begin > y->begin) - (x->begin < y->begin);
}

static void lead_rebalance_answer_err(struct lead *l, const char *code, const char *text)
{
	struct request *rq = lead_undefer(l, l->rebalance->token);

	if (rq)
		request_err(rq, code, "%s", text);
	lead_rebalance_stop(l);
}

static void answer_same(struct lead *l, const struct map_balance *result)
{
	struct request *rq = lead_undefer(l, l->rebalance->token);
	struct record_out *o = RECORD("ok", F("version", lead_parts_map(l->parts)->version),
				      F("parts", lead_parts_map(l->parts)->parts),
				      F("moved-bytes", 0), F_REAL("peak", result->before),
				      F("busiest", lead_part_id(l, result->busiest)));
	if (rq)
		request_ok_record(rq, o);
	lead_rebalance_stop(l);
}

static void lead_rebalance_decide(struct lead *l)
{
	struct rebalance *b = l->rebalance;
	struct map *next = malloc(sizeof *next); /* large */
	struct map_balance result;
	char peak[64];

	if (!next) {
		lead_rebalance_answer_err(l, "no-memory", "out of memory");
		return;
	}
	qsort(b->range, b->ranges, sizeof *b->range, lead_rebalance_by_begin);
	if (!map_balance(next, lead_parts_map(l->parts),
			 b->element / (double)lead_parts_map(l->parts)->parts, b->range, b->ranges,
			 b->gain, &result)) {
		answer_same(l, &result);
		free(next);
		return;
	}
	log_say(LOG_LEVEL_INFO,
		"part %u has %.3g times the mean work of all parts; with other bounds the busiest "
		"has %.3g times",
		result.busiest, result.before, result.after);
	snprintf(peak, sizeof peak, "%.3g,%.3g", result.before, result.after);
	lead_move_bounds(l, next, b->token, peak, lead_part_id(l, result.busiest));
	free(next);
	lead_rebalance_stop(l);
}

static void one_answered(struct lead *l)
{
	struct rebalance *b = l->rebalance;

	if (--b->left > 0)
		return;
	if (b->version != lead_parts_map(l->parts)->version || l->moving)
		lead_rebalance_answer_err(l, "moving", "parameters were moved meanwhile");
	else if (b->why[0])
		lead_rebalance_answer_err(l, "no-heat", b->why);
	else if (b->units < UNITS_MIN)
		lead_rebalance_answer_err(l, "early", "too few units were counted so far");
	else
		lead_rebalance_decide(l);
}

static void on_heat(uint32_t part, const struct order_result *result, void *lead)
{
	struct lead *l = lead;
	struct rebalance *b = l->rebalance;
	const struct map *map;

	if (!b || l->broken || result->attempt != b->attempt)
		return;
	map = lead_parts_map(l->parts);
	if (result->code)
		lead_rebalance_fail(b, lead_parts_name(l->parts, part), result->text);
	else if (part < map->parts && b->version == map->version) {
		b->element += result->element;
		if (result->heat_units < b->units)
			b->units = result->heat_units;
		if (!result->heat ||
		    lead_rebalance_add_ranges(b, result->heat, map->key_begin[part],
					      map->key_begin[part + 1] - map->key_begin[part]) != 0)
			lead_rebalance_fail(b, lead_parts_name(l->parts, part),
					    "its heat can't be read");
	}
	one_answered(l);
}

static void lead_rebalance_on_late(void *lead)
{
	struct lead *l = lead;
	const char *lost = lead_parts_lost(l->parts);

	lead_rebalance_fail(l->rebalance, lost ? lost : "a server", "no answer in time");
	lead_rebalance_answer_err(l, "no-heat", l->rebalance->why);
}

void lead_on_rebalance(struct request *rq, void *lead)
{
	struct lead *l = lead;
	struct order order = {.kind = ORDER_HEAT, .attempt = ++l->attempts};
	struct order_answer answer = {.done = on_heat, .arg = l};
	struct error err = {0};
	double gain = GAIN;

	if (!lead_parts_map(l->parts)) {
		request_err(rq, "no-part", "there are no parts of parameters that could move");
		return;
	}
	if (record_real_opt(request_record(rq), "gain", 0.0, 1.0, &gain, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (l->moving || l->rebalance) {
		request_err(rq, "moving", "parameters are being moved");
		return;
	}
	if (lead_parts_lost(l->parts)) {
		request_err(rq, "lost", "%s is not connected", lead_parts_lost(l->parts));
		return;
	}
	l->rebalance = calloc(1, sizeof *l->rebalance);
	if (l->rebalance)
		l->rebalance->timer = timer_new(server_base(l->server), lead_rebalance_on_late, l);
	if (!l->rebalance || !l->rebalance->timer) {
		lead_rebalance_stop(l);
		request_err(rq, "no-memory", NULL);
		return;
	}
	timer_set(l->rebalance->timer, HEAT_SECONDS);
	l->rebalance->attempt = order.attempt;
	l->rebalance->gain = gain;
	l->rebalance->units = 1e18;
	l->rebalance->version = lead_parts_map(l->parts)->version;
	l->rebalance->token = lead_defer(l, rq);
	l->rebalance->left = lead_parts_count(l->parts) + 1; /* and this function */
	lead_parts_give(l->parts, &order, &answer);
	one_answered(l);
}
