/*
 * filter_rows: one command for all shards that this agent takes (filter.h). It gets rows as fast as
 * it reads, and so takes its share beside other agents. When no rows are left to hand out its input
 * ends. Its shards are done when it has read all of them and ended with 0, and none is done before.
 * If rows come back later from agents that died, the command is run again.
 */
#include "agent/filter_internal.h"
#include "agent/rows_pipe.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/log.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PENDING_MAX 2    /* most shards that are not wholly in the pipe, or are requested */
#define WAIT_SECONDS 1.0 /* of a get when there is nothing else to do */

struct rows {
	struct filter f;
	const struct agent_options *o;
	struct command command;
	struct rows_pipe *pipe;
	int runs;
	int is_fed;  /* no more rows come: the input is closed */
	int is_over; /* the queue has nothing left */
	int waits;   /* there was nothing to hand out: the next get may be held back */
	uint64_t held;
	struct piece *hand; /* of this life of the command */
	size_t count, room;
	size_t written; /* of them, all in the pipe */
	double written_at;
	double kill_at; /* clock_mono(); 0: no signal is due */
	int last;
};

/* ---- the command ---- */

static int filter_rows_start(struct rows *r, struct error *err)
{
	struct command_options c = r->o->command;
	int input;
	if (rows_pipe_begin(r->pipe, &input, err) != 0)
		return -1;
	c.env = r->f.env;
	c.env_count = r->f.env_count;
	c.input = input;
	c.output = -1;
	int result = command_start(&r->command, &c, err);
	close(input);
	if (result != 0)
		return -1;
	r->runs = 1;
	r->is_fed = 0;
	r->written = 0;
	r->written_at = clock_mono();
	r->kill_at = 0;
	r->last = 0;
	return 0;
}

static int filter_rows_take(struct rows *r, const struct piece *p, struct error *err)
{
	if (!r->runs && filter_rows_start(r, err) != 0)
		return -1;
	if (GROW(r->hand, r->room, r->count + 1) != 0)
		return error_set(err, ERROR_OS, "", "out of memory");
	r->hand[r->count] = *p;
	filter_trim(&r->hand[r->count]);
	return rows_pipe_add(r->pipe, &r->hand[r->count++], err);
}

static void feed_no_more(struct rows *r)
{
	if (!r->runs || r->is_fed || pieces_asked(r->f.pieces) > 0)
		return;
	r->is_fed = 1;
	rows_pipe_end(r->pipe);
}

static int look_at_pipe(struct rows *r, struct rows_pipe_look *look, struct error *err)
{
	*look = (struct rows_pipe_look){0};
	if (!r->runs)
		return 0;
	rows_pipe_look(r->pipe, look);
	if (look->state == ROWS_PIPE_BAD) {
		*err = look->error;
		return -1;
	}
	double now = clock_mono();
	size_t written = look->state == ROWS_PIPE_CLOSED ? r->written : r->count - look->pending;
	if (written > r->written) {
		double each = (now - r->written_at) / (double)(written - r->written);
		for (; r->written < written; r->written++)
			filter_report(&r->f, &r->hand[r->written], each);
		r->written_at = now;
	}
	return 0;
}

/* The rows of this run of the command count for nothing. */
static int unread(struct rows *r, struct error *err)
{
	return error_set(err, ERROR_DATA, r->o->command.argv[0],
			 "ended with exit status 0, but has not read all its rows: %zu shards go "
			 "back",
			 r->count);
}

static int ended(struct rows *r, struct node_end *end, struct error *err)
{
	struct rows_pipe_look look;
	char how[100];
	const struct node_end *how_it_ended = &r->command.end;
	if (look_at_pipe(r, &look, err) != 0)
		return -1;
	if (r->kill_at > 0 || r->last) /* we stopped it */
		return WORK_STOP;
	if (how_it_ended->signal || how_it_ended->status) {
		*end = *how_it_ended;
		end_text(end, how, sizeof how);
		return error_set(err, end_status(end), r->o->command.argv[0],
				 "%s; its %zu shards go back", how, r->count);
	}
	if (look.state != ROWS_PIPE_ALL || look.unread > 0)
		return unread(r, err);
	int result = 0;
	for (size_t i = 0; result == 0 && i < r->count; i++)
		result = pieces_done(r->f.pieces, r->hand[i].id, err);
	r->count = 0;
	command_close(&r->command);
	r->runs = 0;
	return result;
}

/* What is due of a stop; *seconds is made shorter to be there for the next. */
static void filter_rows_kill_due(struct rows *r, double *seconds)
{
	double now = clock_mono();
	if (!r->runs || r->f.stop_at <= 0)
		return;
	double grace = filter_grace(&r->f);
	double at = r->kill_at > 0 ? r->kill_at : r->f.stop_at + grace;
	filter_look(&r->f, seconds);
	if ((now >= at || grace <= 0) && !r->last) {
		command_kill(&r->command, r->kill_at > 0 ? SIGKILL : SIGTERM);
		r->last = r->kill_at > 0;
		at = r->kill_at = now + grace;
	}
	if (!r->last)
		*seconds = fmin(*seconds, at - now);
}

/* ---- what shardd says ---- */

/* The command has read the shard's rows, or will: this can't be undone. */
static int filter_rows_lost(struct rows *r, uint64_t id, struct error *err)
{
	return error_set(err, ERROR_TEMPFAIL, r->o->command.argv[0],
			 "shard %llu no longer belongs to this agent (its lease was over?), but "
			 "the command has got its rows, which another worker gets, too: do not use "
			 "the command's output",
			 (unsigned long long)id);
}

