/*
 * answer: what a brain says to a round, as a struct: the records that res-plan(1) writes, or
 * another executable in its place.
 *
 *     fit ...                                            (passed over)
 *     plan role= count= cores= [mem-bytes=]
 *     replace role= id= [cores=] [mem-bytes=] [batch=] [reason=]
 *     migrate role= id= [reason=]
 *     rebalance role=server id= [reason=]
 *     decision change= reason= method= now= expected= confidence= ...
 */
#ifndef PACELINE_PLAN_ANSWER_H
#define PACELINE_PLAN_ANSWER_H

#include "plan/plan.h"

#define ANSWER_WORD_MAX 64

struct answer_node { /* what is done about one node */
	enum plan_what what;
	enum plan_role role;
	char id[OPTION_ID_MAX], reason[ANSWER_WORD_MAX];
	uint64_t cores, bytes, batch; /* 0: as it was */
};

struct answer {
	int plans[PLAN_ROLES]; /* whether it says a size of the role */
	struct plan_role_size role[PLAN_ROLES];
	struct answer_node *node;
	size_t count, room;
	char reason[ANSWER_WORD_MAX], method[ANSWER_WORD_MAX]; /* "": not said */
	char data[512];                                         /* of the job that it is like */
	double expected, confidence;                            /* NAN: not said */
};

/* The last round of a filter's output: the text behind the last empty line that has any behind it,
 * and the length of that text, for the log. */
const char *answer_last(const char *output, size_t bytes, size_t *len);
/* Every line must be one of the above, so that a mistyped word is not half a plan. All or nothing;
 * -1: ERROR_DATA, which names the line, or ERROR_OS. *a is all zeros at first, and cleared by
 * answer_clear(). */
int answer_parse(struct answer *a, const char *text, size_t len, struct error *err);
void answer_clear(struct answer *a);
/* Whether anything is to be done. */
int answer_changes(const struct answer *a);

#endif
