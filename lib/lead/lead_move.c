/*
 * Parameters move between the parts while training goes on: the map (param/map.h) becomes another
 * one, piece by piece.  A piece is one attempt, with a map of its own:
 *
 *     prepare   all parts, and those who join, find what goes where, make room, and connect
 *     rest      training goes on, for a unit at least, and for a quarter of the time that the piece
 *               before this one held it up
 *     still     nothing is with the parts or shardd (the gate's STILL), and nothing follows
 *     give      givers send to receivers, who set it aside; all still have what they had
 *     adopt     the commit: from here on the map is in force, in this process' memory. Pushes under
 *               the old one are refused with code=map, and said again under the new one.
 *
 * Until the commit any refusal, lost connection or deadline ends the attempt: `cancel`, and the old
 * map stays in force.  After it a part that can't adopt lacks what is committed: only a rollback
 * helps, as for apply.
 *
 * Each parameter moves once, straight to its last owner.  A piece is a step of the bounds between
 * parts: first of those that go left, from right to left, then of those that go right, from left to
 * right.
 */
#include "lead/lead_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "param/map.h"
#include "wire/timer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOIN_SECONDS 30.0    /* for those who join, to be there */
#define PREPARE_SECONDS 60.0
#define STILL_SECONDS 600.0  /* a unit that is with shardd, or a cut that is being written */
#define GIVE_SECONDS 10.0    /* everybody waits meanwhile; and as long as a slow link needs: */
#define GIVE_BYTES_SECOND 20e6
#define ADOPT_SECONDS 60.0   /* a part is to say that it goes by the map in force */
#define PIECE_BYTES_MIN ((uint64_t)1 << 20) /* that a request may say */
#define PIECE_BYTES ((uint64_t)2 << 20)     /* if it says none: the first; then fitted, within: */
#define PIECE_BYTES_MAX ((uint64_t)64 << 20)
#define HOLD_OF_UNIT 0.05    /* a piece is to hold up training for this share of a unit, within: */
#define HOLD_SECONDS_MIN 0.004
#define HOLD_SECONDS_MAX 0.05
#define TRIES 3
#define AGAIN_SECONDS 0.2    /* after an attempt that failed */
#define REST_HOLDS 0.25      /* after a piece, training goes on at least so many times as long */
#define REST_LOOK_SECONDS 0.002 /* until the next look whether a unit has closed */
#define REST_SECONDS_MAX 1.0 /* when no unit closes at all */

enum stage {
	MOVE_NOT,
	MOVE_JOINING,   /* those who join are being connected */
	MOVE_PREPARING,
	MOVE_RESTING,   /* it is prepared; training goes on for a while after the piece before it */
	MOVE_STILL,     /* the gate was asked to stand still */
	MOVE_GIVING,
	MOVE_ADOPTING,
	MOVE_AGAIN      /* until the next attempt */
};

/* A server that is in the map, or is to be. All of them stand in one order; those that stay and
 * those that join are in it in the order of the request. */
struct mover {
	char *socket; /* "": this one */
	int was;      /* it has been in the map when the move began */
	int stays;    /* it will be in the map */
	int is_in;    /* it is in the map that is in force */
	uint32_t told; /* which part it was when the map was given */
};

/* Where each mover begins: the bound between it and the one before it. */
struct bounds {
	uint64_t dense[MAP_PARTS_MAX + 1], key[MAP_PARTS_MAX + 1];
};

struct moving {
	enum stage stage;
	uint64_t token; /* who asked */
	uint64_t attempt, version;
	struct mover *mover;
	size_t count;
	struct bounds now, next, target;
	int is_last; /* next is the target */
	uint64_t piece_bytes;
	int fits;    /* it is fitted to how long the last one took */
	double element, place; /* bytes of an element of the vector, and of a place of the keys */
	size_t left; /* answers */
	unsigned tries;
	struct timer *timer; /* deadline, or the end of a rest */
	double held, hold;   /* when the hold began; what it took */
	uint64_t bytes, piece;      /* moved in all; in this piece */
	uint64_t pieces, iteration; /* done; at the last one's end */
	double stall, committed, adopted;
	char peak[64], busiest[OPTION_ID_MAX]; /* of who asked to rebalance: for the answer */
	char why[ERROR_TEXT_MAX];
};

/* The first part that is not in this process. */
static uint32_t lead_move_first(const struct lead *l)
{
	return lead_parts_here(l->parts) ? 1 : 0;
}

static uint64_t dense_of(const struct map *map)
{
	return map->dense_begin[map->parts];
}

static void deadline(struct moving *m, double seconds)
{
	timer_set(m->timer, seconds);
}

static const char *socket_of(const struct lead *l, const struct mover *mover)
{
	return mover->socket[0] ? mover->socket : l->options.socket ? l->options.socket : "";
}

static const char *lead_move_id_of(const struct lead *l, const struct mover *mover)
{
	return mover->socket[0] ? lead_parts_id(l->parts, mover->socket) : l->options.id;
}

