/*
 * jobdir: what -j NAME means to a program that reads a job's checkpoints: they are found by the name,
 * so that nobody has to know where a state directory lies.
 */
#ifndef PACELINE_CMD_JOBDIR_H
#define PACELINE_CMD_JOBDIR_H

#include "ckpt/ckpt.h"
#include "job/jobs.h"

#include <stdlib.h>

static inline struct dirs_environment jobdir_environment(void)
{
	return (struct dirs_environment){.runtime_directory = getenv("RUNTIME_DIRECTORY"),
					 .state_directory = getenv("STATE_DIRECTORY"),
					 .xdg_state_home = getenv("XDG_STATE_HOME"),
					 .home = getenv("HOME")};
}

/* The directory of its checkpoints; job or run_dir may be NULL, one of them is there. */
static inline int jobdir_checkpoints(const char *job, const char *run_dir, char out[DIRS_PATH_MAX],
				     struct error *err)
{
	const struct dirs_environment env = jobdir_environment();
	struct dirs place;
	if (jobs_find(&place, job, run_dir, NULL, &env, err) != 0 ||
	    jobs_need_state(&place, job, err) != 0)
		return -1;
	dirs_state(&place, "checkpoints", out);
	return 0;
}

/* The newest complete one. */
static inline int jobdir_newest(const char *job, const char *run_dir, char out[CKPT_PATH_MAX],
				struct error *err)
{
	char dir[DIRS_PATH_MAX];
	if (jobdir_checkpoints(job, run_dir, dir, err) != 0)
		return -1;
	return ckpt_latest(dir, out, CKPT_PATH_MAX, err);
}

#endif
