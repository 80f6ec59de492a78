/*
 * metrics: how a job goes, for Prometheus (monitor/metrics.h), where METRICS says (job/metrics_to.h):
 * files that a collector reads, written anew every few seconds and last when the job has ended, and
 * HTTP while it runs.  It reads the supervisor and changes nothing.
 *
 * A file that can't be written, or a port that is in use, ends a start before anything runs.  Where
 * nodes run, and later, it is said once, and tried again: metrics are not worth a job.
 */
#ifndef PACELINE_RUN_METRICS_H
#define PACELINE_RUN_METRICS_H

#include "base/error.h"
#include "job/job.h"
#include "job/metrics_to.h"
#include "monitor/metrics.h"
#include "wire/http.h"

#include <stddef.h>

struct supervisor;

struct sup_metrics_place {
	struct metrics_to to;
	const char *name; /* the job's word */
	int is_open;      /* a socket is listened at; a file was written */
	int is_told;      /* that it can't be */
	char http_name[HTTP_NAME_MAX]; /* of a port, with its number; "": it is none, or not open */
};

struct sup_metrics {
	struct sup_metrics_place place[METRICS_TO_MAX];
	size_t places;
	struct http *http; /* NULL: not wanted */
	struct metrics_page file_page, http_page; /* what HTTP was given stays */
	double began, ended; /* clock_epoch(); 0: not yet */
	double at;           /* clock_mono(): written, or tried, last */
	int phase;           /* enum sup_phase of then */
};

/* Whether a job may have its metrics there, before anything is prepared. */
int metrics_try(const struct job *job, struct error *err);

/* is_running: nodes of the job are there, so nothing is an error. */
int sup_metrics_open(struct supervisor *s, int is_running, struct error *err);
void sup_metrics_tick(struct supervisor *s);
/* The job is over: files say how it ended, and nothing of nodes any more. */
void sup_metrics_last(struct supervisor *s);
void sup_metrics_close(struct supervisor *s);

#endif
