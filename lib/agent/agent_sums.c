/*
 * Gradients that the replica of this host sums (SYNC=allreduce with a trainer).  The trainer puts
 * its gradient into memory that the agent shares with the replica; the agent pushes it there, then
 * tells the lead, and hands the sum that was committed back.  Words: agent(1).
 *
 * Parameters are in the trainers, and all that are at one iteration have the same.  So an agent that
 * is out joins again with the iteration that its trainer has, also while the trainer still
 * computes: its rows are no longer its own, so that gradient is pushed as one of no rows; and while
 * it steps, or does whatever it does before its next word.  If the lead is further, the trainer
 * either gets the one sum that it lacks, or loads the state of another trainer.
 */
#include "agent/agent_internal.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/keep.h"
#include "base/log.h"
#include "ckpt/memory.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RETRY_SECONDS 0.05

/* ---- beginning and end ---- */

static int sums_check_greeting(const struct record *greeting, const void *unused, struct error *err)
{
	(void)unused;
	return record_get(greeting, "replica") ? 0
					       : error_set(err, ERROR_CONFIG, "", "is no replica");
}

void agent_sums_start(struct agent *a)
{
	struct conversation_options *talk = &a->sums.part.talk.options;
	*talk = a->lead.options;
	talk->path = a->options.replica;
	talk->check = sums_check_greeting;
	a->sums.part.only_sums = 1;
	a->sums.state_fd = a->sums.give.fd = -1;
}

void agent_sums_free(struct agent *a)
{
	part_client_free(&a->sums.part);
	fs_close(&a->sums.state_fd);
	fs_close(&a->sums.give.fd);
}

/* The replica is gone, or is another one from now on. */
static void sums_disconnect(struct sums *s)
{
	conversation_disconnect(&s->part.talk);
	s->is_open = s->filling = 0;
	s->asked.count = 0;
	s->since = 0;
}

void agent_sums_forget(struct agent *a)
{
	struct sums *s = &a->sums;
	for (size_t i = 0; i < CONVERSATION_OPEN_MAX; i++)
		if (s->asked.item[i].kind != ASK_ROOM)
			s->asked.item[i].kind = ASK_OVER;
	s->filling = s->step.is_due = 0;
	agent_save_over(a, SAVING_CUT);
	agent_save_over(a, SAVING_GIVE);
}

/* ---- words ---- */

int agent_sums_hear(struct agent *a, struct error *err)
{
	struct error why = {0};
	if (!a->options.replica)
		return agent_broken(a, "order",
				    "'sums': the script gives sums=, which needs SYNC=allreduce in the job file", err);
	if (a->sums.floats > 0)
		return agent_broken(a, "order", "'sums' a second time", err);
	if (record_u64(&a->record, "floats", 1, SUM_PAIR_FLOATS_MAX, &a->sums.floats, &why) != 0)
		return agent_broken(a, "bad-request", why.text, err);
	a->sums.part.dense_count = a->sums.floats;
	a->word = WORD_SUMS;
	a->word_at = clock_mono();
	return WORK_OK;
}

int agent_sums_final(struct agent *a, struct error *err)
{
	uint64_t begin, count, floats = a->sums.floats;
	struct error why = {0};
	if (floats == 0)
		return agent_broken(a, "order", "'final' before 'sums'", err);
	if (record_u64(&a->record, "begin", 0, floats - 1, &begin, &why) != 0 ||
	    record_u64(&a->record, "count", 1, floats - begin, &count, &why) != 0)
		return agent_broken(a, "bad-request", why.text, err);
	if (a->given && a->phase == PHASE_READY && !a->none)
		part_client_final(&a->sums.part, a->sequence + 1, a->iteration, (size_t)begin,
				  (size_t)count);
	return WORK_OK;
}

void agent_sums_next(struct agent *a)
{
	struct sums *s = &a->sums;
	s->began = 1;
	if (!s->loading)
		return;
	s->loading = 0;
	s->is_whole = 1;
	s->version = a->resume_iteration;
	s->incarnation = a->lead.incarnation;
	fs_close(&s->state_fd);
}

/* The trainer goes on without a step. */
static void sums_answer_nothing(struct agent *a)
{
	agent_answer(a, RECORD("ok", F("iteration", a->sums.version), F("samples", 0)));
}

