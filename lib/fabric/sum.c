/*
 * Rounds: which client has opened which, what clients have said about them, how they end. A host
 * has at most one open round. A round that was replaced or dropped is retired: it stays until
 * nothing of it is under way, and only then the next one may use the memory.
 */
#include "fabric/sum_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

const char *sum_code_name(enum sum_code code)
{
	static const char *const name[] = {
		[SUM_OK] = "ok",     [SUM_BAD] = "bad-request", [SUM_STALE] = "stale",
		[SUM_LOST] = "lost", [SUM_ROOM] = "room",       [SUM_DIFFERS] = "differs",
		[SUM_BUSY] = "busy",
	};

	return (unsigned)code < sizeof name / sizeof *name ? name[code] : "unknown";
}

const char *sum_way_name(enum sum_way way)
{
	static const char *const name[] = {"ring", "rate", "shares"};

	return (unsigned)way < SUM_WAYS ? name[way] : "unknown";
}

/* ---- memory for what is received ---- */

struct block *block_take(struct sum *s, size_t bytes)
{
	struct block **best = NULL;

	for (struct block **at = &s->spare; *at; at = &(*at)->next) {
		if ((*at)->room >= bytes && (!best || (*at)->room < (*best)->room))
			best = at;
	}
	if (best && (*best)->room / 2 <= bytes + 4096) {
		struct block *b = *best;
		*best = b->next;
		s->spares--;
		return b;
	}
	size_t room = (bytes + 63) / 64 * 64, all;
	struct block *b = NULL;
	if (room < bytes || __builtin_add_overflow(room, sizeof *b, &all) ||
	    !(b = aligned_alloc(64, all)))
		return NULL;
	b->room = room;
	s->blocks_bytes += room;
	return b;
}

static void block_free(struct sum *s, struct block *b)
{
	s->blocks_bytes -= b->room;
	free(b);
}

void block_give(struct sum *s, struct block *b)
{
	if (!b)
		return;
	b->next = s->spare;
	s->spare = b;
	if (++s->spares <= SPARES_MAX)
		return;
	struct block **last = &s->spare; /* the least recently used one */
	while ((*last)->next)
		last = &(*last)->next;
	block_free(s, *last);
	*last = NULL;
	s->spares--;
}

/* ---- all rounds of a host ---- */

int sum_new(struct sum **out, const struct sum_link *link, struct error *err)
{
	size_t bytes = sizeof(struct sum) + link->size * sizeof(struct host);
	struct sum *s = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (!s)
		return error_set(err, ERROR_OS, "sums", "out of memory");
	*s = (struct sum){.link = *link};
	s->last_offer = &s->first_offer;
	for (unsigned i = 0; i < link->size; i++)
		s->host[i] = (struct host){0};
	*out = s;
	return 0;
}

static void sum_round_free(struct round *rd)
{
	rows_end(rd);
	rd->way->end(rd);
	units_end(rd);
	if (rd->release)
		rd->release(rd->release_arg);
	if (rd->out_release)
		rd->out_release(rd->out_arg);
	free(rd);
}

void sum_free(struct sum *s)
{
	if (!s)
		return;
	struct round *rd = s->open, *next;
	if (rd) {
		wire_forget_offers(rd);
		sum_round_free(rd);
	}
	for (rd = s->retired; rd; rd = next) {
		next = rd->next;
		sum_round_free(rd);
	}
	for (size_t i = 0; i < RECEIVES_MAX; i++) {
		if (s->receive[i].round)
			block_give(s, s->receive[i].block);
	}
	while (s->spare) {
		struct block *b = s->spare;
		s->spare = b->next;
		block_free(s, b);
	}
	free(s);
}

const char *round_host(const struct round *rd, size_t member)
{
	const struct sum_link *l = &rd->sum->link;

	return l->host(l->carrier, rd->member[member].rank);
}

void round_one_less(struct round *rd)
{
	rd->left--;
}

/* ---- the end of one ---- */

static void sum_answer(struct answer *a, enum sum_code code, const char *why,
		       const struct sum_result *result)
{
	struct answer to = *a;

	*a = (struct answer){0};
	if (to.fn)
		to.fn(to.arg, code, why, code == SUM_OK ? result : NULL);
}

