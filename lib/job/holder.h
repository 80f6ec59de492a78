/*
 * holder: the trainctl that runs a job. It holds STATE/lock, and has written into it who it is, so
 * that another one can say it without taking the lock.
 *
 * The file: holder job= pid= start= boot= at=
 */
#ifndef PACELINE_JOB_HOLDER_H
#define PACELINE_JOB_HOLDER_H

#include "base/error.h"
#include "base/option.h"
#include "job/dirs.h"

#include <stdint.h>
#include <sys/types.h>

struct holder {
	char job[OPTION_ID_MAX]; /* its name */
	pid_t pid;
	uint64_t start; /* as in proc/process.h */
	double at;      /* seconds since 1970: since when */
};

/* Takes STATE/lock; closing *lock gives it back. Held by another: ERROR_TEMPFAIL. */
int holder_take(const struct dirs *dirs, const char *job, int *lock, struct error *err);
/* Whether a trainctl runs the job with this state directory now; then *out says which. One of a
 * version that wrote nothing down is not seen. */
int holder_find(const struct dirs *dirs, struct holder *out);
/* The same; -1: it can't be known. */
int holder_look(const struct dirs *dirs, struct holder *out, struct error *err);

#endif
