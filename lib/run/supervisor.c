/*
 * supervisor: see supervisor.h.  The phases of a job, one step function each.  A step looks at what
 * is so and does the next thing that is missing; it is called again whenever something has changed,
 * and may always be called once too often.
 */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_SECONDS 0.25
#define PERIOD_SECONDS_MIN 0.02
#define READY_SECONDS 0.1 /* between questions whether a worker is a member yet */
#define STEPS_MAX 64      /* phases passed in one turn */

void sup_kick(struct supervisor *s)
{
	event_active(s->kick, EV_TIMEOUT, 0);
}

void sup_kick_after(struct supervisor *s, double seconds)
{
	struct timeval tv = clock_timeval(seconds);
	double at = clock_mono() + seconds;
	if (evtimer_pending(s->retry, NULL) && s->retry_at <= at)
		return; /* somebody is in more of a hurry */
	s->retry_at = at;
	event_add(s->retry, &tv);
}

void sup_enter(struct supervisor *s, enum sup_phase phase)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (s->phase == phase)
		return;
	s->phase = phase;
	record_begin(&o, line, sizeof line, "phase");
	record_add(&o, "name", sup_phase_name(phase));
	sup_log(s, &o);
	sup_kick(s);
}

void sup_fail(struct supervisor *s, int status, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	if (s->goal == GOAL_FAIL)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	s->goal = GOAL_FAIL;
	s->fail_status = status ? status : ERROR_SOFTWARE;
	sup_note(s, "error", "job fails: %s", text);
	if (s->phase < PHASE_STOPPING)
		sup_enter(s, PHASE_STOPPING);
}

void sup_failed_by(const struct sup_node *n)
{
	struct supervisor *s = n->sup;
	if (s->goal == GOAL_FAIL)
		return;
	s->failed = n;
	s->failed_end = n->end;
}

void sup_finish_early(struct supervisor *s, enum sup_goal goal, const char *reason)
{
	if (s->goal == GOAL_FAIL || s->goal == goal || s->phase >= PHASE_STOPPING)
		return;
	sup_note(s, "stop", "%s: a last checkpoint, then the end", reason);
	s->goal = goal;
	if (s->phase == PHASE_RUNNING)
		sup_enter(s, PHASE_WINDING);
	sup_kick(s);
}

/* ---- phases ---- */

static void want_services(struct supervisor *s)
{
	sup_node_want(s->shardd);
	sup_node_want(s->monitor);
	sup_links_services(s);
}

static size_t servers_in(const struct supervisor *s, int running)
{
	size_t n = 0;
	for (size_t i = 0; i < s->job->servers; i++) {
		enum node_stage stage = s->servers[i].stage;
		n += (stage == STAGE_STARTING || stage == STAGE_READY) == running;
	}
	return n;
}

/* shardd answers; what is there decides how it goes on. */
static void choose(struct supervisor *s)
{
	s->incarnation = s->stat.incarnation;
	if (s->goal != GOAL_DONE && !s->latest[0] && servers_in(s, 1) == 0)
		sup_enter(s, PHASE_STOPPING); /* stopped before anything was done */
	else if (s->intent)
		sup_rollback_begin(s, "an intent was left behind");
	else if (servers_in(s, 1) == s->job->servers)
		sup_enter(s, PHASE_SERVERS);
	else if (!s->latest[0] && s->stat.samples_done > 0)
		sup_fail(s, ERROR_NOINPUT,
			 "%s has no complete checkpoint, but %llu samples count as done; --fresh "
			 "starts over",
			 s->place.state, (unsigned long long)s->stat.samples_done);
	else if (s->latest[0] || servers_in(s, 1) > 0)
		sup_rollback_begin(s, "the job goes on");
	else
		sup_enter(s, PHASE_SERVERS);
}

static void step_services(struct supervisor *s)
{
	if (!sup_link_up(&s->shardd->link))
		return;
	if (!s->stat.known)
		sup_ask_stat(s);
	else
		choose(s);
}

static void step_servers(struct supervisor *s)
{
	int up = 1;
	for (size_t i = 0; i < s->job->servers; i++) {
		if (s->phase != PHASE_SERVERS)
			return; /* one of them can't be started */
		sup_node_want(&s->servers[i]);
	}
	sup_links_servers(s);
	for (size_t i = 0; i < s->job->servers; i++)
		up &= s->servers[i].stage == STAGE_READY && sup_link_up(&s->servers[i].link);
	if (!up)
		return;
	sup_intent_remove(s);
	if (s->intent)
		sup_kick_after(s, 1);
	else
		sup_enter(s, !s->latest[0]          ? PHASE_FIRST_CUT
			     : s->goal == GOAL_DONE ? PHASE_RUNNING
						    : PHASE_WINDING);
}

