/*
 * host_state: whether a host can be reached, and whether the job trains there; what becomes of that
 * when something is heard of the host.  Pure: tables only.  hosts.h says what it is for.
 */
#ifndef PACELINE_RUN_HOST_STATE_H
#define PACELINE_RUN_HOST_STATE_H

enum host_reach {
	HOST_THERE,
	HOST_LOST, /* it is asked whether it is there; until it is known nothing is started there */
	HOST_GONE,
	HOST_NONE, /* Slurm may give it to the job, and has not yet (more_hosts.h) */
	HOST_REACHES
};

enum host_use {
	HOST_USED,
	HOST_LEAVES, /* no node is started there any more, and those that run leave */
	HOST_UNUSED,
	HOST_USES
};

enum host_event {
	HOST_ANSWERS,
	HOST_FAILS,  /* it does not answer, or a node could not be reached there */
	HOST_SILENT, /* for so long that what ran there can do no harm any more */
	HOST_TAKEN,  /* Slurm has taken it back */
	HOST_EVENTS
};

enum host_do {
	HOST_DO_NOTHING,
	HOST_DO_PROBE, /* again and again, whether it is there */
	HOST_DO_TELL,  /* it is there again before anybody left it */
	HOST_DO_HOME,  /* who belongs there comes home */
	HOST_DO_KILL,  /* what ran there, to run elsewhere */
	HOST_DO_YIELD  /* the same: it is none of the job's hosts any more */
};

/* Changes *reach. A host that is not used is there for nobody: it is not missed. */
enum host_do host_step(enum host_reach *reach, enum host_use use, enum host_event event);

/* Its use from now on. empty: no node runs there. */
enum host_use host_use_next(enum host_use use, int wanted, int empty);

/* It belongs into the fabric. here: it is the supervisor's machine, which always does. */
int host_is_joined(enum host_reach reach, enum host_use use, int here);
/* It is in the fabric that runs, or is not, and should not be, or should: another one is started. A
 * host that is lost stays where it is until it is there or gone. */
int host_is_misplaced(enum host_reach reach, enum host_use use, int here, int in_world);

/* For people, and in the log; avoided: see hosts.h. */
const char *host_word(enum host_reach reach, enum host_use use, int avoided);

#endif
