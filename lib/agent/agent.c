/* agent: see agent.h. Here: beginning, waiting for whatever comes first, ending. */
#include "agent/agent_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "proc/limits.h"

#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HELD_SECONDS 1.0   /* seconds for which a `next` that can't be answered is held back */
#define CLOSED_SECONDS 2.0 /* a trainer that has closed its end is ending, or is broken */
#define SPIN_SECONDS 100e-6
#define SPIN_VAIN_MAX 6u /* then one of 2^6 waits is tried */
#define LIVES_PAUSE_SECONDS 0.05

/* ---- making ---- */

/* shardd says which pieces we hold; a piece that we do not know was in an answer that got lost. */
static int agent_take_held(const struct piece *p, void *owner, struct error *err)
{
	struct agent *a = owner;
	for (size_t i = 0; i < a->batch.range_count; i++)
		if (a->batch.range[i].id == p->id)
			return 0;
	for (size_t i = 0; i < a->next_batch.range_count; i++)
		if (a->next_batch.range[i].id == p->id)
			return 0;
	return stock_knows(&a->stock, p->id) ? 0 : stock_add(&a->stock, p, err);
}

void agent_set_size(struct agent *a, uint64_t batch)
{
	actions_start(&a->actions, a->options.meter.id, batch);
	a->actions.log = a->options.meter.log;
	a->actions.owner = a->options.meter.owner;
}

int agent_new(struct agent **out, const struct agent_options *options, struct error *err)
{
	const struct agent_options *o = options;
	struct generation shards = {.path = o->shards,
				    .worker = o->meter.id,
				    .wait_seconds = o->wait_seconds,
				    .answer_seconds = o->answer_seconds,
				    .stop = o->stop,
				    .held = agent_take_held};
	struct agent *a = calloc(1, sizeof *a);
	if (!a)
		return error_set(err, ERROR_OS, "", "out of memory");
	a->options = *o;
	a->command = (struct command){.pid_fd = -1, .to = -1, .from = -1};
	a->lead.options = (struct conversation_options){.path = o->lead,
							.worker = o->meter.id,
							.wait_seconds = o->wait_seconds,
							.answer_seconds = o->answer_seconds,
							.stop = o->stop,
							.once = 1};
	a->spare = (struct spare){.path = o->spare,
				  .id = o->meter.id,
				  .wait_seconds = o->wait_seconds,
				  .stop = o->stop};
	a->place = o->spare ? PLACE_NONE : PLACE_KNOWN;
	boot_id(a->boot);
	a->save.memory = a->save.resumed = a->save.held.fd = -1;
	agent_set_size(a, o->batch);
	shards.owner = a;
	agent_sums_start(a);
	if (agent_resume(a, err) != 0 || shards_new(&a->shards, &shards, err) != 0 ||
	    meter_new(&a->meter, &o->meter, err) != 0 || agent_speed_start(a, err) != 0) {
		agent_free(a);
		return -1;
	}
	a->options.command.talks = 1;
	a->options.command.resume = a->resume;
	*out = a;
	return 0;
}

void agent_free(struct agent *a)
{
	if (!a)
		return;
	command_close(&a->command);
	rows_pipe_free(a->rows);
	words_end(&a->words);
	conversation_close(&a->lead);
	agent_sums_free(a);
	spare_close(&a->spare);
	shards_free(a->shards);
	agent_speed_free(a);
	meter_free(a->meter);
	stock_free(&a->stock);
	batch_free(&a->batch);
	batch_free(&a->next_batch);
	agent_save_free(a);
	free(a->enough);
	free(a);
}

/* ---- waiting ---- */

enum {
	POLL_WORDS,
	POLL_ANSWER,
	POLL_END,
	POLL_WAKE,
	POLL_LEAD,
	POLL_REPLICA,
	POLL_SPARE,
	POLL_SHARDS,
	POLL_ROWS,
	POLL_SAVED,
	POLLS
};

static void poll_set(struct pollfd *p, int fd, int wanted, short events)
{
	*p = (struct pollfd){.fd = wanted ? fd : -1, .events = events};
}

