/*
 * host_state: whether a host can be reached, and whether the job trains there; what becomes of that
 * when something is heard of the host.  Pure: tables only.  hosts.h says what it is for.
 */
#ifndef PACELINE_RUN_HOST_STATE_H
#define PACELINE_RUN_HOST_STATE_H

enum host_reach {
	HOST_THERE,
	HOST_LOST, /* it is probed (hosts.h); until it answers, nothing is started there */
	HOST_GONE, /* it has not answered for so long that its nodes run elsewhere */
	HOST_NONE, /* Slurm may give it to the job, and has not yet (more_hosts.h) */
	HOST_REACHES
};

enum host_use {
	HOST_USED,
	HOST_LEAVES, /* no node is started there any more, and those that run there leave */
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
	HOST_DO_PROBE, /* again and again, until it answers */
	HOST_DO_TELL,  /* people that it is there again; no node has left it */
	HOST_DO_HOME,  /* the nodes that belong there return */
	HOST_DO_KILL,  /* what ran there is killed, and runs elsewhere */
	HOST_DO_YIELD  /* the same: the job does not have this host any more */
};

/* Changes *reach, and returns what is to be done. Nobody misses a host that is not used: it is not
 * lost when it fails. */
enum host_do host_step(enum host_reach *reach, enum host_use use, enum host_event event);

/* Its use from now on. empty: no node runs there. */
enum host_use host_use_next(enum host_use use, int wanted, int empty);

/* Whether it belongs in the fabric. here: it is the supervisor's machine, which belongs there even
 * if it is not used. */
int host_is_joined(enum host_reach reach, enum host_use use, int here);
/* Whether it is in the fabric that runs and does not belong there, or belongs there and is not in
 * it: then another fabric is started. A host that is lost stays as it is until it is there or
 * gone. */
int host_is_misplaced(enum host_reach reach, enum host_use use, int here, int in_world);

/* For people, and in the log; avoided: see hosts.h. */
const char *host_word(enum host_reach reach, enum host_use use, int avoided);

#endif
