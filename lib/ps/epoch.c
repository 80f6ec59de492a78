/*
 * One sum: from the lead's `sum` to the step.
 *
 * A bucket is summed when all members that push here have it, in the order in which the lead names
 * them, so that the same contributions give the same bits in any order of arrival; then fabricd
 * may have it, while more buckets come.  A turn adds no more than TURN_BYTES: others are served in
 * between.
 *
 * Which contributions are here is looked up each time: nothing of the stage is kept from one event
 * to the next.  Never throws a contribution away.
 */
#include "ps/replica.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/log.h"
#include "ps/fabric_client.h"
#include "record/record.h"
#include "wire/timer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURN_BYTES ((size_t)128 << 20) /* read in one turn */

/* ---- answers ---- */

static void put_failed(struct ps_replica *r, struct request *rq)
{
	const struct epoch *e = &r->epoch;
	size_t diverged = 0, refused = 0;
	char also[48] = "";

	for (size_t i = 0; i < e->members; i++) {
		const struct epoch_member *m = &e->member[i];
		char line[RECORD_LINE_MAX];
		struct record_out o;
		if (!e->bad[i].found && !m->refused)
			continue;
		record_begin(&o, line, sizeof line, m->refused ? "refused" : "diverged");
		record_add(&o, "worker", m->worker);
		record_add_u64(&o, "generation", m->generation);
		request_put(rq, line, record_end(&o, m->why));
		*(m->refused ? &refused : &diverged) += 1;
	}
	if (refused)
		snprintf(also, sizeof also, " refused=%zu", refused);
	request_ok(rq, "epoch=%llu diverged=%zu%s", (unsigned long long)e->number, diverged, also);
}

/* Whose pushes are in the sum: the lead commits no other. */
static void put_summed(struct ps_replica *r, struct request *rq)
{
	const struct epoch *e = &r->epoch;

	for (size_t i = 0; i < e->members; i++) {
		const struct epoch_member *m = &e->member[i];
		request_put_record(rq, RECORD("summed", F("worker", m->worker),
					      F("generation", m->generation),
					      F("sequence", m->sequence), F("count", m->count)));
	}
	if (e->check)
		request_ok(rq, "epoch=%llu sum=%llu", (unsigned long long)e->number,
			   (unsigned long long)e->digest);
	else
		request_ok(rq, "epoch=%llu", (unsigned long long)e->number);
}

/* Answers with the result. */
static void epoch_answer(struct ps_replica *r)
{
	struct epoch *e = &r->epoch;
	struct request *rq = e->asked;

	e->asked = NULL;
	if (!rq)
		return;
	if (e->state == EPOCH_FAILED)
		put_failed(r, rq);
	else
		put_summed(r, rq);
}

