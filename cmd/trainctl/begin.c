/* The first steps of `trainctl run`, before it makes anything, which `trainctl check` does as well:
 * read the job file, find the job's directories, resolve names, and see whether another trainctl
 * runs the job. */
#include "cmd/trainctl.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/words.h"
#include "job/brain_filter.h"
#include "job/fit.h"
#include "job/holder.h"
#include "job/hosts.h"
#include "job/job.h"
#include "job/kind.h"
#include "job/locate.h"
#include "job/prepare.h"
#include "solve/solution.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Find a mistyped name now, not at each decision. */
static int check_solution(const struct job *job, const char *path, struct error *err)
{
	char known[TRAINCTL_SOLUTIONS_MAX];
	if (job_balance(job) || solution_find(job->solution) || fs_is_program(job->solution))
		return 0;
	trainctl_solutions(known);
	return error_set(err, ERROR_CONFIG, job_place(job, "SOLUTION", path),
			 "SOLUTION: '%.200s' is no solution (%s) and no executable", job->solution,
			 known);
}

/* A mistyped directory slows nothing; warn, because the directory may be made later. */
static void tell_drag(const struct job *job)
{
	if (job->drag[0] && access(job->drag, F_OK) != 0)
		log_say(LOG_LEVEL_INFO,
			"DRAG: %s is not there: nothing is slowed until it is", job->drag);
}

/* Keys that do not fit the job are errors or warnings. */
static int trainctl_begin_check_fit(const struct job *job, const char *path, struct error *err)
{
	char text[ERROR_PLACE_MAX + ERROR_TEXT_MAX + 8];
	enum job_fit fit;
	for (size_t i = 0; (fit = job_fit(job, i, path, err)) != JOB_FIT_OVER; i++) {
		if (fit == JOB_FIT_REFUSED)
			return -1;
		if (fit == JOB_FIT_FINE)
			continue;
		error_format(err, text, sizeof text);
		log_say(LOG_LEVEL_INFO, "%s", text);
	}
	return 0;
}

/* Running nodes use the run directory with which they were started, whatever the environment says
 * now. */
static void stay(struct dirs *dirs)
{
	char id[OPTION_ID_MAX], run[DIRS_MAX];
	if (prepare_running(dirs, id) && dirs_recorded(dirs, run, NULL) == 0)
		memcpy(dirs->run, run, sizeof run);
}

static int check_brain(const struct job *job, const char *path, struct error *err)
{
	if (brain_is_known(job->brain))
		return 0;
	return error_set(err, ERROR_CONFIG, job_place(job, "BRAIN", path),
			 "BRAIN: '%.200s' is neither on nor off, and no executable", job->brain);
}

/* ---- how many nodes a job with a brain begins with ---- */

int trainctl_history(char path[DIRS_PATH_MAX])
{
	char base[DIRS_MAX];
	struct dirs_environment env;
	trainctl_environment(&env);
	if (dirs_base(base, &env) != 0)
		return -1;
	snprintf(path, DIRS_PATH_MAX, "%s/+history", base); /* no job can have this name */
	return 0;
}

/* A job that goes on keeps the numbers with which it began. */
static int take_kept(struct job *job, const char *kept)
{
	struct job before;
	int result = -1;
	if (job_init(&before, NULL) == 0 && job_read(&before, kept, NULL) == 0 &&
	    job_has_brain(&before)) {
		if (!job_is_given(job, "WORKERS"))
			job->workers = before.workers;
		if (!job_is_given(job, "SERVERS"))
			job->servers = before.servers;
		if (!job_is_given(job, "WORKERS cores"))
			job->worker_cores = before.worker_cores;
		if (!job_is_given(job, "SERVERS cores"))
			job->server_cores = before.server_cores;
		result = 0;
	}
	job_free(&before);
	return result;
}

static void trainctl_begin_take_plan(struct job *job, const struct answer *a)
{
	const struct {
		const char *count, *cores;
		uint64_t *nodes, most;
		double *each;
	} roles[PLAN_ROLES] = {
		{"WORKERS", "WORKERS cores", &job->workers, job_workers_most(), &job->worker_cores},
		{"SERVERS", "SERVERS cores", &job->servers, job_servers_most(),
		 &job->server_cores}};
	for (int i = 0; i < PLAN_ROLES; i++) {
		uint64_t most = roles[i].most;
		if (i == PLAN_WORKER && job_batch_workers(job) < most)
			most = job_batch_workers(job);
		if (a->plans[i] && !job_is_given(job, roles[i].count))
			*roles[i].nodes = a->role[i].count < most ? a->role[i].count : most;
		/* The plan for this number of nodes assumes this number of cores each. */
		if (a->plans[i] && !job_is_given(job, roles[i].count) &&
		    !job_is_given(job, roles[i].cores))
			*roles[i].each = (double)a->role[i].cores;
	}
	if (a->reason[0])
		log_say(LOG_LEVEL_INFO, "brain: begins with %llu worker%s and %llu server%s%s%s",
			(unsigned long long)job->workers, job->workers == 1 ? "" : "s",
			(unsigned long long)job->servers, job->servers == 1 ? "" : "s",
			a->data[0] ? ", as a job with " : "", a->data);
}

/* A round without nodes asks for the first plan. */
static int ask_first(struct job *job, struct error *err)
{
	char history[DIRS_PATH_MAX], *text = NULL;
	size_t len;
	struct brain_limits limits = brain_limits_of(job, NULL);
	struct argv words = {0};
	struct answer answer = {0};
	if (trainctl_history(history) == 0 && access(history, R_OK) == 0)
		limits.history = history;
	struct record_out *o = RECORD("job", F("batch", job->batch));
	brain_likeness_add(o, job);
	size_t bytes = record_end(o, NULL);
	int result = brain_words(&words, job->brain, &limits, getenv("PATH"), err);
	if (result == 0)
		result = brain_ask_once(&words, o->data, bytes, &text, &len, err);
	if (result == 0)
		result = answer_parse(&answer, text, len, err);
	if (result == 0)
		trainctl_begin_take_plan(job, &answer);
	answer_clear(&answer);
	free(text);
	return result;
}