void round_fail(struct round *rd, enum sum_code code, const char *fmt, ...)
{
	va_list ap;

	if (rd->failed || rd->done || rd->retired)
		return;
	rd->failed = code;
	va_start(ap, fmt);
	vsnprintf(rd->why, sizeof rd->why, fmt, ap);
	va_end(ap);
	rd->sum->died++;
	wire_tell_leave(rd);
	wire_forget_offers(rd);
	ring_give_back(rd);
}

/* Retires the round: another one may be opened; transfers of this one come to their end. */
static void retire(struct round *rd, enum sum_code code, const char *why)
{
	struct sum *s = rd->sum;

	if (rd->done && code != SUM_STALE) /* others hear of a newer round, which says it, too */
		wire_tell_leave(rd);
	round_fail(rd, code, "%s", why);
	rd->retired = 1;
	rd->next = s->retired;
	s->retired = rd;
	s->open = NULL;
}

/* ---- after each event ---- */

static void tell_result(struct round *rd)
{
	struct sum_result result = {.rows = rd->out_rows, .wire_bytes = rd->wire_bytes};

	if (rd->waited.fn && rd->want_check) {
		result.check = units_check(rd);
		if (rd->out_rows)
			result.check = XXH3_64bits_withSeed(
				rd->out, rowlist_bytes(rd->out_rows, rd->width), result.check);
	}
	sum_answer(&rd->waited, SUM_OK, NULL, &result);
}

/* One retired round that nothing holds any more; 0: there is none. */
static int bury_one(struct sum *s)
{
	for (struct round **at = &s->retired; *at; at = &(*at)->next) {
		struct round *rd = *at;
		struct answer dropped = rd->dropped;
		if (rd->opened.fn || rd->waited.fn) {
			enum sum_code code = rd->failed ? rd->failed : SUM_STALE;
			sum_answer(&rd->opened, code, rd->why, NULL);
			sum_answer(&rd->waited, code, rd->why, NULL);
			return 1;
		}
		if (rd->under_way)
			continue;
		*at = rd->next;
		sum_round_free(rd);
		sum_answer(&dropped, SUM_OK, NULL, NULL);
		return 1;
	}
	return 0;
}

static int look_at_open(struct sum *s)
{
	struct round *rd = s->open;

	if (!rd)
		return 0;
	if (rd->left == 0 && !rd->failed && !rd->done) {
		rd->done = 1;
		s->done++;
		if (s->link.way == SUM_BY_RING || rd->way == &dense_by_shares)
			s->dense_bytes += rd->floats * sizeof(float);
		rows_done(rd);
	}
	if (rd->opened.fn && (rd->failed || !s->retired)) {
		sum_answer(&rd->opened, rd->failed, rd->why, NULL);
		return 1;
	}
	if (rd->waited.fn && rd->failed) {
		sum_answer(&rd->waited, rd->failed, rd->why, NULL);
		return 1;
	}
	if (rd->waited.fn && rd->done) {
		tell_result(rd);
		return 1;
	}
	return 0;
}

void sum_turn(struct sum *s)
{
	if (s->turning) /* an answer led to the next question */
		return;
	s->turning = 1;
	do
		wire_pump(s);
	while (bury_one(s) || look_at_open(s));
	s->turning = 0;
}

void sum_follow(struct sum *s)
{
	if (!s->open || !s->open->shares || s->open->failed || s->open->done)
		return;
	shares_follow(s->open);
	sum_turn(s);
}

/* ---- opening ---- */

static int by_rank(const void *a, const void *b)
{
	unsigned x = ((const struct member *)a)->rank, y = ((const struct member *)b)->rank;

	return (x > y) - (x < y);
}

/* The hosts in the order of ranks, which is the same everywhere. */
static enum sum_code sum_list_members(struct round *rd, const struct sum_round_options *o,
				      struct error *err)
{
	const struct sum_link *l = &rd->sum->link;
	int found = 0;

	for (size_t i = 0; i < o->ranks; i++)
		rd->member[i] = (struct member){.rank = o->rank[i]};
	qsort(rd->member, o->ranks, sizeof *rd->member, by_rank);
	for (size_t i = 0; i < o->ranks; i++) {
		unsigned rank = rd->member[i].rank;
		if (rank >= l->size) {
			error_set(err, ERROR_DATA, NULL, "hosts: there is no rank %u", rank);
			return SUM_LOST;
		}
		if (i > 0 && rank == rd->member[i - 1].rank) {
			error_set(err, ERROR_DATA, NULL, "hosts: %s appears twice",
				  round_host(rd, i));
			return SUM_BAD;
		}
		if (rank == l->rank) {
			rd->self = i;
			found = 1;
		}
		rd->hosts_check = XXH3_64bits_withSeed(&rank, sizeof rank, rd->hosts_check);
	}
	if (found)
		return SUM_OK;
	error_set(err, ERROR_DATA, NULL, "hosts: %s, which is this one, is not among them",
		  l->host(l->carrier, l->rank));
	return SUM_BAD;
}