void epoch_end(struct ps_replica *r, const char *code, const char *fmt, ...)
{
	struct epoch *e = &r->epoch;
	char text[ERROR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (!e->alone && (e->state == EPOCH_ADDING || e->state == EPOCH_ABROAD))
		fabric_client_drop(r->fabric, e->number);
	e->state = EPOCH_NONE;
	if (e->asked)
		request_err(e->asked, code, "%s", text);
	e->asked = NULL;
}

void epoch_summed(struct ps_replica *r, uint64_t digest)
{
	struct epoch *e = &r->epoch;

	e->state = EPOCH_HELD;
	/* With the parameters that it will be added to: replicas that differ in those do not answer
	 * alike either. */
	if (e->check)
		e->digest = store_sum_digest(r->ps->store, &e->rows, digest);
	epoch_answer(r);
}

/* Tells the lead which members to leave out. */
static void epoch_fails(struct ps_replica *r)
{
	struct epoch *e = &r->epoch;

	if (!e->alone)
		fabric_client_drop(r->fabric, e->number);
	e->state = EPOCH_FAILED;
	epoch_answer(r);
}

static void fail_bad(struct ps_replica *r)
{
	struct epoch *e = &r->epoch;

	for (size_t i = 0; i < e->members; i++) {
		struct epoch_member *m = &e->member[i];
		if (!e->bad[i].found)
			continue;
		ps_bad_gradient(r->ps, &e->push[i], &e->bad[i], m->why);
		if (!log_is_worth(++r->ps->diverged))
			continue;
		log_say(LOG_LEVEL_WARNING,
			"a push of %s in iteration %llu can't be added: %s; %llu so far",
			m->worker, (unsigned long long)e->iteration, m->why,
			(unsigned long long)r->ps->diverged);
	}
	epoch_fails(r);
}

/* ---- adding ---- */

/* The contribution of a member as far as it is known. 1: all of it is here. */
static int find_member(const struct ps_replica *r, size_t i, const struct early **early)
{
	const struct epoch *e = &r->epoch;
	struct epoch_member *m = &e->member[i];
	struct store_push *push = &e->push[i];
	struct staged *s =
		m->found ? stage_find(r->ps->stage, m->worker, m->generation, m->sequence)
			 : stage_find_for(r->ps->stage, m->worker, m->generation, e->iteration);

	*early = NULL;
	*push = (struct store_push){.scale = m->scale};
	if (s) {
		m->found = s->held = 1;
		m->sequence = s->sequence;
		m->count = s->push.count;
		if (s->push.count)
			*push = s->push;
		push->scale = m->scale;
		return 1;
	}
	*early = m->found ? NULL : early_find(r, m->worker, m->generation, e->iteration);
	if (*early && m->early &&
	    (early_dense(*early) != m->early || early_sequence(*early) != m->early_sequence))
		*early = NULL; /* some is added already, and this is something else */
	if (*early)
		push->dense = early_dense(*early);
	return 0;
}

/* Whether all members have this bucket. */
static int bucket_is_here(const struct ps_replica *r, const struct early *const *early,
			  const unsigned char *whole, size_t bucket)
{
	size_t count = store_dense_count(r->ps->store);
	size_t begin = bucket * REPLICA_BUCKET, end = begin + REPLICA_BUCKET;

	end = end < count ? end : count;
	for (size_t i = 0; i < r->epoch.members; i++) {
		if (!whole[i] && !(early[i] && early_covers(early[i], begin, end)))
			return 0;
	}
	return 1;
}

static int epoch_any_bad(const struct epoch *e)
{
	for (size_t i = 0; i < e->members; i++) {
		if (e->bad[i].found)
			return 1;
	}
	return 0;
}

/* Neighbouring buckets from `bucket` on, `most` at most. How many there were. */
static size_t add_buckets(struct ps_replica *r, size_t bucket, size_t most,
			  const struct early *const *early, const unsigned char *whole)
{
	struct epoch *e = &r->epoch;
	size_t count = store_dense_count(r->ps->store), n = 0;
	size_t begin = bucket * REPLICA_BUCKET, end;

	while (n < most && bucket + n < e->buckets && !e->added[bucket + n] &&
	       bucket_is_here(r, early, whole, bucket + n))
		n++;
	if (n == 0)
		return 0;
	end = (bucket + n) * REPLICA_BUCKET;
	end = end < count ? end : count;
	store_sum_dense(r->ps->store, r->team, e->push, e->members, begin, end - begin,
			r->total + begin, e->bad);
	memset(e->added + bucket, 1, n);
	e->left -= n;
	for (size_t i = 0; i < e->members; i++) {
		if (whole[i])
			continue;
		e->member[i].early = early_dense(early[i]);
		e->member[i].early_sequence = early_sequence(early[i]);
	}
	if (!e->alone && !epoch_any_bad(e))
		fabric_client_part(r->fabric, e->number, begin, end - begin);
	return n;
}

/* Adds what is here and not yet added. 1: that was all for now; 0: another turn is needed. */
static int epoch_add_dense(struct ps_replica *r, const struct early *const *early,
			   const unsigned char *whole)
{
	struct epoch *e = &r->epoch;
	size_t most = TURN_BYTES / sizeof(float) / REPLICA_BUCKET / (e->members + 1);

	most = most ? most : 1;
	for (size_t b = 0; b < e->buckets; b++) {
		if (most == 0)
			return 0;
		if (!e->added[b])
			most -= add_buckets(r, b, most, early, whole);
	}
	return 1;
}

static void epoch_add_rows(struct ps_replica *r)
{
	struct epoch *e = &r->epoch;
	struct error err = {0};

	e->rows.count = 0;
	if (store_width(r->ps->store) && store_sum_rows(r->ps->store, r->team, e->push, e->members,
							&e->rows, e->bad, &err) != 0) {
		epoch_end(r, "no-memory", "%s", err.text);
		return;
	}
	if (epoch_any_bad(e)) {
		fail_bad(r);
		return;
	}
	e->state = EPOCH_ABROAD;
	if (!e->alone)
		fabric_client_finish(r->fabric, e->number, e->check, &e->rows);
	else
		epoch_summed(r,
			     e->check ? store_sum_checksum(r->ps->store, r->total, &e->rows) : 0);
}

static void epoch_turn(struct ps_replica *r)
{
	struct epoch *e = &r->epoch;
	double start = clock_mono();
	int all = 1;

	if (e->state != EPOCH_ADDING)
		return;
	if (!e->alone && !fabric_client_is_open(r->fabric, e->number))
		return; /* it may still use that memory for the epoch before */
	const struct early **early = calloc(e->members + 1, sizeof *early);
	unsigned char *whole = calloc(e->members + 1, 1);
	if (!early || !whole) {
		free(early);
		free(whole);
		epoch_end(r, "no-memory", "for %zu members", e->members);
		return;
	}
	for (size_t i = 0; i < e->members; i++) {
		whole[i] = (unsigned char)find_member(r, i, &early[i]);
		all = all && whole[i];
	}
	if (!epoch_add_dense(r, early, whole))
		timer_set(e->turn, 0);
	if (epoch_any_bad(e))
		fail_bad(r);
	else if (all && e->left == 0)
		epoch_add_rows(r);
	free(early);
	free(whole);
	r->ps->work += clock_mono() - start;
}

static void epoch_on_turn(void *replica)
{
	epoch_turn(replica);
}

void epoch_look(struct ps_replica *r)
{

	if (r->epoch.state == EPOCH_ADDING)
		timer_set(r->epoch.turn, 0);
}

int epoch_check_push(const struct ps_replica *r, const struct staged *s, struct error *err)
{
	const struct epoch *e = &r->epoch;
	const struct staged *here =
		stage_find_for(r->ps->stage, s->worker, s->generation, s->iteration);

	if (here && (here->sequence != s->sequence || here->push.count != s->push.count))
		return error_set(err, ERROR_DATA, NULL,
				 "sequence=%llu count=%llu, but sequence %llu of %llu samples is "
				 "staged for iteration %llu already",
				 (unsigned long long)s->sequence, (unsigned long long)s->push.count,
				 (unsigned long long)here->sequence,
				 (unsigned long long)here->push.count,
				 (unsigned long long)s->iteration);
	for (size_t i = 0; i < e->members && e->state == EPOCH_ADDING; i++) {
		const struct epoch_member *m = &e->member[i];
		if (!m->early || m->generation != s->generation ||
		    s->iteration != e->iteration || strcmp(m->worker, s->worker) != 0)
			continue;
		if (s->push.count == 0 || s->push.dense != m->early ||
		    s->sequence != m->early_sequence)
			return error_set(err, ERROR_DATA, NULL,
					 "sequence=%llu count=%llu is not the push of which parts "
					 "are added already, sequence %llu",
					 (unsigned long long)s->sequence,
					 (unsigned long long)s->push.count,
					 (unsigned long long)m->early_sequence);
	}
	return 0;
}

/* ---- the lead's orders ---- */

static int epoch_reserve(struct epoch *e, size_t members)
{
	size_t room = e->room, also = e->room;

	if (GROW(e->member, room, members) != 0 || GROW(e->push, also, members) != 0)
		return -1;
	return GROW(e->bad, e->room, members);
}

/* Whether this replica is one of r0,r2,...; *alone: the only one. */
static int epoch_is_listed(const struct ps_replica *r, const char *list, int *alone)
{
	const char *id = r->ps->options.id;
	size_t len = strlen(id);

	*alone = strcmp(list, id) == 0;
	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, id, len) == 0 && (at[len] == ',' || at[len] == '\0'))
			return 1;
	}
	return 0;
}

