/*
 * metrics: how a job goes, for Prometheus (monitor/metrics.h).  METRICS says where
 * (job/metrics_to.h): files that a collector reads, written anew every few seconds and a last time
 * when the job has ended; and HTTP while the job runs.  This module reads the supervisor and
 * changes nothing.
 *
 * If a file can't be written, or a port is in use, a start fails before anything runs.  When nodes
 * run already, and later, the failure is said once and tried again: metrics are not worth a job.
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
	int is_open;      /* we listen on a socket; a file was written */
	int is_told;      /* people were told that it can't be opened */
	char http_name[HTTP_NAME_MAX]; /* of a port, with its number; "": no port, or not open */
};

struct sup_metrics {
	struct sup_metrics_place place[METRICS_TO_MAX];
	size_t places;
	struct http *http; /* NULL: not wanted */
	struct metrics_page file_page, http_page; /* two: what HTTP was given stays valid */
	double began, ended; /* clock_epoch(); 0: not yet */
	double at;           /* clock_mono(): last written, or tried */
	int phase;           /* the enum sup_phase then */
};

/* Whether a job may have its metrics where METRICS says; before anything is prepared. */
int metrics_try(const struct job *job, struct error *err);

/* is_running: nodes of the job run already, so nothing is an error. */
int sup_metrics_open(struct supervisor *s, int is_running, struct error *err);
void sup_metrics_tick(struct supervisor *s);
/* Call when the job is over: files say how it ended, and nothing of nodes any more. */
void sup_metrics_last(struct supervisor *s);
void sup_metrics_close(struct supervisor *s);

#endif