/* ---- the end ---- */

static void lead_move_forget(struct lead *l)
{
	struct moving *m = l->moving;

	l->moving = NULL;
	if (!m)
		return;
	for (size_t i = 0; i < m->count; i++)
		free(m->mover[i].socket);
	free(m->mover);
	timer_free(m->timer);
	free(m);
}

static void lead_move_answer_ok(struct lead *l, struct request *rq)
{
	const struct moving *m = l->moving;
	const struct map *map = lead_parts_map(l->parts);
	struct record_out *o =
		RECORD("ok", F("version", map->version), F("parts", map->parts),
		       F("moved-bytes", m ? m->bytes : 0), F("pieces", m ? m->pieces : 0),
		       F_SECONDS("stall", m ? m->stall : 0.0));
	if (m && m->peak[0]) {
		record_add(o, "peak", m->peak);
		record_add(o, "busiest", m->busiest);
	}
	request_ok_record(rq, o);
}

static void lead_move_finish(struct lead *l)
{
	struct moving *m = l->moving;
	struct request *rq = lead_undefer(l, m->token);
	const struct map *map = lead_parts_map(l->parts);

	log_say(LOG_LEVEL_INFO,
		"map %llu of %u parts: %llu bytes were moved in %llu pieces, held up for %.3g s at most",
		(unsigned long long)map->version, map->parts, (unsigned long long)m->bytes,
		(unsigned long long)m->pieces, m->stall);
	if (rq)
		lead_move_answer_ok(l, rq);
	lead_move_forget(l);
}

/* For good: nothing more is moved. The map that is in force stays. */
static void lead_move_give_up(struct lead *l)
{
	struct moving *m = l->moving;
	struct request *rq = lead_undefer(l, m->token);
	const struct map *map = lead_parts_map(l->parts);

	log_say(LOG_LEVEL_WARNING, "parameters are not moved: %s; map %llu of %u parts goes on",
		m->why, (unsigned long long)map->version, map->parts);
	if (rq)
		request_err(rq, "move", "%.300s; map %llu of %u parts goes on", m->why,
			    (unsigned long long)map->version, map->parts);
	lead_parts_forget_joiners(l->parts);
	lead_move_forget(l);
}

static void lead_move_order(struct lead *l, enum order_kind kind, const struct order_answer *a);

static void ignore(uint32_t part, const struct order_result *result, void *lead)
{
	(void)part;
	(void)result;
	(void)lead;
}

/* Ends this attempt; another one follows, unless that was the last of them. */
static void lead_move_fail(struct lead *l, const char *who, const char *why)
{
	struct moving *m = l->moving;
	enum stage stage = m->stage;
	struct order_answer nobody = {.done = ignore, .arg = l};

	snprintf(m->why, sizeof m->why, "%.200s: %.290s", who, why);
	m->stage = MOVE_AGAIN;
	if (stage == MOVE_JOINING) {
		m->tries = TRIES;
	} else {
		lead_move_order(l, ORDER_CANCEL, &nobody);
		m->tries++;
	}
	m->is_last = 0;
	m->hold = 0.0;
	if (m->tries < TRIES)
		log_say(LOG_LEVEL_WARNING, "a move of parameters is tried again: %s", m->why);
	deadline(m, m->tries < TRIES ? AGAIN_SECONDS : 0.0);
	if (stage == MOVE_STILL || stage == MOVE_GIVING)
		gate_go_on(l->gate, 0);
}

/* ---- orders ---- */

/* The servers of the map that is to come. */
static struct order_server *servers(const struct lead *l, size_t *count)
{
	const struct moving *m = l->moving;
	struct order_server *s = calloc(m->count, sizeof *s);

	*count = 0;
	for (size_t i = 0; s && i < m->count; i++) {
		const struct mover *mover = &m->mover[i];
		struct order_server *one = &s[*count];
		if (m->is_last && !mover->stays)
			continue;
		snprintf(one->id, sizeof one->id, "%s", lead_move_id_of(l, mover));
		snprintf(one->socket, sizeof one->socket, "%s", socket_of(l, mover));
		one->dense_begin = m->next.dense[i];
		one->key_begin = m->next.key[i];
		one->joins = !mover->is_in;
		++*count;
	}
	return s;
}

static void lead_move_order(struct lead *l, enum order_kind kind, const struct order_answer *a)
{
	const struct moving *m = l->moving;
	struct order o = {.kind = kind,
			  .attempt = m->attempt,
			  .version = m->version,
			  .iteration = gate_iteration(l->gate)};

	if (kind == ORDER_PREPARE || kind == ORDER_ADOPT) {
		o.server = servers(l, &o.servers);
		if (!o.server) {
			lead_breakf(l, ERROR_OS, "move", "out of memory");
			return;
		}
	}
	lead_parts_give(l->parts, &o, a);
	free((void *)o.server);
}

/* ---- pieces ---- */

