/* supervisor: see supervisor.h. The phases decide what is done when (phase.h). */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"
#include "ckpt/memory.h"
#include "job/prepare.h"
#include "job/spent.h"
#include "wire/aside.h"
#include "wire/transport.h"

#include <dirent.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_SECONDS 0.25
#define PERIOD_SECONDS_MIN 0.02

/* ---- how long the job has run, all its starts together ---- */

#define TIME_SECONDS 10.0 /* after which it is kept again; a crash loses no more */

static double run_time(const struct supervisor *s)
{
	return s->spent.before + clock_mono() - s->phases.started;
}

static void write_time(struct supervisor *s)
{
	char line[RECORD_LINE_MAX];
	s->spent.kept = clock_mono();
	sup_keep(s, KEPT_TIME, line, spent_line(run_time(s), line));
}

int sup_time_take(struct supervisor *s, const struct record *r, struct error *err)
{
	return spent_take(r, &s->spent.before, err);
}

/* ---- events ---- */

static void supervisor_on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct supervisor *s = arg;
	(void)fd;
	(void)what;
	sup_actions_tick(s);
	sup_decide_first(s);
	sup_abandoned_tick(s);
	if (s->phases.now < PHASE_STOPPING)
		sup_progress_tick(s);
	sup_watch_tick(s);
	sup_standstill_tick(s);
	sup_hosts_tick(s);
	sup_more_tick(s);
	sup_logs_bound(s);
	sup_room_tick(s);
	sup_metrics_tick(s);
	if (clock_mono() - s->spent.kept >= TIME_SECONDS)
		write_time(s);
	sup_kept_step(s);
	sup_kick(s);
}

/* What the job file wants to be done every so many seconds. */
static void on_periodic(evutil_socket_t fd, short what, void *arg)
{
	struct supervisor *s = arg;
	double max = s->job->max_time;
	(void)fd;
	(void)what;
	if (s->phases.now != PHASE_RUNNING)
		return;
	if (max > 0 && run_time(s) >= max)
		sup_finish_by(s, SPENT_MAX_TIME, "MAX_TIME is over");
	sup_score_periodic(s);
	sup_checkpoint_periodic(s);
	sup_decide_periodic(s);
	sup_rebalance_periodic(s);
}

/* Seconds between calls of on_periodic(): few enough for the shortest of these times. */
static double periodic_seconds(const struct job *job)
{
	const double every[] = {job->every, job->checkpoint_every, job->eval_every, job->max_time,
				job->rebalance_every};
	double shortest = 1;
	for (size_t i = 0; i < sizeof every / sizeof *every; i++)
		if (every[i] > 0 && every[i] / 20 < shortest)
			shortest = every[i] / 20;
	return shortest > PERIOD_SECONDS_MIN ? shortest : PERIOD_SECONDS_MIN;
}

static void supervisor_on_signal(int sig, void *owner)
{
	sup_interrupt(owner, sig);
	sup_score_stop(owner);
}

static void on_hangup(evutil_socket_t sig, short what, void *arg)
{
	(void)sig;
	(void)what;
	supervisor_on_signal(SIGHUP, arg);
}

/* ---- beginning and end ---- */

static void make_summary(struct supervisor *s, struct supervisor_result *result)
{
	static const char *const state[] = {"done", "done", "stopped", "failed"};
	struct record_out o;
	const struct sup_stat *stat = &s->progress.stat;
	record_begin(&o, result->summary, sizeof result->summary, "summary");
	record_add(&o, "job", s->job->name);
	record_add(&o, "state", state[s->phases.goal]);
	record_add_seconds(&o, "jct", stat->last_at - stat->first_at);
	record_add_seconds(&o, "time", run_time(s));
	record_add_u64(&o, "samples", stat->samples_done);
	record_add_u64(&o, "shards-done", stat->shards_done);
	record_add_u64(&o, "shards", stat->shards);
	record_add_u64(&o, "held", stat->held);
	record_add_u64(&o, "restarts", sup_all_restarts(s));
	record_add_u64(&o, "bad-rows", s->options.bad_rows);
	if (job_kind(s->job)->cut == CUT_SAVED)
		record_add_u64(&o, "repeated", s->trainers.repeated);
	if (s->phases.goal == GOAL_EARLY)
		record_add(&o, "ended", s->phases.ended_by);
	record_add_u64(&o, "exit", (uint64_t)result->status);
	record_add_seconds(&o, "at", clock_epoch());
	record_add(&o, "checkpoint", s->checkpoint.latest);
	scores_put(&o, s->score.value);
	if (s->score.status)
		record_add(&o, "score", "failed");
	if (s->phases.late_status)
		record_add(&o, "after-loop", "failed");
	if (s->phases.failed) {
		record_add(&o, "failed", s->phases.failed->id);
		sup_add_end(&o, &s->phases.failed_end);
	}
	if (s->progress.last.held[0])
		record_add(&o, "held-ids", s->progress.last.held);
	record_end(&o, NULL);
}