/* The sum of `iteration`, of so many samples; is_bad: it is not finite. -1: it is not here. */
static int sums_answer(struct agent *a, uint64_t iteration, uint64_t round, uint64_t samples,
		       int is_bad)
{
	struct sums *s = &a->sums;
	char path[64];
	int64_t at = samples > 0 ? part_client_sum_at(&s->part, iteration, round) : 0;
	if (at < 0)
		return -1;
	s->version = iteration + 1;
	s->samples = samples;
	words_memory_path(path, sizeof path, s->part.sums.fd);
	agent_answer(a, RECORD("ok", F("iteration", s->version), F("samples", samples),
			       samples > 0 ? F("path", (const char *)path) : F_NONE,
			       samples > 0 ? F("offset-bytes", (uint64_t)at) : F_NONE,
			       is_bad ? F("bad", 1) : F_NONE));
	return 0;
}

/* ---- the replica ---- */

static void sums_begin(struct agent *a, struct record_out *o, char *line, const char *type)
{
	struct conversation *c = &a->sums.part.talk;
	c->generation = a->lead.generation;
	c->incarnation = a->lead.incarnation;
	conversation_begin(c, o, line, type);
}

static int sums_ask(struct agent *a, struct record_out *o, enum ask kind, int fd, struct error *err)
{
	struct sums *s = &a->sums;
	if (s->asked.count == CONVERSATION_OPEN_MAX)
		return error_set(err, ERROR_SOFTWARE, a->options.replica,
				 "too many requests at a time");
	agent_asks_add(&s->asked, (struct asked){.kind = kind});
	return conversation_pass(&s->part.talk, o, fd, err);
}

/* One try. WORK_WAIT: it is not there yet. */
static int sums_connect(struct agent *a, struct error *err)
{
	struct sums *s = &a->sums;
	struct conversation *c = &s->part.talk;
	uint64_t incarnation;
	double now = clock_mono();
	s->since = s->since > 0 ? s->since : now;
	s->retry_at = now + RETRY_SECONDS;
	int result = part_client_connect(&s->part, 0, err);
	if (result == WORK_OK && !s->part.memory)
		return error_set(err, ERROR_UNAVAILABLE, a->options.replica,
				 "takes no memory for a gradient of %llu floats",
				 (unsigned long long)s->floats);
	if (result == WORK_OK && conversation_incarnation(c, &incarnation, err) != 0)
		return -1;
	if (result == WORK_OK && incarnation != a->lead.incarnation) {
		error_set(err, ERROR_UNAVAILABLE, a->options.replica, "is of incarnation %llu, not %llu",
			  (unsigned long long)incarnation, (unsigned long long)a->lead.incarnation);
		conversation_disconnect(c);
		result = -1;
	}
	if (result < 0 && err->code == ERROR_UNAVAILABLE && now < s->since + a->options.wait_seconds)
		return WORK_WAIT;
	if (result != WORK_OK)
		return result;
	c->incarnation = a->lead.incarnation;
	agent_asks_add(&s->asked, (struct asked){.kind = ASK_ROOM});
	return part_client_ask_room(&s->part, err);
}

/* WORK_OK: it sums for us. WORK_WAIT: not yet. */
static int sums_open(struct agent *a, struct error *err)
{
	struct sums *s = &a->sums;
	if (conversation_fd(&s->part.talk) >= 0 &&
	    s->part.talk.incarnation != a->lead.incarnation) /* of a life of the job that is over */
		sums_disconnect(s);
	if (s->is_open)
		return WORK_OK;
	if (conversation_fd(&s->part.talk) >= 0 || clock_mono() < s->retry_at)
		return WORK_WAIT;
	int result = sums_connect(a, err);
	if (result != WORK_RESET && result != WORK_OK)
		return result;
	if (result == WORK_RESET)
		sums_disconnect(s);
	return WORK_WAIT;
}

double agent_sums_due(const struct agent *a)
{
	const struct sums *s = &a->sums;
	int is_wait = s->is_open ? s->retry_at > clock_mono() : conversation_fd(&s->part.talk) < 0;
	return a->phase == PHASE_OUT && s->floats > 0 && is_wait ? s->retry_at : INFINITY;
}

static int sums_on_room(struct agent *a, struct error *err)
{
	struct sums *s = &a->sums;
	const struct record *r = &s->part.talk.record;
	const char *code = record_is(r, "err") ? record_get(r, "code") : NULL;
	if (code && strcmp(code, "config") == 0)
		return error_set(err, ERROR_CONFIG, a->options.replica, "%s",
				 r->text ? r->text : "sums gradients of another length");
	if (record_is(r, "err"))
		return conversation_refused(&s->part.talk, err);
	if (part_client_take_room(&s->part, err) != 0)
		return -1;
	s->is_open = 1;
	s->since = s->retry_at = 0;
	return WORK_OK;
}