/* We stop, but shardd has not confirmed shards that the command had read before it ended with 0. */
static int unsettled(struct rows *r, struct error *err)
{
	return error_set(err, ERROR_TEMPFAIL, r->o->shards,
			 "went away before it said that %zu shards are done: if they are not, "
			 "another worker gets their rows, too, and the command's output must not "
			 "be used",
			 pieces_owed(r->f.pieces));
}

static int filter_rows_fenced(struct rows *r, struct error *err)
{
	if (r->runs)
		return error_set(err, ERROR_TEMPFAIL, r->o->meter.id,
				 "was fenced, because somebody took it for dead: the rows that the "
				 "command has read go to others");
	return filter_hello(&r->f, err);
}

static int filter_rows_on_news(struct rows *r, const struct pieces_news *news, struct error *err)
{
	switch (news->kind) {
	case PIECES_GIVEN:
		r->waits = 0;
		return filter_rows_take(r, &news->piece, err);
	case PIECES_WAIT:
		r->waits = 1;
		feed_no_more(r);
		return 0;
	case PIECES_END:
		r->is_over = 1;
		r->held = news->held;
		feed_no_more(r);
		return 0;
	case PIECES_LOST:
		return filter_rows_lost(r, news->id, err);
	case PIECES_FENCED:
		return filter_rows_fenced(r, err);
	case PIECES_DONE:
	case PIECES_NOTHING:
		break;
	}
	return 0;
}

static int filter_rows_hear_shardd(struct rows *r, struct error *err)
{
	struct pieces_news news;
	for (;;) {
		int result = pieces_next(r->f.pieces, &news, err);
		if (result != 0 || news.kind == PIECES_NOTHING)
			return result;
		result = filter_rows_on_news(r, &news, err);
		if (result != 0)
			return result;
	}
}

static int filter_rows_ask(struct rows *r, const struct rows_pipe_look *look, struct error *err)
{
	size_t asked = pieces_asked(r->f.pieces);
	int is_full = r->runs && (r->is_fed || look->state != ROWS_PIPE_OPEN);
	if (r->is_over || is_full || r->f.stop_at > 0)
		return 0;
	if (!r->runs && pieces_owed(r->f.pieces) > 0)
		return 0;
	if (r->waits && asked == 0 && !r->runs)
		return pieces_get(r->f.pieces, WAIT_SECONDS, err);
	size_t busy = r->runs ? look->pending : 0;
	int result = 0;
	while (result == 0 && !r->waits && busy + asked++ < PENDING_MAX)
		result = pieces_get(r->f.pieces, 0, err);
	return result;
}

static int filter_rows_renew(struct rows *r, double *seconds, struct error *err)
{
	int result = 0;
	if (!filter_renews(&r->f, seconds))
		return 0;
	size_t count = pieces_generation(r->f.pieces)->lease > 0 || r->count == 0 ? r->count : 1;
	for (size_t i = 0; result == 0 && i < count; i++)
		result = pieces_renew(r->f.pieces, r->hand[i].id, err);
	return result;
}

/* ---- a life ---- */

static void filter_rows_wait_event(struct rows *r, double seconds)
{
	seconds = fmin(seconds, pieces_seconds(r->f.pieces));
	struct pollfd fd[4] = {
		{.fd = pieces_fd(r->f.pieces), .events = POLLIN},
		{.fd = r->f.stop_at > 0 ? -1 : r->o->wake, .events = POLLIN},
		{.fd = r->runs ? r->command.pid_fd : -1, .events = POLLIN},
		{.fd = r->runs ? rows_pipe_fd(r->pipe) : -1, .events = POLLIN},
	};
	filter_poll(fd, 4, seconds);
}

static int filter_rows_live(struct rows *r, struct node_end *end, struct error *err)
{
	struct rows_pipe_look look;
	for (;;) {
		double seconds = 3600;
		int result = filter_rows_hear_shardd(r, err);
		if (result == 0 && r->runs && command_ended(&r->command))
			result = ended(r, end, err);
		if (result == 0)
			result = look_at_pipe(r, &look, err);
		if (result == 0)
			result = filter_rows_ask(r, &look, err);
		if (result == 0)
			result = filter_rows_renew(r, &seconds, err);
		if (result != 0)
			return result;
		if (filter_stopped(&r->f))
			feed_no_more(r); /* what it has it may finish */
		int is_idle = !r->runs && pieces_owed(r->f.pieces) == 0;
		if (is_idle && (r->is_over || r->f.stop_at > 0))
			return 0;
		filter_rows_kill_due(r, &seconds);
		filter_rows_wait_event(r, seconds);
	}
}

int filter_rows(const struct agent_options *o, struct node_end *end, struct error *err)
{
	struct rows r = {.o = o, .command = {.pid_fd = -1, .to = -1, .from = -1}};
	*end = (struct node_end){0};
	int result = filter_start(&r.f, o, err);
	if (result == 0)
		result = rows_pipe_new(&r.pipe, o->rows, err);
	if (result == 0)
		result = filter_hello(&r.f, err);
	if (result == 0)
		result = filter_rows_live(&r, end, err);
	if (result == WORK_STOP && pieces_owed(r.f.pieces) > 0)
		result = unsettled(&r, err);
	/* Only reported: 1 may be the command's own status, which ends a job. */
	if (result == 0 && r.is_over && filter_check_held(&r.f, r.held, err) != 0)
		log_say(LOG_LEVEL_WARNING, "%s", err->text);
	command_close(&r.command);
	rows_pipe_free(r.pipe);
	filter_end(&r.f);
	free(r.hand);
	return result < 0 ? -1 : 0;
}
