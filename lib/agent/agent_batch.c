/*
 * Rows and the lead: a batch is cut, given to the trainer, and pushed. Requests to the lead are not
 * waited for: answers come as events (agent.c). Pieces are requested from shardd while the trainer
 * computes.
 */
#include "agent/agent_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <math.h>
#include <string.h>

#define DOOR_SECONDS 1.0 /* seconds for which shardd may hold back an answer when there are no
			  * rows */
#define PAUSE_SECONDS 0.05

uint64_t agent_batch_size(const struct agent *a)
{
	uint64_t gauged = gauge_size(&a->pace.gauge);
	return gauged > 0 ? gauged : a->actions.size * a->actions.accum;
}

/* ---- beginning ---- */

/* A restarted lead, and a queue that was loaded, have another incarnation. */
int agent_connect(struct agent *a, struct error *err)
{
	double deadline = clock_mono() + a->options.wait_seconds;
	for (int hello = 1;;) {
		uint64_t incarnation;
		int result = hello ? shards_hello(a->shards, err) : WORK_OK;
		a->samples_done = shards_generation(a->shards)->samples_done;
		if (result == WORK_OK)
			result = conversation_connect(&a->lead, deadline, err);
		if (result != WORK_OK)
			return result;
		if (conversation_incarnation(&a->lead, &incarnation, err) != 0)
			return -1;
		const char *sync = record_get(call_greeting(a->lead.call), "sync");
		if (record_get(call_greeting(a->lead.call), "part"))
			return error_set(err, ERROR_CONFIG, a->options.lead,
					 "keeps parameters itself: for a trainer start ps-server "
					 "with --lead-only");
		a->bsp = sync && strcmp(sync, "bsp") == 0;
		a->lead.generation = shards_generation(a->shards)->number;
		a->lead.incarnation = shards_generation(a->shards)->incarnation;
		if (incarnation == a->lead.incarnation)
			return WORK_OK;
		if (clock_mono() >= deadline)
			return error_set(err, ERROR_UNAVAILABLE, a->options.lead,
					 "the lead is of incarnation %llu, but the queue of %llu",
					 (unsigned long long)incarnation,
					 (unsigned long long)a->lead.incarnation);
		hello = incarnation > a->lead.incarnation;
		conversation_close(&a->lead);
		clock_sleep(PAUSE_SECONDS);
		if (conversation_stopped(&a->lead))
			return WORK_STOP;
	}
}

void agent_forget(struct agent *a)
{
	conversation_close(&a->lead);
	a->phase = PHASE_OUT;
	a->asked.count = 0;
	agent_look_forget(a);
	a->dry = a->none = 0;
	a->sequence = 0;
	a->cut.rows = a->cut.ranges = 0;
	a->batch.range_count = 0;
	a->next_cut.rows = a->next_cut.ranges = 0;
	a->next_batch.range_count = 0;
	stock_drop(&a->stock);
	agent_sums_forget(a);
}

/* ---- rows ---- */

/* Cuts from the pieces that are here, without waiting. */
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

/* Requests more when less than a whole batch is in hand, or less than half of the most that may be
 * held; nothing while the trainer starts, which may take long: others would wait for these rows. */
static int ask_pieces(struct agent *a, struct error *err)
{
	uint64_t size = agent_batch_size(a), most = size * a->options.ahead, held = a->stock.rows;
	if (!a->spoke || a->is_enough || a->stop_at > 0 || a->place == PLACE_NONE || a->dry == WORK_END ||
	    shards_asked(a->shards) || (held >= size && held * 2 > most))
		return WORK_OK;
	double began = clock_mono();
	int result = shards_ask(a->shards, most - held, a->dry ? DOOR_SECONDS : 0, err);
	meter_spend(a->meter, SPENT_SHARDS, began);
	return result;
}

/* ---- what the lead is asked ---- */