static enum sum_code make_round(struct sum *s, const struct sum_round_options *o,
				struct round **out, struct error *err)
{
	struct round *rd = calloc(1, sizeof *rd + o->ranks * sizeof *rd->member);

	if (!rd) {
		error_set(err, ERROR_OS, NULL, "out of memory");
		return SUM_ROOM;
	}
	rd->sum = s;
	rd->client = o->client;
	rd->round = o->round;
	rd->iteration = o->iteration;
	rd->dense = o->dense;
	rd->floats = o->floats;
	rd->no_rows = o->no_rows;
	rd->hosts = o->ranks;
	if (s->link.way != SUM_BY_RING)
		s->link.rates(s->link.carrier, &s->host[s->link.rank].rates);
	rd->way = shares_are_thought_of(rd) ? &dense_by_shares : &dense_by_ring;
	enum sum_code code = sum_list_members(rd, o, err);
	if (code == SUM_OK && (rd->way->begin(rd) != 0 || sum_rows_begin(rd) != 0)) {
		error_set(err, ERROR_OS, NULL, "out of memory");
		code = SUM_ROOM;
	}
	if (code != SUM_OK) {
		sum_round_free(rd);
		return code;
	}
	*out = rd;
	return SUM_OK;
}

enum sum_code sum_open(struct sum *s, const struct sum_round_options *o, sum_answer_fn *opened,
		       void *arg, struct error *err)
{
	struct round *old = s->open, *rd;

	if (o->ranks == 0 || o->ranks > SUM_HOSTS_MAX) {
		error_set(err, ERROR_DATA, NULL, "hosts: %zu are given, but only 1 to %d are "
						 "allowed", o->ranks,
			  SUM_HOSTS_MAX);
		return SUM_BAD;
	}
	if (old && old->round > o->round) {
		error_set(err, ERROR_DATA, NULL, "round %llu is open here already",
			  (unsigned long long)old->round);
		return SUM_STALE;
	}
	if (old && old->round == o->round) {
		error_set(err, ERROR_DATA, NULL, "round %llu is open here already, by %s",
			  (unsigned long long)old->round,
			  old->client == o->client ? "you" : "another client");
		return SUM_BUSY;
	}
	enum sum_code code = make_round(s, o, &rd, err);
	if (code != SUM_OK)
		return code;
	if (old)
		retire(old, SUM_STALE, "a newer round was opened here");
	rd->release = o->release;
	rd->release_arg = o->arg;
	rd->life = ++s->lives;
	rd->opened = (struct answer){opened, arg};
	s->open = rd;
	s->opened++;
	wire_tell_open(rd);
	for (size_t i = 0; i < rd->hosts; i++) {
		if (i != rd->self)
			wire_meet(rd, i);
	}
	sum_turn(s);
	return SUM_OK;
}

/* ---- what is said of it ---- */

/* The round, when it is this client's and lives. */
static enum sum_code sum_find(struct sum *s, const void *client, uint64_t round, struct round **out,
			      struct error *err)
{
	struct round *rd = s->open;

	if (!rd || rd->round != round) {
		error_set(err, ERROR_DATA, NULL, "round %llu is not open here",
			  (unsigned long long)round);
		return SUM_STALE;
	}
	if (rd->client != client) {
		error_set(err, ERROR_DATA, NULL, "round %llu is another client's",
			  (unsigned long long)round);
		return SUM_BUSY;
	}
	*out = rd;
	return SUM_OK;
}

static enum sum_code find_living(struct sum *s, const void *client, uint64_t round,
				 struct round **out, struct error *err)
{
	enum sum_code code = sum_find(s, client, round, out, err);

	if (code == SUM_OK && (*out)->failed) {
		code = (*out)->failed;
		error_set(err, ERROR_DATA, NULL, "%s", (*out)->why);
	}
	return code;
}

