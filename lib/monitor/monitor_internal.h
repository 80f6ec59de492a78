/* monitor_internal: the inside of a monitor, shared by monitor.c (records in), monitor_text.c (records
 * out) and prometheus.c only. */
#ifndef PACELINE_MONITOR_MONITOR_INTERNAL_H
#define PACELINE_MONITOR_MONITOR_INTERNAL_H

#include "monitor/monitor.h"
#include "monitor/window.h"

#include "base/pool.h"

extern const char *const report_more_key[REPORT_MORES];

/* Sums over all batches that a node has ever reported, in seconds; NAN: never said. The difference
 * of two looks is what happened in between. */
struct totals {
	uint64_t batches;
	double time, compute, comm, wait;
};

/* What a node measured about its device. */
struct device {
	int known;
	char type[OPTION_ID_MAX];
	double launch; /* NAN: not said */
	double speed;
	uint64_t saturation, max;
};

struct node {
	enum node_role role;
	enum node_state state;
	char id[OPTION_ID_MAX];
	int has_left;    /* it has left the job: snapshots and metrics leave it out */
	int was_started;       /* a process of this node has been seen */
	int restart_announced; /* a restart event whose start event has not come yet */
	double since;        /* the present process's start; earlier reports are of others */
	double ready_at;     /* NAN while not ready */
	double ended_at;     /* of the last exit, kill or loss */
	double seen_at;      /* of the last record */
	uint64_t iter, size; /* last reported */
	uint64_t reports, samples, restarts;
	struct totals total;
	uint64_t meant; /* of the restarts: by intention */
	struct report last; /* the latest of the present process; count 0: none yet */
	struct window window;
	struct report *history; /* a ring of history_max, which has grown to history_room */
	size_t history_room;
	/* a report does not touch it */
	struct device device;
};

struct info {
	char name[OPTION_ID_MAX];
	char value[MONITOR_VALUE_MAX];
	double at;
};

struct monitor {
	double window_short, window_long;
	double latest;
	size_t nodes_max, history_max;
	size_t node_count, node_room;
	struct node **node; /* in the order of the snapshot */
	struct pool nodes;   /* memory of all of them, */
	struct pool windows; /* and of what they have observed */
	size_t place;       /* where the last one was found: reports come in rounds */
	size_t info_count;
	struct info info[MONITOR_INFOS_MAX];
};

/* ---- computed for both outputs (monitor_text.c) ---- */

enum { MONITOR_SHORT, MONITOR_LONG, MONITOR_WINDOWS };

/* Of one node; NAN if its window is empty. speed is the samples over the seconds of their batches.
 * AntDT takes the mean of B/BPT (V-D), which is greater than this when batches differ. */
struct aggregate {
	double mean[MONITOR_WINDOWS], speed[MONITOR_WINDOWS], ratio[MONITOR_WINDOWS];
};
/* One for each node, in their order; the caller frees them. NULL: out of memory. */
struct aggregate *monitor_aggregate(const struct monitor *m, double now);
/* The greatest iteration of the nodes that work, or of all if none works: after a rollback a dead
 * node's number must not count. */
uint64_t monitor_iter(const struct monitor *m);
double monitor_up(const struct node *n, double now); /* seconds since ready; 0 when not up */
double monitor_age(const struct info *info, double now);
/* The speed in the last report; NAN: none. */
double monitor_last_speed(const struct node *n);
double monitor_last_accum(const struct node *n);
double monitor_last_more(const struct node *n, enum report_more what);

#endif
