/* metrics: see metrics.h. */
#include "monitor/metrics.h"

#include "base/grow.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GAUGE "gauge"
#define COUNTER "counter"
#define WHOLE_MAX 9007199254740992.0 /* 2^53 */

static const struct {
	const char *name, *type, *help;
} table[METRICS] = {
	[METRIC_JOB_INFO] = {"job_info", GAUGE, "What is trained and how, as labels; the value is "
						"always 1."},
	[METRIC_JOB_STATE] = {"job_state", GAUGE,
			      "1 for the present state of the job: running, done, stopped or "
			      "failed."},
	[METRIC_JOB_PHASE] = {"job_phase", GAUGE, "1 for the present phase of the job."},
	[METRIC_JOB_START] = {"job_start_timestamp_seconds", GAUGE, "When this run began."},
	[METRIC_JOB_END] = {"job_end_timestamp_seconds", GAUGE, "When this run ended."},
	[METRIC_JOB_EPOCH] = {"job_epoch", GAUGE, "The present pass over the data, counted from "
						  "1."},
	[METRIC_JOB_EPOCHS] = {"job_epochs", GAUGE, "Passes over the data in all."},
	[METRIC_JOB_ITERATION] = {"job_iteration", GAUGE, "The furthest iteration."},
	[METRIC_JOB_SAMPLES_DONE] = {"job_samples_done", GAUGE,
				     "Samples in the model; a rollback makes them fewer."},
	[METRIC_JOB_SAMPLES] = {"job_samples", GAUGE, "Samples of the whole job, all epochs."},
	[METRIC_JOB_BAD_ROWS] = {"job_bad_rows", GAUGE, "Rows of the data that are left out."},
	[METRIC_JOB_LOSS] = {"job_loss", GAUGE, "Mean loss of the last samples, computed before "
						"the model was trained on them."},
	[METRIC_JOB_REPORTED] = {"job_reported", GAUGE, "What a trainer has measured of its model, by name."},
	[METRIC_JOB_SPEED] = {"job_samples_per_second", GAUGE,
			      "Samples a second, over the last seconds."},
	[METRIC_JOB_ETA] = {"job_eta_seconds", GAUGE, "Time until the end, at the present speed."},
	[METRIC_JOB_AUC] = {"job_auc", GAUGE, "AUC of the last scoring."},
	[METRIC_JOB_LOG_LOSS] = {"job_log_loss", GAUGE, "Log loss of the last scoring."},
	[METRIC_JOB_ACCURACY] = {"job_accuracy", GAUGE, "Accuracy of the last scoring, of classes."},
	[METRIC_JOB_RMSE] = {"job_rmse", GAUGE, "RMSE of the last scoring, of numbers."},
	[METRIC_JOB_MAE] = {"job_mae", GAUGE, "MAE of the last scoring, of numbers."},
	[METRIC_JOB_MEMBERS] = {"job_members", GAUGE, "Workers that the barrier waits for."},
	[METRIC_JOB_SHARDS] = {"job_shards", GAUGE,
			       "Shards of all epochs, and pieces cut of them, by state: todo, "
			       "doing, done or held."},
	[METRIC_JOB_CHECKPOINT_TIME] = {"job_checkpoint_timestamp_seconds", GAUGE,
					"When the last checkpoint was made."},
	[METRIC_JOB_CHECKPOINT_AGE] = {"job_checkpoint_age_seconds", GAUGE,
				       "Time since the last checkpoint was made."},
	[METRIC_JOB_CHECKPOINT_ITERATION] = {"job_checkpoint_iteration", GAUGE,
					     "The iteration that the last checkpoint holds."},
	[METRIC_JOB_CHECKPOINTS] = {"job_checkpoints_total", COUNTER,
				    "Checkpoints made in this run."},
	[METRIC_JOB_CHECKPOINT_FAILURES] = {"job_checkpoint_failures_total", COUNTER,
					    "Checkpoints of this run that failed."},
	[METRIC_JOB_RESTARTS] = {"job_restarts_total", COUNTER, "Restarts of nodes."},
	[METRIC_JOB_ROLLBACKS] = {"job_rollbacks_total", COUNTER,
				  "Times that the job went back to a checkpoint, in this run."},
	[METRIC_JOB_REBALANCES] = {"job_rebalances_total", COUNTER,
				   "Times that a busy server gave keys to others, in this run."},
	[METRIC_JOB_SCALED] = {"job_scaled_total", COUNTER,
			       "Times that the number of nodes was changed, in this run."},
	[METRIC_JOB_BRAIN_CHANGES] = {"job_brain_changes_total", COUNTER,
				      "Changes of numbers or sizes of nodes by the brain, all runs "
				      "together."},
	[METRIC_JOB_OOM_STEPS] = {"job_oom_steps_total", COUNTER,
				  "Times that a node without memory was given more memory, or less "
				  "to do, in this run."},
	[METRIC_JOB_SPARES_USED] = {"job_spares_used_total", COUNTER,
				    "Times that a spare took a node's place, in this run."},
	[METRIC_JOB_NODES_WANTED] = {"job_nodes_wanted", GAUGE,
				     "Nodes that the job has, or will have when a change is done, by "
				     "role: worker or server."},
	[METRIC_JOB_DECISIONS] = {"job_decisions_total", COUNTER,
				  "Decisions that the solution was asked for, in this run."},
	[METRIC_JOB_DECISIONS_SKIPPED] = {"job_decisions_skipped_total", COUNTER,
					  "Decisions that had no effect."},
	[METRIC_JOB_ACTIONS] = {"job_actions_total", COUNTER, "Actions carried out, by kind."},
	[METRIC_JOB_ACTIONS_REFUSED] = {"job_actions_refused_total", COUNTER,
					"Actions refused, by kind."},
	[METRIC_NODE_UP] = {"node_up", GAUGE, "1 when the node is ready or reporting."},
	[METRIC_NODE_UP_TIME] = {"node_up_seconds", GAUGE, "Seconds since ready."},
	[METRIC_NODE_STAGE] = {"node_stage", GAUGE, "1 for the present stage of the node."},
	[METRIC_NODE_RESTARTS] = {"node_restarts_total", COUNTER, "Restarts of the node."},
	[METRIC_NODE_SILENT] = {"node_silent_seconds", GAUGE,
				"Time for which the node has owed a sign of life."},
	[METRIC_NODE_DELAY] = {"node_delay_units", GAUGE,
			       "Units committed between a push's pull and its own commit, at most, of "
			       "this fraction of the worker's pushes."},
	[METRIC_NODE_STALE] = {"node_stale_pushes_total", COUNTER,
			       "Pushes of the worker that were dropped as too old."},
	[METRIC_NODE_BPT] = {"node_bpt_seconds", GAUGE,
			     "Mean batch processing time in the window."},
	[METRIC_NODE_BPT_RATIO] = {"node_bpt_ratio", GAUGE,
				   "Mean batch processing time divided by the mean of all nodes of "
				   "the role."},
	[METRIC_NODE_SPEED] = {"node_speed_samples_per_second", GAUGE,
			       "Samples over seconds of the window."},
	[METRIC_NODE_BATCH] = {"node_batch_samples", GAUGE, "Last batch size reported."},
	[METRIC_NODE_ACCUM] = {"node_accum_steps", GAUGE, "Accumulation steps in a batch."},
	[METRIC_NODE_BATCHES] = {"node_batches_total", COUNTER, "Batches reported."},
	[METRIC_NODE_SAMPLES] = {"node_samples_total", COUNTER, "Samples reported."},
	[METRIC_NODE_TIME] = {"node_time_seconds_total", COUNTER,
			      "Where the time of all batches went: compute, comm, rows (waiting for "
			      "data) or wait (for other nodes)."},
	[METRIC_NODE_BUSY] = {"node_busy_ratio", GAUGE,
			      "Share of its time in which the node did not wait for others, as last "
			      "reported."},
	[METRIC_NODE_CPU] = {"node_cpu_ratio", GAUGE,
			     "Share of the host's processors in use, by anybody, as last reported."},
	[METRIC_NODE_MEMORY] = {"node_memory_ratio", GAUGE,
				"Share of the memory in use, as last reported."},
	[METRIC_NODE_LAST_BPT] = {"node_last_bpt_seconds", GAUGE,
				  "Batch processing time, as last reported."},
	[METRIC_NODE_LAST_SPEED] = {"node_last_speed_samples_per_second", GAUGE,
				    "Samples over seconds, as last reported."},
	[METRIC_NODE_LAST] = {"node_last", GAUGE, "Values of the node's last report."},
	[METRIC_NODE_DEVICE] = {"node_device", GAUGE,
				"What the node has measured about its device."},
	[METRIC_HOST_RATE] = {"host_link_bytes_per_second", GAUGE,
			      "What the host's link carries, as measured last."},
	[METRIC_HOST_ERROR] = {"host_link_error_bytes_per_second", GAUGE,
			       "Error of that rate; without one the rate is a lower bound."},
	[METRIC_HOST_FREE] = {"host_link_free_bytes_per_second", GAUGE,
			      "What of that rate nobody uses at the moment."},
	[METRIC_HOST_AGE] = {"host_link_age_seconds", GAUGE, "Time since that rate was measured."},
	[METRIC_INFO] = {"info_value", GAUGE, "Value of an info record."},
	[METRIC_INFO_AGE] = {"info_age_seconds", GAUGE, "Seconds since the info record."},
	[METRIC_PAGE_TIME] = {"page_timestamp_seconds", GAUGE, "When this page was made."},
};

