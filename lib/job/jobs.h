/*
 * jobs: which jobs a user has, and where.
 *
 * In its usual place the state of a job is BASE/NAME, where BASE is $XDG_STATE_HOME/paceline or
 * $HOME/.local/state/paceline. Of a job whose state is elsewhere (--run-dir, --state-dir,
 * STATE_DIRECTORY) there is a link in BASE/+jobs, so that it can be found by its name, too; no job
 * can have a name with a plus. A link whose job is gone is removed when the next one is made.
 */
#ifndef PACELINE_JOB_JOBS_H
#define PACELINE_JOB_JOBS_H

#include "base/error.h"
#include "base/option.h"
#include "job/dirs.h"

#include <stddef.h>

struct jobs_entry {
	char name[OPTION_ID_MAX];
	char *state; /* directory, absolute */
};

struct jobs {
	size_t count, room;
	struct jobs_entry *entry;
	struct error lack; /* code 0: these are all; else why some may be missing */
};

/* All there are that can be seen, by name. A user without a home has none. The caller frees the
 * list. */
int jobs_list(struct jobs *jobs, const struct dirs_environment *env, struct error *err);
void jobs_free(struct jobs *jobs);

/* A job was started with these directories. What can't be written down is left: the job matters
 * more. */
void jobs_note(const struct dirs *dirs, const char *name, const struct dirs_environment *env);

/* Where a job is that somebody names (NULL: not given), whatever environment it was started from.
 * By its name: the one that is running; else the one in its usual place; else the only one. There
 * need not be any; then out is where it would be. ERROR_USAGE: neither name nor directory, or there
 * are several of that name. */
int jobs_find(struct dirs *out, const char *job, const char *run_dir, const char *state_dir,
	      const struct dirs_environment *env, struct error *err);

/* Then, for those who read its state: -1 where nobody knows where that is, or where there is none
 * of the job (job: its name; NULL: not given): ERROR_NOINPUT, as jobs_none() says. */
int jobs_need_state(const struct dirs *dirs, const char *job, struct error *err);
/* Whether there is a job with this state; -1: that can't be seen. */
int jobs_has_begun(const struct dirs *dirs, struct error *err);
/* -1: there is no such job. */
int jobs_none(const struct dirs *dirs, const char *job, struct error *err);

#endif