/* The next step of the bounds that go left (sign -1) or right, no more than *budget bytes. */
static void lead_move_step(uint64_t *now, const uint64_t *target, size_t count, int sign,
			   double weight, double *budget)
{
	double room = weight > 0.0 ? *budget / weight : 1e18;
	uint64_t most = room < 1e18 ? (uint64_t)room + 1 : UINT64_C(1) << 62, far = 0, end = 0;
	int any = 0;

	/* far: the bound that begins the sweep; end: where the sweep ends. */
	for (size_t i = 1; i < count; i++) {
		if (sign < 0 ? now[i] <= target[i] : now[i] >= target[i])
			continue;
		if (!any || (sign < 0 ? now[i] > far : now[i] < far))
			far = now[i];
		if (!any || (sign < 0 ? target[i] < end : target[i] > end))
			end = target[i];
		any = 1;
	}
	if (!any || *budget <= 0.0)
		return;
	uint64_t way = sign < 0 ? far - end : end - far;
	uint64_t by = way < most ? way : most, at = sign < 0 ? far - by : far + by;
	for (size_t i = 1; i < count; i++) {
		if (sign < 0 && now[i] > target[i] && now[i] > at)
			now[i] = target[i] > at ? target[i] : at;
		if (sign > 0 && now[i] < target[i] && now[i] < at)
			now[i] = target[i] < at ? target[i] : at;
	}
	*budget -= (double)by * weight;
}

static int lead_move_same(const struct bounds *a, const struct bounds *b, size_t count)
{
	return memcmp(a->dense, b->dense, count * sizeof *a->dense) == 0 &&
	       memcmp(a->key, b->key, count * sizeof *a->key) == 0;
}

static void lead_move_cut_piece(const struct lead *l)
{
	struct moving *m = l->moving;
	double dense = m->element, key = m->place, budget = (double)m->piece_bytes;

	m->next = m->now;
	for (int sign = -1; sign <= 1; sign += 2) {
		lead_move_step(m->next.dense, m->target.dense, m->count, sign, dense, &budget);
		/* a bound that goes right may start only when those that go left are there */
		if (budget <= 0.0)
			break;
	}
	for (int sign = -1; sign <= 1 && budget > 0.0; sign += 2)
		lead_move_step(m->next.key, m->target.key, m->count, sign, key, &budget);
	m->is_last = lead_move_same(&m->next, &m->target, m->count);
}

/* ---- the stages of an attempt ---- */

static void lead_move_go_on(struct lead *l);
static void rest(struct lead *l);

/* Of an answer: whether it is one that is waited for. */
static int lead_move_is_due(const struct lead *l, const struct order_result *result,
			    enum stage stage)
{
	return l->moving && !l->broken && l->moving->stage == stage &&
	       result->attempt == l->moving->attempt;
}

static void on_prepared(uint32_t part, const struct order_result *result, void *lead)
{
	struct lead *l = lead;
	struct moving *m = l->moving;

	if (!lead_move_is_due(l, result, MOVE_PREPARING))
		return;
	if (result->code) {
		lead_move_fail(l, lead_parts_name(l->parts, part), result->text);
		lead_pump(l);
		return;
	}
	if (--m->left > 0)
		return;
	m->stage = MOVE_RESTING;
	rest(l);
	lead_pump(l);
}

static void lead_move_prepare(struct lead *l)
{
	struct moving *m = l->moving;
	struct order_answer a = {.done = on_prepared, .arg = l};
	const char *lost = lead_parts_lost(l->parts);

	m->stage = MOVE_PREPARING;
	m->attempt = ++l->attempts;
	m->version = lead_parts_map(l->parts)->version + 1;
	m->bytes += m->piece;
	m->piece = 0;
	lead_move_cut_piece(l);
	if (lost) {
		lead_move_fail(l, lost, "is not connected");
		return;
	}
	m->left = 1; /* this function */
	for (size_t i = 0; i < m->count; i++)
		m->left += m->mover[i].is_in || m->mover[i].stays;
	deadline(m, PREPARE_SECONDS);
	lead_move_order(l, ORDER_PREPARE, &a);
	on_prepared(0, &(struct order_result){.attempt = m->attempt}, l);
}

/* Whether the part is no longer in the map that is given. */
static int is_leaving(const struct lead *l, uint32_t part)
{
	const struct moving *m = l->moving;

	for (size_t i = 0; m && m->is_last && i < m->count; i++) {
		if (m->mover[i].told == part && !m->mover[i].stays)
			return 1;
	}
	return 0;
}

static void on_adopted(uint32_t part, const struct order_result *result, void *lead)
{
	struct lead *l = lead;

	/* Later answers are only of those that are no longer in the map. */
	if (!lead_move_is_due(l, result, MOVE_ADOPTING) || is_leaving(l, part))
		return;
	if (result->code) {
		lead_breakf(l, ERROR_TEMPFAIL, lead_parts_name(l->parts, part),
			    "a map that is in force was not adopted: %s", result->text);
		return;
	}
	if (--l->moving->left == 0) {
		lead_move_go_on(l);
		lead_pump(l);
	}
}