/* Releases the pushes that an older epoch has found: they may be replaced until a newer one finds
 * them. */
static void epoch_let_go(struct ps_replica *r)
{
	struct epoch *e = &r->epoch;

	for (size_t i = 0; i < e->members; i++) {
		const struct epoch_member *m = &e->member[i];
		struct staged *s = m->found ? stage_find(r->ps->stage, m->worker, m->generation,
							 m->sequence)
					    : NULL;
		if (s)
			s->held = 0;
	}
	e->members = 0;
}

/* Of the members those that push here, in their order. */
static int take_order(struct ps_replica *r, const struct order *o, struct error *err)
{
	struct epoch *e = &r->epoch;

	epoch_let_go(r);
	e->number = o->epoch;
	e->iteration = o->iteration;
	e->check = o->check;
	free(e->replicas);
	e->replicas = strdup(o->replicas);
	if (!e->replicas || epoch_reserve(e, o->members) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu members", o->members);
	for (size_t i = 0; i < o->members; i++) {
		const struct order_member *m = &o->member[i];
		if (strcmp(m->replica, r->ps->options.id) != 0)
			continue;
		struct epoch_member *own = &e->member[e->members];
		*own = (struct epoch_member){.found = 0};
		snprintf(own->worker, sizeof own->worker, "%s", m->worker);
		own->generation = m->generation;
		own->scale = m->scale;
		e->bad[e->members++] = (struct store_bad){0};
	}
	return 0;
}

/* Where it is added up; NULL: epoch_end() was called. */
static float *find_memory(struct ps_replica *r)
{
	struct epoch *e = &r->epoch;

	if (!e->alone)
		return fabric_client_open(r->fabric, e->number, e->iteration, e->replicas);
	float *memory = ps_replica_memory(r);
	if (!memory)
		epoch_end(r, "no-memory", "for a sum");
	return memory;
}

static void epoch_begin(struct ps_replica *r)
{
	struct epoch *e = &r->epoch;

	e->state = EPOCH_ADDING;
	e->left = e->buckets;
	memset(e->added, 0, e->buckets);
	float *memory = find_memory(r);
	if (memory)
		r->total = memory;
	epoch_look(r);
}

static void epoch_asker_gone(struct request *rq, void *replica)
{
	struct ps_replica *r = replica;

	if (r->epoch.asked == rq)
		r->epoch.asked = NULL;
}

/* The sum that is under way or made already, asked for once more. */
static void epoch_ask_again(struct ps_replica *r, struct request *rq)
{
	struct epoch *e = &r->epoch;

	if (e->asked)
		request_err(e->asked, "stale", "asked for again");
	e->asked = rq;
	if (e->state == EPOCH_HELD || e->state == EPOCH_FAILED)
		epoch_answer(r);
	else
		request_defer(rq, epoch_asker_gone, r);
}

/* 0: it is an order for this replica as it is. Otherwise rq was answered. */
static int read_order(struct ps *p, struct request *rq, struct order *o)
{
	struct payload *payload = request_payload(rq);
	struct error err = {0};

	*o = (struct order){.push = NULL};
	if (!ps_in_force(p, rq) || !ps_replica_serves(p->replica, rq))
		return -1;
	if (order_read(o, request_record(rq), payload ? payload_data(payload) : NULL,
		       payload ? payload_bytes(payload) : 0, &err) == 0)
		return 0;
	request_bad(rq, &err);
	return -1;
}

static void epoch_refuse_iteration(struct ps *p, struct request *rq, const struct order *o)
{
	request_err(rq, "order", "%llu units are applied here, not %llu",
		    (unsigned long long)p->applied, (unsigned long long)o->iteration);
}

static void sum(struct ps_replica *r, struct request *rq, const struct order *o)
{
	struct epoch *e = &r->epoch;
	struct error err = {0};
	int alone;

	if (o->epoch < e->number) {
		request_err(rq, "stale", "epoch %llu is in force", (unsigned long long)e->number);
	} else if (o->epoch == e->number && e->state != EPOCH_NONE) {
		epoch_ask_again(r, rq);
	} else if (o->iteration != r->ps->applied) {
		epoch_refuse_iteration(r->ps, rq, o);
	} else if (!epoch_is_listed(r, o->replicas, &alone)) {
		request_err(rq, "bad-request", "replicas=%.200s: %s is not among them", o->replicas,
			    r->ps->options.id);
	} else if (!alone && !r->fabric) {
		request_err(rq, "bad-request", "replicas=%.200s: there is no --fabric to them",
			    o->replicas);
	} else {
		epoch_end(r, "stale", "epoch %llu is in force", (unsigned long long)o->epoch);
		e->alone = alone;
		if (take_order(r, o, &err) != 0) {
			request_err(rq, "no-memory", "%s", err.text);
			return;
		}
		e->asked = rq;
		request_defer(rq, epoch_asker_gone, r);
		epoch_begin(r);
	}
}

void epoch_on_sum(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct order o;

	if (read_order(p, rq, &o) == 0)
		sum(p->replica, rq, &o);
	order_clear(&o);
}

static struct epoch_member *epoch_member_of(struct epoch *e, const struct order_push *push)
{
	for (size_t i = 0; i < e->members; i++) {
		struct epoch_member *m = &e->member[i];
		if (m->generation == push->generation && strcmp(m->worker, push->worker) == 0)
			return m;
	}
	return NULL;
}

/* Whether the push that the lead holds is staged here. A worker tells the lead after the push here
 * was answered: if it is not here, it won't come any more. */
static int epoch_is_here(const struct ps_replica *r, struct epoch_member *m,
			 const struct order_push *push)
{
	const struct staged *s =
		stage_find(r->ps->stage, push->worker, push->generation, push->sequence);

	if (s && s->iteration == r->epoch.iteration && s->push.count == push->count)
		return 1;
	m->refused = 1;
	snprintf(m->why, sizeof m->why,
		 "it told the lead of sequence %llu, of %llu samples, which its replica does not "
		 "have",
		 (unsigned long long)push->sequence, (unsigned long long)push->count);
	return 0;
}

static void epoch_hold(struct ps_replica *r, const struct order *o)
{
	struct epoch *e = &r->epoch;
	size_t lacks = 0;

	if (o->epoch != e->number || e->state != EPOCH_ADDING)
		return; /* it is summed, or not to be */
	for (size_t i = 0; i < o->pushes; i++) {
		struct epoch_member *m = epoch_member_of(e, &o->push[i]);
		if (m && !epoch_is_here(r, m, &o->push[i]))
			lacks++;
	}
	if (lacks)
		epoch_fails(r);
}

/* The answers of a connection keep their order: the waiting sum is answered with what is found. */
void epoch_on_hold(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct order o;

	if (read_order(p, rq, &o) == 0) {
		epoch_hold(p->replica, &o);
		request_ok(rq, NULL);
	}
	order_clear(&o);
}

/* Values were held at a bound, so that all of them are finite. */
static void epoch_tell_bounded(struct ps *p, uint64_t held)
{
	p->bounded += held;
	if (held && log_is_worth(++p->bounded_units))
		log_say(LOG_LEVEL_WARNING,
			"iteration %llu: %llu values were held at a bound, %llu so far in %llu "
			"iterations",
			(unsigned long long)p->applied, (unsigned long long)held,
			(unsigned long long)p->bounded, (unsigned long long)p->bounded_units);
}

/* divisor 0: nobody trained, and only the iteration goes on. */
static void epoch_step(struct ps_replica *r, double divisor, uint64_t samples)
{
	struct ps *p = r->ps;
	uint64_t held = store_held(p->store);
	double start = clock_mono();

	if (divisor > 0.0)
		store_sum_step(p->store, r->team, r->total, &r->epoch.rows, divisor, samples);
	else
		epoch_end(r, "stale", "nobody trained");
	epoch_tell_bounded(p, store_held(p->store) - held);
	r->epoch.state = EPOCH_NONE;
	p->work += clock_mono() - start;
	ps_unit_applied(p, samples);
	early_drop_before(r, p->applied);
	ps_units_applied(p);
}

static void epoch_apply(struct ps_replica *r, struct request *rq, const struct order *o)
{
	const struct epoch *e = &r->epoch;
	struct ps *p = r->ps;

	if (!o->epoch) {
		request_err(rq, "bad-request", "epoch= is missing: a replica steps with sums");
	} else if (o->iteration + 1 <= p->applied) {
		request_ok(rq, "iteration=%llu repeated=1", (unsigned long long)p->applied);
	} else if (o->iteration != p->applied) {
		epoch_refuse_iteration(p, rq, o);
	} else if (o->divisor > 0.0 && (e->state != EPOCH_HELD || e->number != o->epoch)) {
		request_err(rq, "no-sum", "the sum of epoch %llu is not here",
			    (unsigned long long)o->epoch);
	} else {
		epoch_step(r, o->divisor, o->samples);
		request_ok(rq, "iteration=%llu", (unsigned long long)p->applied);
	}
}

void epoch_on_apply(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct order o;

	if (read_order(p, rq, &o) == 0)
		epoch_apply(p->replica, rq, &o);
	order_clear(&o);
}

/* ---- life ---- */

int epoch_start(struct ps_replica *r, struct error *err)
{
	struct epoch *e = &r->epoch;
	size_t count = store_dense_count(r->ps->store);

	e->buckets = (count + REPLICA_BUCKET - 1) / REPLICA_BUCKET;
	e->added = calloc(e->buckets + 1, 1);
	e->turn = timer_new(server_base(r->ps->server), epoch_on_turn, r);
	return e->added && e->turn ? 0 : error_set(err, ERROR_OS, "replica", "out of memory");
}

void epoch_stop(struct ps_replica *r)
{
	timer_free(r->epoch.turn);
	r->epoch.turn = NULL;
}

void epoch_free(struct ps_replica *r)
{
	struct epoch *e = &r->epoch;

	row_sums_free(&e->rows);
	free(e->replicas);
	free(e->member);
	free(e->push);
	free(e->bad);
	free(e->added);
}
