/*
 * prepare: what must lie in the state directory before any node starts: indexes of the data, schema
 * (fitted once, then kept), model, layout, and the resolved job.
 */
#ifndef PACELINE_JOB_PREPARE_H
#define PACELINE_JOB_PREPARE_H

#include "base/error.h"
#include "data/dataset.h"
#include "job/job.h"
#include "job/dirs.h"

#include <stdint.h>

struct prepared {
	uint64_t samples;  /* rows of DATA */
	uint64_t bad_rows; /* of these, left out */
	uint64_t *rows;    /* of each of its files; to be freed */
};

struct prepare_options {
	int running; /* nodes of the job run */
	int fresh;   /* start over: an earlier run is put aside (fresh.h), when all is well */
	int finished; /* of a trial: the run is over, and what it made is only compared */
	uint64_t memory_mib; /* of the one machine that nodes start on; 0: there are others, or
				nodes run */
	dataset_progress_fn *progress; /* or NULL */
	void *progress_arg;
};

/* May take as long as a few passes over the data, the first time. *out is filled when 0 is
 * returned. The job and its data must fit what the state directory was made with: ERROR_CONFIG
 * naming the keys, or the file. TEST is opened, and its first rows are read. Where nodes run the
 * data are left to them: refusing would leave them without a supervisor. */
int prepare(const struct job *job, const struct dirs *dirs,
	    const struct prepare_options *options, struct prepared *out, struct error *err);

/* The same, and nothing of it stays: all that prepare() would make is made in the directory of
 * trial->state instead, which is empty and the caller's, and dirs->state is only read. */
int prepare_trial(const struct job *job, const struct dirs *dirs, const struct dirs *trial,
		  const struct prepare_options *options, struct prepared *out, struct error *err);

/* Whether the keys that name columns go together, before any data are looked at; path is the job
 * file, for the place. */
int prepare_columns(const struct job *job, const char *path, struct error *err);

/* The same look as prepare() at a job whose run is over: whether what it made is what this file
 * asks for. */
int prepare_finished(const struct job *job, const struct dirs *dirs, struct error *err);

/* Whether anything of the job runs, by its records; id (OPTION_ID_MAX bytes) is one that does. Where
 * that can't be known, something runs. */
int prepare_running(const struct dirs *dirs, char *id);
/* The same; -1: it can't be known. */
int prepare_look(const struct dirs *dirs, char *id, struct error *err);
/* Waits until all that runs has its record: a trainctl that was killed as it started a node leaves
 * one without, for a moment. For who holds STATE/lock only. ERROR_TEMPFAIL: one neither starts nor
 * ends for so many seconds. */
int prepare_settle(const struct dirs *dirs, double seconds, struct error *err);

#endif
