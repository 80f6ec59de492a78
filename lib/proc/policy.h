/*
 * policy: what a node's end means and what is done about it.  Pure: tables only.
 *
 * Classes by exit status as in architecture: 69, 71, 74, 75 and death by KILL, TERM, HUP, PIPE
 * (and an end nobody saw) may go well next time; everything else would fail again and stops the
 * job.
 */
#ifndef PACELINE_PROC_POLICY_H
#define PACELINE_PROC_POLICY_H

#include "base/error.h"

#include <stdint.h>

struct node_end {
	int seen;   /* 0: nobody recorded how it ended (its parent was killed too, or a reboot) */
	int status; /* exit status, when signal is 0 */
	int signal; /* 0: it exited */
};

enum end_class { END_CLEAN, END_RETRYABLE, END_UNRETRYABLE };
enum end_class policy_class(const struct node_end *end);
const char *policy_class_name(enum end_class c);
/* "exit status 65", "signal 9 (Killed)", "an end that nobody saw" into out. */
void policy_end_text(const struct node_end *end, char *out, size_t out_max);
/* Exit status that the job ends with when this end stops it: the status itself, 128 + signal,
 * or 70. */
int policy_end_status(const struct node_end *end);

/* Seconds before relaunch number n in a row (from 1): 0.1, doubling, 5 at most. */
double policy_pause(uint64_t in_a_row);
/* Whether a node did well before it ended, so that its failures are counted from 0 again: it was
 * ready for so long, and has done what it is there for. How long it took to start says nothing. */
#define POLICY_WELL_SECONDS 10.0
int policy_did_well(double ready_seconds, int worked);

enum node_stage {
	STAGE_OFF,      /* not running, and nobody waits for it */
	STAGE_STARTING, /* its process runs */
	STAGE_READY,    /* it answers (a worker: it is a member) */
	STAGE_MENDING,  /* ended; first its traces elsewhere are removed */
	STAGE_PAUSING,  /* waits before it is launched again */
	STAGE_STOPPING, /* told to end */
	STAGES
};

enum node_event {
	EVENT_LAUNCHED, /* by us just now, or found running */
	EVENT_ANSWERS,
	EVENT_ENDED,     /* clean or retryable */
	EVENT_ENDED_BAD, /* unretryable */
	EVENT_HANDED, /* ended, and its next process has what it had */
	EVENT_MENDED,
	EVENT_PAUSE_OVER,
	EVENT_STOP, /* we want it gone */
	EVENTS
};

enum node_action {
	DO_NOTHING,
	DO_TELL, /* that it is ready */
	DO_MEND, /* worker: fence, fail; server: roll back; others: nothing to mend */
	DO_FAIL, /* the job is over */
	DO_PAUSE,
	DO_LAUNCH,
	DO_SIGNAL,
	DO_GONE /* ended as we wanted */
};

/* *stage is changed. A pair that the table does not know is ERROR_SOFTWARE with both names. */
int policy_step(enum node_stage *stage, enum node_event event, enum node_action *action,
		struct error *err);

const char *node_stage_name(enum node_stage stage);

#endif