static int is_finished(const struct supervisor *s)
{
	int scored = s->job->test.count == 0 || (s->score.done && !s->score.status);
	return (s->phases.goal == GOAL_DONE || s->phases.goal == GOAL_EARLY) && scored &&
	       !s->phases.late_status;
}

/* A job that is done is not run again, because the caller finds its summary. A job that could not
 * be scored, or whose trainers failed in what follows their loops, keeps none: when it is started
 * again, nothing is left to train, and that is done again. */
static void keep_summary(struct supervisor *s, const struct supervisor_result *result)
{
	char path[DIRS_PATH_MAX];
	struct error err;
	dirs_state(&s->dirs, "summary", path);
	if (is_finished(s) &&
	    fs_replace_file(path, result->summary, strlen(result->summary), &err) != 0)
		sup_note(s, "warning", "%s: %s", err.place, err.text);
}

static int end_status_of(const struct supervisor *s)
{
	if (s->phases.goal == GOAL_FAIL || s->phases.interrupted)
		return s->phases.fail_status;
	if (s->phases.goal == GOAL_STOP)
		return s->phases.fail_status ? s->phases.fail_status : ERROR_TEMPFAIL;
	if (s->score.status)
		return s->score.status;
	if (s->phases.late_status)
		return s->phases.late_status;
	return s->progress.stat.held > 0 ? ERROR_NEGATIVE : 0;
}

static int supervisor_make_server(struct supervisor *s, struct error *err)
{
	char path[DIRS_PATH_MAX], fields[96];
	dirs_run(&s->dirs, "trainctl.sock", path);
	snprintf(fields, sizeof fields, "job=%s", s->job->name);
	struct server_options options = {.path = path,
					 .role = "trainctl",
					 .greeting_fields = fields,
					 .verbs = sup_verbs,
					 .verb_count = sup_verb_count,
					 .owner = s,
					 .signalled = supervisor_on_signal};
	if (server_new(&s->server, &options, err) != 0) {
		/* A job with the same state would have been found before. */
		if (err->code == ERROR_TEMPFAIL)
			error_set(err, ERROR_TEMPFAIL, s->dirs.run,
				  "a job with another state directory runs here; wait for its end, or "
				  "choose another --run-dir");
		return -1;
	}
	s->base = server_base(s->server);
	return 0;
}

static int supervisor_make_events(struct supervisor *s, struct error *err)
{
	struct timeval tick = clock_timeval(TICK_SECONDS);
	struct timeval often = clock_timeval(periodic_seconds(s->job));
	s->tick = event_new(s->base, -1, EV_PERSIST, supervisor_on_tick, s);
	s->periodic = event_new(s->base, -1, EV_PERSIST, on_periodic, s);
	struct sigaction hangup;
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* nohup(1) */
		s->hangup = evsignal_new(s->base, SIGHUP, on_hangup, s);
	if (!s->tick || !s->periodic || event_add(s->tick, &tick) != 0 ||
	    event_add(s->periodic, &often) != 0 || (s->hangup && event_add(s->hangup, NULL) != 0))
		return error_set(err, ERROR_OS, "events", "no event loop");
	return sup_phase_init(s, err);
}

#define FILES_BESIDE 36 /* logs, sockets, clients, what a launch has open for a moment */
#define FILES_NODE 3    /* for one that is asked: its connections, and what tells its end */
#define FILES_HOST 4

int sup_may_open_files(const struct supervisor *s, const struct sup_sizes *more, struct error *err)
{
	uint64_t needed = FILES_BESIDE + FILES_HOST * s->hosts.count, nodes = 0;
	for (size_t i = 0; roles[i]; i++) {
		uint64_t count = roles[i]->count(s);
		needed += count * (roles[i]->service || roles[i]->goes_back ? FILES_NODE : 1);
		nodes += count;
	}
	needed += more->workers + more->servers * FILES_NODE;
	nodes += more->workers + more->servers;
	uint64_t allowed = fs_allow_files(needed);
	if (allowed >= needed)
		return 0;
	return error_set(err, ERROR_OS, "files and sockets",
			 "%llu may be open at once, but the %llu nodes of this job need "
			 "%llu: raise the limit (ulimit -n)",
			 (unsigned long long)allowed, (unsigned long long)nodes,
			 (unsigned long long)needed);
}

static void supervisor_release(struct supervisor *s)
{
	struct event *const events[] = {s->tick, s->periodic, s->hangup};
	sup_score_stop(s);
	sup_decide_stop(s);
	sup_self_test_stop(s);
	sup_brain_free(s);
	sup_parts_stop(s);
	sup_metrics_close(s);
	sup_links_free(s);
	sup_answer_all(s);
	sup_scale_free(s);
	sup_roster_free(s);
	sup_routes_free(s);
	sup_more_free(s);
	sup_hosts_free(s);
	sup_kept_free(s);
	sup_room_free(s);
	sup_rollback_free(s);
	aside_abandon(&s->checkpoint.pruning);
	sup_in_force_free(s);
	sup_progress_free(s);
	sup_phase_free(s);
	for (size_t i = 0; i < sizeof events / sizeof *events; i++)
		if (events[i])
			event_free(events[i]);
	server_free(s->server);
	sup_log_close(s);
	free(s);
}

