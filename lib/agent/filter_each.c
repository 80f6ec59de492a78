/*
 * filter_each: a command for each shard (filter.h).
 *
 * A shard is done when its command has ended with 0 and, with --output, its file is on the disk under
 * its name.  A shard whose command failed goes back, and counts as one on which a worker died: so
 * shardd holds what always fails.  While commands are so short that asking would take as long,
 * shards are taken ahead of their time; else none is, as another agent may be idle.  So they go back
 * when a command takes long after all.
 */
#include "agent/filter_internal.h"
#include "agent/outputs.h"
#include "agent/rows_pipe.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/log.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AHEAD_MAX 64
#define AHEAD_SECONDS 0.05    /* seconds of work that may wait here */
#define BACK_SECONDS 1.0      /* it goes back when none of it was begun for so long */
#define WAIT_SECONDS 1.0      /* seconds that a get may wait, when there is nothing else to do */
#define ASK_SECONDS 0.25      /* seconds between two gets, when there is */
#define PAUSE_MIN_SECONDS 0.1 /* seconds after a failure that may pass; doubled with each */
#define PAUSE_MAX_SECONDS 10.0
#define KEPT_MAX 128 /* most files that wait for the disk */
#define VARIABLES 7
_Static_assert(VARIABLES <= FILTER_VARIABLES, "there is room in env[]");
#define VARIABLE_BYTES 40

enum cause {
	BY_ITSELF,
	BY_STOP, /* why we killed it */
	BY_TIMEOUT,
	BY_LOSS
};

struct job {
	int runs;
	struct piece piece;
	struct command command;
	struct rows_pipe *pipe; /* made when it is first wanted */
	struct output output;
	double began_at, kill_at; /* kill_at: clock_mono() of the next signal; 0: none is due */
	int last;                 /* SIGTERM was sent, the next one is SIGKILL */
	enum cause cause;
};

struct each {
	struct filter f;
	const struct agent_options *o;
	struct outputs *outputs;
	struct job *job;
	size_t running;
	struct piece *ready; /* [ready_first, ready_count) are in our hand, and do not run yet */
	size_t ready_first, ready_count, ready_room;
	struct pollfd *fd;
	char variable[VARIABLES][VARIABLE_BYTES];
	double mean_seconds;        /* of a command; 0: not known */
	double ask_at, pause_until; /* clock_mono() */
	double ready_at;            /* when a shard last came into our hand, or was begun */
	double pause_seconds;
	int is_over;
	uint64_t held;
};

/* ---- making ---- */

static void each_free(struct each *e)
{
	for (uint64_t i = 0; e->job && i < e->o->jobs; i++) {
		command_close(&e->job[i].command);
		rows_pipe_free(e->job[i].pipe);
		if (e->outputs)
			outputs_drop(e->outputs, &e->job[i].output);
	}
	outputs_free(e->outputs);
	free(e->job);
	free(e->fd);
	free(e->ready);
	filter_end(&e->f);
}

static int each_make(struct each *e, const struct agent_options *o, struct error *err)
{
	*e = (struct each){.o = o};
	if (filter_start(&e->f, o, err) != 0)
		return -1;
	e->job = calloc(o->jobs, sizeof *e->job);
	e->fd = calloc(3 + 2 * o->jobs, sizeof *e->fd);
	if (!e->job || !e->fd)
		return error_set(err, ERROR_OS, "", "out of memory");
	for (uint64_t i = 0; i < o->jobs; i++) {
		e->job[i].command = (struct command){.pid_fd = -1, .to = -1, .from = -1};
		e->job[i].output.fd = -1;
	}
	return 0;
}

static size_t filter_each_ready(const struct each *e)
{
	return e->ready_count - e->ready_first;
}

/* Whether nothing is under way. */
static int is_idle(const struct each *e)
{
	return e->running == 0 && pieces_owed(e->f.pieces) == 0 &&
	       (!e->outputs || outputs_waiting(e->outputs) == 0);
}

/* ---- starting a command ---- */

static size_t set_variables(struct each *e, const struct piece *p)
{
	const struct {
		const char *name;
		uint64_t value;
	} all[VARIABLES] = {{"SHARD", p->id},	    {"BEGIN", p->begin}, {"LENGTH", p->length},
			    {"EPOCH", p->epoch},    {"SEED", p->seed},	 {"SKIP", p->skip},
			    {"TAKE", p->take}};
	size_t count = p->shuffled ? VARIABLES : 4, first = e->f.env_count;
	for (size_t i = 0; i < count; i++) {
		snprintf(e->variable[i], VARIABLE_BYTES, "%s=%llu", all[i].name,
			 (unsigned long long)all[i].value);
		e->f.env[first + i] = e->variable[i];
	}
	return first + count;
}

