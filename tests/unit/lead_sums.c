/*
 * The life of a batch where replicas have all parameters each, under random events: a gate between
 * simulated workers, replicas, a fabric, shardd and a supervisor; the same rules as allreduce.pml,
 * on the real code.  Messages are late, connections break and what was under way may still be read,
 * workers, replicas, the fabric and the lead die, a new lead takes a term.
 *
 * Checked at every step: what is in a replica is exactly what was settled up to its iteration, so
 * that nothing is there twice or lost and all replicas are equal; no replica is told to step with a
 * sum that it lacks; rounds only grow; no sum is ordered while a unit is being settled; every token
 * is answered once; queue and replica agree at every cut.  Workers lie now and then: they tell the
 * lead of another push than their replica, or of one that their replica never gets; nothing of
 * such a push is settled, and nobody else is refused for it.  Where members may be late, none of
 * them is in the sum that it was late for, nor late twice in a row.  In the end every sample is in
 * the model once, or the lead gave up, and then no living replica had what is committed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lead/gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 4
#define REPLICAS 3
#define SAMPLES 48
#define LIVES 400
#define CONNECTIONS (WORKERS * LIVES)
#define TOKENS 65536
#define UNITS 4096
#define ORDERS_MAX 128
#define HOST(worker) ((worker) % REPLICAS)
#define BIT(n) (UINT64_C(1) << (n))

static uint64_t seed_now;
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_msg("seed %llu: %s", (unsigned long long)seed_now, #condition);       \
	} while (0)

/* That these happened at all. */
static struct {
	uint64_t leads, rolled, fills, diverged, refused, cuts, empty, again, steps_told, late;
	uint64_t lies, liars, missing, left_out;
} seen;

enum request_kind { R_JOIN, R_LEAVE, R_PUSH, R_FENCE, R_CUT, R_COMPUTE, R_DONE };
enum phase { START, READY, JOINING, MEMBER, PUSHING, REFUSED, LEAVING, DEAD,
	     /* of a member, where one may be late */ COMPUTING, COMPUTED, TRAINED };

struct message {
	enum request_kind kind;
	uint64_t generation, sequence, iteration;
	int sample; /* -1: it has trained nothing */
};

struct connection {
	struct message queue[32];
	size_t head, tail;
	int open, closing;
};

/* What the replica hears otherwise than the lead. */
enum lie { TRUE, OTHER_COUNT, OTHER_SEQUENCE, NOTHING };

struct worker {
	enum phase phase;
	uint64_t generation, sequence, iteration, connection, lives;
	int member, sample, pushes;
	enum lie lie; /* of its last push */
	uint64_t tries;    /* batches that it has begun to compute */
	uint64_t late_for; /* the iteration for which it began anew; 0: none */
	int fencing;
};

enum order_is { O_SUM, O_APPLY, O_FILL, O_HOLD };

struct told {
	enum order_is kind;
	uint64_t round, iteration, divisor, hosts, generation[WORKERS], sequence[WORKERS];
	size_t from, connection;
	int check;
};

enum answer_is { A_STAT, A_OF, A_SUMMED, A_DIVERGED, A_MISSING, A_FABRIC, A_FILLED, A_NOT_FILLED };

struct answered {
	enum answer_is kind;
	struct gate_replica at;
	uint64_t round, sum, iteration;
	int worker;
	uint64_t generation, sequence, count;
};

struct host {
	int alive, serving;
	uint64_t iteration;
	uint64_t app; /* samples in its parameters */
	struct {
		uint64_t generation, iteration, sequence;
		int sample, bad;
	} staged[WORKERS];
	struct told sum; /* the last; round 0: none */
	uint64_t newest; /* round that it was told */
	int given;       /* its contribution is in the fabric */
	uint64_t has, set; /* the sum that it has: round, samples */
	int filling, pauses, was_filling, is_told, stray;
	size_t from, asked; /* the connection */
	uint64_t least;
	/* its connection to the lead */
	int up;
	size_t connection;
	struct told to[ORDERS_MAX], old[ORDERS_MAX];
	size_t to_head, to_tail, old_head, old_tail;
	struct answered answer[ORDERS_MAX];
	size_t answer_head, answer_tail;
	/* the fabric's */
	uint64_t in_round, in_hosts, in_set, out_round, out_set;
};

struct settle {
	int waits;
	uint64_t number, iteration, term, round, divisor;
	int whole;
	struct gate_line line[64];
	size_t lines;
};

struct world {
	uint64_t random;
	struct gate_options options;
	struct gate *lead; /* NULL: dead */
	int calm, over;
	int64_t now;
	/* shardd */
	int todo[SAMPLES], todo_count, hold[SAMPLES];
	uint64_t done, saved;
	uint64_t generation[WORKERS], last[WORKERS];
	uint64_t term, settled, committed, round, divisor, in[UNITS];
	int refused[WORKERS], has_settled;
	struct settle request, old;
	int answer, shards_up, save_request, save_answer, has_term;
	uint64_t round_most;
	struct host host[REPLICAS];
	size_t connections;
	int fabric;
	uint64_t again; /* round of a sum that broke */
	uint64_t late;  /* of the last one that took long */
	struct worker worker[WORKERS];
	struct connection connection[CONNECTIONS];
	struct {
		enum request_kind kind;
		int worker, open;
		uint64_t connection, generation, sequence;
	} token[TOKENS];
	uint64_t tokens;
	int cut_busy, forking;
};

