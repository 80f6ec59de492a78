/* What `trainctl run` does before it makes anything, and `trainctl check` does as well: the job
 * file, the job's directories, what its names mean, and whether another trainctl runs it. */
#include "cmd/trainctl.h"

#include "base/fs.h"
#include "base/log.h"
#include "job/holder.h"
#include "job/hosts.h"
#include "job/job.h"
#include "job/locate.h"
#include "job/prepare.h"
#include "solve/solution.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A name mistyped is found now, not by each decision. */
static int check_solution(const struct job *job, const char *path, struct error *err)
{
	char known[TRAINCTL_SOLUTIONS_MAX];
	if (job_balance(job) || solution_find(job->solution) || fs_is_program(job->solution))
		return 0;
	trainctl_solutions(known);
	return error_set(err, ERROR_CONFIG, path,
			 "SOLUTION: '%.200s' is no solution (%s) and no executable", job->solution,
			 known);
}

/* A directory that is mistyped slows nothing; but it may be made later. */
static void tell_drag(const struct job *job)
{
	if (job->drag[0] && access(job->drag, F_OK) != 0)
		log_say(LOG_LEVEL_INFO,
			"DRAG: %s is not there: nothing is slowed as long as it is not", job->drag);
}

/* Nodes that run are where they were started, from whatever environment. */
static void stay(struct dirs *dirs)
{
	char id[OPTION_ID_MAX], run[DIRS_MAX];
	if (prepare_running(dirs, id) && dirs_recorded(dirs, run) == 0)
		memcpy(dirs->run, run, sizeof run);
}

static int read_job(struct job *job, const char *path, const struct trainctl_call *call,
		    struct error *err)
{
	int result = job_read(job, path, err);
	for (size_t i = 0; result == 0 && i < call->set.count; i++)
		result = job_set_text(job, call->set.item[i], err);
	return result == 0 ? job_finish(job, path, err) : -1;
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

int trainctl_runs_already(const struct job *job, const struct dirs *dirs,
			  const struct trainctl_call *call, struct error *err)
{
	char which[DIRS_MAX + 16], since[32];
	struct holder holder;
	if (!holder_find(dirs, &holder))
		return 0;
	trainctl_time(holder.at, since);
	if (call->run_dir || call->state_dir)
		snprintf(which, sizeof which, "--run-dir %.150s", dirs->run);
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

void trainctl_keys(char *out, size_t max)
{
	const char *key, *given, *help;
	size_t at = (size_t)snprintf(out, max, "Keys of a job file (paceline-job(5)):");
	for (size_t i = 0; at < max && (key = job_key(i, &given, &help)); i++) {
		char head[64];
		const char *values = job_key_values(i);
		int named = values && values[0] >= 'A' && values[0] <= 'Z';
		snprintf(head, sizeof head, "%s%s%s", key, named ? " " : "", named ? values : "");
		at += (size_t)snprintf(out + at, max - at, "\n  %-18s %s%s%s%s%s%s", head, help,
				       given[0] ? " (" : "", given, given[0] ? ")" : "",
				       values && !named ? ": " : "",
				       values && !named ? values : "");
	}
}
