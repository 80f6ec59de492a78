/*
 * plan: the job file that a survey suggests.  Pure: the same survey and choices give the same text.
 */
#ifndef PACELINE_SURVEY_PLAN_H
#define PACELINE_SURVEY_PLAN_H

#include "base/error.h"
#include "survey/jobfile.h"
#include "survey/survey.h"

#include <stddef.h>

/* What a survey can't know. */
struct plan_choices {
	const char *file;     /* the job file's name, for its first line */
	const char *job;      /* JOB */
	const char *data;     /* DATA, as the job file says it */
	const char *shown;    /* the file looked at, as the user named it */
	const char *test;     /* TEST; NULL: none */
	const char *test_why; /* a line about TEST, or about its absence; NULL */
	size_t label;         /* a column of the survey, if it has any */
	const char *positive; /* the label's value that means 1; NULL: labels are 0 and 1 (-1, libsvm) */
	const char *negative; /* the only other one; NULL: any other */
	int positive_said;    /* by the user, not by us */
	const char *model;    /* softmax, linear: what labels ask for; NULL: they are two */
};

struct plan_counts {
	size_t dense, sparse, out; /* columns */
};

/* Fills f, which is empty. ERROR_DATA: no column is good for training. counts may be NULL. */
int plan_make(struct jobfile *f, const struct survey *s, const struct plan_choices *c,
	      struct plan_counts *counts, struct error *err);

#endif
