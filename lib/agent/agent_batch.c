/*
 * Rows and the lead: a batch is cut, given, pushed.  What is asked of the lead is not waited for:
 * its answer comes as an event (agent.c).  Pieces are asked of shardd while the trainer computes.
 */
#include "agent/agent_internal.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

#define DOOR_SECONDS 1.0 /* shardd may hold back an answer for so long when there is nothing */
#define PAUSE_SECONDS 0.05

uint64_t agent_batch_size(const struct agent *a)
{
	return a->actions.size * a->actions.accum;
}

static int stopped(const struct agent *a)
{
	return a->options.stop && *a->options.stop;
}

/* ---- beginning ---- */

/* A lead that was started again, and a queue that was loaded, have another incarnation. */
int agent_connect(struct agent *a, struct error *err)
{
	double deadline = clock_mono() + a->options.wait_seconds;
	for (int hello = 1;;) {
		uint64_t incarnation;
		int result = hello ? shards_hello(a->shards, err) : WORK_OK;
		if (result == WORK_OK && a->options.lead)
			result = conversation_connect(&a->lead, deadline, err);
		if (result != WORK_OK || !a->options.lead)
			return result;
		if (conversation_incarnation(&a->lead, &incarnation, err) != 0)
			return -1;
		a->lead.generation = shards_generation(a->shards);
		a->lead.incarnation = shards_incarnation(a->shards);
		if (incarnation == a->lead.incarnation)
			return WORK_OK;
		if (clock_mono() >= deadline)
			return error_set(err, ERROR_UNAVAILABLE, a->options.lead,
					 "a lead of incarnation %llu, a queue of %llu",
					 (unsigned long long)incarnation,
					 (unsigned long long)a->lead.incarnation);
		hello = incarnation > a->lead.incarnation;
		conversation_close(&a->lead);
		clock_sleep(PAUSE_SECONDS);
		if (stopped(a))
			return WORK_STOP;
	}
}

void agent_forget(struct agent *a)
{
	conversation_close(&a->lead);
	a->phase = PHASE_OUT;
	a->dry = 0;
	a->sequence = 0;
	a->cut.rows = a->cut.ranges = 0;
	a->batch.range_count = 0;
	stock_drop(&a->stock);
}

/* ---- rows ---- */

/* Pieces that are here; it does not wait. */
static int take_pieces(struct agent *a, struct error *err)
{
	while (shards_asked(a->shards)) {
		struct piece piece;
		int result = shards_take(a->shards, 0, &piece, err);
		if (result == WORK_STOP) /* nothing yet */
			return WORK_OK;
		if (result == WORK_OK) {
			a->dry = 0;
			if (stock_add(&a->stock, &piece, err) != 0)
				return -1;
		} else if (result == WORK_WAIT || result == WORK_END) {
			a->dry = result;
		} else {
			return result;
		}
	}
	return WORK_OK;
}

/* More is asked for when there is no whole batch in hand, or half of what may be held at most. */
static int ask_pieces(struct agent *a, struct error *err)
{
	uint64_t size = agent_batch_size(a), most = size * a->options.ahead, held = a->stock.rows;
	if (a->dry == WORK_END || shards_asked(a->shards) || (held >= size && held * 2 > most))
		return WORK_OK;
	double began = clock_mono();
	int result = shards_ask(a->shards, most - held, a->dry ? DOOR_SECONDS : 0, err);
	meter_spend(a->meter, SPENT_SHARDS, began);
	return result;
}

/* ---- what the lead is asked ---- */

static int ask_lead(struct agent *a, const char *type, enum phase phase, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(&a->lead, &o, line, type);
	if (phase == PHASE_JOINING)
		record_add_u64(&o, "size", agent_batch_size(a));
	a->phase = phase;
	return conversation_ask(&a->lead, &o, NULL, 0, err);
}

int agent_push(struct agent *a, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	a->push.sequence = ++a->sequence;
	a->push.iteration = a->iteration;
	conversation_begin(&a->lead, &o, line, "push");
	lead_client_add_push(&o, &a->push, &a->batch);
	lead_client_add_report(&o, &a->push);
	a->phase = PHASE_PUSHING;
	return conversation_ask(&a->lead, &o, NULL, 0, err);
}

static void obey(struct agent *a)
{
	double began = clock_mono();
	if (!a->actions.news)
		return;
	if (actions_resize(&a->actions)) /* what was measured was about another size */
		meter_report(a->meter);
	actions_obey(&a->actions, a->iteration);
	meter_spend(a->meter, SPENT_ACTIONS, began);
}