/* The map that is given now, and the sockets of its parts that are not in this process. NULL: no
 * memory. */
static const char **lead_move_next(const struct lead *l, struct map *map, size_t *count)
{
	const struct moving *m = l->moving;
	const char **s = calloc(m->count, sizeof *s);
	uint64_t dense = dense_of(lead_parts_map(l->parts));

	*count = 0;
	*map = (struct map){.version = m->version};
	for (size_t i = 0; s && i < m->count; i++) {
		if (m->is_last && !m->mover[i].stays)
			continue;
		map->dense_begin[map->parts] = m->next.dense[i];
		map->key_begin[map->parts++] = m->next.key[i];
		if (m->mover[i].socket[0])
			s[(*count)++] = m->mover[i].socket;
	}
	map->dense_begin[map->parts] = dense;
	map->key_begin[map->parts] = MAP_PLACES;
	return s;
}

/* Numbers all movers as lead_parts_give() does: the parts first, then those who join. */
static void number(struct lead *l)
{
	struct moving *m = l->moving;
	uint32_t in = 0, joins = (uint32_t)lead_parts_count(l->parts);

	for (size_t i = 0; i < m->count; i++)
		m->mover[i].told = m->mover[i].is_in ? in++ : joins++;
}

/* The size of the next piece, by how long this one held up training, and how long a unit takes
 * without a piece: with short units even a short hold is felt; with long ones, pieces are far apart
 * and may be larger. */
static void fit_piece(struct lead *l)
{
	struct moving *m = l->moving;
	uint64_t units = gate_iteration(l->gate) - m->iteration;
	double unit = m->pieces > 1 && units > 0 ? (m->held - m->committed) / (double)units : 0.0;
	double aim = unit * HOLD_OF_UNIT;

	aim = aim > HOLD_SECONDS_MIN ? aim : HOLD_SECONDS_MIN;
	aim = aim < HOLD_SECONDS_MAX ? aim : HOLD_SECONDS_MAX;
	double by = m->hold > 0.0 ? aim / m->hold : 2.0;
	by = by > 2.0 ? 2.0 : by < 0.5 ? 0.5 : by;
	uint64_t bytes = (uint64_t)((double)m->piece_bytes * by);
	bytes = bytes > PIECE_BYTES ? bytes : PIECE_BYTES;
	m->piece_bytes = bytes < PIECE_BYTES_MAX ? bytes : PIECE_BYTES_MAX;
}

/* From here on the new map is in force. Servers that leave are told, and not waited for. */
static void lead_move_commit(struct lead *l)
{
	struct moving *m = l->moving;
	struct order_answer a = {.done = on_adopted, .arg = l};
	size_t count;
	struct map *map = malloc(sizeof *map); /* large */
	const char **socket = map ? lead_move_next(l, map, &count) : NULL;
	struct part_file *file = socket ? calloc(map->parts + 1, sizeof *file) : NULL;

	if (!file) {
		free(socket);
		free(map);
		lead_move_fail(l, "the lead", "out of memory");
		return;
	}
	m->stage = MOVE_ADOPTING;
	m->left = map->parts + 1; /* and this function */
	number(l);
	deadline(m, ADOPT_SECONDS);
	lead_move_order(l, ORDER_ADOPT, &a);
	if (!l->broken && lead_parts_are(l->parts, socket, count, map) != 0)
		lead_breakf(l, ERROR_OS, "move", "out of memory");
	else if (!l->broken && l->options.adopted)
		l->options.adopted(l->options.adopted_owner);
	free(socket);
	free(map);
	free(l->cut.part); /* no cut is being made */
	l->cut.part = file;
	for (size_t i = 0; i < m->count; i++)
		m->mover[i].is_in = !m->is_last || m->mover[i].stays;
	m->now = m->next;
	m->pieces++;
	m->tries = 0;
	m->hold = clock_mono() - m->held;
	m->stall = m->hold > m->stall ? m->hold : m->stall;
	if (m->fits)
		fit_piece(l);
	m->committed = clock_mono();
	m->iteration = gate_iteration(l->gate);
	gate_go_on(l->gate, 1);
	on_adopted(UINT32_MAX, &(struct order_result){.attempt = m->attempt}, l); /* this function's */
}

static void on_given(uint32_t part, const struct order_result *result, void *lead)
{
	struct lead *l = lead;
	struct moving *m = l->moving;

	if (!lead_move_is_due(l, result, MOVE_GIVING))
		return;
	if (result->code) {
		lead_move_fail(l, lead_parts_name(l->parts, part), result->text);
		lead_pump(l);
		return;
	}
	m->piece += result->bytes;
	if (--m->left > 0)
		return;
	lead_move_commit(l);
	lead_pump(l);
}

