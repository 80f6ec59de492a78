/*
 * Epochs: which client has opened which, what clients have said about them, how they end. A host
 * has at most one open epoch. An epoch that was replaced or dropped is retired: it stays until
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

/* ---- all epochs of a host ---- */

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

static void sum_epoch_free(struct epoch *e)
{
	rows_end(e);
	ring_end(e);
	if (e->release)
		e->release(e->release_arg);
	if (e->out_release)
		e->out_release(e->out_arg);
	free(e);
}

void sum_free(struct sum *s)
{
	if (!s)
		return;
	struct epoch *e = s->open, *next;
	if (e) {
		wire_forget_offers(e);
		sum_epoch_free(e);
	}
	for (e = s->retired; e; e = next) {
		next = e->next;
		sum_epoch_free(e);
	}
	for (size_t i = 0; i < RECEIVES_MAX; i++) {
		if (s->receive[i].epoch)
			block_give(s, s->receive[i].block);
	}
	while (s->spare) {
		struct block *b = s->spare;
		s->spare = b->next;
		block_free(s, b);
	}
	free(s);
}

const char *epoch_host(const struct epoch *e, size_t member)
{
	const struct sum_link *l = &e->sum->link;

	return l->host(l->carrier, e->member[member].rank);
}

void epoch_one_less(struct epoch *e)
{
	e->left--;
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

void epoch_fail(struct epoch *e, enum sum_code code, const char *fmt, ...)
{
	va_list ap;

	if (e->failed || e->done || e->retired)
		return;
	e->failed = code;
	va_start(ap, fmt);
	vsnprintf(e->why, sizeof e->why, fmt, ap);
	va_end(ap);
	e->sum->died++;
	wire_tell_leave(e);
	wire_forget_offers(e);
}

/* Retires the epoch: another one may be opened; transfers of this one come to their end. */
static void retire(struct epoch *e, enum sum_code code, const char *why)
{
	struct sum *s = e->sum;

	if (e->done)
		wire_tell_leave(e);
	epoch_fail(e, code, "%s", why);
	e->retired = 1;
	e->next = s->retired;
	s->retired = e;
	s->open = NULL;
}

/* ---- after each event ---- */

static void tell_result(struct epoch *e)
{
	struct sum_result result = {.rows = e->out_rows, .wire_bytes = e->wire_bytes};

	if (e->waited.fn && e->want_check) {
		result.check = ring_check(e);
		if (e->out_rows)
			result.check = XXH3_64bits_withSeed(
				e->out, rowlist_bytes(e->out_rows, e->width), result.check);
	}
	sum_answer(&e->waited, SUM_OK, NULL, &result);
}

/* One retired epoch that nothing holds any more; 0: there is none. */
static int bury_one(struct sum *s)
{
	for (struct epoch **at = &s->retired; *at; at = &(*at)->next) {
		struct epoch *e = *at;
		struct answer dropped = e->dropped;
		if (e->opened.fn || e->waited.fn) {
			enum sum_code code = e->failed ? e->failed : SUM_STALE;
			sum_answer(&e->opened, code, e->why, NULL);
			sum_answer(&e->waited, code, e->why, NULL);
			return 1;
		}
		if (e->under_way)
			continue;
		*at = e->next;
		sum_epoch_free(e);
		sum_answer(&dropped, SUM_OK, NULL, NULL);
		return 1;
	}
	return 0;
}

static int look_at_open(struct sum *s)
{
	struct epoch *e = s->open;

	if (!e)
		return 0;
	if (e->left == 0 && !e->failed && !e->done) {
		e->done = 1;
		s->done++;
		rows_done(e);
	}
	if (e->opened.fn && (e->failed || !s->retired)) {
		sum_answer(&e->opened, e->failed, e->why, NULL);
		return 1;
	}
	if (e->waited.fn && e->failed) {
		sum_answer(&e->waited, e->failed, e->why, NULL);
		return 1;
	}
	if (e->waited.fn && e->done) {
		tell_result(e);
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

/* ---- opening ---- */

static int by_rank(const void *a, const void *b)
{
	unsigned x = ((const struct member *)a)->rank, y = ((const struct member *)b)->rank;

	return (x > y) - (x < y);
}

/* The hosts in the order of ranks, which is the same everywhere. */
static enum sum_code sum_list_members(struct epoch *e, const struct sum_epoch_options *o,
				      struct error *err)
{
	const struct sum_link *l = &e->sum->link;
	int found = 0;

	for (size_t i = 0; i < o->ranks; i++)
		e->member[i] = (struct member){.rank = o->rank[i]};
	qsort(e->member, o->ranks, sizeof *e->member, by_rank);
	for (size_t i = 0; i < o->ranks; i++) {
		unsigned rank = e->member[i].rank;
		if (rank >= l->size) {
			error_set(err, ERROR_DATA, NULL, "hosts: there is no rank %u", rank);
			return SUM_LOST;
		}
		if (i > 0 && rank == e->member[i - 1].rank) {
			error_set(err, ERROR_DATA, NULL, "hosts: %s appears twice",
				  epoch_host(e, i));
			return SUM_BAD;
		}
		if (rank == l->rank) {
			e->self = i;
			found = 1;
		}
		e->hosts_check = XXH3_64bits_withSeed(&rank, sizeof rank, e->hosts_check);
	}
	if (found)
		return SUM_OK;
	error_set(err, ERROR_DATA, NULL, "hosts: %s, which is this one, is not among them",
		  l->host(l->carrier, l->rank));
	return SUM_BAD;
}

static enum sum_code make_epoch(struct sum *s, const struct sum_epoch_options *o,
				struct epoch **out, struct error *err)
{
	struct epoch *e = calloc(1, sizeof *e + o->ranks * sizeof *e->member);

	if (!e) {
		error_set(err, ERROR_OS, NULL, "out of memory");
		return SUM_ROOM;
	}
	e->sum = s;
	e->client = o->client;
	e->epoch = o->epoch;
	e->iteration = o->iteration;
	e->dense = o->dense;
	e->floats = o->floats;
	e->hosts = o->ranks;
	enum sum_code code = sum_list_members(e, o, err);
	if (code == SUM_OK && (ring_begin(e) != 0 || sum_rows_begin(e) != 0)) {
		error_set(err, ERROR_OS, NULL, "out of memory");
		code = SUM_ROOM;
	}
	if (code != SUM_OK) {
		sum_epoch_free(e);
		return code;
	}
	*out = e;
	return SUM_OK;
}

enum sum_code sum_open(struct sum *s, const struct sum_epoch_options *o, sum_answer_fn *opened,
		       void *arg, struct error *err)
{
	struct epoch *old = s->open, *e;

	if (o->ranks == 0 || o->ranks > SUM_HOSTS_MAX) {
		error_set(err, ERROR_DATA, NULL, "hosts: %zu are given, but only 1 to %d are "
						 "allowed", o->ranks,
			  SUM_HOSTS_MAX);
		return SUM_BAD;
	}
	if (old && old->epoch > o->epoch) {
		error_set(err, ERROR_DATA, NULL, "epoch %llu is open here already",
			  (unsigned long long)old->epoch);
		return SUM_STALE;
	}
	if (old && old->epoch == o->epoch) {
		error_set(err, ERROR_DATA, NULL, "epoch %llu is open here already, by %s",
			  (unsigned long long)old->epoch,
			  old->client == o->client ? "you" : "another client");
		return SUM_BUSY;
	}
	enum sum_code code = make_epoch(s, o, &e, err);
	if (code != SUM_OK)
		return code;
	if (old)
		retire(old, SUM_STALE, "a newer epoch was opened here");
	e->release = o->release;
	e->release_arg = o->arg;
	e->life = ++s->lives;
	e->opened = (struct answer){opened, arg};
	s->open = e;
	s->opened++;
	wire_tell_open(e);
	for (size_t i = 0; i < e->hosts; i++) {
		if (i != e->self)
			wire_meet(e, i);
	}
	sum_turn(s);
	return SUM_OK;
}

/* ---- what is said of it ---- */

/* The epoch, when it is this client's and lives. */
static enum sum_code sum_find(struct sum *s, const void *client, uint64_t epoch, struct epoch **out,
			      struct error *err)
{
	struct epoch *e = s->open;

	if (!e || e->epoch != epoch) {
		error_set(err, ERROR_DATA, NULL, "epoch %llu is not open here",
			  (unsigned long long)epoch);
		return SUM_STALE;
	}
	if (e->client != client) {
		error_set(err, ERROR_DATA, NULL, "epoch %llu is another client's",
			  (unsigned long long)epoch);
		return SUM_BUSY;
	}
	*out = e;
	return SUM_OK;
}

static enum sum_code find_living(struct sum *s, const void *client, uint64_t epoch,
				 struct epoch **out, struct error *err)
{
	enum sum_code code = sum_find(s, client, epoch, out, err);

	if (code == SUM_OK && (*out)->failed) {
		code = (*out)->failed;
		error_set(err, ERROR_DATA, NULL, "%s", (*out)->why);
	}
	return code;
}

enum sum_code sum_part(struct sum *s, const void *client, uint64_t epoch, uint64_t begin,
		       uint64_t length, struct error *err)
{
	struct epoch *e;
	enum sum_code code = find_living(s, client, epoch, &e, err);

	if (code != SUM_OK)
		return code;
	if (begin > e->floats || length > e->floats - begin) {
		error_set(err, ERROR_DATA, NULL,
			  "begin=%llu length=%llu is not within the %llu floats",
			  (unsigned long long)begin, (unsigned long long)length,
			  (unsigned long long)e->floats);
		return SUM_BAD;
	}
	if (length == 0)
		return SUM_OK;
	switch (ranges_add(&e->parts, begin, begin + length)) {
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
	ring_part(e, begin, begin + length);
	sum_turn(s);
	return SUM_OK;
}

enum sum_code sum_rows(struct sum *s, const void *client, uint64_t epoch,
		       const struct sum_rows *rows, struct error *err)
{
	struct epoch *e;
	enum sum_code code = find_living(s, client, epoch, &e, err);

	if (code == SUM_OK && e->rows_said) {
		error_set(err, ERROR_DATA, NULL, "the rows of this epoch have been sent already");
		code = SUM_BAD;
	}
	if (code == SUM_OK)
		code = rows_say(e, rows, err);
	sum_turn(s);
	return code;
}

enum sum_code sum_wait(struct sum *s, const void *client, uint64_t epoch, int check,
		       sum_answer_fn *waited, void *arg, struct error *err)
{
	struct epoch *e;
	enum sum_code code = find_living(s, client, epoch, &e, err);

	if (code != SUM_OK)
		return code;
	if (e->waited.fn) {
		error_set(err, ERROR_DATA, NULL, "another client waits for it already");
		return SUM_BUSY;
	}
	if (!e->rows_said) {
		struct sum_rows none = {0};
		code = rows_say(e, &none, err);
		if (code != SUM_OK)
			return code;
	}
	e->want_check = check;
	e->waited = (struct answer){waited, arg};
	sum_turn(s);
	return SUM_OK;
}

enum sum_code sum_drop(struct sum *s, const void *client, uint64_t epoch, sum_answer_fn *dropped,
		       void *arg, struct error *err)
{
	struct epoch *e;
	enum sum_code code = sum_find(s, client, epoch, &e, err);

	if (code != SUM_OK)
		return code;
	e->dropped = (struct answer){dropped, arg};
	retire(e, SUM_LOST, "it was dropped");
	sum_turn(s);
	return SUM_OK;
}

static void sum_forget_asker(struct epoch *e, const void *arg)
{
	struct answer *all[] = {&e->opened, &e->waited, &e->dropped};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (all[i]->fn && all[i]->arg == arg)
			*all[i] = (struct answer){0};
	}
}

void sum_forget(struct sum *s, const void *arg)
{
	if (s->open)
		sum_forget_asker(s->open, arg);
	for (struct epoch *e = s->retired; e; e = e->next)
		sum_forget_asker(e, arg);
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
				      .offers = s->offers,
				      .memory_bytes = s->blocks_bytes};
	if (s->open) {
		counts->open = 1;
		counts->epoch = s->open->epoch;
	}
	if (s->open)
		counts->under_way = s->open->under_way;
	for (const struct epoch *e = s->retired; e; e = e->next)
		counts->under_way += e->under_way;
}
