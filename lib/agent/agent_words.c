/*
 * The conversation with the trainer. The trainer is not trusted: each word is checked, and one out
 * of order ends it.
 */
#include "agent/agent_internal.h"

#include "base/clock.h"
#include "monitor/node.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define SECONDS_MAX 1e9
#define PAUSE_SECONDS 1800.0 /* seconds, as in job/deadline.c; if the trainer names no limit */
#define VALUES_BYTES_MAX 1000
#define TURN_WORDS 64        /* words in one turn, because a trainer may send them without end */

/* ---- answers ---- */

static void agent_words_begin(struct record_out *o, char *line, const char *type)
{
	record_begin(o, line, RECORD_LINE_MAX, type);
}

/* Sent when nothing more can be done now: the answer to a word that came early goes with it. */
static void agent_words_answered(struct agent *a)
{
	a->word = WORD_NONE;
	agent_look_turn(a);
}

void agent_answer_state(struct agent *a, const char *state)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	agent_save_tell(a);
	agent_words_begin(&o, line, "ok");
	record_add(&o, "state", state);
	words_put(&a->words, &o, NULL);
	agent_words_answered(a);
}

void agent_answer(struct agent *a, struct record_out *ok)
{
	words_put(&a->words, ok, NULL);
	agent_words_answered(a);
}

void agent_answer_step(struct agent *a)
{
	agent_save_tell(a);
	agent_answer(a, RECORD("ok", F("iteration", a->iteration)));
}

static void put_range(struct agent *a, const struct stock_range *r)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	const struct piece *p = &r->piece;
	agent_words_begin(&o, line, "range");
	record_add_u64(&o, "begin", p->shuffled ? p->begin : p->begin + r->position);
	record_add_u64(&o, "length", p->shuffled ? p->length : r->length);
	if (p->shuffled) {
		record_add_u64(&o, "seed", p->seed);
		record_add_u64(&o, "skip", r->position);
		record_add_u64(&o, "take", r->length);
	}
	words_put(&a->words, &o, NULL);
}

void agent_give_batch(struct agent *a)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	agent_save_tell(a);
	agent_words_begin(&o, line, "batch");
	record_add_u64(&o, "iteration", a->iteration);
	record_add_u64(&o, "size", a->none ? 0 : a->cut.rows);
	record_add_u64(&o, "accum", agent_speed_accum(a, a->cut.rows));
	record_add_real(&o, "weight", a->weight);
	record_add_real(&o, "lr-scale", a->actions.scale);
	if (!a->none && a->cut.ranges > 0)
		record_add_u64(&o, "epoch", a->cut.range[0].piece.epoch);
	if (a->bsp) {
		const struct generation *g = shards_generation(a->shards);
		record_add_u64(&o, "samples", a->samples);
		record_add_u64(&o, "samples-done", a->samples_done);
		if (g->epochs)
			record_add_u64(&o, "samples-all", g->samples * g->epochs);
	}
	words_put(&a->words, &o, NULL);
	for (size_t i = 0; !a->none && i < a->cut.ranges; i++)
		put_range(a, &a->cut.range[i]);
	agent_words_begin(&o, line, "ok");
	words_put(&a->words, &o, NULL);
	a->given = a->trained = 1;
	a->given_at = clock_mono();
	a->waited = a->given_at - a->word_at;
	agent_words_answered(a);
}

void agent_refuse(struct agent *a, const char *code, const char *why)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	agent_words_begin(&o, line, "err");
	record_add(&o, "code", code);
	words_put(&a->words, &o, why);
	words_send(&a->words);
}

/* Answers a word that may come at any time. */
static void words_ok(struct agent *a)
{
	agent_look_turn(a);
	words_put(&a->words, RECORD_BARE("ok"), NULL);
	words_send(&a->words);
}

int agent_broken(struct agent *a, const char *code, const char *why, struct error *err)
{
	char place[ERROR_PLACE_MAX];
	words_place(&a->words, place, sizeof place);
	agent_refuse(a, code, why);
	return error_set(err, ERROR_DATA, place, "%s", why);
}

/* ---- words ---- */

static int on_next(struct agent *a, struct error *err)
{
	uint64_t empty = 0;
	struct error why = {0};
	a->look.seen.pauses = 0;
	if (a->given)
		return agent_broken(a, "order",
				    a->options.replica
					    ? "'next' before 'sum': each trainer says 'sum' for "
					      "each batch, also for one of no rows"
					    : "'next' before 'step' has said that the batch is "
					      "trained",
				    err);
	if (a->options.replica && a->sums.floats == 0)
		return agent_broken(a, "order",
				    "the job sums gradients (SYNC=allreduce), and the script gives it none: in "
				    "Python epochs() or batches() need sums=model, and loader.sum(loss) stands "
				    "behind backward(); other languages say 'sums' before 'next' (WORDS in "
				    "agent(1)); with DistributedDataParallel take SYNC=bsp",
				    err);
	if (record_u64_opt(&a->record, "empty", 0, 1, &empty, &why) != 0)
		return agent_broken(a, "bad-request", why.text, err);
	a->takes_empty = empty != 0;
	agent_speed_device(a, record_get(&a->record, "device"));
	a->word = WORD_NEXT;
	a->word_at = clock_mono();
	if (a->options.replica)
		agent_sums_next(a);
	return WORK_OK;
}