static int start_job(struct each *e, struct job *j, const struct piece *p, struct error *err)
{
	struct command_options c = e->o->command;
	int input = -1;
	j->piece = *p;
	j->kill_at = 0;
	j->last = 0;
	j->cause = BY_ITSELF;
	if (e->o->rows && !j->pipe && rows_pipe_new(&j->pipe, e->o->rows, err) != 0)
		return -1;
	if (e->outputs && outputs_begin(e->outputs, p, &j->output, err) != 0)
		return -1;
	if (j->pipe && rows_pipe_begin(j->pipe, &input, err) != 0)
		return -1;
	c.env = e->f.env;
	c.env_count = set_variables(e, p);
	c.input = input;
	c.output = j->output.fd;
	j->began_at = clock_mono();
	int result = command_start(&j->command, &c, err);
	if (input >= 0)
		close(input);
	if (result != 0)
		return -1;
	j->runs = 1;
	e->running++;
	if (e->o->timeout_seconds > 0)
		j->kill_at = j->began_at + e->o->timeout_seconds;
	if (!j->pipe)
		return 0;
	if (rows_pipe_add(j->pipe, p, err) != 0)
		return -1;
	rows_pipe_end(j->pipe);
	return 0;
}

static struct job *free_job(struct each *e)
{
	for (uint64_t i = 0; e->running < e->o->jobs && i < e->o->jobs; i++)
		if (!e->job[i].runs)
			return &e->job[i];
	return NULL;
}

static int start_jobs(struct each *e, struct error *err)
{
	struct job *j;
	if (filter_stopped(&e->f) || clock_mono() < e->pause_until)
		return 0;
	while (filter_each_ready(e) > 0 &&
	       (!e->outputs || outputs_waiting(e->outputs) < KEPT_MAX) && (j = free_job(e)) != NULL) {
		if (start_job(e, j, &e->ready[e->ready_first++], err) != 0)
			return -1;
		e->ready_at = j->began_at;
	}
	return 0;
}

/* ---- asking for shards ---- */

/* Gives back what waits behind commands that take longer than those before them. */
static int give_back_ready(struct each *e, double *seconds, struct error *err)
{
	double left = e->ready_at + BACK_SECONDS - clock_mono();
	if (filter_each_ready(e) == 0)
		return 0;
	if (left > 0) {
		*seconds = fmin(*seconds, left);
		return 0;
	}
	e->mean_seconds = BACK_SECONDS - left;
	while (filter_each_ready(e) > 0) {
		const struct piece *last = &e->ready[--e->ready_count];
		if (pieces_back(e->f.pieces, last->id, PIECES_UNDONE, err) != 0)
			return -1;
	}
	return 0;
}

static size_t filter_each_wanted(const struct each *e)
{
	size_t idle = e->o->jobs - e->running;
	double ahead = e->mean_seconds > 0
			       ? AHEAD_SECONDS / e->mean_seconds * (double)e->o->jobs
			       : 0;
	size_t want = idle + (size_t)fmin(ahead, AHEAD_MAX);
	size_t have = filter_each_ready(e) + pieces_asked(e->f.pieces);
	return want > have ? want - have : 0;
}

static int filter_each_ask(struct each *e, struct error *err)
{
	double now = clock_mono();
	if (e->is_over || filter_stopped(&e->f) || now < e->ask_at || now < e->pause_until)
		return 0;
	size_t want = filter_each_wanted(e);
	if (want > 0 && e->ask_at > 0) { /* there was nothing: one asks for all */
		if (pieces_asked(e->f.pieces) > 0)
			return 0;
		return pieces_get(e->f.pieces, is_idle(e) ? WAIT_SECONDS : 0, err);
	}
	int result = 0;
	for (; result == 0 && want > 0; want--)
		result = pieces_get(e->f.pieces, 0, err);
	return result;
}

/* ---- how a command ended ---- */

static int is_job_level(const struct node_end *end)
{
	static const int status[] = {ERROR_USAGE, ERROR_NOPERM, ERROR_CONFIG, 126, 127};
	for (size_t i = 0; i < sizeof status / sizeof *status; i++)
		if (end->signal == 0 && end->status == status[i])
			return 1;
	return 0;
}