static void step_first_cut(struct supervisor *s)
{
	if (s->latest[0])
		sup_enter(s, s->goal == GOAL_DONE ? PHASE_RUNNING : PHASE_WINDING);
	else
		sup_cut_start(s);
}

static int any_starting(const struct supervisor *s)
{
	for (size_t i = 0; i < s->job->workers; i++)
		if (s->workers[i].stage == STAGE_STARTING)
			return 1;
	return 0;
}

static void step_running(struct supervisor *s)
{
	if (s->goal != GOAL_DONE) {
		sup_enter(s, PHASE_WINDING);
		return;
	}
	for (size_t i = 0; i < s->job->workers; i++) {
		sup_node_want(&s->workers[i]);
		sup_mend_step(&s->workers[i]);
		if (s->phase != PHASE_RUNNING)
			return;
	}
	if (any_starting(s)) {
		sup_ask_members(s);
		sup_kick_after(s, READY_SECONDS);
	}
	sup_heir_step(s);
	sup_wait_done(s);
	if (s->all_done && !s->cut_pending)
		sup_enter(s, PHASE_LAST_CUT);
	else if (s->checkpoint_waiters)
		sup_cut_start(s);
	s->finish_asked = s->last_known = 0;
	s->cut_done = 0;
}

static void step_winding(struct supervisor *s)
{
	for (size_t i = 0; i < s->job->workers; i++)
		sup_node_stop(&s->workers[i], s->interrupted > 1 ? SIGKILL : SIGTERM);
	if (!sup_nodes_off(s->workers, s->job->workers) || s->cut_pending)
		return;
	s->cut_done = s->last_known = 0;
	sup_enter(s, PHASE_LAST_CUT);
}

static void step_last_cut(struct supervisor *s)
{
	if (!s->cut_done) {
		sup_cut_start(s);
		return;
	}
	if (!s->last_known) {
		sup_ask_last(s);
		return;
	}
	if (s->goal != GOAL_DONE)
		sup_enter(s, PHASE_STOPPING);
	else if (s->stat.todo + s->stat.doing > 0)
		sup_enter(s, PHASE_RUNNING); /* rolled back in between: there is work again */
	else {
		if (s->held[0])
			sup_note(
				s, "held",
				"shards %s are held: their workers kept dying, and they are not in "
				"the model",
				s->held);
		sup_enter(s, PHASE_FINISHING);
	}
	s->all_done = 0;
}

static void on_finish(const struct record *r, int closing, const void *payload, size_t bytes,
		      void *arg)
{
	struct supervisor *s = arg;
	(void)payload;
	(void)bytes;
	if (closing && (!r || !record_is(r, "ok")))
		s->finish_asked = 0;
	sup_kick(s);
}

/* From here on their end is expected. */
static void tell_finish(struct supervisor *s)
{
	char line[64];
	struct record_out o;
	record_begin(&o, line, sizeof line, "finish");
	if (sup_link_send(&s->servers[0].link, &o, NULL, 0, on_finish, s) != 0)
		return;
	s->finish_asked = 1;
	s->finish_at = clock_mono();
	for (size_t i = 0; i < s->job->workers; i++)
		sup_node_stop(&s->workers[i], 0);
}

static void step_finishing(struct supervisor *s)
{
	if (!s->finish_asked)
		tell_finish(s);
	if (sup_nodes_off(s->workers, s->job->workers)) {
		sup_enter(s, PHASE_STOPPING);
		return;
	}
	double left = s->finish_at + deadline_seconds(DEADLINE_FINISH) - clock_mono();
	if (s->finish_asked && left <= 0)
		for (size_t i = 0; i < s->job->workers; i++)
			sup_node_stop(&s->workers[i], SIGTERM);
	else
		sup_kick_after(s, left > 0 ? left : 1);
}