void metrics_clear(struct metrics_page *p)
{
	p->len = 0;
	p->is_short = 0;
}

void metrics_free(struct metrics_page *p)
{
	free(p->text);
	*p = (struct metrics_page){0};
}

static void add_bytes(struct metrics_page *p, const char *bytes, size_t len)
{
	if (GROW(p->text, p->room, p->len + len) != 0) {
		p->is_short = 1;
		return;
	}
	memcpy(p->text + p->len, bytes, len);
	p->len += len;
}

static void metrics_add(struct metrics_page *p, const char *text)
{
	add_bytes(p, text, strlen(text));
}

void metrics_begin(struct metrics_page *p, enum metric which)
{
	const char *const word[] = {"# HELP " METRICS_PREFIX, table[which].name, " ",
				    table[which].help,
				    "\n# TYPE " METRICS_PREFIX, table[which].name, " ",
				    table[which].type, "\n"};
	p->now = which;
	for (size_t i = 0; i < sizeof word / sizeof *word; i++)
		metrics_add(p, word[i]);
}

/* A reader refuses the whole page if one byte is not UTF-8. */
static void add_value(struct metrics_page *p, const char *value)
{
	while (*value) {
		size_t n = utf8_length(value);
		if (*value == '\n')
			metrics_add(p, "\\n");
		else if (*value == '"' || *value == '\\')
			add_bytes(p, (const char[]){'\\', *value}, 2);
		else if (n == 0)
			metrics_add(p, UTF8_REPLACEMENT);
		else
			add_bytes(p, value, n);
		value += n ? n : 1;
	}
}