void agent_asks_add(struct asks *asks, struct asked what)
{
	what.at = clock_mono();
	asks->item[(asks->first + asks->count++) % CONVERSATION_OPEN_MAX] = what;
}

struct asked agent_asks_take(struct asks *asks)
{
	struct asked what = asks->item[asks->first];
	asks->first = (asks->first + 1) % CONVERSATION_OPEN_MAX;
	asks->count--;
	return what;
}

const struct asked *agent_asks_at(const struct asks *asks, size_t i)
{
	return &asks->item[(asks->first + i) % CONVERSATION_OPEN_MAX];
}

int agent_ask(struct agent *a, struct record_out *o, struct asked what, const void *payload,
	      size_t bytes, struct error *err)
{
	if (a->asked.count == CONVERSATION_OPEN_MAX)
		return error_set(err, ERROR_SOFTWARE, a->options.lead, "too many requests at a time");
	agent_asks_add(&a->asked, what);
	return conversation_ask(&a->lead, o, payload, bytes, err);
}

static double asks_due(const struct asks *asks, double seconds)
{
	for (size_t i = 0; i < asks->count; i++) {
		const struct asked *what = agent_asks_at(asks, i);
		if (what->kind == ASK_PUSH || what->kind == ASK_SAVED)
			return what->at + seconds;
	}
	return INFINITY;
}

double agent_answer_due(const struct agent *a)
{
	return fmin(asks_due(&a->asked, a->options.answer_seconds),
		    asks_due(&a->sums.asked, a->options.answer_seconds));
}

int agent_join(struct agent *a, struct error *err)
{
	struct exchange_member member = {.size = agent_batch_size(a),
					 .speed = speed_next(a->pace.speed),
					 .most = meter_most(a->meter)};
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(&a->lead, &o, line, "join");
	lead_client_add_member(&o, &member);
	if (a->boot[0])
		record_add(&o, "boot", a->boot);
	if (a->options.replica)
		agent_sums_add_join(a, &o);
	else
		record_add_u64(&o, "begins", 1);
	if (a->options.world > 0 && !a->options.replica)
		record_add_u64(&o, "world", a->options.world);
	a->phase = PHASE_JOINING;
	return agent_ask(a, &o, (struct asked){.kind = ASK_JOIN}, NULL, 0, err);
}

static int say_begin(struct agent *a, uint64_t iteration, uint64_t count, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(&a->lead, &o, line, "begin");
	record_add_u64(&o, "iteration", iteration);
	record_add_u64(&o, "count", count);
	if (a->takes_empty)
		record_add_u64(&o, "empty", 1);
	if (iteration != a->iteration)
		record_add_u64(&o, "ahead", 1);
	return agent_ask(a, &o, (struct asked){.kind = ASK_BEGIN, .count = count}, NULL, 0, err);
}

static int ask_begin(struct agent *a, struct error *err)
{
	a->phase = PHASE_BEGINNING;
	return say_begin(a, a->iteration, a->cut.rows, err);
}

void agent_add_push(const struct agent *a, struct record_out *o)
{
	static const struct batch nothing;
	lead_client_add_push(o, &a->push, a->none ? &nothing : &a->batch);
}

int agent_push(struct agent *a, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (!a->options.replica || a->phase != PHASE_STAGING) {
		a->push.sequence = ++a->sequence;
		a->push.iteration = a->iteration;
	}
	if (a->options.replica && a->phase != PHASE_STAGING)
		return agent_sums_push(a, err);
	conversation_begin(&a->lead, &o, line, "push");
	agent_add_push(a, &o);
	lead_client_add_report(&o, &a->push);
	if (a->options.replica) { /* which has the gradient */
		record_add_u64(&o, "dense", 0);
		record_add_u64(&o, "rows", 0);
	}
	a->phase = PHASE_PUSHING;
	return agent_ask(a, &o, (struct asked){.kind = ASK_PUSH}, NULL, 0, err);
}