/* The time of the next action without an event; INFINITY: never. */
static double next_deadline(const struct agent *a)
{
	double at = agent_answer_due(a);
	if (a->word == WORD_NEXT)
		at = fmin(at, a->word_at + HELD_SECONDS);
	at = fmin(at, agent_look_due(a));
	at = fmin(at, agent_sums_due(a));
	if (a->stop_at > 0)
		at = fmin(at, a->stop_at + a->options.grace_seconds);
	return at;
}

static int milliseconds(double deadline, double now)
{
	if (isinf(deadline))
		return -1;
	return deadline <= now ? 0 : (int)fmin(ceil((deadline - now) * 1e3), 1e6);
}

/* Polls for the lead's answer while the trainer waits for it, and for the trainer's `next` behind
 * its `step`. Never while the trainer computes. */
static enum spin spin_for(const struct agent *a)
{
	if (a->word != WORD_NONE)
		return a->phase == PHASE_PUSHING || a->phase == PHASE_STAGING ||
				       a->phase == PHASE_BEGINNING
			       ? SPIN_LEAD
			       : SPIN_NONE;
	return a->trained && !a->given && !a->finished ? SPIN_WORD : SPIN_NONE;
}

/* Waking a sleeper on an idle core takes longer than all the work here, so we poll first. If
 * nothing comes in time we sleep, and poll less and less often: half as often each time. 1:
 * something came. */
static int spin(struct agent *a, struct pollfd p[POLLS], double now)
{
	enum spin kind = spin_for(a);
	double until = now + SPIN_SECONDS;
	if (kind == SPIN_NONE)
		return 0;
	if (a->spin[kind].pass > 0) {
		a->spin[kind].pass--;
		return 0;
	}
	do {
		if (poll(p, POLLS, 0) > 0) {
			a->spin[kind].vain = 0;
			return 1;
		}
		sched_yield();
	} while (clock_mono() < until);
	if (a->spin[kind].vain < SPIN_VAIN_MAX)
		a->spin[kind].vain++;
	a->spin[kind].pass = (1u << a->spin[kind].vain) - 1;
	return 0;
}

/* Until something comes. */
static void agent_wait_event(struct agent *a, struct pollfd p[POLLS])
{
	double now = clock_mono();
	int ms = milliseconds(next_deadline(a), now);
	int listens = a->word == WORD_NONE && a->words.answer_len == 0 && !a->words.closed;
	poll_set(&p[POLL_WORDS], a->words.from, listens, POLLIN);
	poll_set(&p[POLL_ANSWER], a->words.to, a->words.answer_len > 0, POLLOUT);
	poll_set(&p[POLL_END], a->command.pid_fd, !a->command.ended, POLLIN);
	poll_set(&p[POLL_WAKE], a->options.wake, a->stop_at <= 0, POLLIN);
	poll_set(&p[POLL_LEAD], conversation_fd(&a->lead), 1, POLLIN);
	poll_set(&p[POLL_REPLICA], conversation_fd(&a->sums.part.talk), 1, POLLIN);
	poll_set(&p[POLL_SPARE], spare_fd(&a->spare), a->word == WORD_NEXT, POLLIN);
	poll_set(&p[POLL_ROWS], a->rows ? rows_pipe_fd(a->rows) : -1, 1, POLLIN);
	poll_set(&p[POLL_SAVED], a->save.reading ? saved_files_fd(a->save.reading) : -1, 1, POLLIN);
	poll_set(&p[POLL_SHARDS], shards_fd(a->shards), shards_asked(a->shards), POLLIN);
	if ((listens && words_waiting(&a->words)) || agent_lead_waiting(a))
		ms = 0;
	if (ms != 0 && spin(a, p, now))
		return;
	if (poll(p, POLLS, ms) < 0)
		for (int i = 0; i < POLLS; i++)
			p[i].revents = 0;
}

/* ---- a life ---- */

/* The trainer ended as the agent was stopped: whoever ends a group of processes tells both. */
static int was_stopped_too(const struct agent *a)
{
	const struct node_end *end = &a->command.end;
	if (!a->command.ended || !conversation_stopped(&a->lead))
		return 0;
	if (end->signal)
		return end->signal == SIGTERM;
	return end->status == 0 || end->status == 128 + SIGTERM;
}