/* Servers and workers first: shardd outlives those that write to it. */
static void step_stopping(struct supervisor *s)
{
	int sig = s->goal == GOAL_FAIL || s->interrupted > 1 ? SIGKILL : SIGTERM;
	size_t first = s->job->servers + s->job->workers;
	for (size_t i = 0; i < first; i++)
		sup_node_stop(&s->servers[i], sig);
	if (!sup_nodes_off(s->servers, first))
		return;
	sup_node_stop(s->shardd, SIGTERM);
	sup_node_stop(s->monitor, SIGTERM);
	if (sup_nodes_off(s->node, s->node_count))
		sup_enter(s, PHASE_SCORING);
}

static void step_scoring(struct supervisor *s)
{
	int finished = s->goal == GOAL_DONE || s->goal == GOAL_EARLY;
	if (finished && s->job->test.count > 0 && !s->scored && !s->interrupted) {
		sup_score_start(s, s->latest, 1);
		if (!s->scored)
			return;
	}
	sup_enter(s, PHASE_OVER);
}

static void step_over(struct supervisor *s)
{
	sup_answer_stops(s);
	server_stop(s->server);
}

static const struct {
	const char *name;
	void (*step)(struct supervisor *s);
} phases[PHASES] = {
	[PHASE_SERVICES] = {"services", step_services},
	[PHASE_ROLLBACK] = {"rollback", sup_rollback_step},
	[PHASE_SERVERS] = {"servers", step_servers},
	[PHASE_FIRST_CUT] = {"first-cut", step_first_cut},
	[PHASE_RUNNING] = {"running", step_running},
	[PHASE_WINDING] = {"winding", step_winding},
	[PHASE_LAST_CUT] = {"last-cut", step_last_cut},
	[PHASE_FINISHING] = {"finishing", step_finishing},
	[PHASE_STOPPING] = {"stopping", step_stopping},
	[PHASE_SCORING] = {"scoring", step_scoring},
	[PHASE_OVER] = {"over", step_over},
};

const char *sup_phase_name(enum sup_phase phase)
{
	return phases[phase].name;
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
	struct supervisor *s = arg;
	(void)fd;
	(void)what;
	for (int i = 0; i < STEPS_MAX; i++) {
		enum sup_phase before = s->phase;
		if (s->phase < PHASE_STOPPING)
			want_services(s);
		phases[s->phase].step(s);
		if (s->phase == before)
			return;
	}
	sup_kick(s); /* others have a turn in between */
}

/* ---- how long the job has run, all its starts together ---- */

#define TIME_SECONDS 10.0 /* between two times that are kept; as much is lost in a crash */

static double run_time(const struct supervisor *s)
{
	return s->time_before + clock_mono() - s->started;
}

static int read_time(struct supervisor *s, struct error *err)
{
	char path[PLACE_MAX], *text;
	struct record r;
	place_state(&s->place, "spent", path);
	if (fs_read_file(path, RECORD_LINE_MAX, &text, NULL, err) != 0)
		return err->code == ERROR_NOINPUT ? 0 : -1;
	int result = record_parse(&r, text, strcspn(text, "\n"), err);
	free(text);
	if (result == 0)
		result = record_real(&r, "seconds", 0, 1e300, &s->time_before, err);
	return result == 0 ? 0 : error_wrap(err, path);
}

static void write_time(struct supervisor *s)
{
	char path[PLACE_MAX], line[RECORD_LINE_MAX];
	struct record_out o;
	struct error err;
	s->time_kept = clock_mono();
	place_state(&s->place, "spent", path);
	record_begin(&o, line, sizeof line, "time");
	record_add_seconds(&o, "seconds", run_time(s));
	if (fs_replace_file(path, line, record_end(&o, NULL), &err) == 0)
		s->time_failed = 0;
	else if (!s->time_failed++)
		sup_note(s, "warning", "%s: %s; MAX_TIME counts on without it", err.place, err.text);
}

/* ---- events ---- */

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct supervisor *s = arg;
	(void)fd;
	(void)what;
	sup_course_tick(s);
	sup_pulse_tick(s);
	sup_logs_rotate(s);
	sup_log_bound(s);
	if (clock_mono() - s->time_kept >= TIME_SECONDS)
		write_time(s);
	sup_kick(s);
}

/* What the job file wants done every so many seconds. */
static void on_periodic(evutil_socket_t fd, short what, void *arg)
{
	struct supervisor *s = arg;
	double max = s->job->max_time;
	(void)fd;
	(void)what;
	if (s->phase != PHASE_RUNNING)
		return;
	if (max > 0 && run_time(s) >= max)
		sup_finish_early(s, GOAL_EARLY, "MAX_TIME is over");
	sup_score_periodic(s);
	sup_cut_periodic(s);
	sup_decide_periodic(s);
}

