/*
 * brain_filter: how a brain is run: res-plan(1), or an executable in its place that takes the same
 * options and speaks the same records.  For the supervisor, which asks again and again (brain.h), and
 * for those who ask once: a job that has not begun, and a log that is replayed.
 */
#ifndef PACELINE_RUN_BRAIN_FILTER_H
#define PACELINE_RUN_BRAIN_FILTER_H

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

/* What a plan has to keep to: options of res-plan(1). */
struct brain_limits {
	uint64_t cores, node_cores, server_cores;
	uint64_t bytes, node_bytes; /* 0: not limited */
	double gain, every, cost;
	const char *history; /* a file of finished jobs; NULL: none */
};

/* As the job file says; where it does not, what the hosts have that train. hosts NULL: nobody has
 * looked at them yet, and each is taken to be as this machine. */
struct brain_limits brain_limits_of(const struct job *job, const struct hosts *hosts);
/* As keys of a record, and back: a log has them. history is not among them. */
void brain_limits_add(struct record_out *o, const struct brain_limits *l);
int brain_limits_take(struct brain_limits *l, const struct record *r, struct error *err);

/* user=, data= and model= of a job, by which the history finds those that are alike. */
void brain_likeness_add(struct record_out *o, const struct job *job);

/* Whether BRAIN can be this: on, off, or an executable. */
int brain_is_known(const char *name);
/* Its command line. name: "on" or the path of an executable. ERROR_CONFIG: there is none. */
int brain_words(struct argv *words, const char *name, const struct brain_limits *l,
		const char *search_path, struct error *err);

/* Waits for it, DEADLINE_SOLUTION at most, and frees words. *text (to be freed) is its answer to the last round, of *len
 * bytes, whole lines. */
int brain_ask_once(struct argv *words, const char *rounds, size_t bytes, char **text, size_t *len,
		   struct error *err);

/* Words for how a filter ended; NULL: well. */
const char *brain_failure(const struct node_end *end, enum child_cut cut, char *out, size_t max);

#endif
