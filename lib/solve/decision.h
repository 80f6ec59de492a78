/*
 * decision: the actions of one decision, as a list.  They belong together: if one line is bad, or one
 * makes no sense in this job, nothing is done.
 */
#ifndef PACELINE_SOLVE_DECISION_H
#define PACELINE_SOLVE_DECISION_H

#include "solve/solution.h"

#include <stddef.h>

struct decision { /* all zeros at first */
	struct action *item;
	size_t *line; /* in the text, from 1; 0: there was no text */
	size_t count, room;
};
int decision_add(struct decision *d, const struct action *a, size_t line, struct error *err);
/* Every line must be an action. -1: ERROR_DATA, which names the line, or ERROR_OS. */
int decision_parse(struct decision *d, const char *text, size_t len, struct error *err);
void decision_free(struct decision *d);

/* What holds for actions in a job. */
struct decision_rules {
	int is_balanced;       /* sizes are set at every barrier */
	int has_rate;          /* its optimiser has a learning rate */
	const char *no_backup; /* why an iteration can't end without the slowest, as a word; NULL: it can */
	size_t workers;
};

/* Why an action makes no sense, as a word; NULL: it makes sense. is_known: the job has the node, of
 * the action's role, and for KILL_RESTART such a node can be restarted. */
const char *action_nonsense(const struct action *a, const struct decision_rules *rules, int is_known);
/* Such a word as a sentence, for people. */
const char *action_nonsense_words(const char *word);
/* The node that it is about; "": none. */
const char *action_id(const struct action *a);

/* The actions that the lead carries out, as lines; *count: how many. They have no reasons: the log has
 * these, and a decision for a thousand workers must fit into one message. To be freed. NULL:
 * ERROR_OS, or ERROR_DATA: more than `max` bytes. */
char *decision_lead_lines(const struct decision *d, size_t max, size_t *count, struct error *err);

#endif