static void pause_after(struct each *e, const struct node_end *end)
{
	if (end_class_of(end) != END_RETRYABLE)
		return;
	e->pause_seconds = fmin(fmax(PAUSE_MIN_SECONDS, 2 * e->pause_seconds), PAUSE_MAX_SECONDS);
	e->pause_until = clock_mono() + e->pause_seconds;
}

static int disk_full(const struct each *e, struct error *err)
{
	return error_set(err, ERROR_IO, e->o->output,
			 "the disk is full; half-written files are removed");
}

static int filter_each_succeeded(struct each *e, struct job *j, struct error *err)
{
	double seconds = clock_mono() - j->began_at;
	if (e->outputs && outputs_is_full(e->outputs))
		return disk_full(e, err); /* what did not fit may be the end of this one */
	e->mean_seconds = e->mean_seconds > 0 ? 0.9 * e->mean_seconds + 0.1 * seconds : seconds;
	e->pause_seconds = 0;
	filter_report(&e->f, &j->piece, seconds);
	return e->outputs ? outputs_keep(e->outputs, &j->output, err)
			  : pieces_done(e->f.pieces, j->piece.id, err);
}

static int filter_each_failed(struct each *e, struct job *j, const struct node_end *end,
			      struct error *err)
{
	char what[200], how[100];
	int is_bad_data = end->signal == 0 && end->status == ERROR_DATA;
	filter_describe(&j->piece, what, sizeof what);
	end_text(end, how, sizeof how);
	if (j->cause == BY_ITSELF && is_job_level(end))
		return error_set(err, end->status, e->o->command.argv[0],
				 "%s: %s: any other shard would fail in the same way", what, how);
	if (e->outputs && outputs_is_full(e->outputs))
		return disk_full(e, err);
	if (j->cause == BY_TIMEOUT)
		log_say(LOG_LEVEL_WARNING, "%s ran longer than --timeout %g s; it goes back to the "
					   "queue", what,
			e->o->timeout_seconds);
	else
		log_say(LOG_LEVEL_WARNING, "%s: %s; it %s", what, how,
			is_bad_data ? "is held" : "goes back");
	if (j->cause == BY_ITSELF)
		pause_after(e, end);
	return pieces_back(e->f.pieces, j->piece.id, is_bad_data ? PIECES_HOLD : PIECES_FAILED,
			   err);
}

/* What the command's end means for the shard. */
static int filter_each_judge(struct each *e, struct job *j, struct error *err)
{
	struct rows_pipe_look look = {0};
	struct node_end end = j->command.end;
	if (j->pipe)
		rows_pipe_look(j->pipe, &look);
	if (j->cause == BY_LOSS)
		return 0;
	if (j->pipe && look.state == ROWS_PIPE_BAD) {
		*err = look.error;
		return -1;
	}
	/* A command that we told to end may exit with 0 after half of its work. */
	if (end.signal == 0 && end.status == 0 && !j->last)
		return filter_each_succeeded(e, j, err);
	if (j->cause == BY_STOP)
		return pieces_back(e->f.pieces, j->piece.id, PIECES_UNDONE, err);
	return filter_each_failed(e, j, &end, err);
}

static int end_job(struct each *e, struct job *j, struct error *err)
{
	int result = filter_each_judge(e, j, err);
	if (j->pipe)
		rows_pipe_cancel(j->pipe);
	if (e->outputs)
		outputs_drop(e->outputs, &j->output);
	command_close(&j->command);
	j->runs = 0;
	e->running--;
	return result;
}

/* ---- signals ---- */

static void kill_for(struct job *j, enum cause cause, double at)
{
	j->cause = cause;
	j->last = 0;
	j->kill_at = at;
}

static void kill_now(struct job *j, enum cause cause)
{
	j->cause = cause;
	j->kill_at = 0;
	command_kill(&j->command, SIGKILL);
}