static void account(struct agent *a)
{
	struct tally_batch b = {.time = a->push.time,
				.compute = a->push.time,
				.wait = a->waited + clock_mono() - a->stepped_at,
				.samples = a->cut.rows};
	meter_batch(a->meter, a->iteration, a->actions.accum, &b);
}

static int on_pushed(struct agent *a, struct error *err)
{
	const struct record *r = &a->lead.record;
	int dropped = record_get(r, "dropped") != NULL;
	account(a);
	if (record_u64(r, "iteration", 0, UINT64_MAX, &a->iteration, err) != 0)
		return error_wrap(err, a->options.lead);
	a->phase = PHASE_IN;
	a->batch.range_count = 0;
	obey(a);
	if (a->word == WORD_STEP)
		agent_answer_step(a, dropped);
	return WORK_OK;
}

static int on_answer(struct agent *a, struct error *err)
{
	switch (a->phase) {
	case PHASE_JOINING:
		if (record_u64(&a->lead.record, "iteration", 0, UINT64_MAX, &a->iteration, err) != 0)
			return error_wrap(err, a->options.lead);
		a->phase = PHASE_IN;
		obey(a);
		return WORK_OK;
	case PHASE_PUSHING:
		return on_pushed(a, err);
	case PHASE_ENDING:
		a->phase = PHASE_ENDED;
		return WORK_OK;
	default:
		return WORK_OK;
	}
}

/* What an `err` means. A loss that is none names the rows. */
static int refused(struct agent *a, struct error *err)
{
	struct error what;
	int result = conversation_refused(&a->lead, err);
	if (result != WORK_DIVERGED)
		return result;
	what = *err;
	return error_set(err, ERROR_DATA, a->options.id,
			 "%.300s; its rows begin with row %llu of shard %llu", what.text,
			 (unsigned long long)a->batch.range[0].begin,
			 (unsigned long long)a->batch.range[0].id);
}

int agent_hear_lead(struct agent *a, struct error *err)
{
	do {
		int result = conversation_receive(&a->lead, PATIENT, NULL, err);
		if (result == WORK_OK && record_is(&a->lead.record, "err"))
			result = refused(a, err);
		else if (result == WORK_OK && record_is(&a->lead.record, "action"))
			actions_take(&a->actions, &a->lead.record);
		else if (result == WORK_OK && record_is(&a->lead.record, "ok"))
			result = on_answer(a, err);
		if (result != WORK_OK)
			return result;
	} while (call_buffered(a->lead.call));
	return WORK_OK;
}

/* ---- going on ---- */

static int leave(struct agent *a, struct error *err)
{
	double began = clock_mono();
	meter_report(a->meter); /* no batch follows for a while */
	a->phase = PHASE_OUT;
	int result = lead_client_leave(&a->lead, err);
	meter_spend(a->meter, SPENT_WAIT, began);
	return result;
}

/* A member cuts its next batch. */
static int cut(struct agent *a, struct error *err)
{
	if (a->stock.rows < agent_batch_size(a) && !a->dry)
		return WORK_OK; /* shardd's answer is on its way */
	if (a->stock.rows == 0)
		return leave(a, err);
	stock_cut(&a->stock, agent_batch_size(a), &a->cut, &a->batch);
	a->weight = 1;
	if (a->dry == WORK_WAIT)
		a->dry = 0;
	a->phase = PHASE_READY;
	return WORK_OK;
}

static int out(struct agent *a, struct error *err)
{
	if (a->stock.rows > 0)
		return ask_lead(a, "join", PHASE_JOINING, err);
	return a->dry == WORK_END ? ask_lead(a, "end", PHASE_ENDING, err) : WORK_OK;
}

static int step(struct agent *a, struct error *err)
{
	int wanted = a->word == WORD_NEXT;
	switch (a->phase) {
	case PHASE_OUT:
		return wanted ? out(a, err) : WORK_OK;
	case PHASE_IN:
		return wanted ? cut(a, err) : WORK_OK;
	case PHASE_READY:
		if (wanted && !a->given)
			agent_give_batch(a);
		return WORK_OK;
	case PHASE_ENDED:
		if (wanted) {
			agent_answer_state(a, "end");
			a->finished = 1;
		}
		return WORK_OK;
	default:
		return WORK_OK;
	}
}

int agent_advance(struct agent *a, struct error *err)
{
	enum phase before;
	do {
		before = a->phase;
		int result = take_pieces(a, err);
		if (result == WORK_OK)
			result = step(a, err);
		if (result == WORK_OK && a->phase != PHASE_ENDED)
			result = ask_pieces(a, err);
		if (result != WORK_OK)
			return result;
	} while (a->phase != before);
	return WORK_OK;
}
