/*
 * brain_filter: runs a brain: res-plan(1), or an executable in its place that takes the same
 * options and speaks the same records.  The supervisor asks it again and again (brain.h); a job
 * that has not begun, and a replay of a log, ask once.
 */
#ifndef PACELINE_JOB_BRAIN_FILTER_H
#define PACELINE_JOB_BRAIN_FILTER_H

#include "base/argv.h"
#include "base/error.h"
#include "job/dirs.h"
#include "job/hosts.h"
#include "job/job.h"
#include "plan/answer.h"
#include "proc/child.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

#define BRAIN_OFF "off"
#define BRAIN_ON "on"
#define BRAIN_PROGRAM "res-plan"
#define BRAIN_OUTPUT_BYTES_MAX (4u << 20)

/* The limits of a plan: options of res-plan(1). */
struct brain_limits {
	uint64_t cores, node_cores, server_cores;
	uint64_t bytes, node_bytes; /* 0: not limited */
	double gain, every, cost;
	const char *history; /* a file of finished jobs; NULL: none */
};

/* From the job file; what it does not say comes from the hosts that train. hosts NULL: nobody has
 * looked at them yet, and each is assumed to be like this machine. */
struct brain_limits brain_limits_of(const struct job *job, const struct hosts *hosts);
/* Cores of a node where the job file names none: all are shared out evenly. */
uint64_t brain_limits_share(const struct brain_limits *l, uint64_t nodes);
/* As keys of a record in the log, and back; without history. */
void brain_limits_add(struct record_out *o, const struct brain_limits *l);
int brain_limits_take(struct brain_limits *l, const struct record *r, struct error *err);

/* user=, data= and model= of a job, by which the history finds similar jobs. */
void brain_likeness_add(struct record_out *o, const struct job *job);

/* Whether BRAIN can have this value: on, off, or the path of an executable. */
int brain_is_known(const char *name);
/* Its command line. name: "on" or the path of an executable. ERROR_CONFIG: there is none. */
int brain_words(struct argv *words, const char *name, const struct brain_limits *l,
		const char *search_path, struct error *err);

/* Runs it, waits DEADLINE_SOLUTION at most, and frees words. *text is its answer to the last round,
 * *len bytes of whole lines; the caller frees it. */
int brain_ask_once(struct argv *words, const char *rounds, size_t bytes, char **text, size_t *len,
		   struct error *err);

#endif
