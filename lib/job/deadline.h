/*
 * deadline: how long the supervisor waits for anything, in one place; --help prints this table.
 */
#ifndef PACELINE_JOB_DEADLINE_H
#define PACELINE_JOB_DEADLINE_H

#include "monitor/pulse.h"

#include <stddef.h>

enum deadline {
	/* sections of a node that gives no sign of life (monitor/pulse.h); then it is given up: killed,
	 * and started again */
	DEADLINE_READY,    /* it was started (it may replay, restore, or wait for its place) */
	DEADLINE_BATCH,    /* a worker owes a push */
	DEADLINE_EXCHANGE, /* a daemon owes an answer, a worker its next step */
	DEADLINE_STALL,    /* a daemon owes an answer while a checkpoint is cut */
	DEADLINE_HANDOVER, /* a server's state goes to its next process */
	DEADLINE_PAUSE,    /* a trainer of the user's own has said that it pauses */
	DEADLINE_TRAINER,  /* the batch of one that has parameters */
	DEADLINE_STOPPED,  /* who owes anything is stopped (SIGSTOP, a debugger) */
	DEADLINE_GONE,     /* from SIGKILL to the end */
	/* others */
	DEADLINE_ANSWER,   /* a daemon owes an answer */
	DEADLINE_CUT,      /* a checkpoint */
	DEADLINE_SAVE,     /* trainers of the user's own write one; above what the lead gives them */
	DEADLINE_ACT,      /* actions wait for the close of a unit */
	DEADLINE_STOP,     /* from SIGTERM to SIGKILL */
	DEADLINE_FINISH,   /* workers leave after the final checkpoint */
	DEADLINE_TRAINED,  /* trainers of the user's own end after the final checkpoint */
	DEADLINE_SOLUTION, /* an executable solution */
	DEADLINE_SCORE,    /* scoring TEST */
	DEADLINE_STRAY,    /* rows in the hand of a client that may be gone */
	DEADLINE_SCRAPE,   /* who asks for metrics has them */
	DEADLINE_HOST,     /* another machine answers */
	DEADLINE_HOST_AGAIN, /* between two looks at one that is gone */
	DEADLINE_FABRIC,   /* the MPI world comes up */
	DEADLINE_HOSTS,    /* all other hosts have answered before a start */
	DEADLINE_SCALE,    /* new workers are there */
	DEADLINE_MOVE,     /* the next piece of parameters that move; above what the lead gives it */
	DEADLINE_ADOPT,    /* a node parent has just been started and has not said by whom */
	DEADLINES
};

double deadline_seconds(enum deadline which);
/* How long nodes may be silent, by their section: as the table says, or as HUNG does. */
int deadline_rules(struct pulse_rules *rules, const char *hung, struct error *err);
/* The same where trainers of the user's own write a checkpoint. */
int deadline_rules_saving(struct pulse_rules *rules, const char *hung, struct error *err);
/* After so long a node that is stopped is hung, in a section whose limit is not fixed: as `section`, a batch
 * or an exchange, says where that is fixed. */
double deadline_stopped(const struct pulse_rules *rules, enum pulse_section section);
/* "  start        600 s  ..." lines into out. */
void deadline_text(char *out, size_t out_max);

#endif