int agent_begin_early(struct agent *a, struct error *err)
{
	uint64_t size = agent_batch_size(a), rows = a->stock.rows;
	if (!a->bsp || a->none || (rows < size && (rows == 0 || a->dry != WORK_END)))
		return WORK_OK;
	if (a->dry == WORK_WAIT)
		a->dry = 0;
	stock_cut(&a->stock, size, &a->next_cut, &a->next_batch);
	return say_begin(a, a->iteration + 1, a->next_cut.rows, err);
}

int agent_say_enough(struct agent *a, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (!a->enough || a->phase == PHASE_OUT || a->phase == PHASE_JOINING ||
	    a->phase >= PHASE_ENDING)
		return WORK_OK;
	conversation_begin(&a->lead, &o, line, "enough");
	record_add(&o, "why", a->enough);
	return agent_ask(a, &o, (struct asked){.kind = ASK_ENOUGH}, NULL, 0, err);
}

int agent_report_values(struct agent *a, const char *values, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (a->phase == PHASE_OUT || a->phase == PHASE_JOINING || a->phase == PHASE_ENDED)
		return WORK_OK;
	conversation_begin(&a->lead, &o, line, "report");
	record_add(&o, "values", values);
	return agent_ask(a, &o, (struct asked){.kind = ASK_REPORT}, NULL, 0, err);
}

/* Takes part in an iteration of the others. */
static int push_nothing(struct agent *a, struct error *err)
{
	a->push = (struct exchange_push){.size = agent_batch_size(a), .no_loss = 1};
	return agent_push(a, err);
}

int agent_end(struct agent *a, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(&a->lead, &o, line, "end");
	a->phase = PHASE_ENDING;
	agent_report(a);
	meter_report(a->meter); /* no batch follows */
	return agent_ask(a, &o, (struct asked){.kind = ASK_END}, NULL, 0, err);
}

static int say_leave(struct agent *a, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(&a->lead, &o, line, "leave");
	a->phase = PHASE_LEAVING;
	return agent_ask(a, &o, (struct asked){.kind = ASK_LEAVE}, NULL, 0, err);
}

int agent_leave(struct agent *a, struct error *err)
{
	if (!a->options.replica || clock_mono() >= a->stop_at + a->options.grace_seconds)
		return WORK_STOP;
	if (a->phase == PHASE_IN || a->phase == PHASE_READY || a->phase == PHASE_ENDING)
		return say_leave(a, err);
	int waits = a->phase == PHASE_LEAVING || a->phase == PHASE_GIVING ||
		    (a->phase <= PHASE_JOINING && agent_sums_is_whole(a)); /* until it is in */
	return waits ? WORK_OK : WORK_STOP;
}

int agent_go_on_out(struct agent *a, struct error *err)
{
	return a->stop_at > 0 ? say_leave(a, err) : agent_end(a, err);
}

/* ---- what it answers ---- */

/* The times of the batch are reported later, because a report reads files of /proc. The trainer
 * reports its own time; for the rest of the batch it was in collectives with other trainers. */
static void note_batch(struct agent *a)
{
	double had = a->stepped_at - a->given_at, took = a->pace.took;
	if (a->pace.gauged) { /* its size is not the one by which nodes are compared */
		meter_spend(a->meter, SPENT_PROFILE, a->given_at);
		return;
	}
	a->done = (struct tally_batch){.time = a->push.time,
				       .compute = took,
				       .comm = fmax(had - took, 0),
				       .wait = a->waited + clock_mono() - a->stepped_at,
				       .samples = a->cut.rows};
	a->done_iteration = a->iteration;
	a->is_done = 1;
}

void agent_report(struct agent *a)
{
	if (a->is_done)
		meter_batch(a->meter, a->done_iteration, a->actions.accum, &a->done);
	a->is_done = 0;
}

