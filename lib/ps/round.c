/*
 * One sum: from the lead's `sum` to the step.
 *
 * A bucket is summed when all members that push here have it.  They are added in the order in which
 * the lead names them, so the same contributions give the same bits in any order of arrival. Then
 * fabricd may use the bucket, while others are still summed.  A turn adds at most TURN_BYTES, so
 * that others are served in between.
 *
 * Contributions are looked up each time: no pointer into the stage is kept from one event to the
 * next.  A contribution is never thrown away here.
 */
#include "ps/replica.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/log.h"
#include "ps/fabric_client.h"
#include "record/record.h"
#include "wire/timer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURN_BYTES ((size_t)128 << 20) /* bytes read in one turn */

/* ---- answers ---- */

static void put_failed(struct ps_replica *r, struct request *rq)
{
	const struct round *rd = &r->round;
	size_t diverged = 0, refused = 0;
	char also[48] = "";

	for (size_t i = 0; i < rd->members; i++) {
		const struct round_member *m = &rd->member[i];
		if (!rd->bad[i].found && !m->refused)
			continue;
		struct record_out *o =
			RECORD(m->refused ? "refused" : "diverged", F("worker", m->worker),
			       F("generation", m->generation));
		request_put(rq, o->data, record_end(o, m->why));
		*(m->refused ? &refused : &diverged) += 1;
	}
	if (refused)
		snprintf(also, sizeof also, " refused=%zu", refused);
	request_ok(rq, "round=%llu diverged=%zu%s", (unsigned long long)rd->number, diverged, also);
}

/* Says whose pushes are in the sum: the lead commits no others. Where it only sums, a gradient that is
 * not finite is one of them, as ranks may expect it (mixed precision); the text says so. */
static void put_summed(struct ps_replica *r, struct request *rq)
{
	const struct round *rd = &r->round;
	char why[STAGED_WHY_MAX];

	for (size_t i = 0; i < rd->members; i++) {
		const struct round_member *m = &rd->member[i];
		const struct store_bad *bad = &rd->bad[i];
		struct record_out *o = RECORD("summed", F("worker", m->worker),
					      F("generation", m->generation),
					      F("sequence", m->sequence), F("count", m->count));
		if (isfinite(bad->value))
			snprintf(why, sizeof why, "not all of its gradient is finite");
		else
			snprintf(why, sizeof why, "float %zu of its gradient is %g", bad->at,
				 (double)bad->value);
		request_put(rq, o->data, record_end(o, bad->is_infinite ? why : NULL));
	}
	if (rd->check)
		request_ok(rq, "round=%llu sum=%llu", (unsigned long long)rd->number,
			   (unsigned long long)rd->digest);
	else
		request_ok(rq, "round=%llu", (unsigned long long)rd->number);
}

/* Answers with the result. */
static void round_answer(struct ps_replica *r)
{
	struct round *rd = &r->round;
	struct request *rq = rd->asked;

	rd->asked = NULL;
	if (!rq)
		return;
	if (rd->state == ROUND_FAILED)
		put_failed(r, rq);
	else
		put_summed(r, rq);
}

