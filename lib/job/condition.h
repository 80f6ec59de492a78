/*
 * condition: how a job is, by what its state directory tells. Nobody is asked, so it works for a
 * job that is over, or whose trainctl was killed, and never waits.
 *
 * STATE/lock names the trainctl that runs it (holder.h), STATE/summary how it was finished, and
 * STATE/job.log how its last run ended and how far it came.
 */
#ifndef PACELINE_JOB_CONDITION_H
#define PACELINE_JOB_CONDITION_H

#include "base/error.h"
#include "base/option.h"
#include "job/dirs.h"
#include "record/record.h"

#include <stdint.h>
#include <sys/types.h>

enum condition_is {
	CONDITION_RUNNING, /* a trainctl runs it */
	CONDITION_CRASHED, /* its trainctl is gone without a word: killed, or the machine went down
			    */
	CONDITION_STOPPED, /* it goes on another day */
	CONDITION_FAILED,
	CONDITION_DONE,
	CONDITION_NEW /* no run of it has begun */
};

struct condition {
	enum condition_is is;
	char name[OPTION_ID_MAX];
	char run[DIRS_MAX];       /* where its sockets are, or were; "": nobody knows */
	pid_t pid;                /* of its trainctl, while it is running */
	uint64_t start;           /* as in proc/process.h */
	char node[OPTION_ID_MAX]; /* one of its nodes that run, though no trainctl is there; "":
				     none */
	double since;             /* seconds since 1970; NAN: not known */
	int is_finished;          /* it came to its end; said while a trainctl runs it, too */
	int status;               /* of trainctl, when it had ended: STOPPED, FAILED, DONE */
	char ended[32];           /* what ended it before its last sample; "": nothing */
	uint64_t samples_done, samples; /* of all epochs, as far as the log tells */
	char summary[RECORD_LINE_MAX];  /* of its last run that is over, with newline */
};

/* "running", "crashed", ... */
const char *condition_name(enum condition_is is);
/* "it was stopped", "it is done", ...: why a job does not answer. */
const char *condition_words(enum condition_is is);
/* ERROR_UNAVAILABLE: there is no state of a job. */
int condition_read(struct condition *c, const struct dirs *dirs, struct error *err);

#endif