void lead_move_still(struct lead *l)
{
	struct moving *m = l->moving;
	struct order_answer a = {.done = on_given, .arg = l};

	if (!m || m->stage != MOVE_STILL)
		return;
	m->stage = MOVE_GIVING;
	m->held = clock_mono();
	m->left = 1;
	for (size_t i = 0; i < m->count; i++)
		m->left += m->mover[i].is_in || m->mover[i].stays;
	deadline(m, GIVE_SECONDS + (double)m->piece_bytes / GIVE_BYTES_SECOND);
	lead_move_order(l, ORDER_GIVE, &a);
	on_given(0, &(struct order_result){.attempt = m->attempt}, l);
}

/* After a piece. The next one is prepared at once: training goes on meanwhile. */
static void lead_move_go_on(struct lead *l)
{
	struct moving *m = l->moving;

	m->bytes += m->piece;
	m->piece = 0;
	m->adopted = clock_mono();
	if (m->is_last)
		lead_move_finish(l);
	else
		lead_move_prepare(l);
}

/* Seconds until training has gone on for long enough: for a unit at least, unless none closes
 * anyway. */
static double rest_seconds(const struct lead *l)
{
	const struct moving *m = l->moving;
	double rested = clock_mono() - m->adopted, left = REST_HOLDS * m->hold - rested;

	if (m->pieces == 0 || rested >= REST_SECONDS_MAX)
		return 0.0;
	if (left <= 0.0 && gate_iteration(l->gate) == m->iteration && gate_active(l->gate) > 0)
		return REST_LOOK_SECONDS;
	return left;
}

static void rest(struct lead *l)
{
	double seconds = rest_seconds(l);

	if (seconds > 0.0) {
		deadline(l->moving, seconds);
		return;
	}
	l->moving->stage = MOVE_STILL;
	deadline(l->moving, STILL_SECONDS);
	gate_still(l->gate);
}

static void lead_move_on_timer(void *lead)
{
	struct lead *l = lead;
	struct moving *m = l->moving;
	const char *lost = lead_parts_lost(l->parts);

	if (m->stage == MOVE_RESTING)
		rest(l);
	else if (m->stage == MOVE_AGAIN && m->tries < TRIES)
		lead_move_prepare(l);
	else if (m->stage == MOVE_AGAIN)
		lead_move_give_up(l);
	else if (m->stage == MOVE_STILL)
		lead_move_fail(l, "the lead", "a settle or a checkpoint takes too long");
	else if (m->stage == MOVE_ADOPTING)
		lead_breakf(l, ERROR_TEMPFAIL, lost ? lost : "a server",
			    "has not adopted a map that is in force in %g s", ADOPT_SECONDS);
	else
		lead_move_fail(l, lost ? lost : "a server", "no answer in time");
	lead_pump(l);
}

/* ---- those who join ---- */

static int all_joined(struct lead *l)
{
	int all = 1;

	for (size_t i = 0; lead_parts_joiner(l->parts, i); i++) {
		const char *wrong = lead_parts_joiner_wrong(l->parts, i);
		if (wrong) {
			lead_move_fail(l, lead_parts_joiner(l->parts, i), wrong);
			return 0;
		}
		all &= lead_parts_joiner_ready(l->parts, i);
	}
	return all;
}

/* A server with the id of another one, or NULL: parts find themselves in a map by their ids. */
static const char *same_id(const struct lead *l)
{
	const struct moving *m = l->moving;

	for (size_t i = 0; i < m->count; i++) {
		for (size_t k = 0; k < i; k++) {
			if (strcmp(lead_move_id_of(l, &m->mover[i]),
				   lead_move_id_of(l, &m->mover[k])) == 0)
				return m->mover[i].socket;
		}
	}
	return NULL;
}

void lead_move_look(struct lead *l)
{
	struct moving *m = l->moving;
	const char *lost;

	if (!m || l->broken)
		return;
	switch (m->stage) {
	case MOVE_JOINING:
		if (!all_joined(l) || lead_parts_lost(l->parts) || m->left > 0)
			return;
		if (same_id(l))
			lead_move_fail(l, same_id(l), "has the --id of another server");
		else
			lead_move_prepare(l);
		break;
	case MOVE_PREPARING:
	case MOVE_RESTING:
	case MOVE_STILL:
	case MOVE_GIVING:
		lost = lead_parts_lost(l->parts);
		if (lost)
			lead_move_fail(l, lost, "connection lost");
		break;
	default:
		break;
	}
}

int lead_move_is_busy(const struct lead *l)
{
	return l->moving != NULL;
}

void lead_move_stop(struct lead *l)
{
	lead_move_forget(l);
}

/* ---- how much there is ---- */

static void on_weighed(uint32_t part, const struct order_result *result, void *lead)
{
	struct lead *l = lead;
	struct moving *m = l->moving;

	if (!lead_move_is_due(l, result, MOVE_JOINING))
		return;
	if (result->code) {
		lead_move_fail(l, lead_parts_name(l->parts, part), result->text);
		lead_pump(l);
		return;
	}
	m->element += (double)result->dense_bytes;
	m->place += (double)result->row_bytes;
	if (--m->left > 0)
		return;
	m->element /= (double)dense_of(lead_parts_map(l->parts)) + 1e-9;
	m->place /= (double)MAP_PLACES;
	lead_move_look(l);
	lead_pump(l);
}