/* ---- a batch ---- */

int agent_sums_push(struct agent *a, struct error *err)
{
	struct sums *s = &a->sums;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	sums_begin(a, &o, line, "push");
	agent_add_push(a, &o);
	a->phase = PHASE_STAGING;
	agent_asks_add(&s->asked, (struct asked){.kind = ASK_PUSH});
	return part_client_ask_push(&s->part, &o, a->push.sequence, NULL, err);
}

/* All replicas have a sum before it is committed, so it is here. */
int agent_sums_pushed(struct agent *a, struct error *err)
{
	const struct record *r = &a->lead.record;
	uint64_t samples = 0;
	if (record_u64(r, "samples", 0, UINT64_MAX, &samples, err) != 0)
		return error_wrap(err, a->options.lead);
	if (a->iteration == a->push.iteration + 1 &&
	    sums_answer(a, a->push.iteration, 0, samples, record_get(r, "bad") != NULL) == 0)
		return WORK_OK;
	return WORK_RESET;
}

/* ---- joining ---- */

int agent_sums_is_whole(const struct agent *a)
{
	return a->sums.is_whole && a->sums.incarnation == a->lead.incarnation;
}

void agent_sums_add_join(const struct agent *a, struct record_out *o)
{
	const struct sums *s = &a->sums;
	record_add(o, "replica", record_get(call_greeting(s->part.talk.call), "id"));
	if (agent_sums_is_whole(a))
		record_add_u64(o, "version", s->version);
	if (agent_sums_is_whole(a) && s->version == 0 && s->beginning)
		record_add_u64(o, "beginning", s->beginning);
}

/* The lead names a replica that has the state of another trainer. */
static int ask_state(struct agent *a, const char *from, struct error *err)
{
	struct sums *s = &a->sums;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	uint64_t attempt;
	if (record_u64(&a->lead.record, "attempt", 0, UINT64_MAX, &attempt, err) != 0)
		return error_wrap(err, a->options.lead);
	s->is_whole = 0;
	s->filling = 1;
	sums_begin(a, &o, line, "state-get");
	record_add_u64(&o, "attempt", attempt);
	record_add(&o, "from", from);
	return sums_ask(a, &o, ASK_STATE_GET, -1, err);
}

int agent_sums_joined(struct agent *a, struct error *err)
{
	struct sums *s = &a->sums;
	const struct record *r = &a->lead.record;
	const char *from = record_get(r, "fill");
	uint64_t iteration, beginning = 0;
	a->phase = PHASE_OUT;
	if (record_u64(r, "iteration", 0, UINT64_MAX, &iteration, err) != 0 ||
	    record_u64_opt(r, "beginning", 0, UINT64_MAX, &beginning, err) != 0)
		return error_wrap(err, a->options.lead);
	if (!record_get(r, "step"))
		s->beginning = beginning;
	/* Nobody knows when it would load that, so nobody waits for it. */
	if (from && a->word == WORD_NONE) {
		s->is_whole = 0;
		return WORK_FENCED;
	}
	if (from)
		return s->is_open ? ask_state(a, from, err) : WORK_OK;
	if (record_get(r, "step")) {
		s->step.is_due = a->given || a->word == WORD_STEP;
		s->is_whole = s->step.is_due;
		s->step.iteration = iteration;
		if (record_u64(r, "step", 0, UINT64_MAX, &s->step.round, err) != 0 ||
		    record_u64(r, "samples", 0, UINT64_MAX, &s->step.samples, err) != 0)
			return error_wrap(err, a->options.lead);
		s->step.is_bad = record_get(r, "bad") != NULL;
		return s->is_whole || a->word != WORD_NONE ? WORK_OK : WORK_FENCED;
	}
	if (agent_sums_is_whole(a) && s->version != iteration)
		return error_set(err, ERROR_SOFTWARE, a->options.lead,
				 "lets %s in at iteration %llu, but its trainer is at %llu",
				 a->options.meter.id, (unsigned long long)iteration,
				 (unsigned long long)s->version);
	s->is_whole = 1;
	a->iteration = s->version = iteration;
	s->incarnation = a->lead.incarnation;
	s->samples = 1; /* nothing is known */
	a->none = a->given || a->word == WORD_STEP;
	a->phase = a->none ? PHASE_READY : PHASE_IN;
	a->push.no_loss = a->none;
	if (a->word == WORD_STEP)
		return agent_push(a, err);
	return WORK_OK;
}