static uint64_t next_random(struct world *w)
{
	uint64_t z = (w->random += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static int chance(struct world *w, uint64_t of)
{
	return next_random(w) % of == 0;
}

static void name_of(int worker, char out[16])
{
	snprintf(out, 16, "w%d", worker);
}

static int number_of(const char *name)
{
	return atoi(name + 1);
}

/* What shardd is asked for may be with it for longer than the gate lives, whose names these are. */
static void keep_lines(struct gate_line *to, const struct gate_effect *e)
{
	static const char *const name[WORKERS] = {"w0", "w1", "w2", "w3"};

	for (size_t i = 0; i < e->lines; i++) {
		to[i] = e->line[i];
		to[i].worker = name[number_of(e->line[i].worker)];
	}
}

/* ---- shardd ---- */

static void give_back(struct world *w, int worker)
{
	for (int s = 0; s < SAMPLES; s++) {
		if (w->hold[s] == worker + 1) {
			w->hold[s] = 0;
			w->todo[w->todo_count++] = s;
		}
	}
}

static int judge(struct world *w, const struct settle *s)
{
	int bad = 0;

	memset(w->refused, 0, sizeof w->refused);
	for (size_t i = 0; i < s->lines; i++) {
		const struct gate_line *l = &s->line[i];
		int worker = number_of(l->worker);
		if (!l->back && (l->generation != w->generation[worker] ||
				 w->hold[l->range.begin] != worker + 1))
			bad = w->refused[worker] = 1;
	}
	return bad;
}

/* 0: an older lead's. */
static int shardd_settle(struct world *w, const struct settle *s)
{
	if (s->term != w->term)
		return 0;
	if (w->has_settled && w->settled == s->number)
		return 1;
	CHECK(!w->has_settled || s->number > w->settled);
	w->has_settled = 1;
	w->settled = s->number;
	if (judge(w, s)) {
		CHECK(s->whole); /* what is late is never refused */
		seen.refused++;
		return 1;
	}
	for (size_t i = 0; i < s->lines; i++) {
		const struct gate_line *l = &s->line[i];
		int sample = (int)l->range.begin;
		if (l->back && w->hold[sample] == number_of(l->worker) + 1 &&
		    w->generation[number_of(l->worker)] == l->generation) {
			w->hold[sample] = 0;
			w->todo[w->todo_count++] = sample;
		} else if (!l->back) {
			CHECK(!(w->done & BIT(sample)));
			w->hold[sample] = 0;
			w->done |= BIT(sample);
		}
	}
	if (s->whole) {
		CHECK(s->iteration == w->committed && w->committed + 1 < UNITS);
		w->in[++w->committed] = w->done;
		w->round = s->round;
		w->divisor = s->divisor;
	}
	return 1;
}

/* ---- replicas ---- */

static void check_host(const struct world *w, const struct host *h)
{
	CHECK(!h->alive || !h->serving ||
	      (h->iteration <= w->committed && h->app == w->in[h->iteration]));
}

/* On the connection on which it was asked, if that is still there. */
static void say_answer(struct host *h, size_t connection, struct answered a)
{
	if (!h->up || h->connection != connection)
		return;
	CHECK(h->answer_tail < ORDERS_MAX);
	h->answer[h->answer_tail++] = a;
}

/* Its connection breaks; what it was sent may still be read. */
static void disconnect(struct world *w, struct host *h)
{
	if (!h->up)
		return;
	h->up = 0;
	h->old_head = h->old_tail = 0;
	while (h->to_head < h->to_tail) {
		struct told t = h->to[h->to_head++];
		if (chance(w, 2))
			h->old[h->old_tail++] = t;
	}
	h->to_head = h->to_tail = h->answer_head = h->answer_tail = 0;
}

static void kill_host(struct world *w, struct host *h)
{
	disconnect(w, h);
	memset(h, 0, sizeof *h);
}

static int is_staged(const struct host *h, int worker, uint64_t generation)
{
	return h->staged[worker].generation == generation &&
	       h->staged[worker].iteration == h->iteration;
}

static void say_summed(struct host *h, size_t r)
{
	for (int i = 0; i < WORKERS; i++) {
		if (!h->sum.generation[i] || HOST(i) != (int)r)
			continue;
		say_answer(h, h->sum.connection,
			   (struct answered){.kind = A_OF,
					     .round = h->sum.round,
					     .worker = i,
					     .generation = h->sum.generation[i],
					     .sequence = h->staged[i].sequence,
					     .count = h->staged[i].sample >= 0});
	}
	say_answer(h, h->sum.connection,
		   (struct answered){.kind = A_SUMMED, .round = h->has, .sum = h->set});
}

/* The lead has these pushes: a sum that waits for another one fails. */
static void host_hold(struct host *h, size_t r, const struct told *t)
{
	if (t->round != h->sum.round || h->given || h->has == t->round)
		return;
	for (int i = 0; i < WORKERS; i++) {
		if (HOST(i) != (int)r || !t->generation[i] ||
		    (is_staged(h, i, t->generation[i]) &&
		     h->staged[i].sequence == t->sequence[i]))
			continue;
		say_answer(h, h->sum.connection,
			   (struct answered){.kind = A_MISSING,
					     .round = t->round,
					     .worker = i,
					     .generation = t->generation[i]});
		h->sum.round = 0;
	}
}

/* Its sum, if all that it waits for is here. */
static void host_sum(struct world *w, size_t r)
{
	struct host *h = &w->host[r];
	uint64_t set = 0;

	if (!h->serving || !h->sum.round || h->given || h->has == h->sum.round ||
	    h->sum.iteration != h->iteration)
		return;
	for (int i = 0; i < WORKERS; i++) {
		if (!h->sum.generation[i] || HOST(i) != (int)r)
			continue;
		if (!is_staged(h, i, h->sum.generation[i]))
			return;
		if (h->staged[i].bad) {
			say_answer(h, h->sum.connection,
				   (struct answered){.kind = A_DIVERGED,
						     .round = h->sum.round,
						     .worker = i,
						     .generation = h->sum.generation[i]});
			h->sum.round = 0;
			return;
		}
		if (h->staged[i].sample >= 0)
			set |= BIT(h->staged[i].sample);
	}
	if (h->sum.hosts == BIT(r)) {
		h->has = h->sum.round;
		h->set = set;
		say_summed(h, r);
		return;
	}
	if (!w->fabric) {
		say_answer(h, h->sum.connection,
			   (struct answered){.kind = A_FABRIC, .round = h->sum.round});
		h->sum.round = 0;
		return;
	}
	h->given = 1;
	h->in_round = h->sum.round;
	h->in_hosts = h->sum.hosts;
	h->in_set = set;
}

/* Adds equal rounds, from exactly the listed hosts. */
static void fabric_step(struct world *w)
{
	for (size_t r = 0; r < REPLICAS; r++) {
		struct host *h = &w->host[r];
		uint64_t set = 0;
		int all = w->fabric && h->in_round && h->out_round != h->in_round;
		for (size_t k = 0; k < REPLICAS && all; k++) {
			const struct host *o = &w->host[k];
			if (!(h->in_hosts & BIT(k)))
				continue;
			/* What a host gave stays in the fabric until it gives anew. */
			all &= o->in_round == h->in_round && o->in_hosts == h->in_hosts;
			set |= o->in_set;
		}
		if (!all)
			continue;
		h->out_round = h->in_round;
		h->out_set = set;
	}
}

static void host_result(struct host *h, size_t r)
{
	if (!h->given || h->out_round != h->sum.round || !h->sum.round)
		return;
	h->has = h->sum.round;
	h->set = h->out_set;
	h->given = 0;
	say_summed(h, r);
}

static void host_apply(struct world *w, struct host *h, const struct told *t)
{
	if (!h->serving || t->iteration != h->iteration)
		return; /* done before, or of an older time */
	CHECK(!t->divisor || h->has == t->round); /* committed, and the sum is here */
	CHECK(t->iteration < w->committed);
	if (t->divisor) {
		CHECK(!(h->app & h->set));
		CHECK((uint64_t)__builtin_popcountll(h->set) == t->divisor);
		h->app |= h->set;
	}
	h->iteration++;
	h->has = h->set = h->sum.round = 0;
	h->given = 0;
	check_host(w, h);
}

static void pump(struct world *w);

static void host_order(struct world *w, size_t r, const struct told *t)
{
	struct host *h = &w->host[r];

	if (t->kind == O_APPLY) {
		host_apply(w, h, t);
	} else if (t->kind == O_HOLD) {
		host_hold(h, r, t);
	} else if (t->kind == O_FILL && t->round > h->newest) {
		h->newest = t->round;
		memset(h->staged, 0, sizeof h->staged);
		h->serving = 0;
		h->has = h->set = h->sum.round = h->app = 0;
		h->given = 0;
		h->filling = 1;
		h->from = t->from;
		h->asked = t->connection;
		h->least = t->iteration;
	} else if (h->serving && t->iteration == h->iteration && t->round > h->sum.round &&
		   t->round > h->newest) {
		h->newest = t->round;
		h->sum = *t;
		h->has = h->set = 0;
		h->given = 0;
	} else if (t->kind == O_SUM && !h->serving && w->lead && h->up &&
		   t->connection == h->connection) {
		/* An order of old has emptied it since it said where it is: it is connected anew. */
		disconnect(w, h);
		gate_replica_gone(w->lead, r);
		pump(w);
	}
}

static void host_fill(struct world *w, size_t r)
{
	struct host *h = &w->host[r];
	const struct host *from = &w->host[h->from];

	if (!h->filling)
		return;
	if (from->alive && from->serving && from->iteration < h->least && w->fabric)
		return; /* it is about to step */
	h->filling = 0;
	if (!from->alive || !from->serving || !w->fabric) {
		say_answer(h, h->asked, (struct answered){.kind = A_NOT_FILLED});
		return;
	}
	h->serving = 1;
	h->iteration = from->iteration;
	h->app = from->app;
	check_host(w, h);
	say_answer(h, h->asked,
		   (struct answered){.kind = A_FILLED, .iteration = h->iteration});
}

static void host_answer(struct world *w, size_t r)
{
	struct host *h = &w->host[r];
	struct answered a;
	char name[16];

	if (!w->lead || h->answer_head == h->answer_tail)
		return;
	a = h->answer[h->answer_head++];
	if (h->answer_head == h->answer_tail)
		h->answer_head = h->answer_tail = 0;
	h->is_told &= a.kind != A_FILLED && a.kind != A_NOT_FILLED;
	switch (a.kind) {
	case A_STAT:
		if (h->is_told)
			break;
		gate_replica(w->lead, r, &a.at);
		break;
	case A_OF:
		name_of(a.worker, name);
		gate_summed_of(w->lead, r, a.round, name, a.generation, a.sequence, a.count);
		break;
	case A_MISSING:
		seen.missing++;
		name_of(a.worker, name);
		gate_refused(w->lead, a.round, name, a.generation, "not staged");
		break;
	case A_SUMMED:
		gate_summed(w->lead, r, a.round, a.sum);
		break;
	case A_DIVERGED:
		seen.diverged++;
		name_of(a.worker, name);
		gate_diverged(w->lead, a.round, name, a.generation, "nan");
		break;
	case A_FABRIC:
		w->again = a.round > w->again ? a.round : w->again;
		break;
	case A_FILLED:
		seen.fills++;
		CHECK(a.iteration == gate_iteration(w->lead));
		gate_filled(w->lead, r);
		break;
	case A_NOT_FILLED:
		h->pauses = 1;
		gate_fill_failed(w->lead, r);
		break;
	}
	pump(w);
}

static void host_connect(struct world *w, size_t r)
{
	struct host *h = &w->host[r];

	if (!w->lead || !h->alive || (r && !w->fabric))
		return;
	if (h->up && (!h->was_filling || h->filling || h->is_told ||
		      h->answer_head < h->answer_tail))
		return;
	if (!h->up) {
		h->up = 1;
		h->connection = ++w->connections;
		h->to_head = h->to_tail = h->answer_head = h->answer_tail = 0;
		h->is_told = 0;
	}
	h->was_filling = h->filling;
	h->stray = 0;
	say_answer(h, h->connection,
		   (struct answered){.kind = A_STAT,
				     .at = {.serving = h->serving,
					    .filling = h->filling,
					    .iteration = h->iteration,
					    .round = h->has}});
}

static void host_step(struct world *w, size_t r)
{
	struct host *h = &w->host[r];

	if (!h->alive)
		return;
	switch (next_random(w) % 8) {
	case 0:
		host_connect(w, r);
		break;
	case 1:
		if (h->old_head < h->old_tail) {
			h->stray |= h->old[h->old_head].kind == O_FILL;
			host_order(w, r, &h->old[h->old_head++]);
		}
		break;
	case 2:
	case 3:
		if (h->up && h->to_head < h->to_tail)
			host_order(w, r, &h->to[h->to_head++]);
		if (h->to_head == h->to_tail)
			h->to_head = h->to_tail = 0;
		break;
	case 4:
		host_sum(w, r);
		fabric_step(w);
		break;
	case 5:
		host_result(h, r);
		break;
	case 6:
		host_fill(w, r);
		if (h->pauses && w->lead && chance(w, 4)) {
			h->pauses = 0;
			gate_fill_again(w->lead, r);
			pump(w);
		}
		break;
	default:
		host_answer(w, r);
	}
}

static void fabric_dies(struct world *w)
{
	w->fabric = 0;
	for (size_t r = 0; r < REPLICAS; r++) {
		struct host *h = &w->host[r];
		h->in_round = h->out_round = 0;
		if (h->given) {
			say_answer(h, h->sum.connection,
				   (struct answered){.kind = A_FABRIC, .round = h->sum.round});
			h->given = 0;
			h->sum.round = 0;
		}
		if (r && h->up) {
			disconnect(w, h);
			if (w->lead) {
				gate_replica_gone(w->lead, r);
				pump(w);
			}
		}
	}
}

/* ---- effects ---- */

static void take_settle(struct world *w, const struct gate_effect *e)
{
	struct settle *s = &w->request;

	CHECK(w->shards_up && w->has_term && !s->waits && !w->answer);
	CHECK(!w->save_request && !w->save_answer);
	CHECK(e->lines <= 64);
	*s = (struct settle){.waits = 1,
			     .number = e->number,
			     .iteration = e->iteration,
			     .term = w->term,
			     .round = e->round,
			     .divisor = e->divisor,
			     .whole = e->whole,
			     .lines = e->lines};
	keep_lines(s->line, e);
	for (size_t i = 0; i < e->lines; i++) {
		CHECK(e->line[i].back == !e->whole);
		seen.late += e->line[i].back ? 1 : 0;
	}
	seen.empty += e->whole && !e->lines;
}

static void send_told(struct world *w, size_t r, const struct told *t)
{
	struct host *h = &w->host[r];

	if (!h->up)
		return; /* it has gone, and the lead is about to hear of it */
	CHECK(h->to_tail < ORDERS_MAX);
	h->to[h->to_tail] = *t;
	h->to[h->to_tail++].connection = h->connection;
}

static void take_sum(struct world *w, const struct gate_effect *e)
{
	struct told t = {.kind = O_SUM,
			 .round = e->round,
			 .iteration = e->iteration,
			 .check = e->check};

	CHECK(!w->request.waits || !w->request.whole);
	CHECK(e->round > w->round_most && e->round >> 32 == w->term);
	w->round_most = e->round;
	CHECK(e->tos > 0 && e->members > 0 && e->iteration == w->committed);
	for (size_t i = 0; i < e->tos; i++)
		t.hosts |= BIT(e->to[i]);
	for (size_t i = 0; i < e->members; i++) {
		const struct order_member *m = &e->member[i];
		int worker = number_of(m->worker);
		CHECK(atoi(m->replica + 1) == HOST(worker));
		CHECK(t.hosts & BIT(HOST(worker)));
		CHECK(w->worker[worker].generation != m->generation ||
		      w->worker[worker].late_for != e->iteration + 1);
		t.generation[worker] = m->generation;
	}
	for (size_t i = 0; i < e->tos; i++)
		send_told(w, e->to[i], &t);
}

/* What was staged is not taken back, so that it is not here any more only when it never was. */
static void take_hold(struct world *w, const struct gate_effect *e)
{
	struct told t = {.kind = O_HOLD, .round = e->round};

	CHECK(e->round == gate_round(w->lead) && e->tos > 0);
	for (size_t i = 0; i < e->pushes; i++) {
		t.generation[number_of(e->push[i].worker)] = e->push[i].generation;
		t.sequence[number_of(e->push[i].worker)] = e->push[i].sequence;
	}
	for (size_t i = 0; i < e->tos; i++)
		send_told(w, e->to[i], &t);
}

/* Only who has lied is refused. */
static void take_refused(struct world *w, const struct gate_effect *e)
{
	const struct worker *k = &w->worker[number_of(e->worker)];

	CHECK(k->generation != e->generation || k->lie != TRUE);
	seen.liars++;
}

static void take_apply(struct world *w, const struct gate_effect *e)
{
	struct told t = {.kind = O_APPLY,
			 .round = e->round,
			 .iteration = e->iteration,
			 .divisor = e->divisor};

	CHECK(e->iteration + 1 == w->committed);
	CHECK(e->round == w->round && e->divisor == w->divisor);
	seen.steps_told += !e->units;
	CHECK(!e->units || !w->forking);
	for (size_t i = 0; i < e->tos; i++)
		send_told(w, e->to[i], &t);
}

static void take_fill(struct world *w, const struct gate_effect *e)
{
	struct told t = {.kind = O_FILL,
			 .round = e->round,
			 .from = e->from,
			 .iteration = e->iteration};

	CHECK(e->round > w->round_most && e->round >> 32 == w->term);
	w->round_most = e->round;

	CHECK(gate_in_force(w->lead, e->from));
	CHECK(!w->request.waits && !w->answer);
	w->host[e->replica].is_told = 1;
	send_told(w, e->replica, &t);
}

/* Gives up: rightly only if no living replica has, or can make, what is committed. */
static void take_quit(struct world *w)
{
	for (size_t r = 0; r < REPLICAS; r++) {
		const struct host *h = &w->host[r];
		/* One that was filled by an order of old, after it had said that it was empty, it
		 * can't know of. */
		CHECK(!h->alive || !h->serving || h->stray ||
		      !(h->iteration == w->committed ||
			(h->iteration + 1 == w->committed &&
			 (h->has == w->round || !w->divisor))));
	}
	w->over = 1;
	seen.rolled++;
}

static int waits_for(const struct world *w, const struct worker *k, uint64_t t)
{
	static const enum phase phase[] = {
		[R_JOIN] = JOINING, [R_LEAVE] = LEAVING, [R_PUSH] = PUSHING, [R_DONE] = COMPUTED};
	enum request_kind kind = w->token[t].kind;

	if ((kind == R_COMPUTE || kind == R_DONE) && k->tries != w->token[t].sequence)
		return 0;
	if (kind == R_COMPUTE)
		return k->connection == w->token[t].connection &&
		       k->generation == w->token[t].generation &&
		       (k->phase == COMPUTING || k->phase == COMPUTED);

	return k->connection == w->token[t].connection &&
	       k->generation == w->token[t].generation && k->phase == phase[kind] &&
	       (kind != R_PUSH || k->sequence == w->token[t].sequence);
}

/* Its batch is late, or it is not: then only the answer to R_DONE counts. */
static void take_late(struct world *w, struct worker *k, const char *fields)
{
	if (!strstr(fields, " late=1"))
		return;
	CHECK(k->iteration == gate_iteration(w->lead) + 1);
	CHECK(!k->late_for || k->late_for + 1 < k->iteration);
	k->late_for = k->iteration;
	k->phase = MEMBER;
	seen.left_out++;
}

static void take_answer(struct world *w, const struct gate_effect *e)
{
	CHECK(e->token <= w->tokens && w->token[e->token].open);
	w->token[e->token].open = 0;
	int id = w->token[e->token].worker;
	struct worker *k = id >= 0 ? &w->worker[id] : NULL;

	if (w->token[e->token].kind == R_CUT) {
		CHECK(!e->ok);
		if (w->cut_busy == 1)
			w->cut_busy = 0;
		return;
	}
	if (w->token[e->token].kind == R_FENCE) {
		CHECK(e->ok && k->fencing == 1);
		k->fencing = 2;
		return;
	}
	if (!waits_for(w, k, e->token))
		return;
	if (e->ok && w->token[e->token].kind != R_DONE &&
	    (w->token[e->token].kind != R_COMPUTE || strstr(e->fields, " late=1")) &&
	    strncmp(e->fields, "iteration=", 10) == 0)
		k->iteration = strtoull(e->fields + 10, NULL, 10);
	if (!e->ok) {
		CHECK(strcmp(e->code, "fenced") == 0 || strcmp(e->code, "diverged") == 0);
		k->phase = REFUSED;
	} else if (w->token[e->token].kind == R_COMPUTE) {
		take_late(w, k, e->fields);
	} else if (k->phase == COMPUTED) {
		k->phase = TRAINED;
	} else if (k->phase == JOINING) {
		k->member = 1;
		k->phase = MEMBER;
	} else if (k->phase == PUSHING) {
		k->sample = k->pushes < 0 ? k->sample : -1; /* -1: it pushed nothing */
		k->phase = READY;
	} else if (k->phase == LEAVING) {
		k->member = 0;
		k->phase = READY;
	}
}

static void take_cut(struct world *w)
{
	CHECK(gate_iteration(w->lead) == w->committed);
	CHECK(w->saved == w->in[w->committed]);
	w->cut_busy = 2;
	w->forking = 1;
	seen.cuts++;
}

static void pump(struct world *w)
{
	const struct gate_effect *e;

	while (!w->over && (e = gate_next(w->lead))) {
		switch (e->kind) {
		case GATE_ANSWER:
			take_answer(w, e);
			break;
		case GATE_SETTLE:
			take_settle(w, e);
			break;
		case GATE_APPLY:
			take_apply(w, e);
			break;
		case GATE_SUM:
			take_sum(w, e);
			break;
		case GATE_FILL:
			take_fill(w, e);
			break;
		case GATE_SAVE:
			CHECK(w->shards_up && !w->request.waits && !w->answer);
			w->save_request = 1;
			break;
		case GATE_CUT:
			take_cut(w);
			break;
		case GATE_STILL:
		case GATE_QUIT:
			take_quit(w);
			break;
		case GATE_HOLD:
			take_hold(w, e);
			break;
		case GATE_REFUSED:
			take_refused(w, e);
			break;
		case GATE_DROP:
		case GATE_THROW:
			break;
		}
	}
	CHECK(!gate_failed(w->lead));
}

/* ---- workers ---- */

static uint64_t token_of(struct world *w, enum request_kind kind, int worker, uint64_t connection)
{
	w->tokens++;
	CHECK(w->tokens < TOKENS);
	w->token[w->tokens].kind = kind;
	w->token[w->tokens].worker = worker;
	w->token[w->tokens].connection = connection;
	w->token[w->tokens].open = 1;
	return w->tokens;
}

static void say(struct world *w, int id, enum request_kind kind)
{
	struct worker *k = &w->worker[id];
	struct connection *c = &w->connection[k->connection];
	int is_try = kind == R_COMPUTE || kind == R_DONE;
	struct message m = {kind, k->generation, is_try ? k->tries : k->sequence, k->iteration,
			    k->pushes < 0 ? -1 : k->sample};

	CHECK(c->tail < 32);
	c->queue[c->tail++] = m;
}

static void deliver_push(struct world *w, const struct gate_who *who, const struct message *m)
{
	struct gate_range range = {(uint64_t)(m->sample < 0 ? 0 : m->sample) + 1,
				   (uint64_t)m->sample, 1};
	struct gate_push push = {.sequence = m->sequence,
				 .iteration = m->iteration,
				 .count = m->sample >= 0,
				 .loss = 0.5,
				 .range = &range,
				 .ranges = m->sample >= 0};

	gate_push(w->lead, who, &push);
}

static void void_tokens(struct world *w, uint64_t connection)
{
	for (uint64_t t = 1; t <= w->tokens; t++) {
		if (w->token[t].connection == connection)
			w->token[t].open |= 2;
	}
}

static void deliver(struct world *w, uint64_t connection)
{
	struct connection *c = &w->connection[connection];
	int id = (int)(connection % WORKERS);
	char name[16], replica[16];

	if (!w->lead || (HOST(id) && !w->fabric && !c->closing))
		return;
	if (c->head == c->tail) {
		if (c->closing && c->open) {
			c->open = 0;
			void_tokens(w, connection);
			gate_closed(w->lead, connection + 1);
			pump(w);
		}
		return;
	}
	struct message m = c->queue[c->head++];
	if (c->head == c->tail)
		c->head = c->tail = 0;
	name_of(id, name);
	struct gate_who who = {name, m.generation, 1, connection + 1,
			       token_of(w, m.kind, id, connection), gate_seat(w->lead, name)};
	w->token[w->tokens].generation = m.generation;
	w->token[w->tokens].sequence = m.sequence;
	if (m.kind == R_JOIN) {
		snprintf(replica, sizeof replica, "r%d", HOST(id));
		CHECK(gate_pushes_to(w->lead, &who, replica) == 0);
		gate_join(w->lead, &who);
	} else if (m.kind == R_LEAVE)
		gate_leave(w->lead, &who);
	else if (m.kind == R_COMPUTE || m.kind == R_DONE) {
		gate_clock(w->lead, w->now);
		gate_compute(w->lead, &who, m.kind == R_DONE);
	} else
		deliver_push(w, &who, &m);
	pump(w);
}

static void start_life(struct world *w, int id)
{
	struct worker *k = &w->worker[id];

	CHECK(k->lives < LIVES);
	k->connection = (uint64_t)id + WORKERS * k->lives++;
	w->connection[k->connection] = (struct connection){.open = 1};
	k->phase = START;
	k->late_for = 0;
	k->member = k->fencing = 0;
	k->sample = -1;
}

/* Its connection to the lead, or to its replica, breaks: it starts over with hello. */
static void lose(struct world *w, int id)
{
	struct worker *k = &w->worker[id];

	if (k->phase == DEAD)
		return;
	w->connection[k->connection].closing = 1;
	start_life(w, id);
}

static void hello(struct world *w, int id)
{
	struct worker *k = &w->worker[id];

	give_back(w, id);
	k->generation = w->generation[id] = ++w->last[id];
	k->sequence = 0;
	k->sample = -1;
	k->member = 0;
	k->phase = READY;
}

static void go_on(struct world *w, int id)
{
	struct worker *k = &w->worker[id];

	if (w->generation[id] != k->generation) {
		k->phase = REFUSED;
		return;
	}
	if (k->sample < 0) {
		if (w->todo_count == 0) {
			if (k->member) {
				say(w, id, R_LEAVE);
				k->phase = LEAVING;
			}
			return;
		}
		k->sample = w->todo[0];
		memmove(w->todo, w->todo + 1, (size_t)--w->todo_count * sizeof *w->todo);
		w->hold[k->sample] = id + 1;
	}
	if (!k->member) {
		say(w, id, R_JOIN);
		k->phase = JOINING;
		return;
	}
	k->phase = MEMBER;
}

/* First to its replica, then to the lead. */
static void train(struct world *w, int id)
{
	struct worker *k = &w->worker[id];
	struct host *h = &w->host[HOST(id)];

	/* One that was late may push before the sum that goes on without it is in the parameters. */
	int is_ahead = k->late_for == k->iteration && h->iteration + 1 == k->iteration;
	if (!h->alive || !h->serving || (h->iteration < k->iteration && !is_ahead))
		return;
	k->sequence++;
	k->pushes = chance(w, 20) ? -1 : 1;
	k->lie = !w->calm && chance(w, 30) ? (enum lie)(1 + next_random(w) % 3) : TRUE;
	if ((h->iteration == k->iteration || is_ahead) && k->lie != NOTHING) {
		h->staged[id].generation = k->generation;
		h->staged[id].iteration = k->iteration;
		h->staged[id].sample = k->pushes < 0 ? -1 : k->sample;
		h->staged[id].bad = !w->calm && chance(w, 40);
		h->staged[id].sequence = k->sequence + (k->lie == OTHER_SEQUENCE);
		if (k->lie == OTHER_COUNT)
			h->staged[id].sample = k->pushes < 0 ? k->sample : -1;
		seen.lies += k->lie != TRUE;
	}
	say(w, id, R_PUSH);
	if (chance(w, 8))
		say(w, id, R_PUSH);
	k->phase = PUSHING;
}

static void worker_step(struct world *w, int id)
{
	struct worker *k = &w->worker[id];

	switch (k->phase) {
	case START:
		hello(w, id);
		break;
	case READY:
		go_on(w, id);
		break;
	case MEMBER:
		if (w->options.late > 0) {
			k->tries++;
			say(w, id, R_COMPUTE);
			k->phase = COMPUTING;
		} else
			train(w, id);
		break;
	case COMPUTING:
		if (chance(w, 4)) {
			say(w, id, R_DONE);
			k->phase = COMPUTED;
		}
		break;
	case TRAINED:
		train(w, id);
		break;
	case REFUSED:
		lose(w, id);
		break;
	default:
		break;
	}
}

static void die(struct world *w, int id)
{
	struct worker *k = &w->worker[id];

	if (k->phase == DEAD)
		return;
	k->phase = DEAD;
	w->connection[k->connection].closing = 1;
}

/* ---- the supervisor, and ends ---- */

static void host_dies(struct world *w, size_t r)
{
	int was_up = w->host[r].up;

	if (!w->host[r].alive)
		return;
	kill_host(w, &w->host[r]);
	for (int id = 0; id < WORKERS; id++) {
		if (HOST(id) == (int)r)
			lose(w, id);
	}
	if (was_up && w->lead) {
		gate_replica_gone(w->lead, r);
		pump(w);
	}
}

/* All that it asked and was asked is gone, or is still read. */
static void lead_dies(struct world *w)
{
	if (!w->lead)
		return;
	gate_free(w->lead);
	w->lead = NULL;
	w->old = w->request;
	w->request.waits = w->answer = w->save_request = w->save_answer = 0;
	w->shards_up = w->has_term = 0;
	w->cut_busy = w->forking = 0;
	w->again = 0;
	for (uint64_t t = 1; t <= w->tokens; t++)
		w->token[t].open |= 2;
	for (size_t r = 0; r < REPLICAS; r++)
		disconnect(w, &w->host[r]);
	for (int id = 0; id < WORKERS; id++) {
		struct worker *k = &w->worker[id];
		w->connection[k->connection].open = 0;
		if (k->fencing == 1)
			k->fencing = 0;
		lose(w, id);
	}
}

static void supervisor_step(struct world *w)
{
	char name[16];

	if (!w->lead) {
		CHECK(gate_new(&w->lead, &w->options, NULL) == 0);
		seen.leads++;
		return;
	}
	if (chance(w, 20)) { /* ten seconds later */
		gate_begin(w->lead);
		pump(w);
	}
	for (size_t r = 0; r < REPLICAS; r++) {
		struct host *h = &w->host[r];
		if (h->alive)
			continue;
		h->alive = 1;
		return;
	}
	if (!w->fabric) {
		w->fabric = 1;
		return;
	}
	for (int id = 0; id < WORKERS; id++) {
		struct worker *k = &w->worker[id];
		if (k->phase != DEAD || k->fencing == 1)
			continue;
		if (k->fencing == 0) {
			k->fencing = 1;
			name_of(id, name);
			gate_fence(w->lead, name, w->generation[id],
				   token_of(w, R_FENCE, id, UINT64_MAX));
			pump(w);
			return;
		}
		w->generation[id] = 0;
		give_back(w, id);
		start_life(w, id);
		return;
	}
}

static void ask_cut(struct world *w)
{
	uint64_t t;

	if (!w->lead)
		return;
	t = token_of(w, R_CUT, -1, UINT64_MAX);
	if (w->cut_busy == 0)
		w->cut_busy = 1;
	gate_cut(w->lead, t);
	pump(w);
}

/* ---- shardd's connection ---- */

static void take_term(struct world *w)
{
	struct gate_commit last = {.iteration = w->committed,
				   .round = w->round,
				   .divisor = w->divisor,
				   .samples = w->divisor};

	w->term++;
	w->has_settled = 0;
	w->has_term = 1;
	gate_term(w->lead, w->term, w->committed ? &last : NULL);
	gate_shards(w->lead, 1);
}

static void shardd_answer(struct world *w)
{
	const char *fenced[WORKERS];
	char name[WORKERS][16];
	size_t n = 0;

	w->answer = 0;
	for (int i = 0; i < WORKERS; i++) {
		name_of(i, name[i]);
		if (w->refused[i])
			fenced[n++] = name[i];
	}
	gate_settled(w->lead, w->settled, fenced, n);
}

static void shards_step(struct world *w)
{
	if (w->old.waits && chance(w, 2)) { /* of a lead that is no more */
		w->old.waits = 0;
		(void)shardd_settle(w, &w->old);
		return;
	}
	if (!w->lead)
		return;
	if (!w->shards_up) {
		w->shards_up = 1;
		if (w->has_term)
			gate_shards(w->lead, 1);
		else
			take_term(w);
	} else if (!w->calm && chance(w, 10)) {
		w->shards_up = w->request.waits = w->answer = w->save_request = w->save_answer = 0;
		gate_shards(w->lead, 0);
	} else if (w->request.waits) {
		w->request.waits = 0;
		CHECK(shardd_settle(w, &w->request));
		w->answer = 1;
	} else if (w->answer) {
		shardd_answer(w);
	} else if (w->save_request) {
		w->save_request = 0;
		w->save_answer = 1;
		w->saved = w->done;
	} else if (w->save_answer) {
		w->save_answer = 0;
		gate_saved(w->lead);
	}
	pump(w);
}

static void sum_again(struct world *w)
{
	uint64_t round = w->again;

	if (!w->lead || !round)
		return;
	w->again = 0;
	seen.again++;
	gate_sum_again(w->lead, round);
	pump(w);
}

static void sum_late(struct world *w)
{
	uint64_t due = w->lead ? gate_sum_due(w->lead) : 0;

	if (!due || due == w->late)
		return;
	w->late = due;
	gate_sum_late(w->lead);
	pump(w);
}

static void trouble(struct world *w, uint64_t what)
{
	int id = (int)(next_random(w) % WORKERS);
	size_t r = next_random(w) % REPLICAS;

	if (what == 0 && chance(w, 3))
		die(w, id);
	else if (what == 1 && chance(w, 3)) { /* a person says fail */
		w->generation[id] = 0;
		give_back(w, id);
	} else if (what == 2)
		ask_cut(w);
	else if (what == 3 && chance(w, 3))
		lose(w, id);
	else if (what == 4 && chance(w, 6))
		host_dies(w, r);
	else if (what == 5 && w->host[r].up && chance(w, 3)) {
		disconnect(w, &w->host[r]);
		if (w->lead) {
			gate_replica_gone(w->lead, r);
			pump(w);
		}
	} else if (what == 6 && chance(w, 4) && w->fabric)
		fabric_dies(w);
	else if (what == 7 && chance(w, 12))
		lead_dies(w);
}

static void one_step(struct world *w)
{
	uint64_t what = next_random(w) % (w->calm ? 80 : 84);
	int id = (int)(next_random(w) % WORKERS);

	w->now++;
	if (w->options.late > 0 && w->lead && chance(w, 4)) {
		gate_clock(w->lead, w->now);
		pump(w);
	}
	if (what < 20)
		worker_step(w, id);
	else if (what < 35) {
		uint64_t life = w->worker[id].lives;
		life = life > 1 && chance(w, 3) ? life - 2 : life - 1;
		deliver(w, (uint64_t)id + WORKERS * life);
	} else if (what < 60)
		host_step(w, next_random(w) % REPLICAS);
	else if (what < 70)
		shards_step(w);
	else if (what < 76)
		supervisor_step(w);
	else if (what < 77)
		sum_again(w);
	else if (what < 78)
		sum_late(w);
	else if (what < 80) {
		if (w->cut_busy == 2 && w->lead && chance(w, 2)) {
			w->forking = 0;
			gate_cut_forked(w->lead);
			pump(w);
		} else if (w->cut_busy == 2 && w->lead) {
			w->cut_busy = w->forking = 0;
			gate_cut_over(w->lead);
			pump(w);
		}
	} else
		trouble(w, what - 80 + (chance(w, 2) ? 4 : 0));
	for (size_t r = 0; r < REPLICAS; r++)
		check_host(w, &w->host[r]);
}

static int all_done(const struct world *w)
{
	uint64_t all = BIT(SAMPLES) - 1;

	if (w->done != all)
		return 0;
	for (size_t r = 0; r < REPLICAS; r++) {
		if (!w->host[r].serving || w->host[r].app != all)
			return 0;
	}
	return 1;
}

static void calm_down(struct world *w)
{
	int steps = 0;

	w->calm = 1;
	while (!all_done(w) && !w->over) {
		CHECK(++steps < 400000); /* no deadlock */
		one_step(w);
	}
	for (int i = 0; i < 20000 && !w->over; i++)
		one_step(w);
	for (uint64_t t = 1; t <= w->tokens && !w->over; t++)
		CHECK(w->token[t].open != 1 || w->token[t].kind == R_CUT);
}

static void one_run(struct gate_options options, uint64_t seed)
{
	static struct world world;
	struct world *w = &world;

	memset(w, 0, sizeof *w);
	seed_now = w->random = seed;
	options.sync = GATE_BSP;
	options.commit = 1;
	options.incarnation = 1;
	options.replicas = REPLICAS;
	w->options = options;
	w->fabric = 1;
	for (int s = 0; s < SAMPLES; s++)
		w->todo[w->todo_count++] = s;
	for (int id = 0; id < WORKERS; id++)
		start_life(w, id);
	for (size_t r = 0; r < REPLICAS; r++)
		w->host[r] = (struct host){.alive = 1, .serving = 1};
	CHECK(gate_new(&w->lead, &w->options, NULL) == 0);
	for (int i = 0; i < 6000 && !all_done(w) && !w->over; i++)
		one_step(w);
	calm_down(w);
	gate_free(w->lead);
}

static void runs(struct gate_options options)
{
	memset(&seen, 0, sizeof seen);
	for (uint64_t seed = 1; seed <= 400; seed++)
		one_run(options, seed);
	assert_true(seen.leads > 100 && seen.fills > 100 && seen.diverged > 20 && seen.cuts > 50);
	assert_true(seen.refused > 20 && seen.again > 20 && seen.steps_told > 5 && seen.rolled > 0);
	assert_true(seen.empty > 20 && seen.rolled < 200);
	assert_true(seen.lies > 100 && seen.liars > 30 && seen.missing > 5);
	assert_true(!options.backup || seen.late > 100);
	assert_true(options.late <= 0 || seen.left_out > 100);
}

static void all_push(void **state)
{
	(void)state;
	runs((struct gate_options){.expect = 3});
}

static void with_backup(void **state)
{
	(void)state;
	runs((struct gate_options){.backup = 1});
}

static void some_are_late(void **state)
{
	(void)state;
	runs((struct gate_options){.late = 1.5});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_push),
		cmocka_unit_test(with_backup),
		cmocka_unit_test(some_are_late),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
