/*
 * monitor: what is known about the nodes of a job from the records that they and others send
 * (AntDT V-D: node state, application state, third-party information), and the aggregates over
 * windows that solutions decide on.
 *
 * Pure: the caller tells the time.  Input records are `bpt` (the mean of count= batches), `event`,
 * `device` (what a node measured about its hardware) and `info`; their at= is the moment that they
 * are about.  A time ahead of our clock is taken as now; a record older than the long window counts
 * in totals and in the history, not in the means.  A `start` or `restart` event begins a new
 * process: the means start again, because the new process may be on another machine.
 */
#ifndef PACELINE_MONITOR_MONITOR_H
#define PACELINE_MONITOR_MONITOR_H

#include "base/error.h"
#include "monitor/metrics.h"
#include "monitor/node.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

#define MONITOR_NODES_MAX 4096
#define MONITOR_SAMPLES_MAX (1ull << 53) /* totals stop there: doubles hold no larger count */
#define MONITOR_COUNT_MAX (1u << 20) /* batches in one report */
#define MONITOR_INFOS_MAX 256
#define MONITOR_VALUE_MAX 257   /* bytes of an info value with its NUL */
#define MONITOR_HISTORY_MAX 128 /* reports kept a node */

struct monitor;

/* Windows in seconds, 0 < window_short <= window_long. */
int monitor_new(struct monitor **out, double window_short, double window_long, struct error *err);
void monitor_free(struct monitor *m); /* NULL is fine */
/* In place of MONITOR_NODES_MAX and MONITOR_HISTORY_MAX; before the first record. */
void monitor_limit(struct monitor *m, size_t nodes, size_t history);

enum monitor_result { MONITOR_TAKEN = 0, MONITOR_UNKNOWN = 1 /* no type of ours */ };

/*
 * Takes one record. now is the present, and stands in for a missing at=; NAN: there is no clock,
 * time is the largest at= so far and at= must be there. *at (may be NULL) is the time it counts at.
 * -1: nothing was changed; ERROR_DATA for a bad record (no place), ERROR_TEMPFAIL when there are
 * too many nodes or infos, ERROR_OS.
 */
int monitor_add(struct monitor *m, const struct record *r, double now, double *at,
		struct error *err);
/* REPORT_MORE lists the optional numbers of a bpt record, in the order in which they are written,
 * with the largest value that is believed. */
#define REPORT_MORE(X) \
	X(COMPUTE, "compute", 1e9) X(COMM, "comm", 1e9) X(WAIT, "wait", 1e9) \
	X(CPU, "cpu", 1e6) X(MEM, "mem", 1e6) X(PSI_CPU, "psi-cpu", 1e6) \
	X(PSI_MEM, "psi-mem", 1e6) X(THROTTLED, "throttled", 1e6) X(OWN_CPU, "own-cpu", 1e6) \
	X(OWN_MEM, "own-mem", 1e18)
#define REPORT_NAME(name, key, max) REPORT_##name,
enum report_more { REPORT_MORE(REPORT_NAME) REPORT_MORES };

/* What a bpt record says: the mean of `count` batches. */
struct report {
	double at, time;
	double more[REPORT_MORES]; /* NAN: not said */
	uint64_t iter, size, count;
	uint64_t accum; /* 0: not said */
};
/* The same as such a record, whose numbers are within their bounds and whose at is not after now.
 * place: where the node may stand in the order of the snapshot, from 0 on, to be found faster. */
int monitor_report(struct monitor *m, enum node_role role, const char *id, size_t place,
		   const struct report *p,
		   double now, struct error *err);
/* The same from a sender whose clock, which gives at=, is `behind` seconds behind ours. */
int monitor_add_from(struct monitor *m, const struct record *r, double now, double behind,
		     double *at, struct error *err);
/* A report of the node at that place will soon come: fetches it into the cache, in three steps, the last one being 0. */
void monitor_fetch(const struct monitor *m, size_t place, int steps);

/* The largest at= taken; 0 before the first. */
double monitor_latest(const struct monitor *m);

typedef void monitor_put_fn(const char *text, size_t len, void *arg);

/* `job` (its workers= and servers= count the nodes that follow), then a `node` each (workers first,
 * natural order of ids), then an `info` each in order of first appearance; whole records. Empty
 * values: nothing in that window. -1: out of memory, and nothing was put. */
int monitor_snapshot(const struct monitor *m, double now, monitor_put_fn *put, void *arg,
		     struct error *err);

/* The last `last` reports of a node, oldest first, as `bpt` records; -1 when there is no such
 * node. At most MONITOR_HISTORY_MAX are there. */
int monitor_history(const struct monitor *m, enum node_role role, const char *id, uint64_t last,
		    monitor_put_fn *put, void *arg);

/* Appends the same aggregates to the page, as metrics. -1: out of memory; the page is not whole. */
int monitor_prometheus(const struct monitor *m, double now, struct metrics_page *page,
		       struct error *err);

#endif
