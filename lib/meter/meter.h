/*
 * meter: what a node measures of itself: the times of its batches, where all its time goes, how busy
 * it is, what its device is like.  It tells bpt-monitor(8) and its own log.
 *
 * It knows no trainer: whoever trains says what took how long.  It decides nothing and never waits:
 * what the monitor does not take is lost.  For one thread.
 */
#ifndef PACELINE_METER_METER_H
#define PACELINE_METER_METER_H

#include "meter/device.h"
#include "meter/times.h"

struct meter;

struct meter_options {
	const char *id;        /* of the worker */
	const char *monitor;   /* NULL: nobody */
	const char *load_root; /* see load_new() */
	/* See load_leave_out(); NULL: no thread works beside. */
	double (*beside)(const void *thread);
	const void *thread;
	int watch;             /* see watch_new(): shares of the time are wanted of meter_look() */
	uint64_t report_every; /* batches, 1 or more */
	double report_seconds;
	void (*log)(const char *line, size_t len, void *owner); /* `spent` records; may be NULL */
	void *owner;
};

int meter_new(struct meter **out, const struct meter_options *options, struct error *err);
void meter_free(struct meter *m); /* NULL is fine */

/* The time since `since` was spent on this; now is returned. */
double meter_spend(struct meter *m, enum spent_kind kind, double since);
double meter_spent(const struct meter *m, enum spent_kind kind);
/* Where the time went, so far, to the log. */
void meter_log_spent(struct meter *m);

/* A batch that is through, of `accum` steps, and the iteration it was for; reported now and
 * then. */
void meter_batch(struct meter *m, uint64_t iteration, uint64_t accum, const struct tally_batch *b);
/* Reports now what was not reported yet: batches of another kind follow, or none for a while. */
void meter_report(struct meter *m);

/* How busy the node is as a batch begins, from the last part of one that took so long. */
void meter_look(struct meter *m, double batch_seconds, struct load_values *out);

/* The device is an emulated one that keeps so many cores busy while it computes; 0: it is none. */
void meter_emulated(struct meter *m, double cores);

/* Measures the device and reports it. As device_measure(); load is the meter's part. */
int meter_device(struct meter *m, struct device_options *options, struct error *err);
/* The device has this name (NULL: the processor's), and `keep` is where what is measured of it is
 * kept. 1: it was measured before, and that is reported. 0: at most what fits is known. */
int meter_device_kept(struct meter *m, const char *name, const struct device_file *keep,
		      uint64_t most);
/* Somebody else has measured its profile and max: they are reported, and kept. */
void meter_device_is(struct meter *m, const struct device *device);
/* Samples of a step that fit, as measured; 0: not known. */
uint64_t meter_most(const struct meter *m);
/* More than these did not fit after all: that is reported, and kept. */
void meter_fits(struct meter *m, uint64_t most);

#endif
