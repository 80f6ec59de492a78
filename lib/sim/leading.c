/* The lead, shardd and the servers: carries out what the gate wants, with planned times. */
#include "sim/sim_internal.h"

#include "base/grow.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEADING_AHEAD 8

static int leading_balance(uint64_t iteration, struct balance_member *m, size_t n, void *arg)
{
	struct sim *s = arg;
	struct error err;
	(void)iteration;
	return balance_round(s->balance, m, n, &err);
}

static int leading_queue(struct sim *s, struct error *err)
{
	const struct sim_job *j = &s->job;
	uint64_t shard = j->shard > 0 ? j->shard : j->batch;
	uint64_t batches = shard / j->batch > 0 ? shard / j->batch : 1;
	struct queue_parameters p = {.samples = j->samples, .batch = j->batch, .batches = batches,
				     .epochs = j->epochs};
	return queue_new(&s->queue, &p, err);
}

/* The lead, for so many workers, where the parameters have so many units. */
static int leading_open(struct sim *s, uint64_t iteration, uint64_t expect, struct error *err)
{
	struct gate_options o = {.incarnation = s->incarnation, .iteration = iteration, .settle_first = 1, .commit = 1,
				 .counts = 1, .workers_max = SIM_NODES_MAX, .actions_max = SIM_ACTIONS_BYTES_MAX,
				 .backup = s->job.backup, .expect = expect};
	int replicas = leading_has_replicas(s);
	if (replicas)
		o.replicas = (size_t)s->job.hosts;
	else if (gate_sync_parse(s->job.sync, &o.sync, &o.staleness, err) != 0)
		return -1;
	if (o.sync != GATE_BSP)
		o.expect = 0;
	o.late = s->job.late;
	announce_options(s, &o);
	if (balance_is(s->job.solution)) {
		if (!s->balance && balance_new(&s->balance, s->job.solution, s->job.batch, 1, err) != 0)
			return -1;
		o.balance = leading_balance;
		o.balance_arg = s;
	}
	if (gate_new(&s->gate, &o, err) != 0)
		return -1;
	gate_shards(s->gate, 1);
	gate_servers(s->gate, 1);
	if (replicas)
		gate_term(s->gate, 1, NULL);
	for (size_t i = 0; i < o.replicas; i++)
		gate_replica(s->gate, i, &(struct gate_replica){.serving = 1});
	leading_obey(s);
	return 0;
}

int leading_ready(struct sim *s, struct error *err)
{
	s->incarnation = 1;
	return leading_queue(s, err) == 0 ? leading_open(s, 0, s->job.workers, err) : -1;
}

int leading_again(struct sim *s, uint64_t iteration, size_t there, struct error *err)
{
	gate_free(s->gate);
	s->gate = NULL;
	s->incarnation = queue_incarnation(s->queue);
	s->is_expecting = s->is_smaller = 0;
	s->to_come = 0;
	s->first_waiter = s->last_waiter = NULL;
	s->announce.group.count = 0;
	return leading_open(s, iteration, there, err);
}

int leading_has_replicas(const struct sim *s)
{
	return strcmp(s->job.sync, "allreduce") == 0;
}

/* ---- replicas ---- */

static int leading_has_pushed(struct sim *s, const struct order_member *m)
{
	const struct sim_node *n = sim_find(s, m->worker);
	return n->generation == m->generation && (n->state == SIM_PUSHING || n->is_flying);
}

/* The sum is made when all members have pushed. */
static void leading_look_at_sum(struct sim *s)
{
	if (s->round == 0 || s->pushed == s->members)
		return;
	while (s->pushed < s->members && leading_has_pushed(s, &s->member[s->pushed]))
		s->pushed++;
	if (s->pushed == s->members)
		sim_plan_as(s, network_sum(s) + s->cost.sum, EVENT_SUMMED, (uint32_t)s->round, 0);
}

static void leading_open_sum(struct sim *s, const struct gate_effect *e)
{
	if (GROW(s->member, s->member_room, e->members) != 0) {
		sim_fail_memory(s);
		return;
	}
	memcpy(s->member, e->member, e->members * sizeof *e->member);
	s->members = e->members;
	s->round = e->round;
	s->pushed = 0;
	leading_look_at_sum(s);
}

