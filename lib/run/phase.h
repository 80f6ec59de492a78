/*
 * phase: the phases of a job.  Each has a step function, which looks at the state and does the next
 * thing that is missing.  It is called again whenever something has changed; an extra call does no
 * harm.
 */
#ifndef PACELINE_RUN_PHASE_H
#define PACELINE_RUN_PHASE_H

#include "base/error.h"
#include "proc/end.h"
#include "run/talk.h"

#include <stdint.h>

struct event;
struct sup_node;
struct supervisor;

enum sup_phase {
	PHASE_SERVICES,  /* shardd and the monitor start; nodes that run already are found */
	PHASE_ROLLBACK,  /* all servers off, shardd loads the cut's queue */
	PHASE_SERVERS,   /* servers start and answer */
	PHASE_FIRST_CUT, /* so that there is always a cut to go back to */
	PHASE_RUNNING,
	PHASE_WINDING, /* workers end before all is trained */
	PHASE_LAST_CUT,
	PHASE_FINISHING, /* workers leave by themselves */
	PHASE_STOPPING,  /* everything is stopped */
	PHASE_SCORING,
	PHASE_OVER,
	PHASES
};

enum sup_goal {
	GOAL_DONE,  /* all samples */
	GOAL_EARLY, /* enough: MAX_TIME, EVAL patience, a trainer says so */
	GOAL_STOP,  /* a person wants it to stop; it goes on another day */
	GOAL_FAIL
};

struct sup_phases {
	enum sup_phase now;
	enum sup_goal goal;
	const char *ended_by; /* GOAL_EARLY: the word for it in the summary (job/spent.h) */
	struct event *kick;
	struct timer *retry;
	double started, retry_at; /* clock_mono() */
	double entered;           /* clock_mono(): this phase began */
	int saves_nothing;        /* it stops without a last checkpoint, for lack of room */
	uint64_t cuts_before;     /* checkpoints made before this phase */
	struct question finish;   /* the lead is asked to let workers leave, or to let no batch begin */
	int told_to_leave;        /* it was, in this phase */
	double told_to_leave_at;  /* clock_mono() */
	int fail_status;
	int late_status; /* of a trainer that failed after all was trained; 0: none did */
	int late_again;  /* all are to run again what follows their loops */
	unsigned late_tries;
	char enough[OPTION_ID_MAX]; /* the last checkpoint, if it was enough for a trainer */
	const struct sup_node *failed; /* the node whose end gave fail_status; NULL: none */
	struct node_end failed_end;
	int interrupted; /* how many SIGINT and SIGTERM came */
};

int sup_phase_init(struct supervisor *s, struct error *err);
void sup_phase_free(struct supervisor *s);
/* Something has changed: the phase's step is called soon. */
void sup_kick(struct supervisor *s);
void sup_kick_after(struct supervisor *s, double seconds);
void sup_enter(struct supervisor *s, enum sup_phase phase);
const char *sup_phase_name(enum sup_phase phase);

/* A node has ended: if it failed in what it did after all was trained, this is noted, and all do it
 * again where a trainer that trains would be started again. */
void sup_finish_ended(struct sup_node *n);
int sup_enough_take(struct supervisor *s, const struct record *r, struct error *err);

/* Ends the job as failed, with this exit status; the text is for people and the log. Later calls do
 * nothing. */
void sup_fail(struct supervisor *s, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same, because this node ended; its last words are told first. If it is a worker of the kit,
 * a last checkpoint comes before the end. */
void sup_fail_by(struct sup_node *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Whether it ends although work is left, by a person or by a failure: the next start goes on. */
int sup_is_cut_short(const struct supervisor *s);
/* Stops the job without a last checkpoint; why is for people and the log. */
void sup_stop_without(struct supervisor *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Ends the job before all is trained, with a last checkpoint; reason is for people and the log. */
void sup_finish_early(struct supervisor *s, enum sup_goal goal, const char *reason);
/* The same with GOAL_EARLY; by names the limit that was reached (job/spent.h). */
void sup_finish_by(struct supervisor *s, const char *by, const char *reason);
/* The supervisor got a signal: the first one asks for a checkpoint and a stop, the second one for
 * an end at once. */
void sup_interrupt(struct supervisor *s, int sig);

#endif
