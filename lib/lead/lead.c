/*
 * The gate's effects carried out: answers, orders to the parts.  The gate decides; this sends.
 * Nothing is repeated here, unless the gate asks for it again.
 */
#include "lead/lead_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "lead/turns.h"
#include "wire/timer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- ends ---- */

static void lead_break(struct lead *l, const struct error *err)
{
	if (!l->broken)
		l->error = *err;
	l->broken = 1;
	server_stop(l->server);
}

int lead_breakf(struct lead *l, int code, const char *place, const char *fmt, ...)
{
	char text[ERROR_TEXT_MAX];
	struct error err = {0};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	error_set(&err, code, place, "%s", text);
	lead_break(l, &err);
	return -1;
}

const struct error *lead_broken(const struct lead *l)
{
	return l->broken ? &l->error : NULL;
}

/* ---- requests that wait ---- */

static void lead_on_cancel(struct request *rq, void *arg)
{
	struct pending *p = arg;

	(void)rq;
	HASH_DEL(p->lead->pendings, p);
	free(p);
}

uint64_t lead_defer(struct lead *l, struct request *rq)
{
	struct pending *p = calloc(1, sizeof *p);

	if (p) {
		p->token = ++l->token;
		p->lead = l;
		p->rq = rq;
		HASH_ADD(hh, l->pendings, token, sizeof p->token, p);
	}
	if (!p || hash_lacks(p)) {
		free(p);
		request_err(rq, "no-memory", NULL);
		return 0;
	}
	request_defer(rq, lead_on_cancel, p);
	return p->token;
}

struct request *lead_undefer(struct lead *l, uint64_t token)
{
	struct pending *p;
	struct request *rq;

	HASH_FIND(hh, l->pendings, &token, sizeof token, p);
	if (!p)
		return NULL;
	rq = p->rq;
	HASH_DEL(l->pendings, p);
	free(p);
	return rq;
}

static void lead_answer(struct lead *l, const struct gate_effect *e)
{
	struct request *rq = lead_undefer(l, e->token);

	if (!e->ok && l->cut.busy && e->token == l->cut.token)
		lead_cut_refused(l);
	if (!rq)
		return;
	if (!e->ok && strcmp(e->code, "map") == 0) {
		lead_refuse_map(l, rq);
		return;
	}
	if (!e->ok) {
		request_err(rq, e->code, "%s", e->fields);
		return;
	}
	if (e->saved)
		request_put_record(rq, RECORD("saved", F("iteration", e->saved - 1)));
	if (e->save)
		lead_trainers_tell(l, rq, e);
	if (e->attempt)
		request_put_record(rq, RECORD("give", F("iteration", e->iteration),
					      F("attempt", e->attempt)));
	if (e->enough)
		request_put_record(rq, RECORD_BARE("enough"));
	if (e->actions)
		request_put(rq, e->actions, strlen(e->actions));
	if (e->enters && l->settling.done)
		request_ok(rq, "%s samples-done=%llu", e->fields,
			   (unsigned long long)l->settling.done);
	else
		request_ok(rq, "%s", e->fields);
}

/* ---- the parts ---- */

static void on_missing(uint32_t part, const char *worker, uint64_t generation, uint64_t sequence,
		       void *lead)
{
	struct lead *l = lead;

	(void)part;
	(void)generation;
	(void)sequence;
	lead_names_put(l, &l->holding.missing, worker);
}

static void one_holds(struct lead *l)
{
	const char **missing;

	if (l->broken || --l->holding.asked > 0)
		return;
	missing = lead_names_list(l, &l->holding.missing,
				  "a server does not have its part of its push");
	if (missing)
		gate_held(l->gate, missing, l->holding.missing.count);
	free(missing);
	lead_pump(l);
}

static void lead_on_held(uint32_t part, const struct order_result *result, void *lead)
{
	struct lead *l = lead;

	if (result->code && !l->broken)
		lead_breakf(l, ERROR_TEMPFAIL, lead_parts_name(l->parts, part), "hold: %s",
			    result->text);
	one_holds(l);
}

static void lead_hold_pushes(struct lead *l, const struct gate_effect *e)
{
	struct order order = {
		.kind = ORDER_HOLD, .round = e->round, .push = e->push, .pushes = e->pushes};
	struct order_answer answer = {.missing = on_missing, .done = lead_on_held, .arg = l};

	l->holding.missing.count = 0;
	l->holding.asked = lead_parts_count(l->parts) + 1; /* and this function */
	lead_parts_give(l->parts, &order, &answer);
	one_holds(l);
}

static void apply_pushes(struct lead *l, const struct gate_effect *e)
{
	struct order order = {.kind = ORDER_APPLY,
			      .iteration = e->iteration,
			      .units = e->units,
			      .push = e->push,
			      .pushes = e->pushes};

	lead_parts_give(l->parts, &order, NULL);
}