/* The first stage: all parts are asked how much they have, while those who join are connected. */
static void lead_move_weigh(struct lead *l)
{
	struct moving *m = l->moving;
	struct order order = {.kind = ORDER_HEAT, .attempt = ++l->attempts};
	struct order_answer a = {.done = on_weighed, .arg = l};

	m->attempt = order.attempt;
	m->left = lead_parts_count(l->parts) + 1; /* and this function */
	lead_parts_give(l->parts, &order, &a);
	on_weighed(0, &(struct order_result){.attempt = m->attempt}, l);
}

/* ---- what is asked for ---- */

/* The servers that are to be parts, and where each begins. */
struct wanted {
	char **socket;  /* [parts], of the part in this process NULL */
	uint32_t first; /* lead_move_first() */
	struct map map;
};

static void wanted_free(struct wanted *w)
{
	for (uint32_t i = 0; w && w->socket && i < w->map.parts; i++)
		free(w->socket[i]);
	if (w)
		free(w->socket);
	free(w);
}

static int read_sockets(struct wanted *w, const char *text, struct error *err)
{
	const char *at = text;

	for (uint32_t i = w->first; at && *at; i++) {
		size_t len = strcspn(at, ",");
		if (i >= w->map.parts || len == 0 || len >= ORDER_SOCKET_MAX)
			return error_set(err, ERROR_DATA, NULL,
					 w->first ? "servers= names the parts behind part 0, parts - 1 of them"
						  : "servers= names the parts, parts= of them");
		w->socket[i] = strndup(at, len);
		if (!w->socket[i])
			return error_set(err, ERROR_OS, NULL, "out of memory");
		at += len + (at[len] == ',');
	}
	return 0;
}

static int lead_move_read_part(struct wanted *w, const struct record *r, struct error *err)
{
	const char *socket = record_get(r, "socket");
	uint64_t part, last = w->map.parts - 1;

	if (!record_is(r, "part"))
		return error_set(err, ERROR_DATA, NULL, "%.64s is no part", r->type);
	if (record_u64(r, "part", 0, last, &part, err) != 0)
		return -1;
	if (socket && part >= w->first && *socket && strlen(socket) < ORDER_SOCKET_MAX) {
		free(w->socket[part]);
		w->socket[part] = strdup(socket);
		if (!w->socket[part])
			return error_set(err, ERROR_OS, NULL, "out of memory");
	}
	if (!record_get(r, "dense-begin") && !record_get(r, "key-begin"))
		return 0;
	return record_u64(r, "dense-begin", 0, dense_of(&w->map), &w->map.dense_begin[part], err) !=
				       0 ||
			       record_u64(r, "key-begin", 0, MAP_PLACES, &w->map.key_begin[part],
					  err) != 0
		       ? -1
		       : 0;
}

static int read_parts(struct wanted *w, const char *text, size_t len, struct error *err)
{
	struct record *r = malloc(sizeof *r);
	struct record_walk walk = record_walk(text, len);
	int rc = -1;

	if (!r)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	while ((rc = record_next(&walk, r, err)) == RECORD_ONE) {
		if (lead_move_read_part(w, r, err) != 0) {
			rc = -1;
			break;
		}
	}
	free(r);
	return rc == RECORD_END ? 0 : -1;
}

static int check_wanted(const struct wanted *w, uint64_t dense, struct error *err)
{
	for (uint32_t i = w->first; i < w->map.parts; i++) {
		if (!w->socket[i])
			return error_set(err, ERROR_DATA, NULL, "part %u has no socket", i);
		for (uint32_t k = w->first; k < i; k++) {
			if (strcmp(w->socket[i], w->socket[k]) == 0)
				return error_set(err, ERROR_DATA, NULL, "%s is there twice",
						 w->socket[i]);
		}
	}
	return map_is_whole(&w->map, dense)
		       ? 0
		       : error_set(err, ERROR_DATA, NULL,
				   "bounds begin with 0, and none is before the one before it");
}

static struct wanted *read_wanted(struct lead *l, struct request *rq, uint64_t *piece,
				  struct error *err)
{
	const struct record *r = request_record(rq);
	struct payload *payload = request_payload(rq);
	size_t len = payload ? payload_bytes(payload) : 0;
	uint64_t dense = dense_of(lead_parts_map(l->parts)), parts;
	struct wanted *w = calloc(1, sizeof *w);
	char *text = malloc(len + 1);
	int rc = -1;

