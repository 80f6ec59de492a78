/*
 * limits: how many cores and how much memory a process and all that it starts may use, enforced by the
 * first way that this machine allows:
 *
 *   cgroup   a control group of its own, below ours: version 2 (cpu.max, memory.max) or 1
 *            (cpu.cfs_quota_us, memory.limit_in_bytes).  Under systemd, only if it has delegated
 *            ours
 *   systemd  a scope of its own, by systemd-run(1)
 *   launcher our own group already has this limit: Slurm has set it (srun --mem)
 *   process  a set of whole cores (1.5 become 2), and RLIMIT_DATA, for each single process
 *
 * And whether a process was killed because there was no memory: control groups count such kills; a
 * process with RLIMIT_DATA is refused memory, and a program of the kit then ends with 71.
 *
 * The process that has forked and will wait does everything from outside; the child is held
 * meanwhile.  Nothing here can fail: if one way can't enforce a limit, the next is tried, and the
 * caller learns which ways were taken.
 *
 * Control groups are named paceline-node-ID-PID after the process that made them; the next process
 * removes those of a process that is gone.
 */
#ifndef PACELINE_PROC_LIMITS_H
#define PACELINE_PROC_LIMITS_H

#include "proc/end.h"

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

struct limits {
	double cores;        /* 0: not limited */
	uint64_t memory;     /* bytes; 0: not limited */
	uint64_t first_core; /* by `process`: the first of the set; after the last comes core 0 */
};

enum limits_way { LIMITS_NONE, LIMITS_LAUNCHER, LIMITS_CGROUP, LIMITS_SYSTEMD, LIMITS_PROCESS };

struct limits_ways {
	enum limits_way cores, memory; /* NONE: nothing is limited, or can't be */
};

const char *limits_way_name(enum limits_way way);
/* -1: no such way. */
int limits_way_find(const char *name, enum limits_way *way);

static inline int limits_any(const struct limits *l)
{
	return l->cores > 0 || l->memory > 0;
}

#define LIMITS_LEAST_MEMORY (8u << 20) /* nothing starts in less */

/* Where to look. */
struct limits_where {
	const char *cgroups; /* "/sys/fs/cgroup" */
	const char *self;    /* "/proc/self/cgroup" */
	const char *systemd; /* a directory that systemd makes: "/run/systemd/system" */
	const char *search;  /* a PATH, for systemd-run and systemctl; NULL: neither */
};
extern const struct limits_where limits_here; /* as Linux has it, without `search` */

#define LIMITS_FRONTS 8

/* What limits one process, and counts its kills. */
struct limits_group {
	struct limits want;
	struct limits_ways ways;
	char memory_dir[PATH_MAX], cpu_dir[PATH_MAX]; /* made by us; "": none */
	char events[PATH_MAX];                        /* counts kills; "": nothing does */
	uint64_t before;                              /* kills that were counted */
	char scope[96];                               /* of systemd; "": none */
	char systemctl[PATH_MAX];
	char front[LIMITS_FRONTS][PATH_MAX]; /* systemd-run and its options */
	size_t fronts;
};

/* Chooses the ways, and makes what must exist before the process. id: for names of what is made. */
void limits_make(struct limits_group *g, const struct limits *want, const char *id,
		 const struct limits_where *where);
/* Limits the child, which is held until this returns: g->ways is what is enforced from now on. Its
 * program must be started behind the words of g->front. */
void limits_take(struct limits_group *g, pid_t pid);
/* The child and all that it started have ended: removes what was made; sets end->oom if it ended
 * for lack of memory. */
void limits_end(struct limits_group *g, struct node_end *end);

/* The smallest memory limit of all control groups that we are in, in bytes; 0: there is none. */
uint64_t limits_memory(const struct limits_where *where);

/* How many processes the kernel of this machine has killed because there was no memory; 0: none, or it
 * does not say. */
uint64_t limits_kills(void);

/* The ways that limits_make() would take, found by a trial. */
struct limits_ways limits_look(const struct limits *want, const struct limits_where *where);

#endif
