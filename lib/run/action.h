/*
 * action: actions, whoever decided on them: a solution, or a person by `trainctl apply`.  They are
 * looked at as a whole (sizes belong together: of a decision with one bad line nothing is done),
 * written to the log with their reasons, and carried out: those for all workers by the lead, which
 * gives them to all in the same iteration; restarts here.
 *
 * What the lead has not acknowledged stays in a list, and goes to whoever is the lead next.
 */
#ifndef PACELINE_RUN_ACTION_H
#define PACELINE_RUN_ACTION_H

#include "run/talk.h"
#include "solve/solution.h"

#include <stddef.h>
#include <stdint.h>

struct request;
struct sup_act;

/* What was said last about a node, for people. */
struct sup_said {
	char what[64];
	double at; /* clock_mono() */
};

struct sup_actions_sent {
	struct sup_act *first; /* in the order given */
	uint64_t number;
	uint64_t carried[ACTION_KINDS], refused[ACTION_KINDS]; /* by this supervisor */
	char last[512];                                        /* for people */
	double last_at; /* clock_mono(); 0: none yet */
};

/* What was decided by `who`, as text (action lines) or as structs; rq (may be NULL) is answered.
 * All or nothing where a line is bad: -1, and err names the line. The number of actions. */
struct sup_actions {
	struct action *item;
	size_t *line; /* of the text, from 1; 0: there was none */
	size_t count, room;
};
int sup_actions_add(struct sup_actions *list, const struct action *a, size_t line,
		    struct error *err);
int sup_actions_parse(struct sup_actions *list, const char *text, size_t len, struct error *err);
void sup_actions_free(struct sup_actions *list);
int sup_actions_carry(struct supervisor *s, const struct sup_actions *list, const char *who,
		      struct request *rq, struct error *err);
void sup_actions_up(struct link *link, const struct record *greeting); /* the lead is there */
void sup_actions_tick(struct supervisor *s);
/* Actions that no lead has taken: whoever waits for them is told that the job is over. */
void sup_actions_over(struct supervisor *s);

#endif