/* Nodes that were killed have left something in memory for their next processes, which there are
 * not. On other hosts a sweep removes it (parts.h). */
static void forget_memory(const struct supervisor *s)
{
	char dir[DIRS_PATH_MAX];
	sup_memory_dir(s, dir);
	ckpt_memory_forget_all(dir);
}

static int supervisor_begin(struct supervisor *s, struct error *err)
{
	char id[OPTION_ID_MAX];
	if (sup_hosts_init(s, err) != 0 || sup_watch_init(s, err) != 0 ||
	    supervisor_make_server(s, err) != 0 || supervisor_make_events(s, err) != 0 ||
	    sup_log_open(s, err) != 0 || sup_kept_read(s, KEPT_TIME, KEPT_SCALE, err) != 0 ||
	    sup_brain_init(s, err) != 0 || sup_roster_fill(s, err) != 0 ||
	    sup_routes_fit(s, err) != 0)
		return -1;
	if (!prepare_running(&s->dirs, id) && sup_may_open_files(s, &(struct sup_sizes){0}, err) != 0)
		return -1;
	if (sup_kept_read(s, KEPT_INTENT, KEPT_IN_FORCE, err) != 0)
		return -1;
	sup_scale_mark(s); /* by now it is known which node has which place */
	if (sup_metrics_open(s, prepare_running(&s->dirs, id), err) != 0)
		return -1;
	sup_log_begin(s, 0); /* what is adopted is of this run */
	if (sup_newest_begin(s, err) != 0)
		return -1;
	sup_brain_log_sizes(s);
	sup_hosts_limits(s);
	int running = sup_adopt(s, err);
	if (running < 0)
		return -1;
	s->hosts.killed |= running > 0;
	/* There is nothing to go on from: what is there is of an earlier run of this name. */
	if (running == 0 && !s->checkpoint.latest[0])
		forget_memory(s);
	if (running > 0)
		sup_note(s, "adopt", "%d nodes run already and are adopted", running);
	sup_scale_begin(s);
	sup_more_begin(s);
	sup_decide_init(s);
	sup_checkpoint_begin(s);
	sup_score_init(s);
	sup_kick(s);
	return 0;
}

/* Of what was killed: relays of the fabric, and servers that were scaled away since. On other hosts
 * a sweep removes them. */
static void remove_sockets(const struct supervisor *s)
{
	char path[DIRS_PATH_MAX];
	DIR *d = opendir(s->dirs.run);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (!strstr(e->d_name, ".sock"))
			continue;
		dirs_run(&s->dirs, e->d_name, path);
		transport_remove_dead(path, NULL);
	}
	if (d)
		closedir(d);
}

static struct supervisor *supervisor_make(const struct supervisor_options *options,
					  struct error *err)
{
	struct supervisor *s = calloc(1, sizeof *s);
	if (!s) {
		error_set(err, ERROR_OS, "supervisor", "out of memory");
		return NULL;
	}
	s->options = *options;
	s->job = options->job;
	s->dirs = options->dirs;
	s->scale.now = s->scale.from = (struct sup_sizes){s->job->workers, s->job->servers};
	sup_log_init(s);
	sup_progress_init(s);
	return s;
}

int supervisor_check(const struct supervisor_options *options, struct error *err)
{
	struct supervisor *s = supervisor_make(options, err);
	if (!s)
		return -1;
	int result = 0;
	if (sup_hosts_init(s, err) != 0 || sup_kept_read(s, KEPT_SCALE, KEPT_SCALE, err) != 0 ||
	    sup_may_open_files(s, &(struct sup_sizes){0}, err) != 0)
		result = -1;
	supervisor_release(s);
	return result;
}

int supervisor_run(const struct supervisor_options *options, struct supervisor_result *result,
		   struct error *err)
{
	struct supervisor *s = supervisor_make(options, err);
	*result = (struct supervisor_result){0};
	if (!s)
		return -1;
	if (supervisor_begin(s, err) != 0) {
		supervisor_release(s);
		return -1;
	}
	int served = server_run(s->server, options->notify_socket, 0, err);
	if (served == 0) {
		forget_memory(s);
		remove_sockets(s);
		write_time(s);
		sup_kept_end(s);
		sup_checkpoint_prune_end(s);
		sup_metrics_last(s);
		result->status = end_status_of(s);
		if (s->phases.goal != GOAL_FAIL)
			sup_progress_end(s);
		make_summary(s, result);
		keep_summary(s, result);
		if (is_finished(s))
			sup_brain_finished(s);
		sup_log_text(s, result->summary, strlen(result->summary));
	}
	supervisor_release(s);
	return served;
}
