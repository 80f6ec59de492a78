/*
 * spent: how long a job has run, all its starts together, as STATE/kept has it; and whether
 * MAX_TIME or EVAL patience, which ended a job before its last sample, let it go on.
 */
#ifndef PACELINE_JOB_SPENT_H
#define PACELINE_JOB_SPENT_H

#include "base/error.h"
#include "job/dirs.h"
#include "job/job.h"
#include "record/record.h"

/* What the line says that is kept. */
int spent_take(const struct record *r, double *seconds, struct error *err);
/* The line; returns its length. */
size_t spent_line(double seconds, char out[RECORD_LINE_MAX]);

/* The words of ended= in a summary. */
#define SPENT_MAX_TIME "max-time"
#define SPENT_PATIENCE "patience"
#define SPENT_ENOUGH "enough" /* a trainer said so */
#define SPENT_EARLY "early" /* one of them: of a version that did not say which */

/* Whether a finished job that was ended so (condition.h) has work left that this job file lets it
 * do: MAX_TIME is greater than what was spent, EVAL patience greater than it was; 0 is no limit.
 * What a trainer found enough is. */
int spent_goes_on(const struct job *job, const struct dirs *dirs, const char *ended);
/* What ended it and what lets it go on, for people; "" for a job that trained all its samples. */
#define SPENT_TEXT_MAX 200
void spent_text(const struct job *job, const struct dirs *dirs, const char *ended,
		char out[SPENT_TEXT_MAX]);

#endif
