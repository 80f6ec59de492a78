/*
 * fresh: a job is started over, and the state of the run before stays until the new one has
 * something to show for itself.
 *
 * The new state (schema, model, layout, job.env: what prepare() makes) is made in
 * STATE/fresh.making, so that whatever is wrong with the new job is found while the old state is
 * untouched.  Then the two change places, in renames of which each can be the last before a crash:
 *
 *     fresh.making -> fresh.ready     from here on the new run is the one in force
 *     STATE/...    -> previous.making, then previous.making -> previous
 *     fresh.ready  -> fresh.moving    nothing of the old run lies in STATE any more
 *     fresh.moving/... -> STATE, then fresh.moving is removed
 *
 * STATE/previous goes with the new run's first checkpoint that samples went into.  When there is
 * one and the job is started over again, the run in between has no such checkpoint: that run is
 * removed, and STATE/previous stays as it is.
 *
 * The caller holds STATE/lock, and nothing of the job runs.
 */
#ifndef PACELINE_JOB_FRESH_H
#define PACELINE_JOB_FRESH_H

#include "base/error.h"
#include "job/dirs.h"

/* Finishes what a crash interrupted. Called at every start, before anything else is read. */
int fresh_recover(const struct dirs *dirs, struct error *err);

/* Whether a run may be put aside: ERROR_CONFIG when STATE/previous is there and no state of a job,
 * or its checkpoints or its journal are behind a link. */
int fresh_check(const struct dirs *dirs, struct error *err);
/* made: as dirs, with an empty state directory for the new run's files; after fresh_check(). */
int fresh_begin(const struct dirs *dirs, struct dirs *made, struct error *err);
/* The new state comes into force. Nothing that is no part of a job's state is touched, nor are the
 * indexes, which are the data's. */
int fresh_commit(const struct dirs *dirs, struct error *err);
/* The new state is thrown away; the old one was never touched. */
void fresh_give_up(const struct dirs *dirs);

/* Whether path is, or lies in, what would be moved away: the new run may use nothing of it. */
int fresh_takes(const struct dirs *dirs, const char *path);

/* Whether the state of the run before is kept; its path into out (DIRS_PATH_MAX bytes). */
int fresh_kept(const struct dirs *dirs, char *out);
/* It is needed no longer. */
int fresh_forget(const struct dirs *dirs, struct error *err);

#endif
