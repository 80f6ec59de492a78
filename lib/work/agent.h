/*
 * agent: the part of a worker that a controller sees (AntDT's Agent): it takes actions and says when
 * they were applied, and it reports batches, the node's load and the device to bpt-monitor(8).
 *
 * It decides nothing and never waits: what the monitor does not take is lost.
 */
#ifndef PACELINE_WORK_AGENT_H
#define PACELINE_WORK_AGENT_H

#include "base/error.h"
#include "record/record.h"
#include "work/device.h"
#include "work/foretell.h"
#include "meter/spent.h"
#include "meter/tally.h"

#include <stddef.h>
#include <stdint.h>

struct agent;

struct agent_options {
	const char *worker;
	const char *monitor;   /* NULL: nobody */
	const char *load_root; /* see load_new() */
	int predict; /* whether this worker foretells its speed, and how */
	enum predict_model model;
	const char *predict_load, *predict_save; /* see struct foretell_options */
	uint64_t batch;        /* rows, at first */
	uint64_t report_every; /* iterations, 1 or more */
	double report_seconds;
	struct spent *spent; /* the caller's: actions and reports are added */
	/* `applied` and `spent` records, one line each. */
	void (*log)(const char *line, size_t len, void *owner);
	void *owner;
};

int agent_new(struct agent **out, const struct agent_options *options, struct error *err);
void agent_free(struct agent *a); /* NULL is fine */

/* In force: samples in a step, steps in a batch. */
uint64_t agent_size(const struct agent *a);
uint64_t agent_accum(const struct agent *a);

/* An `action` record: it comes before the iteration that it is for is known. One for somebody else
 * or of a kind that is not a worker's is passed over; a wrong one is logged and not obeyed. */
void agent_take(struct agent *a, const struct record *r);
/* What was taken holds from this iteration on. 1: the batch is another one now. */
int agent_obey(struct agent *a, uint64_t iteration);

/* Before its push: a batch of so many samples took so long. whole: no shorter than it was to be.
 * What is foretold of the next one, 0: not known. */
struct agent_view {
	double speed; /* samples a second */
	double mem;   /* in use, 0..1 */
};
struct agent_view agent_foretell(struct agent *a, uint64_t samples, double seconds, int whole);
double agent_speed(const struct agent *a); /* the last one */

/* A batch that is through, and the iteration it was for. */
void agent_batch(struct agent *a, uint64_t iteration, const struct tally_batch *b);
/* What was not yet reported, now: no batch follows for a while. */
void agent_report(struct agent *a);

/* Measures and reports the device. As device_measure(); dataset and so on are the caller's, drag and
 * load the agent's part. */
int agent_profile(struct agent *a, struct device_options *options, struct error *err);
/* Samples of a step that fit, as measured; 0: not known. */
uint64_t agent_most(const struct agent *a);

/* Where the time went, so far, to the log. */
void agent_spent(struct agent *a);
/* No batch follows: what is left is reported, kept and logged. */
void agent_end(struct agent *a);

#endif