/* Often enough for the shortest of them. */
static double period(const struct job *job)
{
	const double every[] = {job->every, job->checkpoint_every, job->eval_every, job->max_time};
	double shortest = 1;
	for (size_t i = 0; i < sizeof every / sizeof *every; i++)
		if (every[i] > 0 && every[i] / 4 < shortest)
			shortest = every[i] / 4;
	return shortest > PERIOD_SECONDS_MIN ? shortest : PERIOD_SECONDS_MIN;
}

/* The first: a checkpoint and a stop. The second: at once. */
static void on_signal(int sig, void *owner)
{
	struct supervisor *s = owner;
	s->interrupted++;
	if (s->fail_status == 0)
		s->fail_status = 128 + sig;
	if (s->interrupted == 1) {
		sup_finish_early(s, GOAL_STOP, sig == SIGINT ? "interrupted" : "terminated");
		/* Nothing to save yet, or no more. */
		if (s->phase == PHASE_SERVICES)
			sup_enter(s, PHASE_STOPPING);
	} else if (s->phase < PHASE_STOPPING) {
		sup_note(s, "stop", "at once, without a checkpoint");
		sup_enter(s, PHASE_STOPPING);
	}
	child_free(s->scorer);
	s->scorer = NULL;
	sup_kick(s);
}

static void on_hangup(evutil_socket_t sig, short what, void *arg)
{
	(void)sig;
	(void)what;
	on_signal(SIGHUP, arg);
}

/* ---- beginning and end ---- */

static uint64_t all_restarts(const struct supervisor *s)
{
	uint64_t restarts = 0;
	for (size_t i = 0; i < s->node_count; i++)
		restarts += s->node[i].restarts;
	return restarts;
}

static void summary(struct supervisor *s, struct supervisor_result *result)
{
	static const char *const state[] = {"done", "done", "stopped", "failed"};
	struct record_out o;
	const struct sup_stat *stat = &s->stat;
	record_begin(&o, result->summary, sizeof result->summary, "summary");
	record_add(&o, "job", s->job->name);
	record_add(&o, "state", state[s->goal]);
	record_add_seconds(&o, "jct", stat->last_at - stat->first_at);
	record_add_u64(&o, "samples", stat->samples_done);
	record_add_u64(&o, "shards-done", stat->shards_done);
	record_add_u64(&o, "shards", stat->shards);
	record_add_u64(&o, "held", stat->held);
	record_add_u64(&o, "restarts", all_restarts(s));
	record_add_u64(&o, "bad-rows", s->options.bad_rows);
	record_add(&o, "checkpoint", s->latest);
	if (!isnan(s->auc)) {
		record_add_real(&o, "auc", s->auc);
		record_add_real(&o, "logloss", s->logloss);
	}
	if (s->score_status)
		record_add(&o, "score", "failed");
	if (s->failed) {
		record_add(&o, "failed", s->failed->id);
		sup_add_end(&o, &s->failed_end);
	}
	if (s->held[0])
		record_add(&o, "held-ids", s->held);
	record_end(&o, NULL);
}

static int is_finished(const struct supervisor *s)
{
	int scored = s->job->test.count == 0 || (s->scored && !s->score_status);
	return (s->goal == GOAL_DONE || s->goal == GOAL_EARLY) && scored;
}

/* A job that is done is not done again; the caller finds this. One that could not be scored is not:
 * started again it has nothing left to train, and is scored. */
static void keep_summary(struct supervisor *s, const struct supervisor_result *result)
{
	char path[PLACE_MAX];
	struct error err;
	place_state(&s->place, "summary", path);
	if (is_finished(s) &&
	    fs_replace_file(path, result->summary, strlen(result->summary), &err) != 0)
		sup_note(s, "warning", "%s: %s", err.place, err.text);
}

static int end_status(const struct supervisor *s)
{
	if (s->goal == GOAL_FAIL || s->interrupted)
		return s->fail_status;
	if (s->goal == GOAL_STOP)
		return ERROR_TEMPFAIL;
	if (s->score_status)
		return s->score_status;
	return s->stat.held > 0 ? ERROR_NEGATIVE : 0;
}