	*piece = 0;
	if (!w || !text)
		error_set(err, ERROR_OS, NULL, "out of memory");
	else if (record_u64(r, "parts", 1, MAP_PARTS_MAX - 1, &parts, err) == 0 &&
		 record_u64_opt(r, "piece-bytes", PIECE_BYTES_MIN, UINT32_MAX, piece, err) == 0)
		rc = 0;
	if (rc == 0) {
		map_even(&w->map, (uint32_t)parts, dense);
		w->first = lead_move_first(l);
		w->socket = calloc(parts, sizeof *w->socket);
		memcpy(text, len ? payload_data(payload) : "", len); /* it may change under us */
		if (!w->socket)
			rc = error_set(err, ERROR_OS, NULL, "out of memory");
		if (rc == 0)
			rc = read_sockets(w, record_get(r, "servers"), err);
		if (rc == 0 && len)
			rc = read_parts(w, text, len, err);
		if (rc == 0)
			rc = check_wanted(w, dense, err);
	}
	free(text);
	if (rc == 0)
		return w;
	wanted_free(w);
	return NULL;
}

/* ---- the order of all who take part ---- */

static int add_mover(struct moving *m, const char *socket, int was, int stays)
{
	struct mover *mover = &m->mover[m->count];

	*mover = (struct mover){
		.socket = strdup(socket), .was = was, .stays = stays, .is_in = was};
	if (!mover->socket)
		return -1;
	m->count++;
	return 0;
}

static int lead_move_stays(const struct wanted *w, const char *socket)
{
	for (uint32_t i = w->first; i < w->map.parts; i++) {
		if (strcmp(w->socket[i], socket) == 0)
			return 1;
	}
	return 0;
}

/* Those who are there, in their order, and those who join between them as wanted. */
static int order_movers(struct lead *l, const struct wanted *w, struct error *err)
{
	struct moving *m = l->moving;
	uint32_t has = (uint32_t)lead_parts_count(l->parts), at = w->first;
	int rc;

	m->mover = calloc((size_t)has + w->map.parts, sizeof *m->mover);
	rc = m->mover ? 0 : -1;
	if (rc == 0 && w->first)
		rc = add_mover(m, "", 1, 1);
	for (uint32_t i = w->first; rc == 0 && i < w->map.parts; i++) {
		uint32_t k = at;
		while (k < has && strcmp(lead_parts_name(l->parts, k), w->socket[i]) != 0)
			k++;
		if (k == has) { /* it joins, or is before one that is placed already */
			for (k = w->first; k < at; k++) {
				if (strcmp(lead_parts_name(l->parts, k), w->socket[i]) == 0)
					return error_set(err, ERROR_DATA, NULL,
							 "servers that stay must keep their order");
			}
			rc = add_mover(m, w->socket[i], 0, 1);
			continue;
		}
		for (; rc == 0 && at < k; at++)
			rc = add_mover(m, lead_parts_name(l->parts, at), 1,
				       lead_move_stays(w, lead_parts_name(l->parts, at)));
		if (rc == 0)
			rc = add_mover(m, w->socket[i], 1, 1);
		at = k + 1;
	}
	for (; rc == 0 && at < has; at++)
		rc = add_mover(m, lead_parts_name(l->parts, at), 1, 0);
	if (rc == 0 && m->count >= MAP_PARTS_MAX)
		return error_set(err, ERROR_DATA, NULL, "more than %d servers", MAP_PARTS_MAX - 1);
	return rc == 0 ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
}

/* A server that is not in the map begins where the next one does: it has nothing. */
static void lead_move_spread(struct bounds *b, const struct moving *m, const struct map *map,
			     int (*is_in)(const struct mover *mover))
{
	uint32_t part = map->parts;

	for (size_t i = m->count; i-- > 0;) {
		part -= is_in(&m->mover[i]) ? 1 : 0;
		b->dense[i] = map->dense_begin[part];
		b->key[i] = map->key_begin[part];
	}
}

static int was_in(const struct mover *mover)
{
	return mover->was;
}

static int will_be_in(const struct mover *mover)
{
	return mover->stays;
}

static int lead_move_is_there(const struct lead *l, const struct wanted *w)
{
	const struct map *map = lead_parts_map(l->parts);

	if (map->parts != w->map.parts ||
	    memcmp(map->dense_begin, w->map.dense_begin, map->parts * sizeof *map->dense_begin) !=
		    0 ||
	    memcmp(map->key_begin, w->map.key_begin, map->parts * sizeof *map->key_begin) != 0)
		return 0;
	for (uint32_t i = w->first; i < map->parts; i++) {
		if (strcmp(w->socket[i], lead_parts_name(l->parts, i)) != 0)
			return 0;
	}
	return 1;
}

static int lead_move_begin(struct lead *l, const struct wanted *w, struct error *err)
{
	struct moving *m = l->moving;

	m->timer = timer_new(server_base(l->server), lead_move_on_timer, l);
	if (!m->timer)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	if (order_movers(l, w, err) != 0)
		return -1;
	lead_move_spread(&m->now, m, lead_parts_map(l->parts), was_in);
	lead_move_spread(&m->target, m, &w->map, will_be_in);
	for (size_t i = 0; i < m->count; i++) {
		if (!m->mover[i].was && lead_parts_join(l->parts, m->mover[i].socket, err) != 0) {
			lead_parts_forget_joiners(l->parts);
			return -1;
		}
	}
	m->stage = MOVE_JOINING;
	deadline(m, JOIN_SECONDS);
	return 0;
}

