/*
 * place: where a job's sockets and its state lie.
 *
 * Sockets go to the run directory (may vanish at a reboot), all else to the state directory.
 */
#ifndef PACELINE_JOB_PLACE_H
#define PACELINE_JOB_PLACE_H

#include "base/error.h"

#include <stddef.h>

#define PLACE_DIR_MAX 3840   /* bytes of a directory's path, NUL included */
#define PLACE_MAX 4096       /* bytes of a path below one */
#define PLACE_SOCKET_MAX 108 /* of a Unix socket's path (unix(7)), NUL included */

/* What the environment says; NULL or "" where it says nothing. main() fills it. */
struct place_environment {
	const char *runtime_directory; /* $RUNTIME_DIRECTORY (systemd; the first of a list) */
	const char *state_directory;   /* $STATE_DIRECTORY */
	const char *xdg_state_home;    /* $XDG_STATE_HOME */
	const char *home;              /* $HOME */
};

struct place {
	char run[PLACE_DIR_MAX];   /* absolute */
	char state[PLACE_DIR_MAX]; /* absolute */
};

/* run_dir and state_dir as given by options (NULL: not given); job may be NULL when run_dir is
 * given. Makes nothing. Relative paths in the environment count as none. Sockets do not go to $XDG_RUNTIME_DIR, which is removed when its user logs
 * out, while a job of nohup(1) goes on. */
int place_resolve(struct place *p, const char *job, const char *run_dir, const char *state_dir,
		  const struct place_environment *env, struct error *err);
/* For those that ask a running job, whatever environment it was started from: where its sockets are,
 * as its state says. run holds PLACE_DIR_MAX bytes. */
int place_find(char *run, const char *job, const char *run_dir, const struct place_environment *env,
	       struct error *err);
/* STATE/run-dir; -1: there is none. */
int place_recorded(const struct place *p, char *run);
/* Both directories and what is expected inside; checks that sockets fit and that we own them. */
int place_make(const struct place *p, struct error *err);

/* A name in the run or the state directory. out holds PLACE_MAX bytes. */
void place_run(const struct place *p, const char *name, char *out);
void place_state(const struct place *p, const char *name, char *out);

/* What a worker has learnt of its speeds, as a job's state keeps it: predict-ID in dir, else the
 * first of any worker's. out holds PLACE_MAX bytes. -1: there is none; dir may be no directory. */
int place_learnt(const char *dir, const char *id, char *out);

#endif