/* Numbers in the job file hold. If the brain fails here, or its history can't be read, warn: the
 * job begins without a plan. */
static void trainctl_begin_plan_first(struct job *job, const char *kept, int fresh)
{
	struct error err;
	char text[ERROR_PLACE_MAX + ERROR_TEXT_MAX + 8];
	if (!job_has_brain(job) ||
	    (job_is_given(job, "WORKERS") && job_is_given(job, "SERVERS")) ||
	    (!fresh && take_kept(job, kept) == 0) || ask_first(job, &err) == 0)
		return;
	error_format(&err, text, sizeof text);
	log_say(LOG_LEVEL_WARNING, "brain: no first plan: %s", text);
}

static int read_job(struct job *job, const char *path, const struct trainctl_call *call,
		    struct error *err)
{
	int result = job_read(job, path, err);
	for (size_t i = 0; result == 0 && i < call->set.count; i++)
		result = job_set_text(job, call->set.item[i], err);
	if (result != 0 || job_finish(job, path, err) != 0)
		return -1;
	return trainctl_begin_check_fit(job, path, err);
}

int trainctl_begin(struct job *job, struct dirs *dirs, const char *path,
		   const struct trainctl_call *call, struct error *err)
{
	char kept[DIRS_PATH_MAX];
	struct dirs_environment env;
	trainctl_environment(&env);
	if (job_init(job, err) != 0)
		return -1;
	int result = read_job(job, path, call, err);
	if (result == 0)
		result = dirs_resolve(dirs, job->name, call->run_dir, call->state_dir, &env, err);
	if (result == 0) {
		dirs_state(dirs, "job.env", kept);
		result = job_locate(job, call->fresh ? NULL : kept, err);
	}
	if (result == 0)
		result = check_solution(job, path, err);
	if (result == 0)
		result = check_brain(job, path, err);
	if (result == 0)
		trainctl_begin_plan_first(job, kept, call->fresh);
	if (result == 0)
		result = prepare_columns(job, path, err);
	if (result == 0)
		tell_drag(job);
	if (result == 0 && !call->run_dir)
		stay(dirs);
	if (result != 0)
		job_free(job);
	return result;
}

void trainctl_hosts_environment(struct hosts_environment *env)
{
	const char *memory = getenv("SLURM_MEM_PER_NODE");
	*env = (struct hosts_environment){.slurm_nodes = getenv("SLURM_JOB_NODELIST"),
					  .slurm_memory = memory ? memory
								 : getenv("SLURM_MEM_PER_CPU"),
					  .search_path = getenv("PATH")};
}

int trainctl_hosts(struct hosts *hosts, const struct job *job, struct error *err)
{
	struct hosts_environment env;
	trainctl_hosts_environment(&env);
	return hosts_find(hosts, job, &env, err);
}

/* No warning when workers are paced, have a part of a core each, or use a launcher: the user knows
 * what he does. */
static void tell_cores(const struct job *job, uint64_t cores)
{
	const double each = job->worker_cores > 0 ? job->worker_cores : 1;
	if (job_kind(job)->foreign || job_has_brain(job) || job->drag[0] || job->launch_worker[0] ||
	    (double)job->workers * each <= (double)cores)
		return;
	log_say(LOG_LEVEL_INFO,
		"WORKERS: %llu workers share the %llu core%s of this machine: more workers than "
		"cores train no faster",
		(unsigned long long)job->workers, (unsigned long long)cores, cores == 1 ? "" : "s");
}

void trainctl_tell_hosts(const struct job *job, const struct hosts *hosts)
{
	const int sums =
		job_kind(job)->holds == HOLD_REPLICAS && strcmp(job_rounds(job), "rate") == 0;
	if (sums && hosts->count - hosts->first < 3)
		log_say(LOG_LEVEL_INFO, "FABRIC=mlfabric has no effect here: only sums over three "
					"hosts or more follow the rates of links");
	if (hosts->count > 1)
		return;
	if (job_by_links(job) && job->more_hosts == 0)
		log_say(LOG_LEVEL_INFO, "FABRIC=mlfabric has no effect here: only pushes between "
					"hosts take turns, and this job has one");
	tell_cores(job, hosts->place[0].cores);
}

int trainctl_runs_already(const struct job *job, const struct dirs *dirs,
			  const struct trainctl_call *call, struct error *err)
{
	char which[DIRS_MAX + 16], run[160], since[32];
	struct holder holder;
	if (!holder_find(dirs, &holder))
		return 0;
	trainctl_time(holder.at, since);
	if (call->run_dir || call->state_dir)
		snprintf(which, sizeof which, "--run-dir %s",
			 words_quote(dirs->run, run, sizeof run));
	else
		snprintf(which, sizeof which, "-j %s", job->name);
	return error_set(err, ERROR_TEMPFAIL, NULL,
			 "job %s runs already, since %s: pid %ld runs it; `trainctl status %s` "
			 "shows it, `trainctl stop %s` stops it",
			 job->name, since, (long)holder.pid, which, which);
}

void trainctl_time(double at, char out[32])
{
	time_t seconds = isnan(at) ? 0 : (time_t)at;
	struct tm tm;
	snprintf(out, 32, "?");
	if (!isnan(at) && localtime_r(&seconds, &tm))
		strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm);
}