static void lead_apply(struct lead *l, const struct gate_effect *e)
{
	if (l->replicas)
		lead_step(l, e);
	else
		apply_pushes(l, e);
	if (!l->broken && (e->units || !l->replicas))
		lead_rows(l, e->iteration + e->units, e->samples, e->loss);
}

static void throw_away(struct lead *l, const struct gate_effect *e)
{
	struct order order = {.kind = ORDER_THROW,
			      .worker = e->worker,
			      .generation = e->generation,
			      .sequence = e->sequence,
			      .one = e->kind == GATE_DROP};

	if (l->replicas)
		lead_replicas_throw(l, &order);
	else
		lead_parts_give(l->parts, &order, NULL);
}

static uint64_t lead_iteration(void *lead)
{
	return gate_iteration(((struct lead *)lead)->gate);
}

static void on_ready(int all, void *lead)
{
	struct lead *l = lead;

	gate_servers(l->gate, all);
	lead_pump(l);
}

static void on_joiners(void *lead)
{
	struct lead *l = lead;

	lead_move_look(l);
	lead_pump(l);
}

static void lead_on_broken(const struct error *err, void *lead)
{
	lead_break(lead, err);
}

/* ---- effects ---- */

static void quit(struct lead *l, const struct gate_effect *e)
{
	if (e->fields[0])
		lead_breakf(l, ERROR_TEMPFAIL, "replicas", "%s", e->fields);
	else if (l->settling.why[0])
		lead_breakf(l, ERROR_TEMPFAIL, l->options.shards, "%s", l->settling.why);
	else
		lead_breakf(l, ERROR_TEMPFAIL, l->options.shards,
			    "incarnation %llu is not in force any more",
			    (unsigned long long)l->options.gate.incarnation);
}

/* Each event may give grants, or let a sum wait for members: both have a time. */
static const struct gate_effect *pump_next(struct lead *l)
{
	const struct gate_effect *e = gate_next(l->gate);

	if (e || (!l->options.gate.announces && l->options.gate.late <= 0.0))
		return e;
	lead_clock(l);
	return gate_next(l->gate);
}

void lead_pump(struct lead *l)
{
	const struct gate_effect *e;

	if (l->pumping)
		return;
	l->pumping = 1;
	while (!l->broken && (e = pump_next(l))) {
		switch (e->kind) {
		case GATE_ANSWER:
			lead_answer(l, e);
			break;
		case GATE_HOLD:
			if (l->replicas)
				lead_hold(l, e);
			else
				lead_hold_pushes(l, e);
			break;
		case GATE_SETTLE:
			lead_settle(l, e);
			break;
		case GATE_APPLY:
			lead_apply(l, e);
			break;
		case GATE_DROP:
		case GATE_THROW:
			throw_away(l, e);
			break;
		case GATE_SAVE:
			lead_cut_save(l);
			break;
		case GATE_CUT:
			lead_cut_fork(l, e);
			break;
		case GATE_SUM:
			lead_sum(l, e);
			break;
		case GATE_FILL:
			lead_fill(l, e);
			break;
		case GATE_STILL:
			lead_move_still(l);
			break;
		case GATE_REFUSED:
			if (log_is_worth(++l->refusals))
				log_say(LOG_LEVEL_WARNING, "%s: %s: it is refused; %llu so far",
					e->worker, e->fields, (unsigned long long)l->refusals);
			break;
		case GATE_QUIT:
			quit(l, e);
			break;
		}
	}
	l->pumping = 0;
	if (l->replicas && !l->broken)
		lead_replicas_look(l);
	if (l->cut.tolds && !l->broken)
		lead_trainers_look(l);
	if (l->options.sums && !l->broken)
		lead_states_look(l);
	if (gate_failed(l->gate))
		lead_breakf(l, ERROR_OS, "gate", "out of memory");
}

/* ---- grants ---- */

static void lead_on_clock(void *lead)
{
	lead_pump(lead);
}

void lead_clock(struct lead *l)
{
	double now = clock_mono();
	int64_t ns = (int64_t)(now * 1e9), next = gate_clock(l->gate, ns);

	if (next != INT64_MAX && (!timer_is_set(l->clock) || next < l->clock_at)) {
		l->clock_at = next;
		timer_set(l->clock, (double)(next - ns) / 1e9);
	}
}

/* ---- logs ---- */

void lead_log_write(struct recordlog *log)
{
	struct error err;

	if (log->fd < 0)
		return;
	if (recordlog_flush(log, &err) != 0)
		log_say(LOG_LEVEL_WARNING, "%s: %s; what is not written is lost", err.place,
			err.text);
	else if (recordlog_turn(log, &err) < 0)
		log_say(LOG_LEVEL_WARNING, "%s: %s", err.place, err.text);
}

/* ---- making ---- */

