/*
 * supervisor: starts, supervises and finishes one job (trainctl run).
 *
 * It decides which nodes run and when all go back to a checkpoint, gives checkpoints their names,
 * and writes the job's log (STATE/job.log).  It has no parameters, shards or measurements of its
 * own: it asks for them.  It has one event loop, and never waits for a daemon longer than the
 * deadlines of deadline.h.
 *
 * After a supervisor was killed, the job is just run again: the new one adopts what runs, and
 * finishes a rollback that was under way.
 */
#ifndef PACELINE_RUN_SUPERVISOR_H
#define PACELINE_RUN_SUPERVISOR_H

#include "base/error.h"
#include "base/option.h"
#include "job/job.h"
#include "job/dirs.h"
#include "job/hosts.h"
#include "solve/solution.h"
#include "solve/why.h"

#include <stdint.h>

#define SUPERVISOR_ACTIONS_MAX ACTIONS_BYTES_MAX /* of one `apply` */

#define RUN_WAITS_MAX 512

/* How the job goes: the content of a row of progress. */
/* How stale gradients were (lead/delay.h), since the lead began. */
struct run_delays {
	int known;
	uint64_t middle, most_95, most; /* units: of half of the pushes, of 95 %, of all, at most */
	uint64_t stale;                 /* pushes that were dropped for it */
};

struct run_row {
	const char *state; /* the phase, as `status` names it */
	int known;         /* samples, total are known */
	uint64_t iteration, epoch, epochs; /* epoch counts from 1 */
	double loss;             /* mean before the update since the last row; NAN: none */
	uint64_t samples, total; /* in the model so far; EPOCHS times the rows of DATA */
	double rate;             /* samples per second; NAN: not known yet */
	double eta;              /* seconds until the end, at this rate; NAN: not known */
	double time;             /* seconds since this supervisor's start */
	uint64_t members;
	/* The worker whose output people see, and who is next should that one die; "": none yet. */
	char first[OPTION_ID_MAX], second[OPTION_ID_MAX];
	char slowest[OPTION_ID_MAX]; /* worker with the greatest mean time; "": not known */
	double ratio;                /* its time over the mean of all workers */
	char why[WHY_MAX];           /* what makes it slow, for people; "": not known */
	char told[64];               /* what was decided about it last, for people; "": nothing */
	double told_age;             /* seconds since then */
	char waits[RUN_WAITS_MAX];   /* what the job waits for, for people; "": nothing */
	struct run_delays delays;    /* not known under BSP: there are none */
};

struct supervisor_options {
	const struct job *job; /* finished (job_finish) */
	struct dirs dirs;      /* made (dirs_make), locked by the caller */
	uint64_t samples;      /* rows of DATA */
	uint64_t bad_rows;     /* of these, left out */
	const uint64_t *rows;  /* of each file of DATA */
	const struct hosts *hosts; /* where nodes run: this machine first */
	const char *network; /* of all hosts: MPI uses no other; "" or NULL: what it finds */
	const char
		*search_path; /* where to look for programs that are not beside this one; or NULL */
	const char *omp_threads; /* of a trainer, as the user's OMP_NUM_THREADS says; NULL: shared out */
	const char *notify_socket;
	const char *history; /* file of finished jobs (plan/history.h); NULL: none is kept */
	double row_seconds; /* between rows, after the early ones */
	/* row is called for each row of the lead; tick four times a second until the job stops,
	 * with what is known by then. Both may be NULL. */
	void (*row)(const struct run_row *row, void *arg);
	void (*tick)(const struct run_row *row, void *arg);
	void *arg;
};

struct supervisor_result {
	int status;         /* exit status for the caller */
	char summary[4096]; /* the record, with newline; empty when the job never started */
};

/* -1 only when the job could not begin; then nothing was started. How a job ended is in result.
 * People are told through base/log.h. */
int supervisor_run(const struct supervisor_options *options, struct supervisor_result *result,
		   struct error *err);

/* For a job that does not run: -1 if supervisor_run() would refuse it before it starts a node.
 * Looks only at job, dirs and hosts of options, and finds that too few files may be open, or that
 * the number of nodes to which the job was scaled can't be read. Makes nothing. */
int supervisor_check(const struct supervisor_options *options, struct error *err);

#endif
