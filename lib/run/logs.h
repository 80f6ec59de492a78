/*
 * logs: what happened and why, as records: in STATE/job.log, and as events to the monitor.  Each
 * record is written at once and whole, so that the log can be read while the job runs, or after we
 * were killed.  Also what nodes print: their logs, which may not grow without end, and their last
 * words.
 */
#ifndef PACELINE_RUN_LOGS_H
#define PACELINE_RUN_LOGS_H

#include "base/error.h"
#include "base/log.h"
#include "job/dirs.h"
#include "proc/end.h"
#include "record/record.h"
#include "record/recordlog.h"
#include "run/said.h"

struct supervisor;
struct sup_node;
struct sup_process;
struct sup_silence;

#define SUP_LOG_RETRIES 256

struct sup_log {
	struct recordlog file;
	char path[DIRS_PATH_MAX];
	double reopened; /* clock_mono(): the monitor was told to reopen its log */
	size_t looked;   /* nodes whose logs were looked at in this round of all nodes */
	struct {
		uint64_t sum; /* of the text */
		double at;    /* clock_mono(); 0: none */
	} retry[SUP_LOG_RETRIES]; /* said lately */
};

void sup_log_init(struct supervisor *s); /* not open */
int sup_log_open(struct supervisor *s, struct error *err);
void sup_log_close(struct supervisor *s);
/* Writes the beginning of a log. goes_on: the same run goes on in a new file. */
void sup_log_begin(struct supervisor *s, int goes_on);
/* Writes whole lines as they are. */
void sup_log_text(struct supervisor *s, const char *lines, size_t len);
/* Writes a record into STATE/job.log, and adds at=. The caller has begun o. */
void sup_log(struct supervisor *s, struct record_out *o);
/* Says a text to people and to the log, there as a record of this type. With type `retry` (what is
 * tried again) the same text is said once a minute. */
void sup_note(struct supervisor *s, const char *type, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Adds status= or signal= of an end; nothing if nobody saw the end. */
void sup_add_end(struct record_out *o, const struct node_end *end);
/* Writes to the log and to the monitor: event role= id= kind= ... */
void sup_event(const struct sup_node *n, const char *kind, const struct node_end *end);
/* The same for a process that hangs; only to the log if it is one that is to take over. */
void sup_event_hung(const struct sup_process *p, const struct sup_silence *silence);

void sup_node_log_path(const struct sup_node *n, char *out);
/* Call before a launch, when nobody writes to it: the last words of the process begin there. */
void sup_node_log_rotate(struct sup_node *n);
/* Shows people the last lines that a node wrote. */
void sup_last_words(const struct sup_node *n);
/* What its latest process has printed about its end, or of what it is doing, in one line (said.h). */
void sup_said(const struct sup_node *n, int is_end, char out[SAID_MAX]);
/* Begins a new file where a log has become large. Call it between two records. */
void sup_logs_bound(struct supervisor *s);

#endif
