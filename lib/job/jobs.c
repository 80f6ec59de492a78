/* jobs: see jobs.h. */
#include "job/jobs.h"

#include "base/fs.h"
#include "base/grow.h"
#include "job/holder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define LINKS "+jobs"

/* ---- those there are ---- */

/* Whether a file or directory is there; -1: that can't be seen. */
static int jobs_is_there(const char *path, struct error *err)
{
	if (access(path, F_OK) == 0)
		return 1;
	error_errno(err, 0, path, "can't be seen");
	return error_is_lack(err) ? -1 : 0;
}

int jobs_has_begun(const struct dirs *dirs, struct error *err)
{
	struct holder holder;
	char path[DIRS_PATH_MAX];
	dirs_state(dirs, "job.env", path);
	int is = jobs_is_there(path, err);
	return is != 0 ? is : holder_look(dirs, &holder, err);
}

static int is_job(const char *state, struct error *err)
{
	struct dirs dirs;
	if (!state[0] || strlen(state) >= sizeof dirs.state)
		return 0;
	snprintf(dirs.state, sizeof dirs.state, "%s", state);
	return jobs_has_begun(&dirs, err);
}

static int jobs_add(struct jobs *jobs, const char *name, size_t len, const char *state,
		    struct error *err)
{
	int is = len == 0 || len >= OPTION_ID_MAX ? 0 : is_job(state, err);
	if (is < 0)
		jobs->lack = *err;
	if (is <= 0)
		return 0;
	if (GROW(jobs->entry, jobs->room, jobs->count + 1) != 0)
		return error_set(err, ERROR_OS, state, "out of memory");
	struct jobs_entry *entry = &jobs->entry[jobs->count];
	snprintf(entry->name, sizeof entry->name, "%.*s", (int)len, name);
	entry->state = strdup(state);
	if (!entry->state)
		return error_set(err, ERROR_OS, state, "out of memory");
	jobs->count++;
	return 0;
}

/* What was called last for dir has failed; or, errno is 0, it has not. */
static void jobs_lack(struct jobs *jobs, const char *dir)
{
	struct error err;
	if (errno == 0)
		return;
	error_errno(&err, 0, dir, "can't be listed");
	if (error_is_lack(&err))
		jobs->lack = err;
}

/* The next name in dir; NULL: that was all. */
static struct dirent *jobs_next(struct jobs *jobs, const char *dir, DIR *d)
{
	struct dirent *e = NULL;
	if (d) {
		errno = 0;
		e = readdir(d);
	}
	if (!e)
		jobs_lack(jobs, dir);
	return e;
}

static int list_usual(struct jobs *jobs, const char *base, struct error *err)
{
	char state[DIRS_PATH_MAX + 256];
	int result = 0;
	DIR *d = opendir(base);
	for (struct dirent *e; result == 0 && (e = jobs_next(jobs, base, d));) {
		snprintf(state, sizeof state, "%s/%s", base, e->d_name);
		if (option_id_ok(e->d_name))
			result = jobs_add(jobs, e->d_name, strlen(e->d_name), state, err);
	}
	if (d)
		closedir(d);
	return result;
}

/* The state directory to which a link leads; -1: there is none, and errno says why. */
static int jobs_follow(const char *links, const char *name, char state[DIRS_MAX])
{
	char path[DIRS_PATH_MAX + 256];
	snprintf(path, sizeof path, "%s/%s", links, name);
	ssize_t len = readlink(path, state, DIRS_MAX - 1);
	state[len > 0 ? len : 0] = '\0';
	if (len >= 0 || errno == EINVAL) /* no link */
		errno = 0;
	return state[0] == '/' ? 0 : -1;
}

static int list_links(struct jobs *jobs, const char *base, struct error *err)
{
	char links[DIRS_PATH_MAX], state[DIRS_MAX];
	int result = 0;
	snprintf(links, sizeof links, "%s/" LINKS, base);
	DIR *d = opendir(links);
	for (struct dirent *e; result == 0 && (e = jobs_next(jobs, links, d));)
		if (jobs_follow(links, e->d_name, state) == 0)
			result = jobs_add(jobs, e->d_name, strcspn(e->d_name, "+"), state, err);
		else
			jobs_lack(jobs, links);
	if (d)
		closedir(d);
	return result;
}

static int jobs_by_name(const void *a, const void *b)
{
	const struct jobs_entry *p = a, *q = b;
	int order = strcmp(p->name, q->name);
	return order ? order : strcmp(p->state, q->state);
}

int jobs_list(struct jobs *jobs, const struct dirs_environment *env, struct error *err)
{
	char base[DIRS_MAX];
	*jobs = (struct jobs){0};
	if (dirs_base(base, env) != 0)
		return 0;
	if (list_usual(jobs, base, err) != 0 || list_links(jobs, base, err) != 0) {
		jobs_free(jobs);
		return -1;
	}
	if (jobs->count > 1)
		qsort(jobs->entry, jobs->count, sizeof *jobs->entry, jobs_by_name);
	return 0;
}

void jobs_free(struct jobs *jobs)
{
	for (size_t i = 0; i < jobs->count; i++)
		free(jobs->entry[i].state);
	free(jobs->entry);
	*jobs = (struct jobs){0};
}