/* The sum that it lacks, once the trainer has ended its batch. */
static void sums_late_step(struct agent *a)
{
	struct sums *s = &a->sums;
	if (a->word != WORD_STEP)
		return;
	s->step.is_due = 0;
	if (s->step.iteration == s->version + 1 &&
	    sums_answer(a, s->version, s->step.round, s->step.samples,
			s->step.is_bad) == 0)
		return;
	s->is_whole = 0;
	sums_answer_nothing(a);
}

/* A spare whose trainer is ready asks for a place, or looks whether there is one. */
static int sums_look_for_place(struct agent *a, struct error *err)
{
	if (a->place != PLACE_NONE || a->word != WORD_NEXT ||
	    (!a->sums.is_open && spare_fd(&a->spare) < 0))
		return WORK_OK;
	int result = spare_try(&a->spare, err);
	if (result == WORK_END) /* the job needs no more */
		return WORK_STOP;
	if (result != WORK_OK)
		return result == WORK_WAIT ? WORK_OK : result;
	agent_set_size(a, a->spare.batch);
	a->place = PLACE_NEW;
	return WORK_OK;
}

int agent_sums_out(struct agent *a, struct error *err)
{
	struct sums *s = &a->sums;
	int looked = s->floats > 0 ? sums_look_for_place(a, err) : WORK_OK;
	if (s->floats == 0 || looked != WORK_OK)
		return looked;
	int result = sums_open(a, err);
	if (result == WORK_OK && a->word == WORD_SUMS) {
		char path[64];
		words_memory_path(path, sizeof path, part_client_gradient_fd(&s->part));
		agent_answer(a, RECORD("ok", F("path", (const char *)path),
				       F("bytes", s->floats * sizeof(float))));
	}
	if (result == WORK_OK && s->step.is_due) {
		sums_late_step(a);
		return WORK_OK;
	}
	if (a->word == WORD_STEP && !s->is_whole)
		sums_answer_nothing(a);
	if (a->word == WORD_NEXT && a->resume_due)
		agent_answer_state(a, "wait");
	if (result != WORK_OK)
		return result == WORK_WAIT ? WORK_OK : result;
	/* Others wait for who is being filled, so its trainer must be there to load what comes. */
	if (a->place == PLACE_NONE || !s->began || s->loading || s->filling || a->resume_due ||
	    (a->word == WORD_NONE && !agent_sums_is_whole(a)) || clock_mono() < s->retry_at)
		return WORK_OK;
	return agent_join(a, err);
}

/* ---- states ---- */

/* Another trainer's state: a file in memory, which the trainer reads before it goes on. */
static int sums_on_state(struct agent *a, int fd, struct error *err)
{
	struct sums *s = &a->sums;
	const struct record *r = &s->part.talk.record;
	char path[64];
	s->filling = 0;
	if (record_is(r, "err") || fd < 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX, &a->resume_iteration, err) != 0) {
		log_say(LOG_LEVEL_INFO, "%s: no state from another trainer: %s", a->options.meter.id,
			r->text ? r->text : "");
		s->retry_at = clock_mono() + RETRY_SECONDS;
		return WORK_OK;
	}
	fs_close(&s->state_fd);
	if ((s->state_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0)
		return error_errno(err, ERROR_OS, a->options.replica, "dup");
	words_memory_path(path, sizeof path, s->state_fd);
	free(a->resume);
	free(a->resume_of);
	a->resume = strdup(path);
	a->resume_of = strdup(a->options.meter.id);
	a->resume_due = 1;
	return a->resume && a->resume_of ? WORK_OK : error_set(err, ERROR_OS, "", "out of memory");
}

static int tell_given(struct agent *a, const char *why, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (why)
		log_say(LOG_LEVEL_WARNING, "%s: its state can't be given: %s", a->options.meter.id,
			why);
	conversation_begin(&a->lead, &o, line, "given");
	record_add_u64(&o, "iteration", a->sums.give.iteration);
	record_add_u64(&o, "attempt", a->sums.give.attempt);
	if (why) {
		record_add_u64(&o, "failed", 1);
		record_add(&o, "why", why);
	}
	int result = agent_ask(a, &o, (struct asked){.kind = ASK_GIVEN}, NULL, 0, err);
	return result == WORK_OK && a->phase == PHASE_GIVING ? agent_go_on_out(a, err) : result;
}