/* Does what is due; *seconds is reduced to the time until the next action. */
static void filter_each_kill_due(struct each *e, double *seconds)
{
	double now = clock_mono();
	filter_look(&e->f, seconds);
	for (uint64_t i = 0; i < e->o->jobs; i++) {
		struct job *j = &e->job[i];
		if (!j->runs)
			continue;
		if (filter_stopped(&e->f) && j->cause == BY_ITSELF)
			kill_for(j, BY_STOP, e->f.stop_at + filter_grace(&e->f));
		if (j->kill_at <= 0)
			continue;
		if (j->cause == BY_STOP && filter_grace(&e->f) <= 0)
			j->kill_at = now;
		if (now >= j->kill_at) {
			if (j->cause == BY_ITSELF)
				j->cause = BY_TIMEOUT;
			command_kill(&j->command, j->last ? SIGKILL : SIGTERM);
			j->kill_at = j->last ? 0 : now + filter_grace(&e->f);
			j->last = 1;
		}
		if (j->kill_at > 0)
			*seconds = fmin(*seconds, j->kill_at - now);
	}
}

/* ---- what shardd says ---- */

static int add_ready(struct each *e, const struct piece *p, struct error *err)
{
	if (e->ready_first == e->ready_count)
		e->ready_first = e->ready_count = 0;
	if (GROW(e->ready, e->ready_room, e->ready_count + 1) != 0)
		return error_set(err, ERROR_OS, "", "out of memory");
	e->ready[e->ready_count] = *p;
	filter_trim(&e->ready[e->ready_count++]);
	e->ready_at = clock_mono();
	e->ask_at = 0;
	return 0;
}

static void filter_each_lose(struct each *e, uint64_t id)
{
	char what[200];
	for (size_t i = e->ready_first; i < e->ready_count; i++)
		if (e->ready[i].id == id) {
			memmove(&e->ready[i], &e->ready[i + 1],
				(e->ready_count - i - 1) * sizeof *e->ready);
			e->ready_count--;
			return;
		}
	for (uint64_t i = 0; i < e->o->jobs; i++)
		if (e->job[i].runs && e->job[i].piece.id == id) {
			filter_describe(&e->job[i].piece, what, sizeof what);
			log_say(LOG_LEVEL_WARNING,
				"%s no longer belongs to this agent (its lease was over?): its "
				"command is killed", what);
			kill_now(&e->job[i], BY_LOSS);
		}
}

static int filter_each_begin_anew(struct each *e, struct error *err)
{
	log_say(LOG_LEVEL_WARNING,
		"%s was fenced, because somebody took it for dead: starting "
		"over",
		e->o->meter.id);
	for (uint64_t i = 0; i < e->o->jobs; i++)
		if (e->job[i].runs)
			kill_now(&e->job[i], BY_LOSS);
	e->ready_first = e->ready_count = 0;
	e->ask_at = 0;
	return filter_hello(&e->f, err);
}

static int filter_each_on_news(struct each *e, const struct pieces_news *news, struct error *err)
{
	switch (news->kind) {
	case PIECES_GIVEN:
		return add_ready(e, &news->piece, err);
	case PIECES_WAIT:
		/* Ask again at once if shardd holds answers back. */
		e->ask_at = clock_mono() + (is_idle(e) ? 0 : ASK_SECONDS);
		return 0;
	case PIECES_END:
		e->is_over = 1;
		e->held = news->held;
		return 0;
	case PIECES_LOST:
		filter_each_lose(e, news->id);
		return 0;
	case PIECES_FENCED:
		return filter_each_begin_anew(e, err);
	case PIECES_DONE:
		if (e->ask_at > 0 && is_idle(e)) /* it may have been the last */
			e->ask_at = clock_mono();
		return 0;
	case PIECES_NOTHING:
		break;
	}
	return 0;
}

static int filter_each_hear_shardd(struct each *e, struct error *err)
{
	struct pieces_news news;
	for (;;) {
		int result = pieces_next(e->f.pieces, &news, err);
		if (result != 0 || news.kind == PIECES_NOTHING)
			return result;
		result = filter_each_on_news(e, &news, err);
		if (result != 0)
			return result;
	}
}

static int filter_each_renew(struct each *e, double *seconds, struct error *err)
{
	int result = 0;
	if (!filter_renews(&e->f, seconds))
		return 0;
	for (uint64_t i = 0; result == 0 && i < e->o->jobs; i++)
		if (e->job[i].runs && e->job[i].cause != BY_LOSS)
			result = pieces_renew(e->f.pieces, e->job[i].piece.id, err);
	for (size_t i = e->ready_first; result == 0 && i < e->ready_count; i++)
		result = pieces_renew(e->f.pieces, e->ready[i].id, err);
	return result;
}

/* ---- a life ---- */