static void agent_batch_obey(struct agent *a)
{
	double began = clock_mono();
	if (!a->actions.news)
		return;
	if (actions_resize(&a->actions)) { /* the measurement was for another size */
		agent_report(a);
		meter_report(a->meter);
	}
	actions_obey(&a->actions, a->iteration);
	meter_spend(a->meter, SPENT_ACTIONS, began);
}

static int agent_batch_read_iteration(struct agent *a, struct error *err)
{
	if (record_u64(&a->lead.record, "iteration", 0, UINT64_MAX, &a->iteration, err) != 0)
		return error_wrap(err, a->options.lead);
	return WORK_OK;
}

static int on_joined(struct agent *a, struct error *err)
{
	int result;
	record_u64_opt(&a->lead.record, "samples-done", 0, UINT64_MAX, &a->samples_done, NULL);
	if (a->options.replica) {
		result = agent_sums_joined(a, err);
	} else {
		a->phase = PHASE_IN;
		result = agent_batch_read_iteration(a, err);
		agent_batch_obey(a);
	}
	return result == WORK_OK ? agent_say_enough(a, err) : result;
}

static int on_begun(struct agent *a, uint64_t count, struct error *err)
{
	const struct record *r = &a->lead.record;
	uint64_t members = 0, samples = 0;
	if (record_u64_opt(r, "members", 0, UINT32_MAX, &members, err) != 0 ||
	    record_u64_opt(r, "samples", 0, UINT64_MAX, &samples, err) != 0)
		return error_wrap(err, a->options.lead);
	if (samples == 0) { /* to be sent again, if it was not already */
		int again = a->phase == PHASE_BEGINNING;
		for (size_t i = 0; i < a->asked.count; i++)
			again &= agent_asks_at(&a->asked, i)->kind != ASK_BEGIN;
		if (again)
			a->phase = PHASE_IN;
		return WORK_OK;
	}
	if (count > 0 && count != a->cut.rows)
		return error_set(err, ERROR_SOFTWARE, a->options.lead,
				 "begins an iteration with %llu rows of %s, which has %llu",
				 (unsigned long long)count, a->options.meter.id,
				 (unsigned long long)a->cut.rows);
	a->phase = PHASE_READY;
	a->none = count == 0;
	a->samples = samples;
	a->weight = a->bsp ? (double)members * (double)count / (double)samples : 1;
	return WORK_OK;
}

static void take_next(struct agent *a)
{
	struct batch done = a->batch; /* its memory is used again */
	a->cut = a->next_cut;
	a->batch = a->next_batch;
	a->next_cut.rows = a->next_cut.ranges = 0;
	a->next_batch = done;
}

static int on_pushed(struct agent *a, struct error *err)
{
	uint64_t size = agent_batch_size(a);
	int dropped = record_get(&a->lead.record, "dropped") != NULL;
	if (!a->none && dropped && !a->options.replica)
		return WORK_FENCED; /* its rows are handed out again, but the trainer's model has
				     * them already */
	if (!a->none) {
		if (!dropped)
			note_batch(a);
		a->cut.rows = 0;
		a->batch.range_count = 0;
	}
	a->none = 0;
	a->phase = PHASE_IN;
	int result = agent_batch_read_iteration(a, err);
	record_u64_opt(&a->lead.record, "samples", 0, UINT64_MAX, &a->samples, NULL); /* others may have gone */
	a->samples_done += a->samples;
	agent_batch_obey(a);
	if (a->next_cut.rows > 0) { /* the lead knows of it */
		a->phase = PHASE_BEGINNING;
		if (agent_batch_size(a) == size)
			take_next(a);
		else if (stock_uncut(&a->stock, &a->next_cut, &a->next_batch, err) != 0)
			return -1;
	}
	if (result == WORK_OK && a->options.replica)
		return agent_sums_pushed(a, err);
	if (result == WORK_OK && a->word == WORD_STEP)
		agent_answer_step(a);
	return result;
}

