/*
 * advise: what a job would have taken otherwise, from its log: the job is copied (copy.h), and
 * simulated with one thing changed.  A suspect is a thing that may have made it longer: the job
 * without it says what it cost; the ideal job, without any of the suspects, and then with this one
 * alone, says what it costs by itself (what-if analysis; two that hide behind each other cost little
 * alone, and much together).  An option is a thing that can be chosen.
 *
 * How far the simulation is to be believed is measured, too: the job as it was, simulated, beside
 * the job itself.  A figure may be wrong by that difference and a twentieth of itself (more than
 * tests/bench/advise-real shows); for more workers also by as much of itself as the speeds of workers
 * differ in their middle half.
 *
 * What somebody decided stays as it was: nodes that a decision restarted are restarted again, unless SOLUTION is
 * what changes, and how often the job was scaled, unless the number of workers is.
 *
 * What it can't know: whether a restart would have cured a slow worker (speeds stay as they were);
 * what another batch or another way to synchronise does to the model's quality; how fast another
 * machine would be (a worker more is as fast as the median one).
 */
#ifndef PACELINE_SIM_ADVISE_H
#define PACELINE_SIM_ADVISE_H

#include "sim/copy.h"

#include <signal.h>

enum advise_kind {
	/* suspects */
	ADVISE_WORKER,  /* it would have been as fast as the median of the others */
	ADVISE_HOST,    /* its workers would */
	ADVISE_WORKERS, /* all would have been as fast as the median worker */
	ADVISE_SERVER,  /* it would have been as fast as the median server */
	ADVISE_SERVERS, /* all would */
	ADVISE_BARRIER, /* commits, pulls and pushes would have cost nothing */
	ADVISE_DATA,    /* no worker would have waited for rows */
	ADVISE_RESTARTS, /* no worker would have died, or been restarted */
	ADVISE_CHECKPOINTS, /* none would have been made while it trained */
	ADVISE_SUSPECTS,
	/* options */
	ADVISE_SOLUTION = ADVISE_SUSPECTS,
	ADVISE_SYNC,
	ADVISE_NODES,      /* workers */
	ADVISE_BATCH,
	ADVISE_CHECKPOINT, /* seconds between two */
	ADVISE_KINDS
};
extern const char *const advise_name[ADVISE_KINDS]; /* in records */

struct advice {
	enum advise_kind kind;
	char what[OPTION_ID_MAX]; /* "w3", "antdt-nd", "240"; "" */
	double saves; /* seconds that the job would have been shorter; < 0: longer; NAN: not known, as workers have
			 not measured their devices */
	double error; /* by which that may be wrong */
	double only;  /* of a suspect: that the ideal job is longer with it; else NAN */
};

struct advice_list {
	double real, simulated; /* seconds: the job as it was */
	double left_out;        /* seconds of training before what is simulated (copy.h) */
	double ideal;           /* without any suspect */
	struct advice *advice;  /* suspects, the most saved first, those that may save nothing last; then
				   options, the same */
	size_t count, suspects, room;
};

/* job: as it ran. stop: set by a signal handler, or NULL: then what is known by then. */
int advise(struct advice_list *out, const struct account *a, const struct job *job,
	   const volatile sig_atomic_t *stop, struct error *err);
void advise_free(struct advice_list *l);
/* The simulated job beside the real one, in seconds. */
double advise_error(const struct advice_list *l);
/* Whether it may save nothing, and cost nothing: its figure is not greater than its error. */
int advise_is_nothing(const struct advice *a);
/* The suspect that cost most, if it cost more than any figure may be wrong, and at least a twentieth
 * of the job; NULL: it is the job itself. All slow workers, or servers, together only if nothing alone cost
 * half as much. */
const struct advice *advise_first(const struct advice_list *l);
/* Whether that is a machine. */
int advise_is_machine(enum advise_kind kind);

#endif