/* ---- one more ---- */

static void remove_dead(const char *links)
{
	char path[DIRS_PATH_MAX + 256], state[DIRS_MAX];
	struct error err;
	DIR *d = opendir(links);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (jobs_follow(links, e->d_name, state) != 0 || is_job(state, &err) != 0)
			continue;
		snprintf(path, sizeof path, "%s/%s", links, e->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
}

void jobs_note(const struct dirs *dirs, const char *name, const struct dirs_environment *env)
{
	char base[DIRS_MAX], usual[DIRS_PATH_MAX], links[DIRS_PATH_MAX];
	char path[DIRS_PATH_MAX + 128];
	if (dirs_base(base, env) != 0)
		return;
	snprintf(usual, sizeof usual, "%s/%s", base, name);
	if (strcmp(usual, dirs->state) == 0)
		return;
	snprintf(links, sizeof links, "%s/" LINKS, base);
	if (fs_make_dirs(links, NULL) != 0)
		return;
	remove_dead(links);
	snprintf(path, sizeof path, "%s/%s+%016llx", links, name,
		 (unsigned long long)XXH3_64bits(dirs->state, strlen(dirs->state)));
	(void)!symlink(dirs->state, path); /* most often it is there */
}

/* ---- one by its name ---- */

static void several(const struct jobs *jobs, const char *name, struct error *err)
{
	char where[ERROR_TEXT_MAX] = "";
	for (size_t i = 0; i < jobs->count; i++) {
		size_t at = strlen(where);
		if (strcmp(jobs->entry[i].name, name) == 0)
			snprintf(where + at, sizeof where - at, "%s%s", at ? ", " : "",
				 jobs->entry[i].state);
	}
	error_set(err, ERROR_USAGE, NULL,
		  "there are several jobs %s: with --run-dir DIR say which; their states are %s",
		  name, where);
}

static int jobs_runs(const char *state)
{
	struct dirs dirs;
	struct holder holder;
	snprintf(dirs.state, sizeof dirs.state, "%s", state);
	return holder_find(&dirs, &holder);
}

/* state: in: the usual place; out: the real one. */
static int jobs_choose(char state[DIRS_MAX], const struct jobs *jobs, const char *name,
		       struct error *err)
{
	const char *some = NULL, *one_that_runs = NULL;
	size_t found = 0, running = 0;
	for (size_t i = 0; i < jobs->count; i++) {
		if (strcmp(jobs->entry[i].name, name) != 0)
			continue;
		found++;
		some = jobs->entry[i].state;
		if (jobs_runs(some)) {
			running++;
			one_that_runs = some;
		}
	}
	if (running == 0 && found == 0 && jobs->lack.code) {
		*err = jobs->lack;
		return -1;
	}
	if (running == 0 && (found == 0 || is_job(state, err) != 0))
		return 0;
	if (running > 1 || (running == 0 && found > 1)) {
		several(jobs, name, err);
		return -1;
	}
	snprintf(state, DIRS_MAX, "%s", running == 1 ? one_that_runs : some);
	return 0;
}

/* Finds the state of a job by its run directory, if the state is not in there. */
static void by_run_dir(struct dirs *p, const struct jobs *jobs)
{
	char run[DIRS_MAX];
	for (size_t i = 0; i < jobs->count; i++) {
		struct dirs other;
		snprintf(other.state, sizeof other.state, "%s", jobs->entry[i].state);
		if (dirs_recorded(&other, run, NULL) == 0 && strcmp(run, p->run) == 0) {
			memcpy(p->state, other.state, sizeof p->state);
			return;
		}
	}
}

int jobs_need_state(const struct dirs *dirs, const char *job, struct error *err)
{
	if (!dirs->state[0])
		return error_set(err, ERROR_CONFIG, NULL,
				 "the environment has neither XDG_STATE_HOME nor HOME, so the "
				 "job's state can't be found: give --run-dir DIR");
	int is = jobs_is_there(dirs->state, err);
	return is > 0 ? 0 : is < 0 ? -1 : jobs_none(dirs, job, err);
}

int jobs_none(const struct dirs *dirs, const char *job, struct error *err)
{
	return error_set(err, ERROR_NOINPUT, NULL,
			 "no job%s%s: there is no state of it in %.300s; `trainctl status` "
			 "shows those there are",
			 job ? " " : "", job ? job : "", dirs->state);
}

int jobs_find(struct dirs *out, const char *job, const char *run_dir, const char *state_dir,
	      const struct dirs_environment *env, struct error *err)
{
	struct jobs jobs;
	char run[DIRS_MAX];
	int has_run = run_dir && run_dir[0], has_state = state_dir && state_dir[0], result = 0;
	if (dirs_guess(out, job, run_dir, state_dir, env, err) != 0 ||
	    jobs_list(&jobs, env, err) != 0)
		return -1;
	if (!has_state && !has_run)
		result = jobs_choose(out->state, &jobs, job, err);
	else if (!has_state && is_job(out->state, err) == 0)
		by_run_dir(out, &jobs);
	jobs_free(&jobs);
	if (result == 0 && !has_run && dirs_recorded(out, run, NULL) == 0)
		memcpy(out->run, run, sizeof out->run);
	return result;
}