/* The trainer may still write into the file that it was told before; it is told the same one. */
int agent_sums_give(struct agent *a, const struct record *r, struct error *err)
{
	struct sums *s = &a->sums;
	struct error why = {0};
	agent_save_over(a, SAVING_GIVE);
	if (record_u64(r, "iteration", 0, UINT64_MAX, &s->give.iteration, err) != 0 ||
	    record_u64(r, "attempt", 0, UINT64_MAX, &s->give.attempt, err) != 0)
		return error_wrap(err, a->options.lead);
	if (a->save.told_count + 2 > SAVES_MAX)
		return tell_given(a, SAVES_OPEN, err);
	/* It would write before its next batch, but this one is not committed before it has. */
	if (a->phase == PHASE_JOINING && (a->given || a->word == WORD_STEP))
		return tell_given(a, "it is in the middle of a batch", err);
	if (s->give.fd < 0)
		s->give.fd = keep_new(CKPT_MEMORY_STATE, &why);
	if (s->give.fd < 0)
		return tell_given(a, why.text, err);
	s->give.is_due = 1;
	return WORK_OK;
}

int agent_sums_gives(const struct agent *a)
{
	int gives = a->sums.give.is_due;
	for (size_t i = 0; i < a->save.told_count; i++)
		gives |= a->save.told[i] == SAVING_GIVE;
	for (size_t i = 0; i < a->sums.asked.count; i++)
		gives |= agent_asks_at(&a->sums.asked, i)->kind == ASK_STATE;
	return gives;
}

int agent_sums_given(struct agent *a, const char *why, struct error *err)
{
	struct sums *s = &a->sums;
	struct stat st = {0};
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (!why && (fstat(s->give.fd, &st) != 0 || st.st_size == 0))
		why = "the trainer has written nothing";
	if (!why && keep_seal(s->give.fd) != 0)
		why = "the trainer still has the file mapped for writing";
	if (!why && !s->is_open)
		why = "the replica is gone";
	if (why) {
		fs_close(&s->give.fd);
		return tell_given(a, why, err);
	}
	sums_begin(a, &o, line, "state");
	record_add_u64(&o, "iteration", s->give.iteration);
	record_add_u64(&o, "attempt", s->give.attempt);
	record_add_u64(&o, "length", (uint64_t)st.st_size);
	int result = sums_ask(a, &o, ASK_STATE, s->give.fd, err);
	fs_close(&s->give.fd);
	return result;
}

/* ---- what the replica answers ---- */

static int sums_on_answer(struct agent *a, enum ask kind, int fd, struct error *err)
{
	const struct conversation *c = &a->sums.part.talk;
	int refused = record_is(&c->record, "err");
	if (kind == ASK_ROOM)
		return sums_on_room(a, err);
	if (kind == ASK_STATE_GET)
		return sums_on_state(a, fd, err);
	if (kind == ASK_STATE)
		return tell_given(a, refused ? c->record.text ? c->record.text : "refused" : NULL,
				  err);
	if (kind == ASK_PUSH)
		return refused ? conversation_refused(c, err) : agent_push(a, err);
	return WORK_OK;
}

static int sums_hear_one(struct agent *a, struct error *err)
{
	struct sums *s = &a->sums;
	const struct record *r = &s->part.talk.record;
	int result = conversation_try(&s->part.talk, err);
	if (result != WORK_OK || (!record_is(r, "ok") && !record_is(r, "err")))
		return result;
	if (s->asked.count == 0)
		return error_set(err, ERROR_SOFTWARE, a->options.replica,
				 "an answer without a request");
	enum ask kind = agent_asks_take(&s->asked).kind;
	int fd = kind == ASK_ROOM ? -1 : call_passed(s->part.talk.call);
	result = sums_on_answer(a, kind, fd, err);
	fs_close(&fd);
	return result;
}

int agent_sums_hear_replica(struct agent *a, struct error *err)
{
	int result;
	while ((result = sums_hear_one(a, err)) == WORK_OK)
		;
	if (result == WORK_WAIT)
		return WORK_OK;
	if (result == WORK_RESET)
		sums_disconnect(&a->sums);
	/* Who is no member needs no new generation for another replica. */
	return result == WORK_RESET && (a->phase == PHASE_OUT || a->phase == PHASE_ENDED) ? WORK_OK
											  : result;
}