static int hear_outputs(struct each *e, struct error *err)
{
	uint64_t id;
	int got;
	while (e->outputs && (got = outputs_next(e->outputs, &id, err)) != 0) {
		if (got < 0)
			return -1;
		int result = pieces_done(e->f.pieces, id, err);
		if (result != 0)
			return result;
	}
	return 0;
}

static int end_jobs(struct each *e, struct error *err)
{
	for (uint64_t i = 0; i < e->o->jobs; i++) {
		struct job *j = &e->job[i];
		struct rows_pipe_look look;
		if (!j->runs)
			continue;
		if (command_ended(&j->command)) {
			int result = end_job(e, j, err);
			if (result != 0)
				return result;
		} else if (j->pipe) {
			rows_pipe_look(j->pipe, &look);
			if (look.state == ROWS_PIPE_BAD) {
				*err = look.error;
				return -1;
			}
		}
	}
	return 0;
}

static void filter_each_wait_event(struct each *e, double seconds)
{
	size_t count = 0;
	double now = clock_mono(), more = pieces_seconds(e->f.pieces);
	seconds = fmin(seconds, more);
	if (e->ask_at > now && !e->is_over)
		seconds = fmin(seconds, e->ask_at - now);
	if (e->pause_until > now)
		seconds = fmin(seconds, e->pause_until - now);
	e->fd[count++] = (struct pollfd){.fd = pieces_fd(e->f.pieces), .events = POLLIN};
	e->fd[count++] =
		(struct pollfd){.fd = e->f.stop_at > 0 ? -1 : e->o->wake, .events = POLLIN};
	e->fd[count++] = (struct pollfd){.fd = e->outputs ? outputs_fd(e->outputs) : -1,
					 .events = POLLIN};
	for (uint64_t i = 0; i < e->o->jobs; i++) {
		const struct job *j = &e->job[i];
		if (!j->runs)
			continue;
		e->fd[count++] = (struct pollfd){.fd = j->command.pid_fd, .events = POLLIN};
		if (j->pipe)
			e->fd[count++] =
				(struct pollfd){.fd = rows_pipe_fd(j->pipe), .events = POLLIN};
	}
	filter_poll(e->fd, count, seconds);
}

static int filter_each_live(struct each *e, struct error *err)
{
	for (;;) {
		double seconds = 3600;
		/* shardd may be away when we stop: commands end all the same. */
		int away = filter_each_hear_shardd(e, err);
		int result = away == WORK_STOP ? 0 : away;
		if (result == 0)
			result = end_jobs(e, err);
		if (result == 0)
			result = hear_outputs(e, err);
		if (result == 0)
			result = away;
		if (result == 0)
			result = start_jobs(e, err);
		if (result == 0)
			result = filter_each_ask(e, err);
		if (result == 0)
			result = give_back_ready(e, &seconds, err);
		if (result == 0)
			result = filter_each_renew(e, &seconds, err);
		if (result == WORK_STOP && e->running > 0)
			result = 0; /* shardd is away; commands may still finish */
		if (result != 0)
			return result;
		if (is_idle(e) && (e->is_over || filter_stopped(&e->f)))
			return 0;
		filter_each_kill_due(e, &seconds);
		filter_each_wait_event(e, seconds);
	}
}

/* After an error: files that are on the disk under their names are done. */
static void settle_kept(struct each *e)
{
	struct error ignored;
	uint64_t id;
	while (e->outputs && outputs_waiting(e->outputs) > 0) {
		struct pollfd fd = {.fd = outputs_fd(e->outputs), .events = POLLIN};
		filter_poll(&fd, 1, 1);
		for (int got; (got = outputs_next(e->outputs, &id, &ignored)) != 0;)
			if (got > 0 && pieces_done(e->f.pieces, id, &ignored) != 0)
				return;
	}
}

int filter_each(const struct agent_options *o, struct error *err)
{
	struct each e;
	int result = each_make(&e, o, err);
	if (result == 0)
		result = filter_hello(&e.f, err);
	if (result == 0 && o->output)
		result = outputs_open(&e.outputs, o->output, o->meter.id,
				      pieces_generation(e.f.pieces)->epochs,
				      pieces_generation(e.f.pieces)->samples, err);
	if (result == 0)
		result = filter_each_live(&e, err);
	if (result == 0 && e.is_over)
		result = filter_check_held(&e.f, e.held, err);
	if (result < 0 && err->code != ERROR_UNAVAILABLE)
		settle_kept(&e);
	each_free(&e);
	return result < 0 ? -1 : 0;
}