void round_end(struct ps_replica *r, const char *code, const char *fmt, ...)
{
	struct round *rd = &r->round;
	char text[ERROR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (!rd->alone && (rd->state == ROUND_ADDING || rd->state == ROUND_ABROAD))
		fabric_client_drop(r->fabric, rd->number);
	rd->state = ROUND_NONE;
	if (rd->asked)
		request_err(rd->asked, code, "%s", text);
	rd->asked = NULL;
}

void round_summed(struct ps_replica *r, uint64_t digest)
{
	struct round *rd = &r->round;

	rd->state = ROUND_HELD;
	if (r->ps->options.sums)
		ps_room_mark(r, SUM_PAIR_WHOLE);
	/* It includes the parameters to which the sum will be added: so replicas whose parameters
	 * differ answer differently. */
	if (rd->check && r->ps->options.sums)
		rd->digest = digest;
	else if (rd->check)
		rd->digest = store_sum_digest(r->ps->store, &rd->rows, digest);
	round_answer(r);
}

/* Tells the lead which members to leave out. */
static void round_fails(struct ps_replica *r)
{
	struct round *rd = &r->round;

	if (!rd->alone)
		fabric_client_drop(r->fabric, rd->number);
	rd->state = ROUND_FAILED;
	round_answer(r);
}

static void fail_bad(struct ps_replica *r)
{
	struct round *rd = &r->round;

	for (size_t i = 0; i < rd->members; i++) {
		struct round_member *m = &rd->member[i];
		if (!rd->bad[i].found)
			continue;
		ps_bad_gradient(r->ps, &rd->push[i], &rd->bad[i], m->why);
		if (!log_is_worth(++r->ps->diverged))
			continue;
		log_say(LOG_LEVEL_WARNING,
			"a push of %s in iteration %llu can't be added: %s; %llu so far",
			m->worker, (unsigned long long)rd->iteration, m->why,
			(unsigned long long)r->ps->diverged);
	}
	round_fails(r);
}

/* ---- adding ---- */

/* The contribution of a member, as far as it has come. 1: all of it is here. */
static int find_member(const struct ps_replica *r, size_t i, const struct early **early)
{
	const struct round *rd = &r->round;
	struct round_member *m = &rd->member[i];
	struct store_push *push = &rd->push[i];
	struct staged *s =
		m->found ? stage_find(r->ps->stage, m->worker, m->generation, m->sequence)
			 : stage_find_for(r->ps->stage, m->worker, m->generation, rd->iteration);

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
	*early = m->found ? NULL : early_find(r, m->worker, m->generation, rd->iteration);
	if (*early && m->early &&
	    (early_dense(*early) != m->early || early_sequence(*early) != m->early_sequence))
		*early = NULL; /* parts of another gradient are added already */
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
	for (size_t i = 0; i < r->round.members; i++) {
		if (!whole[i] && !(early[i] && early_covers(early[i], begin, end)))
			return 0;
	}
	return 1;
}

/* Whether a gradient can't be added. */
static int round_any_bad(const struct ps_replica *r)
{
	const struct round *rd = &r->round;

	if (r->ps->options.sums)
		return 0;
	for (size_t i = 0; i < rd->members; i++) {
		if (rd->bad[i].found)
			return 1;
	}
	return 0;
}

/* Adds consecutive buckets from `bucket` on, at most `most`. Returns how many. */
static size_t add_buckets(struct ps_replica *r, size_t bucket, size_t most,
			  const struct early *const *early, const unsigned char *whole)
{
	struct round *rd = &r->round;
	size_t count = store_dense_count(r->ps->store), n = 0;
	size_t begin = bucket * REPLICA_BUCKET, end;

	while (n < most && bucket + n < rd->buckets && !rd->added[bucket + n] &&
	       bucket_is_here(r, early, whole, bucket + n))
		n++;
	if (n == 0)
		return 0;
	end = (bucket + n) * REPLICA_BUCKET;
	end = end < count ? end : count;
	store_sum_dense(r->ps->store, r->team, rd->push, rd->members, begin, end - begin,
			r->total + begin, rd->bad);
	memset(rd->added + bucket, 1, n);
	rd->left -= n;
	for (size_t i = 0; i < rd->members; i++) {
		if (whole[i])
			continue;
		rd->member[i].early = early_dense(early[i]);
		rd->member[i].early_sequence = early_sequence(early[i]);
	}
	if (!rd->alone && !round_any_bad(r))
		fabric_client_part(r->fabric, rd->number, begin, end - begin);
	return n;
}

/* Adds what is here and is not added yet. 1: that was all for now; 0: another turn is needed. */
static int round_add_dense(struct ps_replica *r, const struct early *const *early,
			   const unsigned char *whole)
{
	struct round *rd = &r->round;
	size_t most = TURN_BYTES / sizeof(float) / REPLICA_BUCKET / (rd->members + 1);

	most = most ? most : 1;
	for (size_t b = 0; b < rd->buckets; b++) {
		if (most == 0)
			return 0;
		/* Of several hosts one by one: the first travel while others are added. */
		if (!rd->added[b])
			most -= add_buckets(r, b, rd->alone ? most : 1, early, whole);
	}
	return 1;
}

static void round_add_rows(struct ps_replica *r)
{
	struct round *rd = &r->round;
	struct error err = {0};

	rd->rows.count = 0;
	if (store_width(r->ps->store) &&
	    store_sum_rows(r->ps->store, r->team, rd->push, rd->members, &rd->rows, rd->bad,
			   &err) != 0) {
		round_end(r, "no-memory", "%s", err.text);
		return;
	}
	if (round_any_bad(r)) {
		fail_bad(r);
		return;
	}
	rd->state = ROUND_ABROAD;
	if (!rd->alone)
		fabric_client_finish(r->fabric, rd->number, rd->check, &rd->rows);
	else
		round_summed(r,
			     rd->check ? store_sum_checksum(r->ps->store, r->total, &rd->rows) : 0);
}

static void round_turn(struct ps_replica *r)
{
	struct round *rd = &r->round;
	double start = clock_mono();
	int all = 1;

	if (rd->state != ROUND_ADDING)
		return;
	/* It may still use that memory for the round before. */
	if (!rd->alone && !fabric_client_is_open(r->fabric, rd->number))
		return;
	if (rd->alone && r->ps->options.sums && r->fabric && fabric_client_is_busy(r->fabric))
		return;
	const struct early **early = calloc(rd->members + 1, sizeof *early);
	unsigned char *whole = calloc(rd->members + 1, 1);
	if (!early || !whole) {
		free(early);
		free(whole);
		round_end(r, "no-memory", "for %zu members", rd->members);
		return;
	}
	for (size_t i = 0; i < rd->members; i++) {
		whole[i] = (unsigned char)find_member(r, i, &early[i]);
		all = all && whole[i];
	}
	if (!round_add_dense(r, early, whole))
		timer_set(rd->turn, 0);
	if (round_any_bad(r))
		fail_bad(r);
	else if (all && rd->left == 0)
		round_add_rows(r);
	free(early);
	free(whole);
	r->ps->work += clock_mono() - start;
}

static void round_on_turn(void *replica)
{
	round_turn(replica);
}

void round_look(struct ps_replica *r)
{
	if (r->round.state == ROUND_ADDING)
		timer_set(r->round.turn, 0);
}

int round_check_push(const struct ps_replica *r, const struct staged *s, struct error *err)
{
	const struct round *rd = &r->round;
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
	for (size_t i = 0; i < rd->members && rd->state == ROUND_ADDING; i++) {
		const struct round_member *m = &rd->member[i];
		if (!m->early || m->generation != s->generation ||
		    s->iteration != rd->iteration || strcmp(m->worker, s->worker) != 0)
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

static int round_reserve(struct round *rd, size_t members)
{
	size_t room = rd->room, also = rd->room;

	if (GROW(rd->member, room, members) != 0 || GROW(rd->push, also, members) != 0)
		return -1;
	return GROW(rd->bad, rd->room, members);
}

/* Whether this replica is one of r0,r2,...; *alone: the only one. */
static int round_is_listed(const struct ps_replica *r, const char *list, int *alone)
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

/* Releases the pushes that an older round has found: they may be replaced until a newer round finds
 * them. */
static void round_let_go(struct ps_replica *r)
{
	struct round *rd = &r->round;

	for (size_t i = 0; i < rd->members; i++) {
		const struct round_member *m = &rd->member[i];
		struct staged *s = m->found ? stage_find(r->ps->stage, m->worker, m->generation,
							 m->sequence)
					    : NULL;
		if (s)
			s->held = 0;
	}
	rd->members = 0;
}

/* Takes those of the members that push here, in their order. */
static int take_order(struct ps_replica *r, const struct order *o, struct error *err)
{
	struct round *rd = &r->round;

	round_let_go(r);
	rd->number = o->round;
	rd->taken = 0;
	rd->iteration = o->iteration;
	rd->check = o->check;
	free(rd->replicas);
	rd->replicas = strdup(o->replicas);
	if (!rd->replicas || round_reserve(rd, o->members) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu members", o->members);
	for (size_t i = 0; i < o->members; i++) {
		const struct order_member *m = &o->member[i];
		if (strcmp(m->replica, r->ps->options.id) != 0)
			continue;
		struct round_member *own = &rd->member[rd->members];
		*own = (struct round_member){.found = 0};
		snprintf(own->worker, sizeof own->worker, "%s", m->worker);
		own->generation = m->generation;
		own->scale = m->scale;
		rd->bad[rd->members++] = (struct store_bad){0};
	}
	return 0;
}

/* The memory for the sum. NULL: round_end() was called. */
static float *find_memory(struct ps_replica *r)
{
	struct round *rd = &r->round;
	float *memory = r->ps->options.sums ? ps_room_begin(r) : NULL;

	if (!rd->alone)
		return fabric_client_open(r->fabric, rd->number, rd->iteration, rd->replicas,
					  memory);
	if (!memory)
		memory = ps_replica_memory(r);
	if (!memory)
		round_end(r, "no-memory", "for a sum");
	return memory;
}

static void round_begin(struct ps_replica *r)
{
	struct round *rd = &r->round;

	rd->state = ROUND_ADDING;
	rd->left = rd->buckets;
	memset(rd->added, 0, rd->buckets);
	float *memory = find_memory(r);
	if (memory)
		r->total = memory;
	round_look(r);
}

static void round_asker_gone(struct request *rq, void *replica)
{
	struct ps_replica *r = replica;

	if (r->round.asked == rq)
		r->round.asked = NULL;
}

/* The lead asks again for the sum that is under way or made. */
static void round_ask_again(struct ps_replica *r, struct request *rq)
{
	struct round *rd = &r->round;

	if (rd->asked)
		request_err(rd->asked, "stale", "asked for again");
	rd->asked = rq;
	if (rd->state == ROUND_HELD || rd->state == ROUND_FAILED)
		round_answer(r);
	else
		request_defer(rq, round_asker_gone, r);
}

/* Reads an order. 0: it is valid for this replica now; otherwise rq was answered. */
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

static void round_refuse_iteration(struct ps *p, struct request *rq, const struct order *o)
{
	request_err(rq, "order", "%llu units are applied here, not %llu",
		    (unsigned long long)p->applied, (unsigned long long)o->iteration);
}

/* Without parameters it can go on at any iteration. */
static void round_go_to(struct ps_replica *r, uint64_t iteration)
{
	struct ps *p = r->ps;

	if (p->applied == iteration)
		return;
	p->applied = iteration;
	early_drop_before(r, iteration);
	stage_drop_before(p->stage, iteration);
	ps_waits_run(p);
}

static void sum(struct ps_replica *r, struct request *rq, const struct order *o)
{
	struct round *rd = &r->round;
	struct error err = {0};
	int alone;

	if (o->round < rd->number && !rd->taken) {
		request_err(rq, "stale", "round %llu is in force", (unsigned long long)rd->number);
	} else if (o->round == rd->number && rd->state != ROUND_NONE) {
		round_ask_again(r, rq);
	} else if (o->iteration != r->ps->applied && !r->ps->options.sums) {
		round_refuse_iteration(r->ps, rq, o);
	} else if (!round_is_listed(r, o->replicas, &alone)) {
		request_err(rq, "bad-request", "replicas=%.200s: %s is not among them", o->replicas,
			    r->ps->options.id);
	} else if (!alone && !r->fabric) {
		request_err(rq, "bad-request", "replicas=%.200s: there is no --fabric to them",
			    o->replicas);
	} else {
		/* The lead is past it, so it was committed: ranks may still read it. */
		if (r->ps->options.sums && rd->state == ROUND_HELD &&
		    rd->iteration + 1 == o->iteration)
			ps_room_mark(r, SUM_PAIR_COMMITTED);
		round_end(r, "stale", "round %llu is in force", (unsigned long long)o->round);
		rd->alone = alone;
		round_go_to(r, o->iteration);
		if (take_order(r, o, &err) != 0) {
			request_err(rq, "no-memory", "%s", err.text);
			return;
		}
		rd->asked = rq;
		request_defer(rq, round_asker_gone, r);
		round_begin(r);
	}
}

void round_on_sum(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct order o;

	if (read_order(p, rq, &o) == 0)
		sum(p->replica, rq, &o);
	order_clear(&o);
}

static struct round_member *round_member_of(struct round *rd, const struct order_push *push)
{
	for (size_t i = 0; i < rd->members; i++) {
		struct round_member *m = &rd->member[i];
		if (m->generation == push->generation && strcmp(m->worker, push->worker) == 0)
			return m;
	}
	return NULL;
}

/* Whether the push that the lead has is staged here. A worker tells the lead only after the push
 * was answered here: if it is not here, it will not come. */
static int round_is_here(const struct ps_replica *r, struct round_member *m,
			 const struct order_push *push)
{
	const struct staged *s =
		stage_find(r->ps->stage, push->worker, push->generation, push->sequence);

	if (s && s->iteration == r->round.iteration && s->push.count == push->count)
		return 1;
	m->refused = 1;
	snprintf(m->why, sizeof m->why,
		 "it told the lead of sequence %llu, of %llu samples, which its replica does not "
		 "have",
		 (unsigned long long)push->sequence, (unsigned long long)push->count);
	return 0;
}

static void round_hold(struct ps_replica *r, const struct order *o)
{
	struct round *rd = &r->round;
	size_t lacks = 0;

	if (o->round != rd->number || rd->state != ROUND_ADDING)
		return; /* it is summed already, or no longer wanted */
	for (size_t i = 0; i < o->pushes; i++) {
		struct round_member *m = round_member_of(rd, &o->push[i]);
		if (m && !round_is_here(r, m, &o->push[i]))
			lacks++;
	}
	if (lacks)
		round_fails(r);
}

/* Answers of a connection keep their order: what is found is told with the answer of the waiting
 * `sum`. */
void round_on_hold(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct order o;

	if (read_order(p, rq, &o) == 0) {
		round_hold(p->replica, &o);
		request_ok(rq, NULL);
	}
	order_clear(&o);
}

/* Reports that values were held at a bound. */
static void round_tell_bounded(struct ps *p, uint64_t held)
{
	p->bounded += held;
	if (held && log_is_worth(++p->bounded_units))
		log_say(LOG_LEVEL_WARNING,
			"iteration %llu: %llu values were held at a bound, %llu so far in %llu "
			"iterations",
			(unsigned long long)p->applied, (unsigned long long)held,
			(unsigned long long)p->bounded, (unsigned long long)p->bounded_units);
}

/* divisor 0: nobody trained, and only the iteration advances. */
static void round_step(struct ps_replica *r, double divisor, uint64_t samples)
{
	struct ps *p = r->ps;
	uint64_t held = store_held(p->store);
	double start = clock_mono();

	if (p->options.sums && divisor > 0.0)
		ps_room_mark(r, SUM_PAIR_COMMITTED);
	else if (divisor > 0.0)
		store_sum_step(p->store, r->team, r->total, &r->round.rows, divisor, samples);
	else
		round_end(r, "stale", "nobody trained");
	round_tell_bounded(p, store_held(p->store) - held);
	r->round.state = ROUND_NONE;
	p->work += clock_mono() - start;
	ps_unit_applied(p, samples);
	early_drop_before(r, p->applied);
	ps_units_applied(p);
}

static void round_apply(struct ps_replica *r, struct request *rq, const struct order *o)
{
	const struct round *rd = &r->round;
	struct ps *p = r->ps;

	if (!o->round) {
		request_err(rq, "bad-request", "round= is missing: a replica steps with sums");
	} else if (o->iteration + 1 <= p->applied) {
		request_ok(rq, "iteration=%llu repeated=1", (unsigned long long)p->applied);
	} else if (o->iteration != p->applied) {
		round_refuse_iteration(p, rq, o);
	} else if (o->divisor > 0.0 && (rd->state != ROUND_HELD || rd->number != o->round)) {
		request_err(rq, "no-sum", "the sum of round %llu is not here",
			    (unsigned long long)o->round);
	} else {
		round_step(r, o->divisor, o->samples);
		request_ok(rq, "iteration=%llu", (unsigned long long)p->applied);
	}
}

void round_on_apply(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct order o;

	if (read_order(p, rq, &o) == 0)
		round_apply(p->replica, rq, &o);
	order_clear(&o);
}

void round_take(struct ps_replica *r, const struct sum_pair_head *head)
{
	struct round *rd = &r->round;

	rd->number = head->round;
	rd->iteration = head->iteration;
	rd->taken = 1;
	rd->state = head->state == SUM_PAIR_WHOLE ? ROUND_HELD : ROUND_NONE;
	round_go_to(r, head->iteration + (head->state == SUM_PAIR_COMMITTED));
}

/* ---- life ---- */

int round_make_buckets(struct ps_replica *r, struct error *err)
{
	struct round *rd = &r->round;
	size_t count = store_dense_count(r->ps->store);
	size_t buckets = (count + REPLICA_BUCKET - 1) / REPLICA_BUCKET;
	unsigned char *added = calloc(buckets + 1, 1);

	if (!added)
		return error_set(err, ERROR_OS, "replica", "out of memory");
	free(rd->added);
	rd->added = added;
	rd->buckets = buckets;
	return 0;
}

int round_start(struct ps_replica *r, struct error *err)
{
	r->round.turn = timer_new(server_base(r->ps->server), round_on_turn, r);
	if (!r->round.turn)
		return error_set(err, ERROR_OS, "replica", "out of memory");
	return round_make_buckets(r, err);
}

void round_stop(struct ps_replica *r)
{
	timer_free(r->round.turn);
	r->round.turn = NULL;
}

void round_free(struct ps_replica *r)
{
	struct round *rd = &r->round;

	row_sums_free(&rd->rows);
	free(rd->replicas);
	free(rd->member);
	free(rd->push);
	free(rd->bad);
	free(rd->added);
}
