/*
 * stage: the stages of a node's life, and what to do at each change of stage.  Pure: tables only.
 */
#ifndef PACELINE_RUN_STAGE_H
#define PACELINE_RUN_STAGE_H

#include "base/error.h"

enum node_stage {
	STAGE_OFF,      /* not running, and nobody waits for it */
	STAGE_STARTING, /* its process runs */
	STAGE_READY,    /* it answers (a worker: it is a member) */
	STAGE_MENDING,  /* ended; what it left behind elsewhere is being removed */
	STAGE_PAUSING,  /* waits before it is launched again */
	STAGE_STOPPING, /* told to end */
	STAGES
};

enum node_event {
	EVENT_LAUNCHED, /* by us just now, or found running */
	EVENT_ANSWERS,
	EVENT_ENDED,     /* clean or retryable */
	EVENT_ENDED_BAD, /* unretryable */
	EVENT_HANDED,    /* ended, and its next process has taken over */
	EVENT_MENDED,
	EVENT_PAUSE_OVER,
	EVENT_STOP, /* we want it gone */
	EVENTS
};

enum node_action {
	DO_NOTHING,
	DO_TELL, /* say that it is ready */
	DO_MEND, /* what its role asks for (role_death) */
	DO_FAIL, /* the job is over */
	DO_PAUSE,
	DO_LAUNCH,
	DO_SIGNAL,
	DO_GONE /* it ended as we wanted */
};

/* Changes *stage. ERROR_SOFTWARE, with both names: the table does not know this pair. */
int stage_step(enum node_stage *stage, enum node_event event, enum node_action *action,
	       struct error *err);

const char *stage_name(enum node_stage stage);

#endif
