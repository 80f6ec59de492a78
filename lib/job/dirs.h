/*
 * dirs: where a job's sockets and its state lie.
 *
 * Sockets go to the run directory (may vanish at a reboot), all else to the state directory.
 */
#ifndef PACELINE_JOB_DIRS_H
#define PACELINE_JOB_DIRS_H

#include "base/error.h"

#include <stddef.h>

#define DIRS_MAX 3840       /* bytes of a directory's path, NUL included */
#define DIRS_PATH_MAX 4096  /* bytes of a path below one */
#define DIRS_KEPT "kept"    /* in the state directory (run/kept.h) */
#define DIRS_KEPT_BYTES_MAX (64u << 20)
#define DIRS_SOCKET_MAX 108 /* of a Unix socket's path (unix(7)), NUL included */

/* What the environment says; NULL or "" where it says nothing. main() fills it. */
struct dirs_environment {
	const char *runtime_directory; /* $RUNTIME_DIRECTORY (systemd; the first of a list) */
	const char *state_directory;   /* $STATE_DIRECTORY */
	const char *xdg_state_home;    /* $XDG_STATE_HOME */
	const char *home;              /* $HOME */
};

struct dirs {
	char run[DIRS_MAX];   /* absolute */
	char state[DIRS_MAX]; /* absolute */
};

/* run_dir and state_dir as given by options (NULL: not given); job may be NULL when run_dir is
 * given. Makes nothing. Relative paths in the environment count as none. Sockets do not go to
 * $XDG_RUNTIME_DIR, which is removed when its user logs out, while a job of nohup(1) goes on. */
int dirs_resolve(struct dirs *p, const char *job, const char *run_dir, const char *state_dir,
		 const struct dirs_environment *env, struct error *err);
/* For those that look at a job: a state directory is enough, and where the environment does not
 * tell the state's place, state is "". */
int dirs_guess(struct dirs *p, const char *job, const char *run_dir, const char *state_dir,
	       const struct dirs_environment *env, struct error *err);
/* The directory below which a user's jobs have their state when nobody chose another place; base
 * holds DIRS_MAX bytes. -1: the environment does not tell. */
int dirs_base(char *base, const struct dirs_environment *env);
/* STATE/run-dir; -1: there is none, or it can't be read. */
int dirs_recorded(const struct dirs *p, char *run, struct error *err);
/* Both directories and what is expected inside; checks that sockets fit and that we own them. */
int dirs_make(const struct dirs *p, struct error *err);

/* Whether dirs_make() could; makes nothing. */
int dirs_check(const struct dirs *p, struct error *err);

/* A name in the run or the state directory. out holds DIRS_PATH_MAX bytes. */
void dirs_run(const struct dirs *p, const char *name, char *out);
void dirs_state(const struct dirs *p, const char *name, char *out);

/* What a worker has learnt of its speeds, as a job's state keeps it: predict-ID in dir, else the
 * first of any worker's. out holds DIRS_PATH_MAX bytes. -1: there is none; dir may be no
 * directory. */
int dirs_learnt(const char *dir, const char *id, char *out);

#endif