static int make_server(struct supervisor *s, struct error *err)
{
	char path[PLACE_MAX], fields[96];
	place_run(&s->place, "trainctl.sock", path);
	snprintf(fields, sizeof fields, "job=%s", s->job->name);
	struct server_options options = {.path = path,
					 .role = "trainctl",
					 .greeting_fields = fields,
					 .verbs = sup_verbs,
					 .verb_count = sup_verb_count,
					 .owner = s,
					 .signalled = on_signal};
	if (server_new(&s->server, &options, err) != 0)
		return -1;
	s->base = server_base(s->server);
	return 0;
}

static int make_events(struct supervisor *s, struct error *err)
{
	struct timeval tick = clock_timeval(TICK_SECONDS);
	struct timeval often = clock_timeval(period(s->job));
	s->kick = event_new(s->base, -1, 0, on_kick, s);
	s->retry = evtimer_new(s->base, on_kick, s);
	s->tick = event_new(s->base, -1, EV_PERSIST, on_tick, s);
	s->periodic = event_new(s->base, -1, EV_PERSIST, on_periodic, s);
	struct sigaction hangup;
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* nohup(1) */
		s->on_hangup = evsignal_new(s->base, SIGHUP, on_hangup, s);
	if (!s->kick || !s->retry || !s->tick || !s->periodic || event_add(s->tick, &tick) != 0 ||
	    event_add(s->periodic, &often) != 0 ||
	    (s->on_hangup && event_add(s->on_hangup, NULL) != 0))
		return error_set(err, ERROR_OS, "events", "no event loop");
	return 0;
}

static void release(struct supervisor *s)
{
	struct event *const events[] = {s->kick, s->retry, s->tick, s->periodic, s->on_hangup};
	child_free(s->scorer);
	sup_decide_free(s);
	sup_link_close(&s->shardd_wait);
	sup_link_close(&s->lead_cut);
	sup_link_close(&s->lead_act);
	sup_link_close(&s->lead_watch);
	sup_acts_free(s);
	for (size_t i = 0; s->node && i < s->node_count; i++)
		sup_restart_failed(&s->node[i], "the job is over");
	sup_nodes_free(s);
	for (size_t i = 0; i < sizeof events / sizeof *events; i++)
		if (events[i])
			event_free(events[i]);
	snapshot_clear(&s->snapshot);
	snapshot_clear(&s->filling);
	server_free(s->server);
	recordlog_close(&s->log);
	free(s);
}

static int begin(struct supervisor *s, struct error *err)
{
	if (make_server(s, err) != 0 || make_events(s, err) != 0 || sup_log_open(s, err) != 0 ||
	    read_time(s, err) != 0 || sup_nodes_new(s, err) != 0 ||
	    sup_standing_read(s, err) != 0 ||
	    sup_intent_read(s, err) != 0 || sup_cut_find(s, err) != 0)
		return -1;
	sup_log_begin(s, 0); /* what is adopted is of this run */
	int running = sup_nodes_adopt(s, err);
	if (running < 0)
		return -1;
	if (running > 0)
		sup_note(s, "adopt", "%d nodes run already and are adopted", running);
	s->decide_at = s->cut_at = s->score_at = s->started;
	sup_kick(s);
	return 0;
}

int supervisor_run(const struct supervisor_options *options, struct supervisor_result *result,
		   struct error *err)
{
	struct supervisor *s = calloc(1, sizeof *s);
	*result = (struct supervisor_result){0};
	if (!s)
		return error_set(err, ERROR_OS, "supervisor", "out of memory");
	s->options = *options;
	s->job = options->job;
	s->place = options->place;
	s->log.fd = -1;
	s->started = clock_mono();
	if (deadline_rules(&s->hung, s->job->hung, err) != 0) {
		release(s);
		return -1;
	}
	s->auc = s->logloss = s->best_auc = s->row.rate = s->row.loss = s->row.ratio = NAN;
	s->stat.first_at = s->stat.last_at = NAN;
	snapshot_init(&s->snapshot);
	snapshot_init(&s->filling);
	if (begin(s, err) != 0) {
		release(s);
		return -1;
	}
	int served = server_run(s->server, options->notify_socket, 0, err);
	if (served == 0) {
		write_time(s);
		result->status = end_status(s);
		summary(s, result);
		keep_summary(s, result);
		sup_log_text(s, result->summary, strlen(result->summary));
	}
	release(s);
	return served;
}