/* Digits: as many as a measurement has; counts in full, and times to the microsecond. */
static size_t format(double value, char *out)
{
	if (value == floor(value) && fabs(value) <= WHOLE_MAX)
		return (size_t)snprintf(out, 32, "%.0f", value);
	return (size_t)snprintf(out, 32, "%.*g", fabs(value) >= 1e9 ? 16 : 9, value);
}

void metrics_put(struct metrics_page *p, double value, const struct metrics_label *labels)
{
	char number[32];
	size_t count = 0;
	if (!isfinite(value))
		return;
	metrics_add(p, METRICS_PREFIX);
	metrics_add(p, table[p->now].name);
	for (; labels && labels->name; labels++) {
		if (!labels->value)
			continue;
		metrics_add(p, count++ == 0 ? "{" : ",");
		metrics_add(p, labels->name);
		metrics_add(p, "=\"");
		add_value(p, labels->value);
		metrics_add(p, "\"");
	}
	metrics_add(p, count > 0 ? "} " : " ");
	add_bytes(p, number, format(value, number));
	metrics_add(p, "\n");
}

int metrics_end(struct metrics_page *p, struct error *err)
{
	return p->is_short ? error_set(err, ERROR_OS, NULL, "out of memory for a page of metrics")
			   : 0;
}