static int agent_batch_on_ended(struct agent *a, struct error *err)
{
	if (a->phase != PHASE_ENDING) /* it leaves: the answer to that comes, too */
		return WORK_OK;
	if (record_get(&a->lead.record, "wait") && agent_sums_gives(a)) {
		a->phase = PHASE_GIVING;
		return WORK_OK;
	}
	if (record_get(&a->lead.record, "wait"))
		return agent_end(a, err);
	a->phase = PHASE_ENDED;
	return WORK_OK;
}

static int agent_batch_on_answer(struct agent *a, struct error *err)
{
	struct asked what = agent_asks_take(&a->asked);
	switch (what.kind) {
	case ASK_JOIN:
		return on_joined(a, err);
	case ASK_BEGIN:
		return on_begun(a, what.count, err);
	case ASK_PUSH:
		return on_pushed(a, err);
	case ASK_END:
		return agent_batch_on_ended(a, err);
	case ASK_LEAVE:
		if (!record_get(&a->lead.record, "wait") || !agent_sums_gives(a))
			return WORK_STOP;
		a->phase = PHASE_GIVING;
		return WORK_OK;
	case ASK_TRAINER:
		a->look.is_asked = 0;
		return WORK_OK;
	default:
		return WORK_OK;
	}
}

/* Handles an `err`. If the loss is not finite, the message names the rows. */
static int agent_batch_refused(struct agent *a, struct error *err)
{
	struct error what;
	enum ask kind = agent_asks_take(&a->asked).kind;
	if (kind == ASK_TRAINER) { /* a lead without this request, or one that no longer knows this
				    * member */
		a->look.is_asked = 0;
		return WORK_OK;
	}
	if (kind == ASK_REPORT)
		return WORK_OK;
	if (kind == ASK_ENOUGH) {
		log_say(LOG_LEVEL_WARNING, "%s: the lead does not end the job: %s", a->options.meter.id,
			a->lead.record.text ? a->lead.record.text : "");
		return WORK_OK;
	}
	if (kind == ASK_SAVED) {
		log_say(LOG_LEVEL_WARNING, "%s: the saved files are no longer of use: %s",
			a->options.meter.id, a->lead.record.text ? a->lead.record.text : "");
		return WORK_OK;
	}
	if (kind == ASK_GIVEN) /* who wanted it has gone */
		return WORK_OK;
	int result = conversation_refused(&a->lead, err);
	if (result != WORK_DIVERGED)
		return result;
	what = *err;
	return error_set(err, ERROR_DATA, a->options.meter.id,
			 "%.300s; its rows begin with row %llu of shard %llu", what.text,
			 (unsigned long long)a->batch.range[0].begin,
			 (unsigned long long)a->batch.range[0].id);
}

static int agent_batch_hear(struct agent *a, struct error *err)
{
	const struct record *r = &a->lead.record;
	if (record_is(r, "action"))
		actions_take(&a->actions, r);
	if (record_is(r, "saved"))
		return agent_save_hold(a, r, err);
	if (record_is(r, "save"))
		return agent_save_due(a, r, err);
	if (record_is(r, "enough"))
		a->is_enough = 1;
	if (record_is(r, "give"))
		return agent_sums_give(a, r, err);
	if (!record_is(r, "err") && !record_is(r, "ok"))
		return WORK_OK;
	if (a->asked.count == 0)
		return error_set(err, ERROR_SOFTWARE, a->options.lead, "an answer without a "
								       "request");
	return record_is(r, "err") ? agent_batch_refused(a, err) : agent_batch_on_answer(a, err);
}

int agent_lead_waiting(const struct agent *a)
{
	return a->lead.call && call_buffered(a->lead.call);
}