/* Says so if the trainer may have been killed because memory ran out. */
static void say_perhaps_memory(const struct agent *a)
{
	uint64_t kills = limits_kills();
	if (end_status(&a->command.end) != 128 + SIGKILL || kills <= a->kills_before)
		return;
	kills -= a->kills_before;
	log_say(LOG_LEVEL_WARNING,
		END_PERHAPS_MEMORY ": this machine's kernel has killed %llu process%s since the "
				   "trainer began",
		(unsigned long long)kills, kills == 1 ? "" : "es");
}

/* The trainer ended, or closed its end, before it was told that there is no more. */
static int gone(struct agent *a, struct error *err)
{
	double until = clock_mono() + CLOSED_SECONDS;
	struct pollfd p = {.fd = a->command.pid_fd, .events = POLLIN};
	char what[100];
	while (!command_ended(&a->command) && clock_mono() < until)
		poll(&p, 1, milliseconds(until, clock_mono()));
	const struct node_end *end = &a->command.end;
	if (was_stopped_too(a))
		return WORK_STOP;
	if (a->half.code && !(a->command.ended && (end->signal || end->status))) {
		*err = a->half;
		return -1;
	}
	if (!a->command.ended)
		return error_set(err, ERROR_DATA, a->options.command.argv[0],
				 "has closed PACELINE_IN or PACELINE_OUT, but still runs");
	end_text(end, what, sizeof what);
	if (end->signal || end->status) {
		say_perhaps_memory(a);
		return error_set(err, end_status(end), a->options.command.argv[0],
				 "the trainer ended: %s", what);
	}
	if (!a->spoke)
		return error_set(err, ERROR_DATA, a->options.command.argv[0],
				 "the trainer ended (exit status 0) and asked for no batch: a "
				 "script in Python does so by epochs() of a paceline.Loader or by "
				 "paceline.batches(), others say next and step (WORDS in agent(1)); "
				 "a command that does neither is a filter, see --rows and --each "
				 "(TRAINER_KIND of a job)");
	return error_set(err, ERROR_DATA, a->options.command.argv[0],
			 "the trainer ended (exit status 0) before it was told state=end, as when "
			 "the loop over its batches is left early; %llu rows of its batch go back",
			 (unsigned long long)(a->given ? a->cut.rows : 0));
}

/* A stop waits until the trainer has finished its batch. */
static int stop_now(struct agent *a)
{
	if (!conversation_stopped(&a->lead))
		return 0;
	if (a->stop_at <= 0)
		a->stop_at = clock_mono();
	if (!a->given && a->word != WORD_STEP)
		return 1;
	if (clock_mono() < a->stop_at + a->options.grace_seconds)
		return 0;
	log_say(LOG_LEVEL_WARNING, "%s has not finished its batch within %g s", a->options.meter.id,
		a->options.grace_seconds);
	return 1;
}

/* Clears `wake`. */
static void agent_look_if_woken(struct agent *a)
{
	uint64_t ignored;
	if (!a->options.look || !*a->options.look)
		return;
	*a->options.look = 0;
	if (read(a->options.wake, &ignored, sizeof ignored) < 0)
		ignored = 0; /* somebody was quicker */
	agent_look_closely(a);
}

static int events(struct agent *a, const struct pollfd p[POLLS], struct error *err)
{
	int result = WORK_OK;
	if (p[POLL_ANSWER].revents)
		words_send(&a->words);
	if (p[POLL_ROWS].revents)
		result = agent_rows_look(a, err);
	if (result != WORK_OK)
		return result;
	if (p[POLL_LEAD].revents || agent_lead_waiting(a))
		result = agent_hear_lead(a, err);
	if (result == WORK_OK && p[POLL_REPLICA].revents)
		result = agent_sums_hear_replica(a, err);
	if (result == WORK_OK && p[POLL_SAVED].revents)
		result = agent_save_gathered(a, err);
	if (result == WORK_OK)
		result = agent_hear_trainer(a, err);
	if (result == WORK_OK)
		result = agent_advance(a, err);
	return result;
}

/* From being connected until something ends it: WORK_END: the trainer has ended, after it was told
 * so; WORK_STOP, WORK_FENCED, WORK_RESET or -1. */
