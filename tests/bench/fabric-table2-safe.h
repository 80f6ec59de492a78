/*
 * fabric-table2-safe: what it costs that the one server of fabric-table2 may die (MLfabric 7.3):
 * when an update is committed if a replica must have it, or nearly, what goes to the replica, and
 * what is gone or must be sent again at a death.
 *
 * The replica has a host of its own. The parameters are BYTES, and the optimizer's state, as that
 * of adagrad, as many.
 */
#ifndef PACELINE_BENCH_FABRIC_TABLE2_SAFE_H
#define PACELINE_BENCH_FABRIC_TABLE2_SAFE_H

#include "fabric-table2-loss.h"

#include "solve/xfer_group.h"

#include <stddef.h>
#include <stdint.h>

#define WORKERS LOSS_WORKERS
#define HOSTS 15 /* of two workers each */
#define SERVER HOSTS
#define REPLICA (HOSTS + 1)
#define AGGREGATORS 4
#define BYTES INT64_C(100000000)

enum safety {
	SAFE_NOT,
	SAFE_EACH,   /* what goes to the server goes to the replica, too, from the same host */
	SAFE_CHAIN,  /* the server passes on what it gets, and commits what the replica has */
	SAFE_MERGED, /* SERVERS=divergence: the replica lacks at most `bound` updates, which workers
			keep; from half of that on the server sends parameters and state */
	SAFE_SUMS,   /* MLfabric: the same bound, and workers send what it lacks, through
			aggregators, from half of that on; nobody keeps updates */
	SAFE_STANDS, /* a checkpoint behind every `bound` updates; nothing is committed meanwhile */
	SAFE_FORKS   /* the same, written by a copy of the process */
};

struct provision {
	const char *name;
	enum safety safety;
	size_t bound, keeps; /* updates; merged: that a worker has room for, 0: no limit */
};

/* What is committed as one. */
struct safe_unit {
	size_t from;         /* the host that sends it to the server */
	double ready, there; /* s; there: at the server */
	size_t worker[WORKERS], count;
	double committed; /* out */
};

struct safe_copy { /* an update */
	size_t worker, unit;
	double committed, safe; /* safe: somebody else has it, too */
};

struct safe {
	const struct provision *provision;
	struct safe_copy *copy;
	size_t copies, room;
	size_t safes;                /* those of them that are safe, or will be */
	size_t units, ahead;         /* ahead: updates behind the last difference or checkpoint */
	double last, busy;           /* the last commit; until then nothing is committed */
	double stands, stands_until; /* the server answers nobody */
	double bytes;                /* to the replica */
};

/* What the groups of a batch may be, for xfer_batch. count[]: updates, by position. */
void safe_limits(const struct safe *s, const size_t *count, size_t n, size_t *limit);
/* The next units, in order. believed: what the scheduler knows of the net at `now`, from then on.
 */
void safe_commit(struct safe *s, struct xfer_net *net, struct xfer_net *believed, double now,
		 struct safe_unit *unit, size_t n);

struct safe_deaths {
	double lost, lost_most;       /* updates that only the server had; workers have them if
					 they keep them */
	double seconds, seconds_most; /* until the replica has them from the workers, or until a
					 checkpoint is read; not those until somebody knows */
	double kept_most;             /* by one worker */
};

/* Of deaths at regular intervals. rates: those of an instant, as a net. */
struct safe_deaths safe_die(const struct safe *s, double until,
			    void (*rates)(struct xfer_net *net, double at));

#endif
