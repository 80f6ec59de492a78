/*
 * metrics: what Paceline's programs tell Prometheus: a table with a row for each metric, and pages
 * in Prometheus's text exposition format 0.0.4.
 *
 * Pure.  On a page each metric is begun once, and its samples follow.  Names and units are
 * Prometheus's: seconds, `_total` for what only grows, a moment as `_timestamp_seconds`.  Two
 * programs that report the same thing use the same row: a collector that reads both pages wants the
 * same help text from both.
 */
#ifndef PACELINE_MONITOR_METRICS_H
#define PACELINE_MONITOR_METRICS_H

#include "base/error.h"

#include <stddef.h>

#define METRICS_PREFIX "paceline_"
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum metric {
	/* of a job */
	METRIC_JOB_INFO,
	METRIC_JOB_STATE,
	METRIC_JOB_PHASE,
	METRIC_JOB_START,
	METRIC_JOB_END,
	METRIC_JOB_EPOCH,
	METRIC_JOB_EPOCHS,
	METRIC_JOB_ITERATION,
	METRIC_JOB_SAMPLES_DONE,
	METRIC_JOB_SAMPLES,
	METRIC_JOB_BAD_ROWS,
	METRIC_JOB_LOSS,
	METRIC_JOB_REPORTED,
	METRIC_JOB_SPEED,
	METRIC_JOB_ETA,
	METRIC_JOB_AUC,
	METRIC_JOB_LOG_LOSS, /* these and the next as enum score of record/scores.h */
	METRIC_JOB_ACCURACY,
	METRIC_JOB_RMSE,
	METRIC_JOB_MAE,
	METRIC_JOB_MEMBERS,
	METRIC_JOB_SHARDS,
	METRIC_JOB_CHECKPOINT_TIME,
	METRIC_JOB_CHECKPOINT_AGE,
	METRIC_JOB_CHECKPOINT_ITERATION,
	METRIC_JOB_CHECKPOINTS,
	METRIC_JOB_CHECKPOINT_FAILURES,
	METRIC_JOB_RESTARTS,
	METRIC_JOB_ROLLBACKS,
	METRIC_JOB_REBALANCES,
	METRIC_JOB_SCALED,
	METRIC_JOB_BRAIN_CHANGES,
	METRIC_JOB_OOM_STEPS,
	METRIC_JOB_SPARES_USED,
	METRIC_JOB_NODES_WANTED,
	METRIC_JOB_DECISIONS,
	METRIC_JOB_DECISIONS_SKIPPED,
	METRIC_JOB_ACTIONS,
	METRIC_JOB_ACTIONS_REFUSED,
	/* of a node */
	METRIC_NODE_UP,
	METRIC_NODE_UP_TIME,
	METRIC_NODE_STAGE,
	METRIC_NODE_RESTARTS,
	METRIC_NODE_SILENT,
	METRIC_NODE_DELAY,
	METRIC_NODE_STALE,
	METRIC_NODE_BPT,
	METRIC_NODE_BPT_RATIO,
	METRIC_NODE_SPEED,
	METRIC_NODE_BATCH,
	METRIC_NODE_ACCUM,
	METRIC_NODE_BATCHES,
	METRIC_NODE_SAMPLES,
	METRIC_NODE_TIME,
	METRIC_NODE_BUSY,
	METRIC_NODE_CPU,
	METRIC_NODE_MEMORY,
	METRIC_NODE_LAST_BPT,
	METRIC_NODE_LAST_SPEED,
	METRIC_NODE_LAST,
	METRIC_NODE_DEVICE,
	/* of a host's link */
	METRIC_HOST_RATE,
	METRIC_HOST_ERROR,
	METRIC_HOST_FREE,
	METRIC_HOST_AGE,
	/* from outside, and of the page itself */
	METRIC_INFO,
	METRIC_INFO_AGE,
	METRIC_PAGE_TIME,
	METRICS
};

struct metrics_page {
	char *text; /* NULL: empty */
	size_t len, room;
	enum metric now; /* begun last */
	int is_short;    /* there was no memory for all of it */
};

struct metrics_label {
	const char *name, *value; /* NULL: there are no more */
};

void metrics_clear(struct metrics_page *p); /* to be filled again */
void metrics_free(struct metrics_page *p);
void metrics_begin(struct metrics_page *p, enum metric which);
/* Adds a sample of the metric that was begun last; labels (NULL: none) end with a name that is
 * NULL, and labels whose value is NULL are left out. Nothing is added if value is not finite. */
void metrics_put(struct metrics_page *p, double value, const struct metrics_label *labels);
/* -1: ERROR_OS, the page is not whole. */
int metrics_end(struct metrics_page *p, struct error *err);

#endif