void lead_on_move(struct request *rq, void *lead)
{
	struct lead *l = lead;
	struct wanted *w;
	uint64_t piece;
	struct error err = {0};

	if (!lead_parts_map(l->parts)) {
		request_err(rq, "no-part", "there are no parts of parameters that could move");
		return;
	}
	if (l->moving) {
		request_err(rq, "moving", "parameters are being moved");
		return;
	}
	w = read_wanted(l, rq, &piece, &err);
	if (!w) {
		request_bad(rq, &err);
		return;
	}
	if (lead_move_is_there(l, w)) {
		lead_move_answer_ok(l, rq);
		wanted_free(w);
		return;
	}
	l->moving = calloc(1, sizeof *l->moving);
	if (!l->moving) {
		request_err(rq, "no-memory", NULL);
	} else if (lead_move_begin(l, w, &err) != 0) {
		request_bad(rq, &err);
		lead_move_forget(l);
	} else {
		l->moving->piece_bytes = piece ? piece : PIECE_BYTES;
		l->moving->fits = piece == 0;
		l->moving->token = lead_defer(l, rq);
		lead_move_weigh(l);
	}
	wanted_free(w);
	lead_pump(l);
}

/* These bounds for the servers that are parts now. */
static struct wanted *wanted_bounds(const struct lead *l, const struct map *map)
{
	struct wanted *w = calloc(1, sizeof *w);

	if (!w)
		return NULL;
	w->map = *map;
	w->first = lead_move_first(l);
	w->socket = calloc(map->parts, sizeof *w->socket);
	for (uint32_t i = w->first; w->socket && i < map->parts; i++) {
		w->socket[i] = strdup(lead_parts_name(l->parts, i));
		if (!w->socket[i]) {
			wanted_free(w);
			return NULL;
		}
	}
	if (!w->socket) {
		wanted_free(w);
		return NULL;
	}
	return w;
}

void lead_move_bounds(struct lead *l, const struct map *map, uint64_t token, const char *peak,
		      const char *busiest)
{
	struct wanted *w = l->moving ? NULL : wanted_bounds(l, map);
	struct request *rq;
	struct error err = {0};

	if (l->moving) {
		error_set(&err, ERROR_TEMPFAIL, NULL, "parameters are being moved");
	} else {
		l->moving = w ? calloc(1, sizeof *l->moving) : NULL;
		if (!l->moving)
			error_set(&err, ERROR_OS, NULL, "out of memory");
		else if (lead_move_begin(l, w, &err) != 0)
			lead_move_forget(l);
	}
	wanted_free(w);
	if (err.code) {
		rq = lead_undefer(l, token);
		if (rq)
			request_err(rq, err.code == ERROR_TEMPFAIL ? "moving" : "no-memory", "%s",
				    err.text);
		return;
	}
	snprintf(l->moving->peak, sizeof l->moving->peak, "%s", peak);
	snprintf(l->moving->busiest, sizeof l->moving->busiest, "%s", busiest);
	l->moving->piece_bytes = PIECE_BYTES;
	l->moving->fits = 1;
	l->moving->token = token;
	lead_move_weigh(l);
	lead_pump(l);
}

/* ---- who has what ---- */

const char *lead_part_id(const struct lead *l, uint32_t part)
{
	return part < lead_move_first(l)
		       ? l->options.id
		       : lead_parts_id(l->parts, lead_parts_name(l->parts, part));
}

void lead_on_parts(struct request *rq, void *lead)
{
	struct lead *l = lead;
	const struct map *map = lead_parts_map(l->parts);

	for (uint32_t i = 0; map && i < map->parts; i++) {
		const char *socket = i >= lead_move_first(l) ? lead_parts_name(l->parts, i)
				     : l->options.socket	 ? l->options.socket
								 : "";
		request_put_record(
			rq, RECORD("part", F("part", i), F("id", lead_part_id(l, i)),
				   F("socket", socket), F("dense-begin", map->dense_begin[i]),
				   F("dense", map->dense_begin[i + 1] - map->dense_begin[i]),
				   F("key-begin", map->key_begin[i]),
				   F("keys", map->key_begin[i + 1] - map->key_begin[i])));
	}
	request_ok(rq, "version=%llu parts=%u moving=%d",
		   (unsigned long long)(map ? map->version : 0), map ? map->parts : 0,
		   l->moving != NULL);
}

void lead_refuse_map(struct lead *l, struct request *rq)
{
	request_err_record(rq,
			   RECORD("err", F("code", "map"),
				  F("map", lead_parts_map(l->parts)->version)),
			   "another map is in force: ask for `parts`");
}

int lead_map_is(const struct lead *l, uint64_t version)
{
	const struct map *map = lead_parts_map(l->parts);

	return !map || map->version == version;
}