void leading_summed(struct sim *s, uint32_t round)
{
	if (round != (uint32_t)s->round) /* members have changed: there is another sum */
		return;
	for (size_t i = 0; i < s->members; i++) {
		const struct order_member *m = &s->member[i];
		const struct sim_node *n = sim_find(s, m->worker);
		gate_summed_of(s->gate, strtoull(m->replica + 1, NULL, 10), s->round, m->worker,
			       m->generation, n->sequence, n->is_flying ? n->flying : n->batch.samples);
	}
	for (size_t i = 0; i < s->job.hosts; i++)
		gate_summed(s->gate, i, s->round, 0);
	leading_obey(s);
}

/* ---- servers ---- */

void leading_busy(struct sim *s, struct sim_node *n, double seconds)
{
	n->busy_until = fmax(n->busy_until, s->now) + seconds;
	s->served_at = fmax(s->served_at, n->busy_until);
}

static void leading_apply_one(struct sim *s, struct sim_node *n, const struct gate_effect *e)
{
	const struct drag *drag = cluster_drag(s, n);
	double part = (double)s->first_servers / (double)s->job.servers;
	double pushes = (double)(s->announce.is_on ? e->units : e->pushes); /* a group comes as one sum */
	double seconds = s->cost.apply * n->pace * part * pushes + drag->delay * (double)e->units;
	leading_busy(s, n, seconds);
	n->batch = (struct tally_batch){.time = seconds, .samples = e->samples, .compute = seconds};
	n->iteration = e->iteration;
	if (tally_add(&n->tally, &s->reports, &n->batch, s->now))
		control_report(s, n);
}

static void leading_apply(struct sim *s, const struct gate_effect *e)
{
	if (e->units == 0)
		return;
	for (size_t i = s->workers; i < s->nodes; i++)
		leading_apply_one(s, &s->node[i], e);
	s->result.iterations = e->iteration + e->units;
	s->result.samples += e->samples;
}

/* ---- shardd ---- */

static void leading_settle(struct sim *s, const struct gate_effect *e)
{
	if (GROW(s->range, s->range_room, e->lines) != 0) {
		sim_fail_memory(s);
		return;
	}
	for (size_t i = 0; i < e->lines; i++) {
		const struct gate_line *l = &e->line[i];
		if (i + LEADING_AHEAD < e->lines)
			fetch_ahead(&s->row_seat[l[LEADING_AHEAD].seat - 1], 1);
		s->range[i] = (struct queue_range){.is_back = l->back,
						   .worker = l->worker,
						   .seat = s->row_seat[l->seat - 1],
						   .generation = l->generation,
						   .id = l->range.id,
						   .begin = l->range.begin,
						   .length = l->range.length};
	}
	s->ranges = e->lines;
	s->settlement = (struct queue_settlement){.number = e->number, .iteration = e->iteration,
						  .incarnation = s->incarnation, .is_whole = e->whole};
	sim_plan(s, s->now + s->cost.commit, EVENT_SETTLED, NULL);
}

void leading_settled(struct sim *s)
{
	struct error err = {0};
	size_t refusals = 0;
	queue_clock(s->queue, SIM_EPOCH + s->now, s->now);
	if (queue_settle(s->queue, &s->settlement, s->range, s->ranges, &err) == QUEUE_MEMORY) {
		sim_fail(s, &err);
		return;
	}
	const struct queue_refusal *refusal = queue_refusals(s->queue, &refusals);
	const char **fenced = calloc(refusals + 1, sizeof *fenced);
	if (!fenced) {
		sim_fail_memory(s);
		return;
	}
	for (size_t i = 0; i < refusals; i++)
		fenced[i] = refusal[i].worker;
	s->last_at = s->now;
	gate_settled(s->gate, s->settlement.number, fenced, refusals);
	s->at_once = AT_ONCE_MAYBE;
	leading_obey(s);
	s->at_once = AT_ONCE_NO;
	if (s->job.late > 0)
		overlap_settled(s);
	worker_serve(s);
	free(fenced);
	wave_go(s);
}

/* ---- what the lead wants ---- */

static void leading_answer(struct sim *s, const struct gate_effect *e)
{
	struct sim_node *n = sim_of_process(s, e->token);
	if (s->job.late > 0 && overlap_is_token(e->token))
		overlap_late(s, n, e);
	else if (n)
		worker_answered(s, n, e);
}