static int agent_live(struct agent *a, struct error *err)
{
	struct pollfd p[POLLS];
	int result = agent_advance(a, err);
	words_send(&a->words);
	while (result == WORK_OK) {
		if (stop_now(a) && (result = agent_leave(a, err)) != WORK_OK)
			return result;
		if (clock_mono() >= agent_answer_due(a)) {
			error_set(err, ERROR_TEMPFAIL, a->options.lead, "no answer within %g s",
				  a->options.answer_seconds);
			return a->options.replica ? WORK_RESET : -1;
		}
		agent_wait_event(a, p);
		result = events(a, p, err);
		if (result == WORK_OK && a->word == WORD_NEXT &&
		    clock_mono() >= a->word_at + HELD_SECONDS)
			agent_answer_state(a, "wait");
		words_send(&a->words);
		agent_look_if_woken(a);
		if (result == WORK_OK)
			result = agent_look(a, err);
		if (result != WORK_OK)
			break;
		result = agent_catch_up(a, err);
		if (result != WORK_OK)
			break;
		if (p[POLL_END].revents && command_ended(&a->command))
			return a->finished && a->command.end.status == 0 && a->command.end.signal == 0
				       ? WORK_END
				       : gone(a, err);
		if (a->words.closed && !a->finished)
			return gone(a, err);
	}
	return result;
}

/* Updates that were refused, or that a lead forgot when it ended, are in the trainer's
 * parameters. */
static int no_way_back(struct agent *a, int result, struct error *err)
{
	if (conversation_stopped(&a->lead)) /* a job that is stopped stops the lead, too */
		return error_set(err, ERROR_TEMPFAIL, NULL, "stopped; the lead had ended before");
	return error_set(err, ERROR_TEMPFAIL,
			 result == WORK_FENCED ? a->options.meter.id : a->options.lead,
			 "%s, and the trainer's parameters have updates that were not committed: "
			 "it has to go back to a checkpoint",
			 result == WORK_FENCED ? "was refused" : "the lead went away");
}

static int agent_lives(struct agent *a, struct error *err)
{
	for (;;) {
		int result = agent_connect(a, err);
		if (result == WORK_OK && a->command.pid == 0) {
			if (agent_rows_start(a, err) != 0 ||
			    command_start(&a->command, &a->options.command, err) != 0)
				return -1;
			a->kills_before = limits_kills();
			agent_rows_started(a);
			words_start(&a->words, a->command.to, a->command.from);
			agent_look_turn(a);
		}
		if (result == WORK_OK)
			result = agent_live(a, err);
		if (result != WORK_FENCED && result != WORK_RESET)
			return result;
		if (a->trained && !a->options.replica)
			return no_way_back(a, result, err);
		log_say(LOG_LEVEL_INFO, "%s: starting over",
			result == WORK_FENCED ? "refused" : "a daemon went away");
		agent_forget(a);
		clock_sleep(LIVES_PAUSE_SECONDS);
	}
}

/* Sends the trainer SIGTERM, and later SIGKILL. */
static void end_trainer(struct agent *a)
{
	double until = clock_mono() + a->options.grace_seconds;
	struct pollfd p = {.fd = a->command.pid_fd, .events = POLLIN};
	if (a->command.pid == 0 || command_ended(&a->command))
		return;
	command_kill(&a->command, SIGTERM);
	while (!command_ended(&a->command) && clock_mono() < until)
		poll(&p, 1, milliseconds(until, clock_mono()));
	if (!a->command.ended)
		log_say(LOG_LEVEL_WARNING,
			"the trainer of %s is killed: it did not end within %g "
			"s after SIGTERM",
			a->options.meter.id, a->options.grace_seconds);
}

int agent_run(struct agent *a, struct node_end *end, struct error *err)
{
	*end = (struct node_end){0};
	int result = agent_lives(a, err);
	int by_itself = result < 0 && a->command.ended && err->code == end_status(&a->command.end);
	if (by_itself)
		*end = a->command.end;
	/* First release what others wait for. */
	if (a->lead.call && a->phase != PHASE_OUT && a->phase != PHASE_ENDED)
		conversation_close(&a->lead); /* leaves */
	end_trainer(a);
	/* Behind its loop only a trainer that has ended well says so: nobody may have seen how we end. */
	if (a->phase != PHASE_ENDED || result == WORK_END)
		shards_bye(a->shards);
	command_close(&a->command);
	agent_report(a);
	meter_report(a->meter);
	meter_log_spent(a->meter);
	return result < 0 ? -1 : 0;
}
