/*
 * action: carries out actions.  A solution decides on them, or a person by `trainctl apply`.  A
 * decision is checked as a whole, because sizes belong together: if one line is bad, nothing is
 * done.  Actions are written to the log with their reasons.  The lead carries out those for all
 * workers, and gives them to all in the same iteration; restarts are carried out here.
 *
 * What the lead has not acknowledged stays in a list, and goes to the next lead.
 */
#ifndef PACELINE_RUN_ACTION_H
#define PACELINE_RUN_ACTION_H

#include "run/talk.h"
#include "solve/decision.h"

#include <stddef.h>
#include <stdint.h>

struct request;
struct sup_act;

/* What was decided about a node last, for people. */
struct sup_last_action {
	char what[64];
	double at; /* clock_mono() */
};

struct sup_actions_sent {
	struct sup_act *first; /* not acknowledged yet, in the order given */
	uint64_t number;       /* of the last decision for the lead */
	uint64_t carried[ACTION_KINDS], refused[ACTION_KINDS]; /* by this supervisor */
	char last[512];                                        /* the last action, for people */
	double last_at; /* clock_mono(); 0: none yet */
};

/* Carries out what `who` decided. rq (may be NULL) is answered. Returns the number of actions that
 * were not refused; -1: an action is bad, err names it, and nothing was done. */
int sup_actions_carry(struct supervisor *s, const struct decision *list, const char *who,
		      struct request *rq, struct error *err);
/* Call when the lead greets on this link. */
void sup_actions_up(struct link *link, const struct record *greeting);
void sup_actions_tick(struct supervisor *s);
/* Call when the job is over: tells so to the clients whose actions no lead has taken. */
void sup_actions_over(struct supervisor *s);

#endif