/* A server does nothing else until it has forked; sums wait for the replica that saves. */
static void leading_cut(struct sim *s, const struct gate_effect *e)
{
	if (e->kind != GATE_CUT) {
		gate_saved(s->gate);
		return;
	}
	sim_log(s, RECORD("checkpoint", F("iteration", gate_iteration(s->gate)), F_SECONDS("stall", s->cost.save)));
	for (size_t i = s->workers; i < s->nodes; i++)
		leading_busy(s, &s->node[i], s->cost.save);
	back_cut(s);
	sim_plan(s, s->now + s->cost.save, EVENT_SAVED, NULL);
}

static void leading_fail(struct sim *s, int code, const char *why)
{
	struct error err;
	error_set(&err, code, "the lead", "%s", why);
	sim_fail(s, &err);
}

static void leading_carry_out(struct sim *s, const struct gate_effect *e)
{
	switch (e->kind) {
	case GATE_ANSWER:
		/* A worker would say it again; nobody asked what a job does without memory. */
		if (e->code && strcmp(e->code, "no-memory") == 0)
			leading_fail(s, ERROR_OS, "out of memory");
		else
			leading_answer(s, e);
		break;
	case GATE_HOLD:
		gate_held(s->gate, NULL, 0);
		break;
	case GATE_SETTLE:
		leading_settle(s, e);
		break;
	case GATE_APPLY:
		leading_apply(s, e);
		break;
	case GATE_SAVE:
	case GATE_CUT:
		leading_cut(s, e);
		break;
	case GATE_QUIT:
		leading_fail(s, ERROR_SOFTWARE, e->fields);
		break;
	case GATE_SUM:
		leading_open_sum(s, e);
		break;
	case GATE_DROP:
	case GATE_THROW:
	case GATE_FILL:
	case GATE_STILL:
	case GATE_REFUSED:
		break;
	}
}

/* What is touched soon is fetched: the node that is answered 4 * LEADING_AHEAD effects from now; and step by step,
 * as it comes nearer, where the monitor has it, if a report will be due, and where shardd has it, if it will ask for
 * rows. Meanwhile it waits in s->answer; NULL: it is none. An old one in its place is fetched for nothing. */
static void leading_fetch(struct sim *s)
{
	size_t i = s->answered++;
	const struct sim_node *n = sim_of_process(s, gate_ahead(s->gate, 4 * LEADING_AHEAD));
	s->answer[i % SIM_ANSWERS].node = n;
	if (n)
		sim_fetch(n, SIM_LINES_ANSWER);
	for (int step = 2; step >= 0; step--) {
		struct sim_answer *a = &s->answer[(i - (size_t)(3 - step) * LEADING_AHEAD) % SIM_ANSWERS];
		if (!(n = a->node))
			continue;
		if (step == 2) {
			a->reports = tally_is_due(&n->tally, &s->reports, 1, s->now + s->cost.message);
			a->asks = sim_asks_soon(s, n);
		}
		if (a->reports)
			monitor_fetch(s->monitor, (size_t)(n - s->node), step);
		if (a->reports && step == 1) {
			fetch_ahead(n->id, 1);
			sim_fetch(n, SIM_LINES_REPORT);
		}
		if (a->asks)
			queue_fetch(s->queue, n->row_seat, step);
	}
}

static int leading_carry_one(struct sim *s)
{
	const struct gate_effect *e = gate_next(s->gate);
	if (e)
		leading_carry_out(s, e);
	return e != NULL;
}

/* Effects wait in one queue, so what is carried out may add to it. */
void leading_obey(struct sim *s)
{
	const struct gate_effect *e;
	if (s->is_obeying || (gate_rests(s->gate) && s->round == 0 && !s->announce.is_timed))
		return;
	s->is_obeying = 1;
	do { /* who may send, or is waited for no longer, may change with each of them, and then what is due */
		while (!s->failed && (e = gate_next(s->gate))) {
			leading_fetch(s);
			leading_carry_out(s, e);
		}
		announce_clock(s);
	} while (s->announce.is_timed && !s->failed && leading_carry_one(s));
	leading_look_at_sum(s);
	s->is_obeying = 0;
	if (gate_failed(s->gate))
		leading_fail(s, ERROR_OS, "out of memory");
}