/* A loss that is not finite goes to the lead unchanged: it shows that the model has diverged. */
static int read_loss(const struct record *r, double *loss, struct error *err)
{
	const char *text = record_get(r, "loss");
	*loss = 0;
	if (text && (!*text || strcasestr(text, "nan") || strcasestr(text, "inf")))
		*loss = NAN;
	else if (text)
		return record_real(r, "loss", -DBL_MAX, DBL_MAX, loss, err);
	return 0;
}

static int on_step(struct agent *a, struct error *err)
{
	struct exchange_push *push = &a->push;
	struct error why = {0};
	double loss, now = clock_mono();
	a->look.seen.pauses = 0;
	if (record_is(&a->record, "sum") != (a->options.replica != NULL))
		return agent_broken(a, "order",
				    "a gradient that is summed here (SYNC=allreduce) ends with 'sum', "
				    "all others with 'step'",
				    err);
	if (!a->given)
		return agent_broken(a, "order",
				    a->options.replica
					    ? "'sum', but no batch is under way"
					    : "'step', but all batches are done already",
				    err);
	*push = (struct exchange_push){.size = agent_batch_size(a), .time = now - a->given_at};
	if (agent_speed_step(a, &why) != 0 || read_loss(&a->record, &loss, &why) != 0)
		return agent_broken(a, "bad-request", why.text, err);
	push->loss = a->none ? 0 : loss * (double)a->cut.rows;
	push->no_loss = a->none || !record_get(&a->record, "loss");
	a->stepped_at = now;
	a->given = 0;
	a->word = WORD_STEP;
	a->word_at = now;
	if (a->options.replica) /* it may be no member now */
		return a->phase == PHASE_READY ? agent_push(a, err) : WORK_OK;
	int result = agent_push(a, err);
	return result == WORK_OK ? agent_begin_early(a, err) : result;
}

/* Only a pause says how long it may take. */
static int on_pause(struct agent *a)
{
	struct error why = {0};
	double seconds = PAUSE_SECONDS;
	if (record_real_opt(&a->record, "seconds", 0, SECONDS_MAX, &seconds, &why) != 0) {
		agent_refuse(a, "bad-request", why.text);
		return WORK_OK;
	}
	a->look.seen.pauses = seconds;
	words_ok(a);
	return WORK_OK;
}

static int on_report(struct agent *a, struct error *err)
{
	const char *values = record_get(&a->record, "values");
	if (!values || !*values || strlen(values) > VALUES_BYTES_MAX) {
		agent_refuse(a, "bad-request", "values=NAME:NUMBER,... is missing, or too long");
		return WORK_OK;
	}
	words_ok(a);
	return agent_report_values(a, values, err);
}

static int on_fits(struct agent *a)
{
	struct error why = {0};
	uint64_t rows;
	if (record_u64(&a->record, "rows", 1, NODE_BATCH_MAX, &rows, &why) != 0) {
		agent_refuse(a, "bad-request", why.text);
		return WORK_OK;
	}
	agent_speed_fits(a, rows);
	words_ok(a);
	return WORK_OK;
}

/* The batch that the trainer has, or that others have begun, is still trained. */
static int on_enough(struct agent *a, struct error *err)
{
	const char *why = record_get(&a->record, "why");
	if (!a->enough && !(a->enough = strdup(why ? why : "")))
		return error_set(err, ERROR_OS, a->options.meter.id, "out of memory");
	words_ok(a);
	return agent_say_enough(a, err);
}

static int agent_words_take(struct agent *a, struct error *err)
{
	char why[200];
	if (record_is(&a->record, "waits")) { /* not answered: it may come between any two words */
		agent_waits(a);
		return WORK_OK;
	}
	if (record_is(&a->record, "pause"))
		return on_pause(a);
	if (record_is(&a->record, "enough"))
		return on_enough(a, err);
	if (record_is(&a->record, "report"))
		return on_report(a, err);
	if (record_is(&a->record, "fits"))
		return on_fits(a);
	if (record_is(&a->record, "next"))
		return on_next(a, err);
	if (record_is(&a->record, "step") || record_is(&a->record, "sum"))
		return on_step(a, err);
	if (record_is(&a->record, "sums"))
		return agent_sums_hear(a, err);
	if (record_is(&a->record, "final")) /* not answered */
		return agent_sums_final(a, err);
	if (record_is(&a->record, "saved"))
		return agent_saved(a, &a->record, err);
	if (record_is(&a->record, "failed"))
		return agent_save_failed(a, &a->record, err);
	snprintf(why, sizeof why,
		 "'%.60s' is none of next, step, report, enough, fits, saved, failed, pause, "
		 "waits, sums, final, sum",
		 a->record.type);
	agent_refuse(a, "unknown-request", why);
	return WORK_OK;
}

/* Words are handled one at a time: the next one is read when the previous one is answered. */
int agent_hear_trainer(struct agent *a, struct error *err)
{
	for (int i = 0; i < TURN_WORDS && a->word == WORD_NONE && words_have_room(&a->words); i++) {
		int found = words_read(&a->words, &a->record, err);
		if (found < 0 && a->words.closed) {
			a->half = *err; /* how it ended may say more */
			return WORK_OK;
		}
		if (found < 0) {
			agent_refuse(a, "bad-request", err->text);
			return -1;
		}
		if (found != WORDS_ONE)
			return WORK_OK;
		a->spoke = 1;
		int result = agent_words_take(a, err);
		if (result != WORK_OK)
			return result;
	}
	return WORK_OK;
}