enum sum_code sum_part(struct sum *s, const void *client, uint64_t round, uint64_t begin,
		       uint64_t length, struct error *err)
{
	struct round *rd;
	enum sum_code code = find_living(s, client, round, &rd, err);

	if (code != SUM_OK)
		return code;
	if (begin > rd->floats || length > rd->floats - begin) {
		error_set(err, ERROR_DATA, NULL,
			  "begin=%llu length=%llu is not within the %llu floats",
			  (unsigned long long)begin, (unsigned long long)length,
			  (unsigned long long)rd->floats);
		return SUM_BAD;
	}
	if (length == 0)
		return SUM_OK;
	switch (ranges_add(&rd->parts, begin, begin + length)) {
	case RANGES_OVERLAP:
		error_set(err, ERROR_DATA, NULL,
			  "begin=%llu length=%llu: some of it was named before",
			  (unsigned long long)begin, (unsigned long long)length);
		return SUM_BAD;
	case RANGES_FULL:
		error_set(err, ERROR_DATA, NULL, "more than %d parts with gaps between",
			  RANGES_MAX);
		return SUM_ROOM;
	default:
		break;
	}
	units_part(rd, begin, begin + length);
	sum_turn(s);
	return SUM_OK;
}

enum sum_code sum_rows(struct sum *s, const void *client, uint64_t round,
		       const struct sum_rows *rows, struct error *err)
{
	struct round *rd;
	enum sum_code code = find_living(s, client, round, &rd, err);

	if (code == SUM_OK && rd->rows_said) {
		error_set(err, ERROR_DATA, NULL,
			  rd->no_rows ? "this round has no rows"
				      : "the rows of this round have been sent already");
		code = SUM_BAD;
	}
	if (code == SUM_OK)
		code = rows_say(rd, rows, err);
	sum_turn(s);
	return code;
}

enum sum_code sum_wait(struct sum *s, const void *client, uint64_t round, int check,
		       sum_answer_fn *waited, void *arg, struct error *err)
{
	struct round *rd;
	enum sum_code code = find_living(s, client, round, &rd, err);

	if (code != SUM_OK)
		return code;
	if (rd->waited.fn) {
		error_set(err, ERROR_DATA, NULL, "another client waits for it already");
		return SUM_BUSY;
	}
	if (!rd->rows_said) {
		struct sum_rows none = {0};
		code = rows_say(rd, &none, err);
		if (code != SUM_OK)
			return code;
	}
	rd->want_check = check;
	rd->waited = (struct answer){waited, arg};
	sum_turn(s);
	return SUM_OK;
}

enum sum_code sum_drop(struct sum *s, const void *client, uint64_t round, sum_answer_fn *dropped,
		       void *arg, struct error *err)
{
	struct round *rd;
	enum sum_code code = sum_find(s, client, round, &rd, err);

	if (code != SUM_OK)
		return code;
	rd->dropped = (struct answer){dropped, arg};
	retire(rd, SUM_LOST, "it was dropped");
	sum_turn(s);
	return SUM_OK;
}

static void sum_forget_asker(struct round *rd, const void *arg)
{
	struct answer *all[] = {&rd->opened, &rd->waited, &rd->dropped};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (all[i]->fn && all[i]->arg == arg)
			*all[i] = (struct answer){0};
	}
}

void sum_forget(struct sum *s, const void *arg)
{
	if (s->open)
		sum_forget_asker(s->open, arg);
	for (struct round *rd = s->retired; rd; rd = rd->next)
		sum_forget_asker(rd, arg);
}

void sum_client_gone(struct sum *s, const void *client)
{
	if (s->open && s->open->client == client)
		retire(s->open, SUM_LOST, "its client went");
	sum_turn(s);
}

void sum_count(const struct sum *s, struct sum_counts *counts)
{
	*counts = (struct sum_counts){.opened = s->opened,
				      .done = s->done,
				      .died = s->died,
				      .wire_bytes = s->wire_bytes,
				      .dense_bytes = s->dense_bytes,
				      .owned = s->owned,
				      .by_ring = s->by_ring,
				      .offers = s->offers,
				      .memory_bytes = s->blocks_bytes};
	if (s->open) {
		counts->open = 1;
		counts->round = s->open->round;
	}
	if (s->open)
		counts->under_way = s->open->under_way;
	for (const struct round *rd = s->retired; rd; rd = rd->next)
		counts->under_way += rd->under_way;
}