int agent_hear_lead(struct agent *a, struct error *err)
{
	do {
		int result = conversation_receive(&a->lead, PATIENT, NULL, err);
		if (result == WORK_OK)
			result = agent_batch_hear(a, err);
		if (result != WORK_OK && a->phase == PHASE_ENDED) {
			/* A lead may end when its job is finished; the trainer still writes its
			 * result. */
			conversation_close(&a->lead);
			return WORK_OK;
		}
		if (result != WORK_OK)
			return result;
	} while (agent_lead_waiting(a));
	return WORK_OK;
}

/* ---- going on ---- */

/* A member cuts its next batch, and tells the lead its size. */
static int agent_batch_begin(struct agent *a, struct error *err)
{
	if (a->is_enough)
		return agent_end(a, err);
	if (a->cut.rows == 0) {
		if (a->stock.rows < agent_batch_size(a) && !a->dry)
			return WORK_OK; /* shardd's answer is on its way */
		if (a->stock.rows == 0 && a->dry == WORK_END)
			return agent_end(a, err);
		if (a->options.replica && a->stock.rows == 0 && a->sums.samples == 0 &&
		    shards_asked(a->shards))
			return WORK_OK; /* nobody had rows: it is shardd that says how long we wait */
		stock_cut(&a->stock, agent_batch_size(a), &a->cut, &a->batch);
		if (a->cut.rows > 0 && a->dry == WORK_WAIT)
			a->dry = 0;
	}
	if (a->options.replica) {
		a->none = a->cut.rows == 0;
		a->weight = 1;
		a->phase = PHASE_READY;
		return WORK_OK;
	}
	/* Without a barrier, this batch answers an open request that had no rows so far. */
	if (a->bsp || a->cut.rows == 0 || a->phase == PHASE_BEGINNING)
		return ask_begin(a, err);
	a->weight = 1;
	a->phase = PHASE_READY;
	return WORK_OK;
}

/* Rows, or the end, have come while the lead was being told that there are none. */
static int begin_again(struct agent *a, struct error *err)
{
	if (a->cut.rows > 0)
		return WORK_OK;
	if (a->stock.rows > 0)
		return agent_batch_begin(a, err);
	return a->dry == WORK_END ? agent_end(a, err) : WORK_OK;
}

static int agent_batch_ready(struct agent *a, int wanted, struct error *err)
{
	if (a->none && !a->takes_empty && !a->options.replica)
		return push_nothing(a, err);
	if (!wanted)
		return WORK_OK;
	agent_give_batch(a);
	return agent_rows_give(a, err);
}

static int agent_batch_step(struct agent *a, struct error *err)
{
	int wanted = a->word == WORD_NEXT;
	switch (a->phase) {
	case PHASE_OUT:
		if (a->options.replica)
			return agent_sums_out(a, err);
		return wanted ? agent_join(a, err) : WORK_OK;
	case PHASE_IN:
		return agent_batch_begin(a, err);
	case PHASE_BEGINNING:
		return begin_again(a, err);
	case PHASE_READY:
		return agent_batch_ready(a, wanted && !a->given, err);
	case PHASE_ENDED:
		if (wanted) {
			agent_answer_state(a, "end");
			a->finished = 1;
			agent_rows_end(a);
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
			result = agent_batch_step(a, err);
		/* Requests for later batches are sent when nobody waits. */
		if (result == WORK_OK && a->phase != PHASE_ENDED && !a->given &&
		    a->phase != PHASE_READY && a->cut.rows == 0)
			result = ask_pieces(a, err);
		if (result != WORK_OK)
			return result;
	} while (a->phase != before);
	/* A checkpoint must not wait for a batch that may take long to come. */
	if (a->word == WORD_NEXT && (a->save.is_due || a->sums.give.is_due) &&
	    a->phase != PHASE_READY)
		agent_answer_state(a, "wait");
	return WORK_OK;
}

int agent_catch_up(struct agent *a, struct error *err)
{
	if (!a->given)
		return WORK_OK;
	agent_report(a);
	speed_keep(a->pace.speed, clock_mono());
	return a->dry == WORK_END ? WORK_OK : ask_pieces(a, err);
}
