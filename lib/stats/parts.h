/* parts: the inside of a monitor, shared by monitor.c (input) and report.c (output) only. */
#ifndef PACELINE_STATS_PARTS_H
#define PACELINE_STATS_PARTS_H

#include "stats/monitor.h"
#include "stats/window.h"

/* One bpt record. What it did not say is NAN. */
struct report {
	double at, time, compute, comm, wait, cpu, mem;
	uint64_t iter, size;
};

struct node {
	enum node_role role;
	enum node_state state;
	char id[NODE_ID_MAX];
	int was_started;       /* a process of this node has been seen */
	int restart_announced; /* a restart event whose start event has not come yet */
	double since;        /* the present process's start; reports from before belong to others */
	double ready_at;     /* NAN while not ready */
	double ended_at;     /* of the last exit, kill or loss */
	double seen_at;      /* of the last record */
	uint64_t iter, size; /* last reported */
	uint64_t reports, samples, restarts;
	struct window window;
	struct report *history; /* a ring of MONITOR_HISTORY_MAX, made with the first report */
};

struct info {
	char name[NODE_ID_MAX];
	char value[MONITOR_VALUE_MAX];
	double at;
};

struct monitor {
	double window_short, window_long;
	double latest;
	size_t node_count;
	struct node *node[MONITOR_NODES_MAX]; /* in the order of the snapshot */
	size_t info_count;
	struct info info[MONITOR_INFOS_MAX];
};

#endif