int lead_new(struct lead **out, const struct lead_options *options, struct error *err)
{
	struct lead *l = calloc(1, sizeof *l);
	struct lead_parts_options parts = {.here = options->here,
					   .sockets = options->servers,
					   .count = options->server_count,
					   .map = options->map,
					   .incarnation = options->gate.incarnation,
					   .iteration = lead_iteration,
					   .ready = on_ready,
					   .joiners = on_joiners,
					   .broken = lead_on_broken,
					   .owner = l};

	if (!l)
		return error_set(err, ERROR_OS, "lead", "out of memory");
	l->options = *options;
	boot_id(l->boot);
	l->term = options->term;
	l->started = clock_mono();
	l->attempts = (uint64_t)(clock_epoch() * 1e6); /* more than any lead before it */
	l->started_at = options->gate.iteration;
	l->options.gate.commit = options->shards != NULL;
	l->options.gate.replicas = options->replica_count;
	l->options.gate.foreign = options->sums || (!options->here && options->server_count == 0 &&
						    options->replica_count == 0);
	l->options.gate.schedule = options->schedules ? lead_schedule : NULL;
	l->options.gate.host_name = lead_schedule_host;
	l->options.gate.schedule_arg = l;
	l->sizes.log.fd = l->schedule_log.fd = -1;
	if (lead_parts_new(&l->parts, &parts, err) != 0 || lead_replicas_new(l, err) != 0 ||
	    lead_balance_new(l, err) != 0 || lead_schedule_new(l, err) != 0 ||
	    gate_new(&l->gate, &l->options.gate, err) != 0)
		goto failed;
	l->cut.part = calloc(lead_parts_count(l->parts) + 1, sizeof *l->cut.part);
	if (!l->cut.part) {
		error_set(err, ERROR_OS, "lead", "out of memory");
		goto failed;
	}
	gate_servers(l->gate, lead_parts_ready(l->parts));
	*out = l;
	return 0;
failed:
	lead_free(l);
	return -1;
}

static void lead_on_begin(void *lead)
{
	struct lead *l = lead;

	gate_begin(l->gate);
	lead_pump(l);
}

void lead_expect(struct lead *l)
{
	if (l->expecting || !lead_replicas_are(l))
		return; /* nobody could enter, so that nobody waits for others */
	if (l->options.gate.expect)
		timer_set(l->begin, GATE_EXPECT_SECONDS);
	l->expecting = 1;
}

/* After the death of a lead: parts may only hold what was committed last. Where none is here, they may
 * be in the middle of a move of that lead. */
static int lead_catch_up(struct lead *l, struct error *err)
{
	const struct part_here *here = lead_parts_here(l->parts);
	struct order order = {.kind = ORDER_APPLY,
			      .iteration = gate_iteration(l->gate) - l->options.units,
			      .units = l->options.units,
			      .held = l->options.round};
	struct order cancel = {.kind = ORDER_CANCEL, .attempt = ++l->attempts};

	if (!here && l->options.map)
		lead_parts_give(l->parts, &cancel, NULL);
	if (here && here->iteration(here->part) > gate_iteration(l->gate))
		lead_breakf(l, ERROR_TEMPFAIL, l->options.shards,
			    "%llu units are committed, and %llu are applied here",
			    (unsigned long long)gate_iteration(l->gate),
			    (unsigned long long)here->iteration(here->part));
	else if (order.units)
		lead_parts_give(l->parts, &order, NULL);
	if (l->broken)
		*err = l->error;
	return l->broken ? -1 : 0;
}

int lead_start(struct lead *l, struct server *server, struct error *err)
{
	struct event_base *base = server_base(server);

	l->server = server;
	l->begin = timer_new(base, lead_on_begin, l);
	l->clock = timer_new(base, lead_on_clock, l);
	if (!l->begin || !l->clock || lead_hand_start(l, base) != 0 ||
	    lead_silent_start(l, base) != 0 ||
	    (l->options.gate.foreign && lead_trainers_start(l, base) != 0))
		return error_set(err, ERROR_OS, "lead", "out of memory");
	if (lead_settle_start(l, base, err) != 0)
		return -1;
	if (lead_replicas_start(l, base) != 0)
		return error_set(err, ERROR_OS, "lead", "out of memory");
	return lead_parts_start(l->parts, base, err) == 0 ? lead_catch_up(l, err) : -1;
}

void lead_stop(struct lead *l)
{
	if (!l)
		return;
	l->broken = 1; /* requests that are open to peers end now: nothing must follow from that */
	lead_move_stop(l);
	lead_rebalance_stop(l);
	lead_cut_stop(l);
	lead_parts_stop(l->parts);
	lead_replicas_stop(l);
	lead_settle_stop(l);
	timer_free(l->begin);
	timer_free(l->clock);
	timer_free(l->absent);
	lead_silent_stop(l);
	lead_trainers_stop(l);
}

void lead_free(struct lead *l)
{
	if (!l)
		return;
	if (l->cut.busy)
		lead_cut_refused(l);
	gate_free(l->gate);
	lead_parts_free(l->parts);
	lead_replicas_free(l);
	lead_balance_free(l);
	turns_free(l->turns);
	recordlog_close(&l->schedule_log);
	free(l->cut.part);
	free(l->settling.fenced.name);
	free(l->holding.missing.name);
	free(l);
}
