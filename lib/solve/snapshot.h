/*
 * snapshot: what bpt-monitor(8) says about a job, as a struct that solutions read.
 *
 * Fed record by record (`job`, `node`, `info`); other types are passed over.  Numbers that the
 * monitor leaves empty, because nothing was reported in the window, are NAN here.  Times are
 * seconds, sizes samples, speeds samples per second.  Nothing points into the records.
 */
#ifndef PACELINE_SOLVE_SNAPSHOT_H
#define PACELINE_SOLVE_SNAPSHOT_H

#include "base/error.h"
#include "monitor/node.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

#define SNAPSHOT_VALUE_MAX 257

struct snapshot_node {
	enum node_role role;
	enum node_state state;
	char id[OPTION_ID_MAX];
	uint64_t size;                /* last batch reported; 0: none yet */
	double mean_short, mean_long; /* mean BPT over the window */
	double speed_short, speed_long;
	double ratio_short, ratio_long; /* over the mean of all of its role */
	uint64_t samples, restarts;
	uint64_t meant;    /* of the restarts: by intention; all of them where nobody says */
	double up;         /* seconds since ready; 0 when not up */
	uint64_t accum;    /* accumulation steps of a batch; 0: not known */
	double last;       /* when it reported last, seconds since 1970 */
	double silent;     /* seconds for which it has owed something and shown no sign of life */
	double speed_last; /* of that report */
	/* What it measured about its device; type "" and numbers 0 or NAN: not known. */
	char type[OPTION_ID_MAX];
	double launch, device_speed;
	uint64_t saturation, max; /* samples a step */
	double cpu, mem;          /* 0..1 of the node in use */
	/* Of its last report; NAN: not known. Seconds of a batch, then shares as worker(1) measures
	 * them. */
	double compute, comm, wait;
	double psi_cpu, psi_mem, throttled, own_cpu;
	double own_mem; /* bytes */
	/* Of all batches reported, seconds; NAN: not said. */
	struct {
		double batches, time, compute, comm, wait;
	} total;
	uint64_t line;            /* where it stood, if the reader said so */
};

struct snapshot_info {
	char name[OPTION_ID_MAX];
	char value[SNAPSHOT_VALUE_MAX];
	double age;    /* seconds */
	uint64_t line; /* as in a node */
};

struct snapshot {
	/* The line of the next record, if the reader cares to say: for errors that only show when
	 * all are in. 0: not known. */
	uint64_t line;
	int has_job;
	uint64_t job_line;
	double at;
	uint64_t iter;
	uint64_t workers, servers; /* as the job record says */
	double window_short, window_long;
	size_t node_count, node_room;
	struct snapshot_node *node; /* in the order given */
	size_t info_count, info_room;
	struct snapshot_info *info;
};

void snapshot_init(struct snapshot *s);
/* Frees what it holds; s is as after snapshot_init(), so it can be filled again. */
void snapshot_clear(struct snapshot *s);

/* Takes one record in. A bad one is ERROR_DATA without a place (the reader knows the line). A
 * second `job` record is refused: one snapshot at a time. */
int snapshot_add(struct snapshot *s, const struct record *r, struct error *err);

/* To be called when all records are in: there must be a job record, as many nodes as it says, and
 * no node twice. */
int snapshot_check(const struct snapshot *s, struct error *err);

/* Whether a speed, time or ratio says anything. */
int snapshot_known(double measured);

/* The value of an info record, or NULL when there is none. */
const char *snapshot_info_text(const struct snapshot *s, const char *name);
/* The value of an info record as a number, or NAN when there is none or it is no number. */
double snapshot_info_real(const struct snapshot *s, const char *name);
/* How many seconds ago it was told; NAN when there is none, or it does not say. */
double snapshot_info_age(const struct snapshot *s, const char *name);
/* The first info record from *at on that has no number where solutions expect one; *at is moved
 * behind it. NULL: there is no other. */
const struct snapshot_info *snapshot_info_wrong(const struct snapshot *s, size_t *at);

#endif
